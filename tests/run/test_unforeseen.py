"""Errors that are none of coreplan's own, of any kind: a checkpoint, a record, and a message for a person."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import json
import os
import signal
from dataclasses import dataclass

import numpy as np
import pytest

import coreplan
from coreplan import PlugIn, RunError, SimulatorError
from helpers.own_planners import Bandit
from helpers.rivers import own
from helpers.runs import plan, same

BUDGET = 240
ARGUMENTS = {"budget": BUDGET, "seed": 6}


@functools.cache
def whole(planner=None):
    return plan(own(), planner=planner or Bandit(), **ARGUMENTS)


def record(folder):
    return json.loads((folder / "run.json").read_text())


def checkpointed(folder):
    with np.load(folder / "checkpoint.npz") as c:
        return json.loads(c["meta"].tobytes())["simulator"]["queries"]


def raising(error, at=9):
    base, calls = coreplan.make("river-swim"), []

    def step(rng, states, actions):
        if len(calls) == at:
            raise error
        return base.model.step(rng, states, actions)

    return own(step, calls)


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (concurrent.futures.CancelledError(), SimulatorError),
        (MemoryError("no room"), SimulatorError),
        (RecursionError("too deep"), SimulatorError),
        (SystemExit(3), SimulatorError),
        (asyncio.CancelledError(), asyncio.CancelledError),
        (GeneratorExit(), GeneratorExit),
        (BaseException("the end"), BaseException),
    ],
    ids=lambda e: type(e).__name__ if not isinstance(e, type) else "",
)
def test_whatever_a_simulator_raises(error, seen, tmp_path):
    with pytest.raises(BaseException) as caught:
        plan(raising(error), planner=Bandit(), **ARGUMENTS, out=tmp_path)
    assert type(caught.value) is seen
    assert record(tmp_path)["status"] == "failed" and checkpointed(tmp_path) == 8 * 6
    same(plan(own(), planner=Bandit(), **ARGUMENTS, out=tmp_path, resume=True), whole())


@pytest.mark.parametrize(
    "error", [KeyError("theta"), MemoryError(), RecursionError("deep"), ValueError("x\n" * 900)]
)
@pytest.mark.parametrize("method", ["ask", "policy", "numbers", "verdict", "stored", "core"])
def test_whatever_a_planner_raises(error, method, tmp_path, monkeypatch):
    usual = getattr(Bandit, method)

    def raises(self, state, *more):
        if state.rounds >= 9:
            raise error
        return usual(self, state, *more)

    with monkeypatch.context() as patched:
        patched.setattr(Bandit, method, raises)
        with pytest.raises(RunError, match=type(error).__name__) as caught:
            plan(own(), planner=Bandit(), **ARGUMENTS, out=tmp_path)
    said = str(caught.value)
    assert caught.value.__cause__ is error and "test_unforeseen.py" in said and len(said) <= 1000
    assert f"What was paid before it is in {tmp_path}" in said and "\n" not in said
    found = record(tmp_path)
    assert found["status"] == "failed" and found["queries"] == checkpointed(tmp_path) >= 9 * 6
    assert found["lost_queries"] == 0
    again = plan(own(), planner=Bandit(), **ARGUMENTS, out=tmp_path, resume=True)
    assert again.policy.theta.tobytes() == whole().policy.theta.tobytes() and again.queries == BUDGET


def test_the_value_of_the_trace_may_raise_too(tmp_path, monkeypatch):
    monkeypatch.setattr("coreplan.planning.plans.cheap_value", lambda problem: lambda policy: 1 / 0)
    with pytest.raises(RunError, match="ZeroDivisionError"):
        plan(own(), planner=Bandit(), **ARGUMENTS, out=tmp_path)
    assert record(tmp_path)["status"] == "failed"


# A `tell` that raises leaves the state half changed.


@dataclass(frozen=True, kw_only=True)
class Breaks(Bandit):
    """Changes its state, then raises, at a round."""

    name = "bandit"
    ballast: int = 0

    def tell(self, state, answers, rng):
        told = Bandit.tell(self, state, answers, rng)
        if state.rounds == Breaks.at:
            raise ZeroDivisionError("a bug")
        return told


def test_what_was_told_before_a_tell_that_raises_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(Breaks, "at", 33, raising=False)
    with pytest.raises(RunError, match="ZeroDivisionError: a bug"):
        plan(own(), planner=Breaks(), **ARGUMENTS, out=tmp_path)
    found = record(tmp_path)
    assert found["status"] == "failed" and found["lost_queries"] == 34 * 6 - found["queries"]
    # The copy is from before the last row of the trace, at most a tenth of a second ago.
    assert 0 < checkpointed(tmp_path) == found["queries"] and found["lost_queries"] <= 2 * 6
    monkeypatch.setattr(Breaks, "at", -1)
    again = plan(own(), planner=Breaks(), **ARGUMENTS, out=tmp_path, resume=True)
    same(again, whole())
    assert again.lost_queries == found["lost_queries"] and "more were paid and lost" in str(again)


def test_where_the_state_is_too_large_to_copy_the_last_checkpoint_stands(tmp_path, monkeypatch):
    monkeypatch.setattr(Breaks, "at", 33, raising=False)
    monkeypatch.setattr("coreplan.planning.session._COPIED", 8)
    monkeypatch.setattr("coreplan.planning.session._COPIED_PER_SECOND", 0)
    with pytest.raises(RunError):
        plan(own(), planner=Breaks(), **ARGUMENTS, out=tmp_path)
    assert checkpointed(tmp_path) == 0 and record(tmp_path)["lost_queries"] == 34 * 6
    assert record(tmp_path)["queries"] == 0
    monkeypatch.setattr(Breaks, "at", -1)
    same(plan(own(), planner=Breaks(), **ARGUMENTS, out=tmp_path, resume=True), whole())


def test_what_was_answered_of_a_batch_that_is_abandoned_is_kept(tmp_path):
    """Three blocks of four: the second Ctrl-C comes in the third, when eight queries were answered."""
    base, calls = coreplan.make("river-swim"), []

    def step(rng, states, actions):
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return base.model.step(rng, states, actions)

    planner = Bandit(batch=12)
    stopped = plan(own(step, calls), planner=planner, **ARGUMENTS, block=4, out=tmp_path)
    assert (stopped.queries, stopped.lost_queries) == (8, 0)
    assert record(tmp_path)["queries"] == 8
    calls.clear()
    again = plan(own(calls=calls), planner=planner, **ARGUMENTS, block=4, out=tmp_path, resume=True)
    assert sum(calls) == BUDGET - 8 + again.rechecked_queries
    same(again, plan(own(), planner=planner, **ARGUMENTS, block=4))


# Progress is for people; a run does not depend on it.


class Broken:
    def __init__(self, *where):
        self.where, self.calls = where, []

    def update(self, queries):
        self.calls.append("update")
        if "update" in self.where:
            raise OSError(5, "Input/output error")  # what a terminal says that is gone

    def close(self):
        self.calls.append("close")
        if "close" in self.where:
            raise KeyError("task")


@pytest.mark.parametrize("where", [("update",), ("close",), ("update", "close")])
def test_a_progress_object_that_raises_is_given_up(where, tmp_path):
    bar = Broken(*where)
    with pytest.warns(coreplan.CoreplanWarning, match="Progress is shown no more") as caught:
        result = plan(own(), planner=Bandit(), **ARGUMENTS, out=tmp_path, progress=bar)
    assert len(caught) == 1 and bar.calls.count(where[0]) == 1
    same(result, whole())


@pytest.mark.parametrize("wish", ["yes", 3, object()])
def test_what_is_no_progress_object_is_refused_before_a_query(wish):
    calls = []
    with pytest.raises(coreplan.InputError, match=r"update\(queries\) and close\(\)"):
        plan(own(calls=calls), planner=Bandit(), **ARGUMENTS, progress=wish)
    assert not calls


def test_a_bar_that_cannot_begin(monkeypatch):
    monkeypatch.setattr("coreplan.run.progress.Bar", lambda *sizes: Broken().missing)
    with pytest.warns(coreplan.CoreplanWarning, match="Progress is shown no more"):
        same(plan(own(), planner=Bandit(), **ARGUMENTS, progress=True), whole())


# What is raised while the plan is judged costs the judgement.


@pytest.mark.parametrize("error", [asyncio.CancelledError(), MemoryError(), BaseException("the end")])
def test_whatever_is_raised_in_a_judge(error, tmp_path):
    result = plan(
        raising(error, at=BUDGET // 6 + 3), planner=Bandit(), **ARGUMENTS, out=tmp_path, evaluate=1_300
    )
    assert type(error).__name__ in result.not_evaluated and result.evaluation is None
    same(result, whole())


@pytest.mark.parametrize("error", [asyncio.CancelledError(), BaseException("the end")])
def test_whatever_is_raised_in_rollouts(error, tmp_path):
    result = coreplan.plan(raising(error, at=905), planner=Bandit(), budget=6_000, out=tmp_path)
    assert type(error).__name__ in result.no_verdict and result.reality is None
    assert result.reality_queries > 0 and record(tmp_path)["queries"] == result.queries


def test_the_default_planner_fails_so_too(tmp_path):
    """The sweeps that were answered before the fault are kept."""
    with pytest.raises(BaseException, match="the end"):
        plan(raising(BaseException("the end"), at=5), planner=PlugIn(), **ARGUMENTS, out=tmp_path)
    assert record(tmp_path)["status"] == "failed" and record(tmp_path)["queries"] > 0
