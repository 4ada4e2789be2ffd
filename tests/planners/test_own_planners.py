"""Planners that are not built in: they stop and resume like the others, and what breaks the contract is told."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest

import coreplan
from coreplan import InputError, Status
from coreplan.base.files import read_npz, write_npz
from coreplan.planners import Planner, ReadOut
from coreplan.run import steps
from coreplan.run.folder import KIND, VERSION
from coreplan.simulate import Ask
from helpers.own_planners import Bandit, Means, Sweeps
from helpers.rivers import River, own
from helpers.runs import plan, same

OWN = [Bandit(), Sweeps()]


def name(planner):
    return planner.name


def test_the_name_is_that_of_the_class_unless_it_is_given():
    assert (Bandit.name, Sweeps.name) == ("bandit", "my-sweeps")
    assert Bandit().settings() == {"batch": 6, "level": None} and Sweeps.options() == ["most"]


def test_one_that_solves_on_its_samples_plans():
    problem = coreplan.make("river-linear")
    result = plan(problem, planner=Sweeps(), budget=10_000, seed=1)
    assert result.queries == 40 * 20 and result.status is Status.FINISHED  # done before the budget is
    assert coreplan.evaluate(problem, result.policy).sub < 0.02


# Stopped and resumed.


def stopping(at):
    """A river where Ctrl-C is pressed while the simulator answers for the `at`-th time."""
    base, calls = coreplan.make("river-swim"), []

    def step(rng, states, actions):
        if len(calls) == at:  # the call that answers is counted already
            os.kill(os.getpid(), signal.SIGINT)
        return base.model.step(rng, states, actions)

    return own(step, calls)


@pytest.mark.parametrize("planner", OWN, ids=name)
def test_stopped_by_ctrl_c_it_is_resumed_to_the_last_bit(planner, tmp_path):
    whole = plan(own(), planner=planner, budget=240, seed=6)
    stopped = plan(stopping(9), planner=planner, budget=240, seed=6, out=tmp_path)
    assert stopped.status is Status.INTERRUPTED and 0 < stopped.queries < whole.queries
    with pytest.raises(coreplan.FileError) as caught:
        plan(own(), seed=6, out=tmp_path, resume=True)
    assert f"planner '{planner.name}', which is not built in" in str(caught.value)
    assert "plan(..., planner=..., resume=True)" in str(caught.value)
    resumed = plan(own(), planner=planner, seed=6, out=tmp_path, resume=True)  # the budget is as it was
    same(resumed, whole)
    assert resumed.status is Status.FINISHED
    assert json.loads((tmp_path / "run.json").read_text())["planner"] == planner.name


@pytest.mark.parametrize("planner", OWN, ids=name)
def test_a_fault_costs_nothing_and_a_raised_budget_goes_on(planner, tmp_path):
    river = River(fail_at=5)
    with pytest.raises(coreplan.SimulatorError, match="licence"):
        plan(river.problem, planner=planner, budget=120, seed=3, out=tmp_path)
    first = plan(river.problem, planner=planner, budget=120, seed=3, out=tmp_path, resume=True)
    assert first.queries == 120 and sum(river.steps) == 120 + first.rechecked_queries
    raised = plan(river.problem, planner=planner, budget=240, seed=3, out=tmp_path, resume=True)
    assert raised.settings == first.settings  # also what was filled in for the first budget
    given = dataclasses.replace(planner, **first.settings)
    whole = plan(River().problem, planner=given, budget=240, seed=3)
    assert raised.policy.theta.tobytes() == whole.policy.theta.tobytes() and raised.queries == 240


def test_other_settings_are_another_run(tmp_path):
    plan(own(), planner=Bandit(), budget=60, out=tmp_path)
    with pytest.raises(coreplan.FileError, match="its settings: batch is 6, and now it is 7"):
        plan(own(), planner=Bandit(batch=7), budget=60, out=tmp_path, resume=True)


@dataclass(frozen=True, kw_only=True)
class Layered(Bandit):
    """Settings of other kinds: a tuple, a number of NumPy's, an array."""

    layers: tuple = (3, np.int64(2))
    start: np.ndarray = field(default_factory=lambda: np.arange(3.0), metadata={"array": True})


def test_settings_of_other_kinds_are_compared_as_they_were_written(tmp_path):
    first = plan(own(), planner=Layered(), budget=60, out=tmp_path)
    assert first.settings["layers"] == [3, 2] and Layered.options() == ["batch", "level", "layers"]
    same(plan(own(), planner=Layered(), out=tmp_path, resume=True), first)
    for other, words in (
        ({"layers": (3, 4)}, r"layers is \[3, 2\], and now it is \[3, 4\]"),
        ({"start": np.ones(3)}, "start: array is"),
    ):
        with pytest.raises(coreplan.FileError, match=words):
            plan(own(), planner=Layered(**other), out=tmp_path, resume=True)


