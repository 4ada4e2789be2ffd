"""`features=none`: what a problem has in place of features, the bounds of its states; and what its parameters share."""

from __future__ import annotations

import math
from collections.abc import Sequence

from numba import njit

from ...base import InputError
from ...features import Box, Coordinates, Features, with_terminal


def bounds_only(
    low: Sequence[float],
    high: Sequence[float],
    n_actions: int,
    *,
    periodic: Sequence[bool] | None = None,
    whole: Sequence[bool] | None = None,
    end: bool = False,
) -> Features:
    """The coordinates of a state and their bounds `[D]`, and no features: the planner `Refine` makes its own.

    `end`: states have a last column that is 1 once the game has ended.
    """
    places = Coordinates(Box(low, high, periodic, whole), n_actions)  # type: ignore[arg-type]
    return with_terminal(places) if end else places


def between(problem: str, low: float, high: float, **given: float) -> float:
    """The one parameter given, a number from low to high; else an InputError that names it."""
    ((name, value),) = given.items()
    if not low <= value <= high:
        raise InputError(f"`{problem}:{name}=...` must be a number from {low:g} to {high:g}, got {value:g}.")
    return float(value)


@njit(cache=True, nogil=True)
def normals(u, v):
    """Two independent standard normal numbers from two uniforms in [0, 1), by the method of Box and Muller."""
    radius = math.sqrt(-2.0 * math.log(1.0 - u))
    return radius * math.cos(2.0 * math.pi * v), radius * math.sin(2.0 * math.pi * v)
