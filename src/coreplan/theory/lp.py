"""The three pairs of primal and dual LPs in the paper, exact, solved by HiGHS and verified (`sampled/verified.py`).

- classic: `eq:LP_primal` and its dual, over mu and V;
- relaxed: `eq:Q-ALP` and its dual, with features, over (mu, u) and (theta, V);
- core: `eq:QRALP-primal` and `eq:QRALP-dual`, the paper's own, over (lambda, u) and (theta, V).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ..base import FloatArray, InputError
from ..core import column_sizes, convex_coefficients, is_inside
from ..sampled import FORMS, Pair, SolverError, UnboundedError, VerifiedOptimum, solve_pair
from .definitions import as_dense
from .tables import Enumerated

__all__ = ["FORMS", "PAIRS", "Solution", "SolverError", "UnboundedError", "solve"]

PAIRS = ("classic", "relaxed", "core")
MOST_WEIGHTS = (
    50_000_000  # coefficients of features in core features that are computed to see whether a core is exact
)


@dataclass(frozen=True)
class Solution:
    """A verified optimum of one LP pair. Values are normalised returns.

    `mu` is the primal measure that earns the reward (mu `[Z]`, or lambda `[m]` for the core LP), `u [Z]` the second
    one (None for the classic LP); V `[X]` and theta `[d]` (None for the classic LP) are the dual point.
    `error` bounds how far the value may be from the optimum: the difference of the primal and the dual value, plus the
    effect of violated constraints.
    `note` says what the number is not: with an inexact core set the core LP can have a finite value far from the optimum.
    theta is NOT unique, contrary to the remark in the paper's appendix A: every theta with
    Q* <= Phi theta <= E V* is optimal. So never act greedily on it; back V up once instead.
    """

    value: float  # of the dual point
    primal_value: float
    mu: FloatArray
    u: FloatArray | None
    V: FloatArray
    theta: FloatArray | None
    error: float
    method: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.value:.6g}" + (f" ({self.note})" if self.note else "")


def _pair(e: Enumerated, which: str) -> tuple[Pair, int]:
    """The LP pair, and the number of y's entries that are mu or lambda."""
    E, P, gamma = e.E.T, sparse.csr_matrix(e.P).T, e.discount  # [X, Z] both
    start = (1 - gamma) * e.nu0
    if which == "classic":
        return Pair(e.r, sparse.csc_matrix(E - gamma * P), start, e.X), e.Z
    Phi = sparse.csr_matrix(e.Phi)
    U = sparse.identity(e.Z, format="csr") if which == "relaxed" else e.U  # [., Z]
    # E' u - gamma P' U' lam = (1 - gamma) nu0;  Phi' U' lam - Phi' u = 0.
    G = sparse.bmat([[-gamma * P @ U.T, E], [(U @ Phi).T, -Phi.T]], format="csc")
    c = np.concatenate([U @ e.r, np.zeros(e.Z)])
    return Pair(c, G, np.concatenate([start, np.zeros(e.d)]), e.X), int(U.shape[0])


def solve(e: Enumerated, which: str = "core", form: str = "dual", tolerance: float = 5e-7) -> Solution:
    """Solve one LP pair by its primal or its dual form; the answer is verified, or an error is raised.

    `tolerance` bounds the error of the value that the primal and dual point together allow (`Solution.error`).
    """
    if which not in PAIRS or form not in FORMS:
        raise InputError(f"`solve` knows {', '.join(PAIRS)} and {', '.join(FORMS)}; got {which!r}, {form!r}.")
    if which == "core" and e.m == 0:
        raise InputError("The core LP needs a core set: Enumerated.of(problem, core).")
    pair, n_first = _pair(e, which)
    found = solve_pair(pair, which, 1.0 / (1.0 - e.discount), lambda: _reason(e, which), form, tolerance)
    return _solution(pair, n_first, found, _inexact(e) if which == "core" else "")


def _outside(e: Enumerated) -> float | None:
    """How far a feature lies outside the hull of the core features, in units of the columns; 0 if that is rounding.

    None if that would take too long: for each pair outside of the core set it is a projection onto the hull.
    """
    others = np.setdiff1d(np.arange(e.Z), e.rows)
    if not len(others):
        return 0.0
    if len(others) * e.m > MOST_WEIGHTS or e.Z * e.d > MOST_WEIGHTS:
        return None
    Phi = as_dense(e.Phi)
    sizes = column_sizes(Phi.shape[1], Phi)
    error = float(convex_coefficients(Phi[e.rows] / sizes, Phi[others] / sizes)[1].max())
    return 0.0 if is_inside(error) else error


def _inexact(e: Enumerated) -> str:
    """What must stand beside the value of the core LP if the core set is, or may be, inexact; '' if it is exact."""
    error = _outside(e)
    if error == 0.0:
        return ""
    if error is None:
        return "the optimum only if the core set is exact, which was not measured: there are too many pairs"
    return (
        f"NOT the optimum: the core set is inexact, a feature lies {error:.2g} of its range outside its hull, and then the "
        "core LP can be finite and far off in either direction; theory.saddle_point(e, D) solves it with theta bounded"
    )


def _reason(e: Enumerated, which: str) -> str:
    if which == "classic":
        return "Check the problem's table."
    if which == "core":
        error = _outside(e)
        if error:
            return (
                f"The core set is incomplete: a feature lies {error:.2g} of its range outside the convex hull of the core "
                "features. Add core pairs, the extreme points of the features above all, or bound theta: "
                "theory.saddle_point(e, D)."
            )
    return (
        "The features cannot represent the values: add features, at least a constant, or bound theta, by "
        "theory.saddle_point(e, D); of the relaxed LP with all pairs as core pairs, "
        "dataclasses.replace(e, rows=np.arange(e.Z))."
    )


def _solution(pair: Pair, n_first: int, found: VerifiedOptimum, note: str) -> Solution:
    y, w, two = found.y, found.w, len(pair.g) > pair.n_V
    return Solution(
        value=float(pair.g @ w),
        primal_value=float(pair.c @ y),
        mu=y[:n_first],
        u=y[n_first:] if two else None,
        V=w[: pair.n_V],
        theta=w[pair.n_V :] if two else None,
        error=found.error,
        method=found.method,
        note=note,
    )
