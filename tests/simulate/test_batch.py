"""Faults on the way to workers and back, one by one; and what travels, and how often."""

from __future__ import annotations

import time
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor

import pytest

import coreplan
from coreplan import ExecutorError, SimulatorError
from coreplan.executors import given, processes
from coreplan.simulate import read_log
from coreplan.simulate.elsewhere import task
from coreplan.simulate.elsewhere.batch import Batch
from coreplan.simulate.elsewhere.engine import Engine
from helpers.executors import Eager, Here, breaking, eager, walk

BUDGET = 600


def outcome(executor=None, planner="plug-in", problem=None, **more):
    found = coreplan.plan(
        problem or walk(), planner=planner, budget=BUDGET, executor=executor, reality=0, **more
    )
    return (found.policy.theta.tobytes(), found.queries, found.initial_draws), found


@pytest.fixture(autouse=True)
def no_models_left():
    task._held.clear()


@pytest.fixture
def suspects(monkeypatch):
    """Which tasks were sent alone while nothing else was on its way."""
    sent, method = [], Batch._send

    def spy(self, chains, *, suspect=False, whole=None):
        sent.append(suspect)
        method(self, chains, suspect=suspect, whole=whole)

    monkeypatch.setattr(Batch, "_send", spy)
    return sent


def billed(problem, bill, faults=0):
    """Has the simulator write each state that it answers into the file `bill`; it raises at its first steps from place 3."""
    step, left = problem.model._step, [faults]

    def counted(rng, x, a):
        if x == 3 and left[0]:
            left[0] -= 1
            raise OSError("the licence server did not answer")
        with open(bill, "ab", 0) as file:
            file.write(bytes([x]))
        return step(rng, x, a)

    problem.model._step = counted
    return problem


@pytest.mark.parametrize("log", [False, True])
def test_an_exception_costs_nothing_that_came_before_it(log, tmp_path):
    bill, path = tmp_path / "bill", tmp_path / "q.log" if log else None
    with ThreadPoolExecutor(1) as thread:  # which has one copy of the simulator
        got, found = outcome(eager(thread, 1), problem=billed(walk(block=64), bill, faults=3), log=path)
    assert got == outcome(problem=walk(block=64))[0]
    assert bill.stat().st_size == found.queries and found.lost_queries == 0, (
        "no pair that was answered is simulated again"
    )
    if log:
        assert read_log(path).good and read_log(path).queries == found.queries


def test_one_death_does_not_make_everybody_wait(suspects):
    """Most deaths are nobody's fault: what was on its way is sent again together; only after a second one, one by one."""
    got, found = outcome(breaking({20}, workers=8))
    assert got == outcome()[0] and found.lost_queries > 0
    assert not any(suspects)


class Deadly(Here):
    """Dies of every task with the core pair 7; it alone, or with all others."""

    def submit(self, function, *arguments):
        if any(7 in call.pairs for chain in arguments[2] for call in chain.calls):
            self.log.append(arguments)
            future = Future()
            future.set_exception(BrokenExecutor("a worker died"))
            return future
        return super().submit(function, *arguments)


@pytest.mark.parametrize("shared_fate", [True, False])
def test_a_deadly_pair_is_found_among_many(shared_fate, suspects):
    log, problem = [], walk(block=1)
    engine = Eager("deadly", lambda: Deadly((), log), workers=8, ours=True, shared_fate=shared_fate)
    core = coreplan.CoreSet.of(problem)
    name = f"state {core.states[7]} and action {core.actions[7]}"
    with pytest.raises(ExecutorError, match=rf"ended its worker \d times on {name}\."):
        outcome(engine, problem=problem)
    assert any(suspects) == shared_fate, "where a worker dies alone, nobody else has to wait"


class KilledWorker(Exception):
    """What Dask raises for a task whose workers died too often."""


class Failing(Here):
    """An executor of others, which fails by itself at some tasks."""

    def submit(self, function, *arguments):
        if len(self.log) in self.breaks:
            self.log.append(arguments)
            future = Future()
            future.set_exception(KilledWorker("it was killed"))
            return future
        return super().submit(function, *arguments)


def test_a_failure_of_anothers_executor_is_tried_again_and_then_named():
    got, found = outcome(eager(Failing({3, 8, 9}), 2))
    assert got == outcome()[0] and found.lost_queries > 0
    with pytest.raises(
        ExecutorError, match=r"failed 4 times on 4 pairs from .* at last with KilledWorker: it was killed"
    ):
        outcome(eager(Failing(set(range(1000))), 1))


