"""Ctrl-C, SIGTERM and SIGHUP at every stage of a run, finishing included: nothing that was paid is lost."""

from __future__ import annotations

import functools
import json
import os
import signal
import threading

import numpy as np
import pytest

import coreplan
from coreplan import Status
from coreplan.run import RunFolder
from helpers.own_planners import Bandit
from helpers.rivers import own
from helpers.runs import plan, same

STOPS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
BUDGET = 240


def send(number, times=1):
    for _ in range(times):
        os.kill(os.getpid(), number)


def sending(number, at, times=1):
    """A river whose simulator gets a signal in its `at`-th call; and the sizes of its calls."""
    base, calls = coreplan.make("river-swim"), []

    def step(rng, states, actions):
        if len(calls) == at:  # the call that answers is counted already
            send(number, times)
        return base.model.step(rng, states, actions)

    return own(step, calls), calls


@functools.cache
def whole():
    return plan(own(), planner=Bandit(), budget=BUDGET, seed=6)


def resumed(folder):
    return plan(own(), planner=Bandit(), budget=BUDGET, seed=6, out=folder, resume=True)


def status(folder):
    return json.loads((folder / "run.json").read_text())["status"]


def checkpointed(folder):
    with np.load(folder / "checkpoint.npz") as c:
        return json.loads(c["meta"].tobytes())["simulator"]["queries"]


@pytest.mark.parametrize("number", STOPS)
def test_the_first_signal_stops_after_the_batch(number, tmp_path):
    before = [signal.getsignal(n) for n in STOPS]
    problem, _ = sending(number, 9)
    stopped = plan(problem, planner=Bandit(), budget=BUDGET, seed=6, out=tmp_path)
    assert stopped.status is Status.INTERRUPTED and stopped.stopped_by == number and stopped.queries == 9 * 6
    assert [signal.getsignal(n) for n in STOPS] == before
    assert status(tmp_path) == "interrupted" and checkpointed(tmp_path) == 9 * 6
    same(resumed(tmp_path), whole())


@pytest.mark.parametrize(("number", "kept"), [(signal.SIGINT, 8), (signal.SIGTERM, 8), (signal.SIGHUP, 9)])
def test_the_second_abandons_the_batch_but_a_terminal_may_hang_up_twice(number, kept, tmp_path):
    problem, _ = sending(number, 9, times=2)
    stopped = plan(problem, planner=Bandit(), budget=BUDGET, seed=6, out=tmp_path)
    assert stopped.status is Status.INTERRUPTED and stopped.queries == checkpointed(tmp_path) == kept * 6
    same(resumed(tmp_path), whole())


def test_an_ignored_signal_stays_ignored():
    """As under nohup, which ignores SIGHUP."""
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        problem, _ = sending(signal.SIGHUP, 9)
        result = plan(problem, planner=Bandit(), budget=BUDGET, seed=6)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, old)
    assert result.status is not Status.INTERRUPTED and result.stopped_by == 0
    same(result, whole())


def test_elsewhere_than_in_the_main_thread_no_handler_is_touched():
    before, seen = [signal.getsignal(n) for n in STOPS], []
    problem, _ = sending(0, 9)  # signal 0 does nothing
    work = threading.Thread(
        target=lambda: seen.append(plan(problem, planner=Bandit(), budget=BUDGET, seed=6))
    )
    work.start()
    work.join()
    assert [signal.getsignal(n) for n in STOPS] == before
    same(seen[0], whole())


def test_a_signal_to_a_run_inside_a_simulator_stops_both():
    base, inner = coreplan.make("river-swim"), []

    def step(rng, states, actions):
        if not inner:
            inner.append(plan(sending(signal.SIGTERM, 3)[0], planner=Bandit(), budget=60))
        return base.model.step(rng, states, actions)

    outer = plan(own(step), planner=Bandit(), budget=BUDGET, seed=6)
    assert inner[0].status is outer.status is Status.INTERRUPTED
    assert (outer.queries, outer.stopped_by) == (6, signal.SIGTERM)


# Before the first query.


@pytest.mark.parametrize("swallowed", [False, True])
@pytest.mark.parametrize("resume", [False, True])
def test_ctrl_c_during_compilation_costs_nothing(swallowed, resume, tmp_path, monkeypatch):
    """Numba calls back from compiled code, and an exception that arrives there is swallowed."""
    if resume:
        plan(sending(signal.SIGINT, 9)[0], planner=Bandit(), budget=BUDGET, seed=6, out=tmp_path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.name != ".lock"}

    def compile_(run):
        try:
            send(signal.SIGINT)
        except KeyboardInterrupt:
            if not swallowed:
                raise

    monkeypatch.setattr("coreplan.run.stepping.Run.warm_up", compile_)
    calls = []
    with pytest.raises(KeyboardInterrupt):
        plan(own(calls=calls), planner=Bandit(), budget=BUDGET, seed=6, out=tmp_path, resume=True)
    assert not calls and {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.name != ".lock"} == before
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.undo()
    same(resumed(tmp_path), whole())


