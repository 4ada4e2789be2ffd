"""The paper's relaxed LP on samples, `eq:QRALP-dual` with P^ in place of P, solved and verified (`verified.py`).

    min <start, V>  s.t.  V(y) >= phi(y, a) . theta at every sampled state,  Phi~ theta + slack >= r + gamma P^ V.

Bounds on theta, and slack at a price above its worth where the core is complete, keep it finite. Half of the start is
spread over all sampled states, so that V is pinned down everywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..base import FloatArray, IntArray
from ..features import Phi, as_matrix, available, flat
from .samples import Stored
from .verified import Pair, solve_pair

PRICE = 2.0  # of slack; the multipliers sum to 1 where the core is complete, so that slack is never worth it there
SPREAD = 0.5  # share of the objective that lies on all sampled next states


class Found(NamedTuple):
    """The verified optimum of the sampled LP, and what to plan with."""

    theta: FloatArray  # [d], V backed up once
    value: float
    slack: float  # the largest
    bound: float  # what the bounds on theta are worth: the sum of their multipliers
    error: float  # how far the value may be off


def solve_sampled(stored: Stored) -> Found:
    """The sampled LP, verified; V backed up once."""
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
    """The pairs (y, a) of distinct sampled states, y their number."""

    features: Any  # [K, d] csr
    state: IntArray  # [K]


def _pair(
    rows: _Rows, P: Any, r: FloatArray, core: FloatArray, start: FloatArray, gamma: float, D: float
) -> Pair:
    """w = (V, theta, slack): V - phi theta >= 0; Phi~ theta + slack - gamma P^ V >= r; slack >= 0; |theta_i| <= D."""
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
    """All features of a batch, `[n A, d]` csr with forbidden rows empty; and which actions are allowed, `[n, A]`."""
    allowed = available(phi)
    matrix = sparse.csr_matrix(as_matrix(flat(phi), d))
    matrix.data[np.repeat(~allowed.ravel(), np.diff(matrix.indptr))] = 0.0
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix, allowed


def _distinct(matrix: Any, allowed: Any) -> tuple[_Rows, IntArray]:
    """The allowed rows of states with distinct features, and for each state which of those it is, `[n]`."""
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
