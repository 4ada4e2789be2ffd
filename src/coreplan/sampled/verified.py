"""Linear programs solved by HiGHS, whose answers are never trusted without verification.

Every solve yields a primal and a dual point (the solver's multipliers). Both are checked against the
constraints, and their values against each other: by weak duality two feasible points of equal value are optimal,
whatever status the solver reports. Interior point with bounds on V is tried first; dual simplex has been seen to
report wrong answers as optimal on LPs of a few thousand states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog

from ..base import CoreplanError, FloatArray

FORMS = ("primal", "dual")
# (method, whether V is bounded), in the order in which they are tried.
_SETTINGS = {
    "dual": (("highs-ipm", True), ("highs-ipm", False), ("highs-ds", True), ("highs-ds", False)),
    "primal": (("highs-ipm", False), ("highs-ds", False)),
}


class SolverError(CoreplanError, RuntimeError):
    """No setting of the LP solver gave an answer that could be verified."""


class UnboundedError(SolverError):
    """The LP has no finite value: for the core LP, a sign of an incomplete core set."""


class Pair(NamedTuple):
    """max <c, y> s.t. G y = g, y >= 0, and its dual min <g, w> s.t. G' w >= c."""

    c: FloatArray
    G: Any  # csc
    g: FloatArray
    n_V: int  # the first n_V entries of w are V, which may be bounded


class VerifiedOptimum(NamedTuple):
    """A verified optimum: the primal y, the dual w, how far the value may be off, and the setting that found it."""

    y: FloatArray
    w: FloatArray
    error: float
    method: str


def solve_pair(
    pair: Pair, what: str, H: float, why: Callable[[], str], form: str = "dual", tolerance: float = 5e-7
) -> VerifiedOptimum:
    """Solve an LP by its primal or dual `form` and verify the optimum within `tolerance`; else raise an error.

    The error names the LP as `what`, and `why()` explains what makes such an LP unbounded. V is first sought between -H
    and 2 H.
    """
    told, lost = [], 0
    for method, bounded in _SETTINGS[form]:
        y, w, status, message = _highs(pair, form, method, H if bounded else None)
        name = f"{method}{' with bounds on V' if bounded else ''}"
        if y is not None and w is not None:
            error = gap(pair, y, w)
            if error <= tolerance:
                return VerifiedOptimum(y, w, error, name)
            told.append(f"{name}: the value may be off by {error:.1e}")
        else:
            told.append(f"{name}: {message}")
            lost += status in (2, 3) and not bounded  # with bounds on V it would be about another LP
    if lost:
        raise UnboundedError(f"The {what} LP has no finite optimum. {why()} ({'; '.join(told)})")
    raise SolverError(f"No answer for the {what} LP could be verified ({'; '.join(told)}).")


def _highs(
    pair: Pair, form: str, method: str, H: float | None
) -> tuple[FloatArray | None, FloatArray | None, int, str]:
    """Primal y and dual w as the solver returns them, its status and its message."""
    if form == "primal":
        # Presolve turns seconds into minutes with this form.
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


def gap(pair: Pair, y: FloatArray, w: FloatArray) -> float:
    """How far the value may be from the optimum, given both points and their violations of the constraints.

    This is weak duality for points that are not quite feasible: with G y = g + e, y >= -n and c <= G' w + v,
    <c, y> and <g, w> enclose the optimum up to |e| |w|, n times the reduced costs, and v times the mass of y.
    """
    reduced = pair.G.T @ w - pair.c
    unbalanced = float(np.abs(pair.G @ y - pair.g) @ np.maximum(np.abs(w), 1.0))
    negative = float(np.maximum(-y, 0.0) @ np.maximum(np.abs(reduced), 1.0))
    violated = float(np.abs(y).sum() * max(-float(reduced.min()), 0.0))
    return abs(float(pair.c @ y - pair.g @ w)) + unbalanced + negative + violated
