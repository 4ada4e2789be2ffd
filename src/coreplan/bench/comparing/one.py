"""One run of a comparison, as a worker makes it: plan with no rollouts on the side, then judge, and say what it took."""

from __future__ import annotations

import os
import resource
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from ..._version import __version__
from ...base import CoreplanWarning, InputError, text_of
from ...judge import evaluate, optimal_values, policy_value
from ...planners import Planner, Status
from ...planning import Plan, TimeLimit, default_planner, plan, planner_by_name
from ...policy import SoftmaxPolicy, with_own_features
from ...problem import ZOO, Problem, problem_by_name
from ...simulate import limited
from .row import FAILED, REFUSED, TIME_UP, Row

CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
AUTOMATIC = "default"  # the name of the planner that `plan` picks where nobody chooses one
_MB = 1e6
_JUDGE = 2**61  # added to a seed: rollouts that judge share no noise with those of the run


class Task(NamedTuple):
    """One run to be made. What is a name is made where the run is made, so that little has to be sent."""

    row: Row  # what is known of it beforehand
    problem: str | Problem
    planner: str | Planner
    settings: Mapping[str, Any]  # in place of the planner's own; for a planner that is given by name
    seconds: float | None  # the limit
    rollouts: int  # by which a policy is judged where states cannot be enumerated
    clock: str = "wall"  # by which the limit goes, one of CLOCKS
    blind: bool = False  # judge by rollouts even where the exact value is known


def run(task: Task, main: int) -> Row:
    """The row of a task. `main` is the process that waits for it: any other one ends itself if the limit is far exceeded."""
    _forget_peak()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoreplanWarning)
            return _run(task, None if os.getpid() == main else hard_limit(task.seconds))
    except InputError as error:
        return replace(task.row.ended(REFUSED, text_of(error)), version=__version__)
    except (
        Exception
    ) as error:  # whatever a planner, a simulator or a solver raises is a row, and the grid goes on
        return replace(
            task.row.ended(FAILED, f"{type(error).__name__}: {text_of(error)}"), version=__version__
        )


def hard_limit(seconds: float | None) -> float | None:
    """When a run is ended that does not end by itself: compiling takes time that its limit does not count."""
    return None if seconds is None else 2.0 * seconds + 60.0


def _run(task: Task, hard: float | None) -> Row:
    problem = named_problem(task.problem) if isinstance(task.problem, str) else task.problem
    planner = _planner(task, problem)
    budget, seed = task.row.budget, task.row.seed
    with limited(hard):
        limit = TimeLimit(task.seconds, CLOCKS[task.clock])
        result = plan(problem, planner=planner, budget=budget, seed=seed, seconds=limit, reality=0)
    row = replace(
        task.row, queries=result.queries, seconds=round(result.seconds, 4), memory=_peak(), status=result.status.value,
        reason=" ".join(result.reason.split()), settings=result.settings, version=__version__,
    )  # fmt: skip
    return judged(row, problem, result, task.rollouts, task.blind)


def _planner(task: Task, problem: Problem) -> Planner:
    if isinstance(task.planner, Planner):
        return task.planner
    if task.planner == AUTOMATIC:
        return default_planner(problem)
    return planner_by_name(task.planner, problem, task.settings)


def judged(row: Row, problem: Problem, result: Plan, rollouts: int, blind: bool) -> Row:
    """The row with what the policy is worth: exact if states can be enumerated and nobody is `blind`, else by rollouts."""
    if result.status is Status.INTERRUPTED:
        return row
    where = with_own_features(problem, result.policy)
    known = None if blind else _known(where)
    if known is None:
        found = evaluate(where, result.policy, rollouts=rollouts, seed=row.seed + _JUDGE, exact=False)
        return replace(row, value=found.value, low=found.low, high=found.high)
    table, optimum, uniform = known
    value = policy_value(table, result.policy, where.discount)
    gap = optimum - value
    sub = gap / (optimum - uniform) if optimum > uniform else None
    return replace(row, value=value, low=value, high=value, gap=gap, sub=sub)


_exact: dict[int, tuple[Problem, Any]] = {}


def _known(problem: Problem) -> tuple[Any, float, float] | None:
    """The table of a problem, its optimum and its uniform policy's value, which a worker computes once."""
    if problem.tabular is None:
        return None
    kept = _exact.get(id(problem))
    if kept is None:
        table, discount = problem.tabular(), problem.discount
        optimum = float((1.0 - discount) * (table.nu0 @ optimal_values(table, discount)[0]))
        uniform = policy_value(table, SoftmaxPolicy.uniform(problem.features), discount)
        _exact.clear()
        kept = _exact[id(problem)] = problem, (table, optimum, uniform)
    found: tuple[Any, float, float] = kept[1]
    return found


def named_problem(name: str) -> Problem:
    """The problem of this name; a built-in one is made once per process, while a user's file may change."""
    return _built_in(name) if name.partition(":")[0] in ZOO else problem_by_name(name)


@lru_cache(maxsize=4)
def _built_in(name: str) -> Problem:
    return problem_by_name(name)


def _forget_peak() -> None:
    """Let the system count this process's peak of memory anew, where it can (Linux)."""
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _peak() -> float:
    """The most memory that this process has had since `_forget_peak`, or since it began, in MB."""
    with suppress(OSError, StopIteration), open("/proc/self/status") as file:
        return round(next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM")) / _MB, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return round(peak / _MB, 1)


def ended(task: Task, seconds: float) -> Row:
    """The row of a task whose process died after so many seconds."""
    hard = hard_limit(task.seconds)
    if hard is not None and seconds >= hard:
        reason = f"It did not stop by itself within {hard:g} s, and its process was ended."
        return replace(task.row.ended(TIME_UP, reason), version=__version__)
    reason = "Its process died: it was killed, for instance since memory ran out, or compiled code crashed."
    return replace(task.row.ended(FAILED, reason), version=__version__)
