"""Worker processes, really started: the same bits, also when they are killed and when they hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import coreplan
from coreplan.executors import processes
from coreplan.planners import PLANNERS, registry
from coreplan.planners.testing import check_planner
from coreplan.simulate import read_log
from helpers.executors import walk
from helpers.places import ROOT

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
@pytest.mark.timeout(900)
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_every_planner_gets_the_same_bits_from_processes(workers):
    engine = processes(workers, timeout=60)  # with a limit everything is sent, however quick it is
    few = {planner.name: 600 for planner in registry.RELATIVES}  # there are many of them
    for name, planner in PLANNERS.items():
        check_planner(planner(), budget=few.get(name, 1500), executor=engine, only="who simulates")
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


@pytest.mark.long
def test_a_hang_is_noticed_by_the_pair_and_not_by_the_block(tmp_path):
    problem, bill, once = walk(block=60), tmp_path / "bill", tmp_path / "once"
    once.touch()
    step = problem.model._step

    def hangs(rng, x, a):
        with open(bill, "ab", 0) as file:
            file.write(b".")
        if bill.stat().st_size > 40 and once.exists():  # not in the first call, which may take longer
            once.unlink()
            hang()
        return step(rng, x, a)

    problem.model._step = hangs
    engine = processes(1, timeout=3.0)
    begin = time.monotonic()
    assert bits(engine, problem=problem) == bits(problem=walk(block=60))
    assert time.monotonic() - begin < 120, "sixty pairs may take 180 s"
    assert not once.exists()
    engine.shut()


@pytest.mark.long
def test_no_worker_outlives_the_process_that_plans(tmp_path):
    """Killed with SIGKILL; else its workers would go on with what was sent, which is paid for and heard by nobody."""
    code = f"""
import os, sys, time
sys.path.insert(0, {str(ROOT / "tests")!r})
import coreplan
from coreplan.executors import processes
from helpers.executors import walk
from helpers.places import ROOT

def slow(rng, x, a):
    open({str(tmp_path)!r} + f"/{{os.getpid()}}", "a").close()
    time.sleep(1000.0)
    return 0.0, x

problem = walk()
problem.model._step = slow
coreplan.plan(problem, budget=600, executor=processes(2))
"""
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], start_new_session=True)
    due = time.monotonic() + 100
    while len(os.listdir(tmp_path)) < 2 and time.monotonic() < due:
        time.sleep(0.1)
    workers = [int(name) for name in os.listdir(tmp_path)]
    process.kill()
    process.wait()
    due = time.monotonic() + 20
    while any(map(alive, workers)) and time.monotonic() < due:
        time.sleep(0.1)
    left = [worker for worker in workers if alive(worker)]
    for worker in left:
        os.kill(worker, signal.SIGKILL)
    assert len(workers) == 2 and not left


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False
