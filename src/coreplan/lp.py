"""The three LP pairs of the paper, exact, solved by HiGHS and never trusted before they are verified.

- classic: `eq:LP_primal` and its dual, over mu and V;
- relaxed: `eq:Q-ALP` and its dual, with features, over (mu, u) and (theta, V);
- core: `eq:QRALP-primal`, `eq:QRALP-dual`, the paper's, over (lambda, u) and (theta, V).

Every solve yields a primal and a dual point (the solver's multipliers). Both are checked against the
constraints, and their values against each other: by weak duality two feasible points of equal value are optimal,
whatever the solver says of itself. Interior point with bounds on V is tried first; dual simplex was seen to
call wrong answers optimal on LPs of a few thousand states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from .enumerated import Enumerated
from .errors import CoreplanError, InputError
from .hull import convex_coefficients
from .problem.model import FloatArray

PAIRS = ("classic", "relaxed", "core")
FORMS = ("primal", "dual")
# (method, bounds on V) in the order they are tried.
_SETTINGS = {
    "dual": (("highs-ipm", True), ("highs-ipm", False), ("highs-ds", True), ("highs-ds", False)),
    "primal": (("highs-ipm", False), ("highs-ds", False)),
}


class SolverError(CoreplanError, RuntimeError):
    """No setting of the LP solver gave an answer that verifies."""


class UnboundedError(SolverError):
    """The LP has no finite value: for the core LP, a sign of an incomplete core set."""


@dataclass(frozen=True)
class Solution:
    """A verified optimum of one LP pair. Values are normalised returns.

    `mu` is the primal measure that carries the reward (mu `[Z]`, or lambda `[m]` for the core LP), `u [Z]` the second
    one (None for the classic LP); V `[X]` and theta `[d]` (None for the classic LP) are the dual point.
    `error` bounds how far the value may be from the optimum: the difference of primal and dual value plus what the
    constraints' violations are worth.
    theta is NOT unique, against the paper's remark in its appendix A: every theta with
    Q* <= Phi theta <= E V* is optimal, so never act greedily on it; back V up once instead.
    """

    value: float  # of the dual point
    primal_value: float
    mu: FloatArray
    u: FloatArray | None
    V: FloatArray
    theta: FloatArray | None
    error: float
    method: str


class _Pair(NamedTuple):
    """max <c, y> s.t. G y = g, y >= 0, and its dual min <g, w> s.t. G' w >= c. Columns of G: (mu, u) or mu."""

    c: FloatArray
    G: Any  # csc
    g: FloatArray
    n_first: int  # columns that are mu or lambda
    n_V: int  # the first rows belong to V, the rest to theta


def _pair(e: Enumerated, which: str) -> _Pair:
    E, P, gamma = e.E.T, sparse.csr_matrix(e.P).T, e.discount  # [X, Z] both
    start = (1 - gamma) * e.nu0
    if which == "classic":
        return _Pair(e.r, sparse.csc_matrix(E - gamma * P), start, e.Z, e.X)
    Phi = sparse.csr_matrix(e.Phi)
    U = sparse.identity(e.Z, format="csr") if which == "relaxed" else e.U  # [., Z]
    # E' u - gamma P' U' lam = (1 - gamma) nu0;  Phi' U' lam - Phi' u = 0.
    G = sparse.bmat([[-gamma * P @ U.T, E], [(U @ Phi).T, -Phi.T]], format="csc")
    c = np.concatenate([U @ e.r, np.zeros(e.Z)])
    return _Pair(c, G, np.concatenate([start, np.zeros(e.d)]), U.shape[0], e.X)