def test_a_damaged_state_is_refused(tmp_path):
    plan(own(), planner=Bandit(), budget=60, out=tmp_path)
    path = tmp_path / "checkpoint.npz"
    arrays, meta = read_npz(path, KIND, VERSION)
    for change in ({"state.total": np.zeros(3)}, {"state.rounds": np.zeros(2)}, {"state.other": np.zeros(2)}):
        write_npz(path, {**arrays, **change}, meta)
        with pytest.raises(coreplan.FileError, match="damaged"):
            plan(own(), planner=Bandit(), budget=60, out=tmp_path, resume=True)


# The contract.


class Other(NamedTuple):
    total: np.ndarray


def broken(**methods):
    """`Bandit` with methods replaced."""
    return dataclass(frozen=True, kw_only=True)(type("Broken", (Bandit,), methods))()


@dataclass(frozen=True, kw_only=True)
class Deaf(Planner):
    """A planner without `tell`."""

    def init(self, rng):
        return Means(np.zeros(1), np.zeros(1), 0, 0.0)

    def ask(self, state, rng):
        return Ask(core_index=np.arange(2))

    def policy(self, state):
        return ReadOut(np.zeros(12), 1.0)


class Plain(Planner):
    """No dataclass."""

    init = tell = ask = policy = lambda *_: None


BROKEN = {
    "no tell": (Deaf(), "`tell`", "The planner 'deaf' has no method `tell`"),
    "init returns a dict": (
        broken(init=lambda self, rng: {}),
        "`init`",
        "returned a dict from `init`",
    ),
    "tell returns another state": (
        broken(tell=lambda self, state, answers, rng: Other(state.total)),
        "`tell`",
        "returned a Other from `tell` where the state is a Means",
    ),
    "tell returns nothing": (
        broken(tell=lambda self, state, answers, rng: None),
        "`tell`",
        "returned a NoneType from `tell`",
    ),
    "core pairs that are no whole numbers": (
        broken(ask=lambda self, state, rng: Ask(core_index=np.array([0.0, 1.0]))),
        "`ask`",
        "the core pairs [0.0, 1.0], of shape (2,) and dtype float64",
    ),
    "core pairs that do not exist": (
        broken(ask=lambda self, state, rng: Ask(core_index=np.array([3, 12]))),
        "`ask`",
        "whole numbers from 0 to m - 1 = 11",
    ),
    "core pairs with an axis too many": (
        broken(ask=lambda self, state, rng: Ask(core_index=np.zeros((2, 1), dtype=int))),
        "`ask`",
        "shape (2, 1)",
    ),
    "ask returns an array": (
        broken(ask=lambda self, state, rng: np.arange(3)),
        "`ask`",
        "returned a ndarray from `ask`",
    ),
    "a theta that is too short": (
        broken(policy=lambda self, state: ReadOut(np.zeros(5), 1.0)),
        "`policy`",
        "theta of shape (5,) and the scale 1 from `policy`",
    ),
    "a theta that is not finite": (
        broken(policy=lambda self, state: ReadOut(np.full(12, np.nan), 1.0)),
        "`policy`",
        "not finite",
    ),
    "a scale of zero": (
        broken(policy=lambda self, state: (np.zeros(12), 0.0)),
        "`policy`",
        "a positive scale",
    ),
    "theta alone": (broken(policy=lambda self, state: 3.0), "`policy`", "returned a float from `policy`"),
    "the class": (Bandit, "`plan(planner=...)`", "was given the class Bandit; write Bandit()"),
    "no dataclass": (Plain(), "@dataclass", "is not a dataclass"),
    "no planner": (object(), "`plan(planner=...)`", "inherits from coreplan.planners.Planner"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_what_breaks_the_contract_is_told_before_a_query(fault, tmp_path):
    planner, method, words = BROKEN[fault]
    calls = (
        lambda problem: plan(problem, planner=planner, budget=120, out=tmp_path / "run"),
        lambda problem: next(steps(problem, planner)),
    )
    for call in calls:
        river = River()
        with pytest.raises(InputError) as caught:
            call(river.problem)
        text = str(caught.value)
        assert method in text and words in text and "\n" not in text
        assert river.steps == []
    assert not (tmp_path / "run" / "checkpoint.npz").exists()


def test_a_tell_that_breaks_it_later_costs_nothing(tmp_path):
    """The faulty tell has never happened: mended, the planner goes on from the answers before it."""

    def tell(self, state, answers, rng):
        return Sweeps.tell(self, state, answers, rng) if state.solved < 3 else {}

    late = dataclass(frozen=True, kw_only=True)(
        type("Late", (Sweeps,), {"name": Sweeps.name, "tell": tell})
    )()
    with pytest.raises(InputError, match="returned a dict from `tell` where the state is a Kept"):
        plan(own(), planner=late, budget=240, seed=2, out=tmp_path)
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["status"] == "failed" and record["queries"] == 3 * 12
    mended = plan(own(), planner=Sweeps(), seed=2, out=tmp_path, resume=True)
    same(mended, plan(own(), planner=Sweeps(), budget=240, seed=2))