def test_what_cannot_be_sent_back_is_said():
    def unsendable(work, *arguments):
        raise TypeError("cannot pickle 'generator' object")

    class Pool(Here):
        def submit(self, function, *arguments):
            return super().submit(unsendable, *arguments)

    with pytest.raises(ExecutorError, match="What the simulator returned cannot be sent back"):
        outcome(eager(Pool(), 1))


def test_what_a_worker_cannot_unpack_is_said():
    class Elsewhere(Here):
        def submit(self, function, name, parcel, *rest):
            return super().submit(function, name, b"no pickle", *rest)

    with pytest.raises(ExecutorError, match="could not take the simulator: UnpicklingError"):
        outcome(eager(Elsewhere(), 1))


class Hanging(Executor):
    """Answers to the first tasks; the others hang."""

    def __init__(self, answers):
        self.here, self.answers, self.ended = Here(), answers, False

    def submit(self, function, *arguments):
        if len(self.here.log) < self.answers:
            return self.here.submit(function, *arguments)
        hangs = Future()
        hangs.set_running_or_notify_cancel()
        return hangs

    def shutdown(self, wait=True, kill_workers=False):
        self.ended = kill_workers


def test_workers_that_nobody_waits_for_are_ended(monkeypatch):
    """After an error, what hangs would keep this process from ending, and the next plan from beginning."""
    executor, problem = Hanging(3), walk(block=1)
    step = problem.model._step
    problem.model._step = lambda rng, x, a: (7.0, x) if x == 1 else step(rng, x, a)
    engine = Eager("hanging", lambda: executor, workers=4, ours=True)
    with pytest.raises(SimulatorError, match="reward 7"):
        outcome(engine, problem=problem)
    assert executor.ended


def test_a_model_that_was_changed_between_two_plans_is_sent_as_it_is_now():
    problem, engine = walk(), eager(Here(), 2)
    core = coreplan.CoreSet.of(problem)
    first, _ = outcome(engine, problem=problem, core=core)
    problem.model._step = lambda rng, x, a: (float(x == 0), x)
    again, _ = outcome(engine, problem=problem, core=core)
    assert again == outcome(problem=problem, core=core)[0] != first


@pytest.mark.parametrize("planner", ["core-mirror", "plug-in"])
def test_the_model_travels_once_to_each_worker(planner):
    executor = Here()
    outcome(eager(executor, 3), planner)
    assert sum(arguments[1] is not None for arguments in executor.log) == 3 < len(executor.log)


def test_a_new_executor_is_sent_the_model_again():
    engine = breaking({20}, workers=2)
    outcome(engine)
    assert sum(arguments[1] is not None for arguments in engine.log[20:]) >= 2


def test_an_executor_of_ours_that_somebody_shut_down_is_replaced():
    made = []

    def make():
        made.append(Here())
        return made[-1]

    engine = Eager("ours", make, workers=2, ours=True)
    engine.executor.closed = True
    assert outcome(engine)[0] == outcome()[0] and len(made) == 2


def test_workers_that_made_it_slower_are_told_of_at_the_end():
    class Slow(Here):
        def submit(self, function, *arguments):
            time.sleep(0.05)
            return super().submit(function, *arguments)

    class Sends(Engine):
        def pays(self, queries, chains):
            return True

    said = "Workers did not pay here: .* s were spent on starting and waiting"
    with pytest.warns(coreplan.CoreplanWarning, match=said):
        got, _ = outcome(Sends("slow", Slow, workers=2))
    assert got == outcome()[0]
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome(given(Slow(), 2, timeout=60.0))  # they are there for their limit


def test_each_pair_has_its_own_time_limit():
    """Ended by a timer in C after a quarter more than the limit at most, not after the limit times the block."""
    import subprocess
    import sys

    code = (
        "import time\nfrom coreplan.simulate import limited\n"
        "with limited(60.0) as restart:\n"
        "    for seconds in [0.3] * 5 + [3600.0]:\n"
        "        restart(0.8)\n        time.sleep(seconds)\n"
    )
    begin = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50)
    assert done.returncode == 1 and not done.stderr
    assert time.monotonic() - begin > 1.5 + 0.8, (
        "five pairs took longer than the limit together, and were let pass"
    )


def test_by_default_there_are_as_many_workers_as_processors():
    assert processes().workers == coreplan.base.processors()
