"""Which planner comes first and why, and what to try next where it ends with doubts. The one home of that choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..core import CoreSet
from ..features import Box, Coordinates, bounds_of
from ..planners import CORE, FEATURES, LARGEST_SEARCH, MORE, Grow, Planner, PlugIn, Refine, Search
from ..policy import SoftmaxPolicy
from ..problem import Problem

_WIDEST = 6  # coordinates of a box above which `Refine` is not proposed


class Pick(NamedTuple):
    """A planner, and in a sentence why it was picked."""

    planner: Planner
    why: str


def pick(problem: Problem, core: CoreSet | None = None) -> Pick:
    """`PlugIn` where there is a core set, `Refine` where there are bounds and no features, else `Grow`."""
    box, d = bounds_of(problem.features), problem.features.dimension
    if core is not None:
        return Pick(PlugIn(), f"PlugIn, since a core set of {len(core):,} pairs is given.")
    if problem.core_pairs is not None:
        m = len(problem.core_pairs[1])
        return Pick(PlugIn(), f"PlugIn, since the problem brings a core set of {m:,} pairs.")
    if box is not None:
        numbers = "one number" if box.dimension == 1 else f"{box.dimension} numbers"
        return Pick(Refine(), f"Refine, since there are bounds on {numbers} and no features.")
    return Pick(Grow(), f"Grow, since there are features, d = {d:,}, and no core set.")


class Way(NamedTuple):
    """Something to try next: a planner's name, about how many queries it takes, and how to say it.

    `begin(policy)` is the problem and the planner to go on with, `policy` being the one so far. None: the same planner with
    a larger budget.
    """

    name: str
    cost: int
    says: str
    begin: Callable[[SoftmaxPolicy], tuple[Problem, Planner]] | None = None

    @property
    def sentence(self) -> str:
        return f"Next: {self.says}, about {self.cost:,} queries."


def ways(problem: Problem, planner: str, helps: str, budget: int, numbers: int) -> list[Way]:
    """What may help against a doubt, the likeliest first.

    `helps` is the doubt's own word for it, `budget` that of the run, and `numbers` the length of its theta.
    """
    nodes = f", some {2 * numbers // problem.n_actions:,} nodes" if planner == Refine.name else ""
    more = Way(planner, 2 * budget, f"twice the budget{nodes}")
    if helps == MORE:
        return [more]
    own, search = _without_features(problem), _searching(problem)
    known: dict[str, list[Way | None]] = {
        PlugIn.name: [_growing(problem) if helps == CORE else own, search],
        Grow.name: [search, own],
        Refine.name: [more],
        Search.name: [own, more],
    }
    found = known.get(planner, [own, search]) if helps in (FEATURES, CORE) else []
    return [way for way in found if way is not None]


def next_sentence(problem: Problem, planner: str, helps: str, budget: int, numbers: int) -> str:
    """The first of the ways, as a sentence; empty if nothing is known to help."""
    return next((way.sentence for way in ways(problem, planner, helps, budget, numbers)), "")


def _growing(problem: Problem) -> Way:
    says = "the planner `grow`, which finds its own pairs to query"
    return Way(Grow.name, Grow.first_budget, says, lambda policy: (problem, Grow()))


def _searching(problem: Problem) -> Way | None:
    """Search over theta from the policy so far, where d allows it and the features tell actions apart."""
    if problem.features.dimension > LARGEST_SEARCH or bounds_of(problem.features) is not None:
        return None
    says = "the planner `search`, which improves this policy by rollouts (Search(start=policy))"
    return Way(Search.name, Search.first_budget, says, lambda policy: (problem, Search(start=policy)))


def _without_features(problem: Problem) -> Way | None:
    """`Refine` within the box of the features, where they declare one that a tree can hold."""
    box: Any = getattr(problem.features, "box", None)
    if box is None or problem.mask is not None or problem.horizon is not None:
        return None
    low, high = (np.asarray(edge, dtype=float) for edge in box)
    if len(low) > _WIDEST or not np.isfinite(high - low).all():
        return None
    says = "the planner `refine`, which makes features of its own within the box of these (features=None, box=...)"
    places = replace(
        problem, features=Coordinates(Box(low, high), problem.n_actions), core_pairs=None, tabular=None
    )
    return Way(Refine.name, Refine.first_budget, says, lambda policy: (places, Refine()))