def solve(e: Enumerated, which: str = "core", form: str = "dual", tolerance: float = 5e-7) -> Solution:
    """Solve one LP pair through its primal or its dual form; the answer is verified or an error.

    `tolerance` bounds the error of the value that the primal and dual point together allow (`Solution.error`).
    """
    if which not in PAIRS or form not in FORMS:
        raise InputError(f"`solve` knows {', '.join(PAIRS)} and {', '.join(FORMS)}; got {which!r}, {form!r}.")
    if which == "core" and e.m == 0:
        raise InputError("The core LP needs a core set: Enumerated.of(problem, core).")
    pair = _pair(e, which)
    told, lost = [], 0
    for method, bounded in _SETTINGS[form]:
        y, w, status, message = _highs(pair, form, method, 1.0 / (1.0 - e.discount) if bounded else None)
        name = f"{method}{' with bounds on V' if bounded else ''}"
        if y is not None and w is not None:
            error = _error(pair, y, w)
            if error <= tolerance:
                return _solution(pair, y, w, error, name)
            told.append(f"{name}: the value may be off by {error:.1e}")
        else:
            told.append(f"{name}: {message}")
            lost += status in (2, 3) and not bounded  # with bounds on V the verdict is on another LP
    if lost:
        raise UnboundedError(f"The {which} LP has no finite optimum. {_reason(e, which)} ({'; '.join(told)})")
    raise SolverError(f"No answer for the {which} LP could be verified ({'; '.join(told)}).")


def _reason(e: Enumerated, which: str) -> str:
    if which == "classic":
        return "Check the problem's table."
    if which == "core":
        Phi = e.Phi.toarray() if sparse.issparse(e.Phi) else e.Phi
        distance = float(convex_coefficients(Phi[e.rows], Phi)[1].max())
        if distance > 1e-6:
            return (
                f"The core set is incomplete: a feature lies {distance:.2g} outside the convex hull of the core features. "
                "Add core pairs, the extreme points of the features above all, or bound theta."
            )
    return "The features cannot represent the values: add features, at least a constant, or bound theta."


def _highs(
    pair: _Pair, form: str, method: str, H: float | None
) -> tuple[FloatArray | None, FloatArray | None, int, str]:
    """(primal y, dual w) as the solver gives them, its status and message."""
    if form == "primal":
        # Presolve turns seconds into minutes on this form.
        quick = {"presolve": method != "highs-ipm"}
        result = linprog(-pair.c, A_eq=pair.G, b_eq=pair.g, bounds=(0, None), method=method, options=quick)
        if result.x is None:
            return None, None, result.status, result.message
        return result.x, -result.eqlin.marginals, result.status, result.message
    free: list[tuple[float | None, float | None]] = [(None, None)] * (len(pair.g) - pair.n_V)
    box: tuple[float | None, float | None] = (None, None) if H is None else (-H, 2 * H)
    result = linprog(pair.g, A_ub=-pair.G.T, b_ub=-pair.c, bounds=[box] * pair.n_V + free, method=method)
    if result.x is None:
        return None, None, result.status, result.message
    return -result.ineqlin.marginals, result.x, result.status, result.message


def _error(pair: _Pair, y: FloatArray, w: FloatArray) -> float:
    """How far the value may be from the optimum, given both points with all their violations.

    Weak duality for points that are not quite feasible: with G y = g + e, y >= -n and c <= G' w + v,
    <c, y> and <g, w> enclose the optimum up to |e| |w|, n times the reduced costs, and v times the mass of y.
    """
    reduced = pair.G.T @ w - pair.c
    unbalanced = float(np.abs(pair.G @ y - pair.g) @ np.maximum(np.abs(w), 1.0))
    negative = float(np.maximum(-y, 0.0) @ np.maximum(np.abs(reduced), 1.0))
    violated = float(np.abs(y).sum() * max(-float(reduced.min()), 0.0))
    return abs(float(pair.c @ y - pair.g @ w)) + unbalanced + negative + violated


def _solution(pair: _Pair, y: FloatArray, w: FloatArray, error: float, method: str) -> Solution:
    two = len(pair.g) > pair.n_V
    return Solution(
        value=float(pair.g @ w),
        primal_value=float(pair.c @ y),
        mu=y[: pair.n_first],
        u=y[pair.n_first :] if two else None,
        V=w[: pair.n_V],
        theta=w[pair.n_V :] if two else None,
        error=error,
        method=method,
    )
