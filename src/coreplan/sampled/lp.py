"""The paper's relaxed LP on samples, `eq:QRALP-dual` with the empirical P^ in place of P, solved and verified.

    min <start, V>  s.t.  V(y) >= phi(y, a) . theta at every sampled state,  Phi~ theta + slack >= r + gamma P^ V.

Two things keep it finite: bounds on theta, and slack, whose price makes it useless if the core set is complete. Half of
the start distribution is spread over all sampled states, so that V is determined everywhere. See `verified.py` for the
verification.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..base import FloatArray, IntArray
from ..features import Phi, as_matrix, available, flat
from .samples import Stored
from .verified import Pair, solve_pair

PRICE = 2.0  # of slack; with a complete core the multipliers sum to 1, so that slack never pays
SPREAD = 0.5  # part of the start distribution that is spread over all sampled next states


class Found(NamedTuple):
    """The verified optimum of the sampled LP, and the theta to act on."""

    theta: FloatArray  # [d], from one backup of the optimal V
    value: float
    slack: float  # the largest slack
    bound: float  # the sum of the multipliers of theta's bounds: how much they matter
    error: float  # how far the value may be from the optimum


def solve_sampled(stored: Stored) -> Found:
    """Solve the sampled LP, verify the optimum, and back V up once to get theta."""
    frame, gamma, n = stored.frame, stored.discount, stored.n
    m, d = frame.m, frame.d
    next_rows, allowed = _matrix(stored.next_features, d)
    initial_rows, allowed0 = _matrix(stored.initial_features, d)
    rows, which = _distinct(sparse.vstack([next_rows, initial_rows]), np.concatenate([allowed, allowed0]))
    n0, N = len(allowed0), int(which.max()) + 1
    P = sparse.csr_matrix(
        (np.full(m * n, 1.0 / n), (np.repeat(np.arange(m), n), which[: m * n])), shape=(m, N)
    )
    start = np.bincount(which[m * n :], minlength=N) / n0
    start = (1 - gamma) * ((1 - SPREAD) * start + SPREAD * np.asarray(P.mean(axis=0)).ravel())
    pair = _pair(rows, P, stored.rewards, frame.matrix, start, gamma, frame.radius(gamma))
    found = solve_pair(
        pair, "sampled", 1.0 / (1.0 - gamma), lambda: "This should not happen: theta is bounded."
    )
    V, slack, k = found.w[:N], found.w[N + d :], rows.features.shape[0]
    q = stored.rewards + gamma * (P @ V)
    theta = frame.coordinates.solve(q)
    bounds = found.y[k + 2 * m :]
    return Found(
        theta=theta,
        value=float(start @ V),
        slack=float(slack.max()),
        bound=float(bounds.sum()),
        error=found.error,
    )


class _Rows(NamedTuple):
    """The K pairs (y, a) of distinct sampled states: their features and the numbers of their states."""

    features: Any  # [K, d] csr
    state: IntArray  # [K]


def _pair(
    rows: _Rows, P: Any, r: FloatArray, core: FloatArray, start: FloatArray, gamma: float, D: float
) -> Pair:
    """The LP in w = (V, theta, slack).

    Constraints: V - phi theta >= 0; Phi~ theta + slack - gamma P^ V >= r; slack >= 0; |theta_i| <= D.
    """
    K, (m, d), N = len(rows.state), core.shape, len(start)
    E = sparse.csr_matrix((np.ones(K), (np.arange(K), rows.state)), shape=(K, N))
    I_m, I_d = sparse.identity(m), sparse.identity(d)
    GT = sparse.bmat(
        [[E, -rows.features, None], [-gamma * P, sparse.csr_matrix(core), I_m], [None, None, I_m],
         [None, I_d, None], [None, -I_d, None]], format="csr",
    )  # fmt: skip
    c = np.concatenate([np.zeros(K), r, np.zeros(m), np.full(2 * d, -D)])
    g = np.concatenate([start, np.zeros(d), np.full(m, PRICE)])
    return Pair(c, sparse.csc_matrix(GT.T), g, N)


def _matrix(phi: Phi, d: int) -> tuple[Any, Any]:
    """All features of a batch as csr `[n A, d]`, with empty rows for forbidden actions; and the allowed ones, `[n, A]`."""
    allowed = available(phi)
    matrix = sparse.csr_matrix(as_matrix(flat(phi), d))
    matrix.data[np.repeat(~allowed.ravel(), np.diff(matrix.indptr))] = 0.0
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix, allowed


def _distinct(matrix: Any, allowed: Any) -> tuple[_Rows, IntArray]:
    """Merge states with equal features: the allowed rows of the distinct ones, and which of them each state is, `[n]`."""
    n, A = allowed.shape
    matrix = sparse.csr_matrix(matrix)
    number: dict[bytes, int] = {}
    first: list[int] = []
    which = np.empty(n, dtype=np.int64)
    for i in range(n):
        a, b = matrix.indptr[i * A], matrix.indptr[(i + 1) * A]
        shape = np.diff(matrix.indptr[i * A : (i + 1) * A + 1]).tobytes() + allowed[i].tobytes()
        key = shape + matrix.indices[a:b].tobytes() + matrix.data[a:b].tobytes()
        which[i] = number.setdefault(key, len(number))
        if which[i] == len(first):
            first.append(i)
    states = np.array(first)
    keep = (states[:, None] * A + np.arange(A))[allowed[states]]
    return _Rows(matrix[keep], np.repeat(np.arange(len(states)), allowed[states].sum(axis=1))), which