# While the run finishes.


@pytest.mark.parametrize("number", STOPS)
@pytest.mark.parametrize("at", ["save_checkpoint", "write_results", "write_record"])
def test_signals_while_files_are_written(number, at, tmp_path, monkeypatch):
    usual, sent = getattr(RunFolder, at), []

    def signalled(*arguments):
        if checkpointed(tmp_path) if at != "save_checkpoint" else (tmp_path / "checkpoint.npz").exists():
            sent.append(send(number, 3))
        return usual(*arguments)

    monkeypatch.setattr(RunFolder, at, signalled)
    result = coreplan.plan(own(), planner=Bandit(), budget=BUDGET, seed=6, out=tmp_path)
    monkeypatch.undo()
    assert sent and result.stopped_by == number and result.status is not Status.INTERRUPTED
    assert checkpointed(tmp_path) == result.queries - result.reality_queries
    assert coreplan.load_run(tmp_path, own()).policy.theta.tobytes() == result.policy.theta.tobytes()
    assert status(tmp_path) == result.status.value


@pytest.mark.parametrize("method", ["policy", "verdict", "core", "stored"])
def test_the_checkpoint_comes_first(method, tmp_path, monkeypatch):
    """Whatever a planner does when it is read out, what was paid is on disk by then."""
    seen, usual = [], getattr(Bandit, method)

    def watched(self, state):
        if getattr(state, "rounds", 0) == BUDGET // 6:
            seen.append(checkpointed(tmp_path))
            send(signal.SIGINT, 2)
        return usual(self, state)

    monkeypatch.setattr(Bandit, method, watched)
    result = plan(own(), planner=Bandit(), budget=BUDGET, seed=6, out=tmp_path)
    assert (
        seen and set(seen) == {BUDGET}
    ) or method == "policy"  # the trace's last row reads the policy, too
    assert seen[-1] == BUDGET and status(tmp_path) == result.status.value
    same(result, whole())


# While the policy is judged.


@pytest.mark.parametrize("number", STOPS)
@pytest.mark.parametrize("times", [1, 3])
def test_signals_in_rollouts_cost_the_verdict_only(number, times, tmp_path):
    """Every query is counted, and a resume makes fresh rollouts from what is left."""
    budget = 6_000
    problem, calls = sending(number, 905, times)
    result = coreplan.plan(
        problem, planner=Bandit(), budget=budget, seed=6, out=tmp_path, evaluate=8, certify=1_300
    )
    assert sum(calls[:900]) == budget * 0.9 == result.queries - result.reality_queries
    abandoned = calls[-1] if times > 1 and number != signal.SIGHUP else 0
    assert len(calls) == 905 and result.reality_queries == sum(calls[900:]) - abandoned > 0
    assert result.status is not Status.INTERRUPTED and result.stopped_by == number
    assert "rollouts of the policy were interrupted" in result.no_verdict and result.reality is None
    assert result.not_evaluated == result.refused == "It was interrupted."
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["queries"] == result.queries and record["reality_queries"] == result.reality_queries
    again = coreplan.plan(own(), planner=Bandit(), seed=6, out=tmp_path, resume=True)
    assert again.policy.theta.tobytes() == result.policy.theta.tobytes()
    assert again.reality is not None and result.reality_queries < again.reality_queries <= 0.1 * budget
    assert again.reality.queries == again.reality_queries - result.reality_queries


@pytest.mark.parametrize("number", STOPS)
@pytest.mark.parametrize("judge", ["evaluate", "certify"])
def test_signals_in_a_judge_cost_what_it_would_have_found(number, judge, tmp_path):
    problem, calls = sending(number, BUDGET // 6 + 3)
    result = plan(problem, planner=Bandit(), budget=BUDGET, seed=6, out=tmp_path, **{judge: 1_300})
    assert len(calls) == BUDGET // 6 + 3, "the judge went on"
    assert "It was interrupted." in (result.not_evaluated, result.refused) and result.stopped_by == number
    assert (result.evaluation, result.certificate) == (None, None)
    same(result, whole())
    same(coreplan.load_run(tmp_path, own()), whole())
