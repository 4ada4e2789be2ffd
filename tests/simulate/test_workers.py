"""Worker processes, really started: the same bits, also when they are killed and when they hang."""

from __future__ import annotations

import os
import signal
import time

import pytest

import coreplan
from coreplan.executors import processes
from coreplan.planners import PLANNERS
from helpers.executors import walk

BUDGET = 600


def bits(executor=None, planner="plug-in", problem=None, **more):
    result = coreplan.plan(
        problem or walk(), planner=planner, budget=BUDGET, executor=executor, reality=0, **more
    )
    return result.policy.theta.tobytes(), result.queries, result.initial_draws


def sabotaged(folder, sabotage, times):
    """The walk, whose simulator is sabotaged at some of its calls: each time that a file can be taken away."""
    problem = walk()
    step = problem.model._step
    for n in range(times):
        (folder / f"{n}").touch()

    def harmed(rng, x, a):
        if x == 3:
            for n in range(times):
                try:
                    os.unlink(folder / f"{n}")
                except FileNotFoundError:
                    continue
                sabotage()
                break
        return step(rng, x, a)

    problem.model._step = harmed
    return problem


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def hang():
    time.sleep(3600)


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_every_planner_gets_the_same_bits_from_processes(workers):
    engine = processes(workers, timeout=60)  # with a limit everything is sent, however quick it is
    for name, planner in PLANNERS.items():
        if not planner.needs_box and not planner.needs_table and planner.core_of != "all":
            assert bits(engine, name) == bits(None, name), name
    engine.shut()


@pytest.mark.long
def test_ten_workers_killed_one_that_hangs_and_the_same_bits(tmp_path):
    engine = processes(2, timeout=2.0, retries=10)  # all of these faults may meet the same pairs
    for folder, harm, times in (("killed", kill, 10), ("hung", hang, 1)):
        (tmp_path / folder).mkdir()
        problem = sabotaged(tmp_path / folder, harm, times)
        assert bits(engine, problem=problem) == bits()
        assert not list((tmp_path / folder).iterdir())
    engine.shut()


@pytest.mark.long
def test_a_pair_that_always_hangs_is_named(tmp_path):
    problem = walk(block=1)
    step = problem.model._step

    def hangs(rng, x, a):
        if x == 5 and a == 1:
            hang()
        return step(rng, x, a)

    problem.model._step = hangs
    said = r"longer than the limit of 0.5 s per query 2 times on state 5 and action 1"
    with pytest.raises(coreplan.ExecutorError, match=said):
        bits(processes(2, timeout=0.5, retries=1), problem=problem, out=tmp_path / "run")
