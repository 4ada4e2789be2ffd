"""`check`: the order of the measurements, and how the queries are divided.

Everything is measured by simulation, on pairs that the uniform policy and a fitted greedy policy reach. Nothing is known
about pairs that these do not reach.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import InputError, Lane, as_count, as_generator, key_of, one_thread
from ...core import CoreSet, Frame, Pool, rollout_pool
from ...problem import Problem
from ...sampled import draw
from ...simulate import Simulator, by_executor, by_log
from . import core_set, residual
from .fitted import Fit, Worth, fit, pool_of, roll
from .reality import reality, repeatable
from .report import GREY, Measurement, Report, if_seen

_FIT, _ROLLOUTS = 0.5, 0.125  # of the queries: for the fit, and for the rollouts of each policy
_TWICE = 16  # pairs that are simulated twice, at most


@one_thread
@by_executor
@by_log
def check(
    problem: Problem,
    core: CoreSet | None = None,
    *,
    queries: int = 20_000,
    seed: int | np.random.Generator = 0,
    executor: Any = None,
    log: Any = None,
) -> Report:
    """Measure the assumptions for a problem with a core set, by default its own.

    Half of the queries are used to fit values on the core pairs; a quarter for rollouts of the policy that is greedy on
    them and of the uniform one, which gather reachable pairs and show what the two earn; a quarter to measure the Bellman
    residual of the fitted values there, with fresh noise. A light is green only if the measurement could have found what it
    rules out; where it could not, the light is grey and the verdict names the queries that would resolve it.
    `executor` simulates and `log` keeps answers, as in `plan`.
    """
    if not isinstance(problem, Problem):
        raise InputError(f"`check(problem=...)` must be a Problem, got {type(problem).__name__}.")
    if core is not None and not isinstance(core, CoreSet):
        raise InputError(f"`check(core=...)` must be a CoreSet(states, actions), got {type(core).__name__}.")
    queries = as_count("check", least=100, queries=queries)
    rng = as_generator(seed)
    if core is None and problem.core_pairs is not None:
        core = CoreSet.of(problem)
    if core is None:
        pool = rollout_pool(problem, None, max(queries // 4, 1), actions="all", seed=rng)
        again, spent = _twice(problem, pool, queries, rng)
        rows = (
            *_seen(core_set.features(problem, pool), pool, queries),
            core_set.no_core(problem, pool),
            again,
        )
        return Report(rows, pool.queries + spent)
    return _with_core(problem, core, queries, rng)


def _with_core(problem: Problem, core: CoreSet, queries: int, rng: np.random.Generator) -> Report:
    d = problem.features.dimension
    frame = Frame(core.features(problem.features), d)
    simulator = Simulator(problem, core, key_of(rng), lane=Lane.CHECK)
    n = int(_FIT * queries) // len(core)
    pair = np.repeat(np.arange(len(core)), n)
    drawn = draw(simulator, core.states, core.actions, pair) if n else None
    inside = if_seen(core_set.successors(problem, frame, drawn), n * len(core), queries)
    if drawn is None or n < 2 or d > core_set.LARGEST:
        pool = rollout_pool(problem, None, max(queries // 4, 1), actions="all", seed=rng)
        fitted_rows = _not_fitted(len(core), d, queries)
    else:
        pool, fitted_rows = _fitted(simulator, frame, fit(problem, frame, drawn), queries, rng)
    again, spent = _twice(problem, pool, queries, rng)
    rows = (
        *_seen(core_set.features(problem, pool), pool, queries), *core_set.spectrum(frame),
        *_seen(core_set.hull(frame, pool), pool, queries), inside,
        *_seen((core_set.reach(frame, pool),), pool, queries), *fitted_rows, again,
    )  # fmt: skip
    return Report(rows, simulator.queries + pool.queries + spent)


def _fitted(
    simulator: Simulator, frame: Frame, fitted: Fit, queries: int, rng: np.random.Generator
) -> tuple[Pool, tuple[Measurement, ...]]:
    """The pairs that the uniform and the fitted policy visit, and the rows about the fitted values."""
    share = max(int(_ROLLOUTS * queries), 1)
    uniform, greedy = (roll(simulator, v, share, rng) for v in (fitted.uniform, fitted.greedy))
    pool = pool_of(fitted.problem, (uniform, greedy))
    found = residual.measure(
        simulator, fitted, pool, int(residual.SHARE * queries) - 2 * _count(queries), rng
    )
    values = Worth(
        believed=greedy.fitted, earned=greedy.earned, uniform=uniform.earned, uniform_fitted=uniform.fitted, top=greedy.top
    )  # fmt: skip
    return pool, (
        core_set.radius_of_theta(frame, fitted.theta, fitted.samples, fitted.noise, queries),
        residual.row(found, fitted, values, queries),
        reality(fitted, values, greedy, queries),
    )


def _not_fitted(m: int, d: int, queries: int) -> tuple[Measurement, ...]:
    needed = None if d > core_set.LARGEST else 4 * m
    why = f"{queries} queries are too few to fit values on {m} core pairs; give at least {needed}."
    if needed is None:
        why = f"d = {d} is too large for values to be fitted here; `plan` can."
    return tuple(
        Measurement(name, math.nan, GREY, why, needed=needed) for name in ("D", residual.NAME, "reality")
    )


def _seen(rows: tuple[Measurement, ...], pool: Pool, queries: int) -> tuple[Measurement, ...]:
    """Rows about visited states, which are grey where visits are too few for a green light."""
    return tuple(if_seen(row, float(pool.visits.sum()), queries) for row in rows)


def _count(queries: int) -> int:
    return min(_TWICE, queries // 50)


def _twice(problem: Problem, pool: Pool, queries: int, rng: np.random.Generator) -> tuple[Measurement, int]:
    """Some visited pairs, simulated twice."""
    which = rng.choice(len(pool), size=_count(queries))
    return repeatable(problem, pool.states[which], pool.actions[which], key_of(rng))
