"""What is done where nobody has chosen: planner, budget, accuracy, settings. Once, for Python and for the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..base import InputError
from ..core import CoreSet
from ..planners import Grow, Planner, PlugIn, make_planner, options, require_planner
from ..problem import Problem
from ..run import Started

CAP = 10_000_000  # queries, where an accuracy is asked for and no budget is given
ACCURACY = "1%"  # where neither a budget nor an accuracy is asked for

# Settings that were measured to work on built-in problems. Found by search on seeds other than those reported in the
# documentation, by the true value: they show what Algorithm 1 can do, and nobody has such rates for a new problem.
_COMMON = {"K": 5, "eta": 2e-4, "beta": 0.02, "alpha": 0.006}  # D = sqrt(d) / (1 - gamma), the default
_DOCUMENTED: dict[tuple[str, str], dict[str, Any]] = {
    ("primal-dual", "random-linear"): _COMMON,
    ("primal-dual", "river-linear"): _COMMON,
    ("primal-dual", "river-swim"): _COMMON,
}


def documented_settings(planner: str, problem_name: str) -> Mapping[str, Any]:
    """The settings documented for a built-in problem, by its name without parameters; none is {}."""
    return dict(_DOCUMENTED.get((planner, problem_name.partition(":")[0]), {}))


def default_planner(problem: Problem, core: CoreSet | None = None) -> Planner:
    """`PlugIn` with a core set, `Grow` without."""
    return PlugIn() if core is not None or problem.core_pairs is not None else Grow()


def planner_by_name(
    name: str, problem: Problem, settings: Mapping[str, Any], started: Started | None = None
) -> Planner:
    """The planner of a name: what a resumed run had of settings, else the documented ones, and `settings` above them."""
    known = documented_settings(name, problem.name)
    if started is not None and started.planner == name:
        known = {k: v for k, v in started.settings.items() if k in options(name)}
    return make_planner(name, {**known, **settings})


def choose(
    problem: Problem,
    core: CoreSet | None,
    planner: Planner | str | None,
    budget: int | None,
    epsilon: float | str | None,
    started: Started | None,
) -> tuple[Planner, int]:
    """The planner and the budget of a run. Without a budget and an accuracy it plans to 1%, where the planner can tell."""
    if planner is None:
        planner = started.make() if started else default_planner(problem, core)
    elif isinstance(planner, str):
        planner = planner_by_name(planner, problem, {}, started)
    require_planner(planner)
    if epsilon is not None:
        planner = _to_accuracy(planner, epsilon)
    if budget is None and started:
        budget = started.budget
    asked = getattr(planner, "epsilon", None) is not None
    if budget is None and not asked and _can_tell(planner) and getattr(planner, "samples", None) is None:
        planner, asked = _to_accuracy(planner, ACCURACY), True
    if budget is None:
        budget = CAP if asked else planner.first_budget
    return planner, budget


def _can_tell(planner: Planner) -> bool:
    return "epsilon" in planner.options()


def _to_accuracy(planner: Planner, epsilon: float | str) -> Planner:
    """The planner, told to stop at an accuracy; an InputError for one that cannot."""
    if not _can_tell(planner):
        raise InputError(
            f"The planner '{planner.name}' cannot tell how accurate it is, so it takes a budget and no epsilon."
        )
    return dataclasses.replace(planner, epsilon=epsilon)  # type: ignore[type-var]
