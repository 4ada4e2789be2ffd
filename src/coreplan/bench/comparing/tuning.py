"""The same tuning for every planner: random configurations, chosen on seeds that are not scored.

Each planner says what may be tuned (`Planner.tunable`). Its configurations are drawn at random, run with seeds of their own,
and judged by rollouts of their policies, which anybody has who has a simulator: never by the optimum, nor by an exact value.
The one whose mean is highest is then run on the seeds that are scored, in rows of its own beside those of the default.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...planners import PLANNERS, Planner
from .grid import SEED_OF_TRIALS, Entrant, Grid
from .one import Task
from .row import DEFAULT, FAILED, REFUSED, Row

SEEDS = (SEED_OF_TRIALS, SEED_OF_TRIALS + 1)  # of the trials


def configurations(entrant: Entrant, number: int) -> list[Entrant]:
    """So many random configurations of a planner, always the same ones; none if it has nothing to tune."""
    kind = type(entrant.planner) if isinstance(entrant.planner, Planner) else PLANNERS.get(entrant.planner)
    ranges = {} if kind is None else {k: v for k, v in kind.tunable.items() if k not in entrant.settings}
    if not ranges:
        return []
    rng = np.random.default_rng([number, *entrant.label.encode()])
    return [_configured(entrant, {name: _drawn(rng, ranges[name]) for name in ranges}) for _ in range(number)]


def _configured(entrant: Entrant, settings: Mapping[str, Any]) -> Entrant:
    if isinstance(entrant.planner, Planner):
        return entrant._replace(planner=replace(entrant.planner, **settings))  # type: ignore[type-var]
    return entrant._replace(settings={**entrant.settings, **settings})


def _drawn(rng: np.random.Generator, among: tuple[Any, ...]) -> Any:
    """A setting: one of several texts, or a number, log-uniform between two."""
    if isinstance(among[0], str):
        return among[int(rng.integers(len(among)))]
    low, high = among
    found = math.exp(rng.uniform(math.log(low), math.log(high)))
    return round(found) if isinstance(low, int) and isinstance(high, int) else found


def name_of(number: int) -> str:
    """What the column `tuning` calls the best of so many configurations."""
    return f"best of {number}" if number else DEFAULT


def trials(grid: Grid, number: int, task: Any) -> list[Task]:
    """All runs that choose settings; `task(place, entrant, budget, seed, tuning)` makes one."""
    return [
        task(place, one, budget, seed, f"trial {k} of {number}")._replace(blind=True)
        for place in grid.places
        for entrant in grid.entrants
        for budget in grid.budgets
        for k, one in enumerate(configurations(entrant, number))
        for seed in SEEDS
    ]


def best(entrant: Entrant, rows: Iterable[Row], number: int) -> Entrant | None:
    """The configuration whose trials, `rows` of one problem and one budget, earned most on average; None if all failed."""
    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(row.tuning, []).append(-math.inf if row.value is None else row.value)
    found = configurations(entrant, number)
    means = [float(np.mean(values.get(f"trial {k} of {number}", [-math.inf]))) for k in range(len(found))]
    k = int(np.argmax(means))
    return found[k] if math.isfinite(means[k]) else None


def without_settings(row: Row, rows: Iterable[Row]) -> Row:
    """The row of a planner none of whose configurations gave a policy, with the reason of the first."""
    first = next(iter(rows), None)
    if first is not None and first.status == REFUSED:
        return row.ended(REFUSED, first.reason)
    return row.ended(
        FAILED, f"None of its configurations gave a policy. The first: {first.reason if first else 'no run'}"
    )
