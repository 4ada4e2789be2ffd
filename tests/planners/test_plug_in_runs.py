"""PlugIn's runs: faults, resumes, damage, memory, and moves between machines."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import coreplan
from coreplan import CoreSet, InputError, PlugIn, SimulatorError, Status
from coreplan.planners import CoreSetup
from coreplan.planners.plug_in import planner as plug_in
from coreplan.sampled import Accuracy, room
from coreplan.simulate import Simulator
from helpers.rivers import own
from helpers.runs import plan


@pytest.mark.parametrize("sparse", [False, True])
def test_samples_that_were_paid_for_are_kept(tmp_path, monkeypatch, sparse):
    monkeypatch.setattr(plug_in, "BATCH", 50)
    problem = coreplan.make("river-swim") if sparse else own()
    whole = plan(problem, budget=1200, seed=5)
    assert whole.queries == 1200
    calls: list[int] = []

    def step(rng, states, actions):
        if len(calls) == 9:
            raise RuntimeError("the licence server is down")
        return coreplan.make("river-swim").model.step(rng, states, actions)

    if not sparse:
        with pytest.raises(SimulatorError, match="licence"):
            plan(own(step, calls), budget=1200, seed=5, out=tmp_path)
        before = sum(calls[:-1])
        calls.clear()
        resumed = plan(own(None, calls), budget=1200, seed=5, out=tmp_path, resume=True)
        assert before + sum(calls) == 1200 + resumed.rechecked_queries  # nothing else was asked again
    else:
        plan(problem, budget=500, seed=5, out=tmp_path)  # a smaller budget, raised
        resumed = plan(problem, budget=1200, seed=5, out=tmp_path, resume=True)
    assert resumed.policy.theta.tobytes() == whole.policy.theta.tobytes()
    assert resumed.queries == whole.queries


def test_a_resume_towards_an_accuracy_gives_the_same_bits(tmp_path):
    problem = coreplan.make("river-linear")
    whole = plan(problem, epsilon="0.5%", seed=2)
    first = plan(problem, epsilon="0.5%", budget=400, seed=2, out=tmp_path)
    assert first.status is Status.NOT_REACHED
    resumed = plan(problem, epsilon="0.5%", budget=10**7, seed=2, out=tmp_path, resume=True)
    assert resumed.queries == whole.queries > 400 and resumed.status is Status.REACHED
    assert resumed.policy.theta.tobytes() == whole.policy.theta.tobytes()


def test_a_damaged_state_is_refused():
    problem = coreplan.make("river-linear")
    planner = PlugIn().resolve(CoreSetup.with_core(problem, CoreSet.of(problem), 400))
    rng = np.random.default_rng(0)
    simulator = Simulator(problem, CoreSet.of(problem), 0)
    state = planner.init(rng)
    state = planner.tell(state, simulator.answer(planner.ask(state, rng)), rng)
    planner.check(state)
    for damage in (
        {"rewards": state.rewards[:-1]},
        {"next_index": state.next_index + 20},
        {"next_index": state.next_index.astype(np.int64)},
        {"next_weight": state.next_weight[:, :2]},
        {"initial_weight": state.initial_weight[:0]},
        {"filled": 10, "solved": 16},
    ):
        with pytest.raises(ValueError):
            planner.check(state._replace(**damage))


def test_what_does_not_fit_into_memory_is_said_before_the_first_query(monkeypatch):
    calls: list[int] = []
    monkeypatch.setattr(room, "available_memory", lambda: 4e6)
    with pytest.raises(InputError, match="core-mirror"):
        plan(own(calls=calls), budget=10**6)
    assert calls == []
    assert plan(own(), budget=1200).queries == 1200
    short = plan(coreplan.make("river-linear"), epsilon=1e-12)
    assert short.status is Status.NOT_REACHED and "No more samples fit into memory" in short.reason


@pytest.mark.parametrize("fault", [False, True])
def test_a_run_may_move_between_machines(tmp_path, monkeypatch, fault):
    """On a smaller one nothing is asked and what is stored still counts; on a larger one it goes on as ever."""
    monkeypatch.setattr(plug_in, "BATCH", 50)
    monkeypatch.setattr(Accuracy, "target", lambda self, scale: -1.0)  # out of reach
    base = coreplan.make("river-swim")
    calls: list[int] = []

    def step(rng, states, actions):
        if fault and sum(calls) > 1000:
            raise RuntimeError("out of memory")
        return base.model.step(rng, states, actions)

    def on(memory, problem):
        monkeypatch.setattr(room, "available_memory", lambda: memory)
        return plan(problem, epsilon=1e-12, budget=3000, seed=4, out=tmp_path, resume=True)

    if fault:
        with pytest.raises(SimulatorError, match="out of memory"):
            on(1e9, own(step, calls))
        stored = sum(calls[:-1])
        assert 900 < stored <= 1000
    else:
        first = on(1e6, own())
        stored = first.queries
        assert "No more samples fit into memory" in first.reason and 16 < stored / 12 < 200
    small = on(2.2e5, own())
    assert small.queries == stored and small.status is Status.NOT_REACHED
    assert "No more samples fit into memory" in small.reason
    large = on(1e9, own())
    whole = plan(own(), epsilon=1e-12, budget=3000, seed=4)
    assert large.queries == whole.queries and 2900 < whole.queries <= 3000
    assert large.policy.theta.tobytes() == whole.policy.theta.tobytes()


def test_a_budget_that_does_not_fit_is_refused_by_a_planner_that_has_run(monkeypatch):
    setup = CoreSetup.with_core(own(), CoreSet.of(own()), 1200)
    monkeypatch.setattr(room, "available_memory", lambda: 2.2e5)
    capped = PlugIn(epsilon=0.1).resolve(setup)
    assert capped._room.most() == 20 < 1200 // 12
    with pytest.raises(InputError, match="may be used here"):
        dataclasses.replace(capped, epsilon=None).resolve(setup)
