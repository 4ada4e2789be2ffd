"""Worker processes, really started: the same bits, also when they are killed and when they hang."""

from __future__ import annotations

import os
import signal
import time

import pytest

import coreplan
from coreplan.executors import processes
from coreplan.planners import PLANNERS
from coreplan.simulate import read_log
from helpers.executors import walk

BUDGET = 600


def bits(executor=None, planner="plug-in", problem=None, **more):
    result = coreplan.plan(
        problem or walk(), planner=planner, budget=BUDGET, executor=executor, reality=0, **more
    )
    return result.policy.theta.tobytes(), result.queries, result.initial_draws


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def fail():
    raise OSError("the licence server did not answer")


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
def test_ten_workers_killed_one_that_hangs_one_exception_the_same_bits_and_every_answer_once(tmp_path):
    problem = walk()
    step, harms = problem.model._step, [*[kill] * 10, hang, fail]
    for n in range(len(harms)):
        (tmp_path / str(n)).touch()

    def harmed(rng, x, a):
        if x == 3:  # each harm is done once: by whoever takes its file away
            for n, harm in enumerate(harms):
                try:
                    os.unlink(tmp_path / str(n))
                except FileNotFoundError:
                    continue
                harm()
                break
        return step(rng, x, a)

    problem.model._step = harmed
    engine = processes(2, timeout=2.0, retries=len(harms))  # all of these faults may meet the same pairs
    found = bits(engine, problem=problem, log=tmp_path / "q.log")
    engine.shut()
    assert found == bits()
    assert not [name for name in os.listdir(tmp_path) if name.isdigit()], "every harm was done"
    report = read_log(tmp_path / "q.log")
    assert report.good and report.queries == found[1], "every answer is in the log, once"


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
