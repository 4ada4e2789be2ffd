"""The defaults for planner, budget, accuracy and settings, shared by Python and the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..base import InputError
from ..core import CoreSet
from ..planners import Planner, make_planner, options, require_planner
from ..problem import Problem
from ..run import Started
from .advice import pick

CAP = 10_000_000  # the budget in queries, if an accuracy is given and no budget
ACCURACY = "1%"  # the accuracy, if neither a budget nor an accuracy is given

# Settings that work on built-in problems. They were found by search against the true value, on seeds other than those
# reported in the documentation: they show what Algorithm 1 can do, but nobody has such rates for a new problem.
_COMMON = {"K": 5, "eta": 2e-4, "beta": 0.02, "alpha": 0.006}  # D = sqrt(d) / (1 - gamma), the default
_DOCUMENTED: dict[tuple[str, str], dict[str, Any]] = {
    ("primal-dual", "random-linear"): _COMMON,
    ("primal-dual", "river-linear"): _COMMON,
    ("primal-dual", "river-swim"): _COMMON,
}


def documented_settings(planner: str, problem_name: str) -> Mapping[str, Any]:
    """The settings documented for a built-in problem, found by its name without parameters; {} if there are none."""
    return dict(_DOCUMENTED.get((planner, problem_name.partition(":")[0]), {}))


def default_planner(problem: Problem, core: CoreSet | None = None) -> Planner:
    """`PlugIn` if there is a core set, `Refine` if there are bounds and no features, else `Grow`."""
    return pick(problem, core).planner


def planner_by_name(
    name: str, problem: Problem, settings: Mapping[str, Any], started: Started | None = None
) -> Planner:
    """The planner with this name. `settings` override those of a resumed run, or else the documented ones."""
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
    """The planner and the budget of a run.

    If neither a budget nor an accuracy is given, the accuracy is 1%, provided that the planner can estimate its own.
    """
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
    """The planner, set to stop at an accuracy; raises InputError if it cannot estimate its own."""
    if not _can_tell(planner):
        raise InputError(
            f"The planner '{planner.name}' cannot tell how accurate it is, so it takes a budget and no epsilon."
        )
    return dataclasses.replace(planner, epsilon=epsilon)  # type: ignore[type-var]
