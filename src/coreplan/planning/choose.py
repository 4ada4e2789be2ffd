"""Settings that were measured to work on built-in problems; the command line starts from them.

Found by search on seeds other than those reported in the README, by the true value: they show what the
algorithm can do, and nobody has such rates for a new problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..planners import Grow, Planner, PlugIn

_COMMON = {"K": 5, "eta": 2e-4, "beta": 0.02, "alpha": 0.006}  # D = sqrt(d) / (1 - gamma), the default

_SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("primal-dual", "random-linear"): _COMMON,
    ("primal-dual", "river-linear"): _COMMON,
    ("primal-dual", "river-swim"): _COMMON,
}


def documented_settings(planner: str, problem_name: str) -> Mapping[str, Any]:
    """The settings documented for a built-in problem, by its name without parameters; none is {}."""
    return dict(_SETTINGS.get((planner, problem_name.partition(":")[0]), {}))


def default_planner(has_core: bool) -> Planner:
    """Where nobody has chosen: `PlugIn` with a core set, `Grow` without."""
    return PlugIn() if has_core else Grow()
