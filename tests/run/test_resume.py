"""Checkpoints and resumes: the same numbers to the last bit after raised budgets, faults and Ctrl-C."""

from __future__ import annotations

import dataclasses
import json
import os
import signal

import pytest

import coreplan
from coreplan import PrimalDual, Status
from helpers.runs import numpy_problem, plan, planner, same


@pytest.mark.parametrize(
    "spec", ["random-linear", "river-linear:L=4,states=40", "random-linear:compiled=false"]
)
def test_a_raised_budget_goes_on_as_if_it_had_been_there(spec, tmp_path):
    problem = coreplan.make(spec)
    whole = plan(problem, planner=planner(output="random"), budget=20_000, seed=9)
    plan(problem, planner=planner(output="random"), budget=7_777, seed=9, out=tmp_path)
    again = plan(problem, planner=planner(output="random"), budget=20_000, seed=9, out=tmp_path, resume=True)
    assert again.policy.theta.tobytes() == whole.policy.theta.tobytes()
    assert (again.queries, again.initial_draws) == (whole.queries, whole.initial_draws)


class Fails:
    """A NumPy simulator that raises at given calls, once each."""

    def __init__(self, calls):
        self.base, self.calls, self.count = numpy_problem().model, set(calls), 0

    def __call__(self, rng, states, actions):
        self.count += 1
        rewards, y = self.base.step(rng, states, actions)  # consumes noise, as a real failure would
        if self.count in self.calls:
            self.calls.remove(self.count)
            raise RuntimeError("the licence server is down")
        return rewards, y


def test_faults_cost_nothing_and_resume_to_the_last_bit(tmp_path):
    whole = plan(numpy_problem(), planner=planner(), budget=8 * 400, seed=6)
    problem = numpy_problem(Fails([3, 120, 350]))
    for _ in range(3):
        with pytest.raises(coreplan.SimulatorError, match="raised RuntimeError: the licence server is down"):
            plan(problem, planner=planner(), budget=8 * 400, seed=6, out=tmp_path, resume=True)
        assert json.loads((tmp_path / "run.json").read_text())["status"] == "failed"
    same(plan(problem, planner=planner(), budget=8 * 400, seed=6, out=tmp_path, resume=True), whole)


def test_ctrl_c_stops_cleanly_and_resumes(tmp_path):
    whole = plan(numpy_problem(), planner=planner(), budget=8 * 400, seed=6)

    def step(rng, states, actions):
        if step.count == 100:
            os.kill(os.getpid(), signal.SIGINT)
        step.count += 1
        return numpy_problem().model.step(rng, states, actions)

    step.count = 0
    handler = signal.getsignal(signal.SIGINT)
    stopped = plan(numpy_problem(step), planner=planner(), budget=8 * 400, seed=6, out=tmp_path)
    assert stopped.status is Status.INTERRUPTED and stopped.queries == 8 * 101
    assert signal.getsignal(signal.SIGINT) is handler
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "interrupted"
    assert coreplan.load_policy(tmp_path, numpy_problem()).theta.tobytes() == stopped.policy.theta.tobytes()
    same(plan(numpy_problem(), planner=planner(), budget=8 * 400, seed=6, out=tmp_path, resume=True), whole)


def test_a_second_ctrl_c_abandons_the_batch(tmp_path):
    whole = plan(numpy_problem(), planner=planner(), budget=8 * 400, seed=6)

    def step(rng, states, actions):
        step.count += 1
        answer = numpy_problem().model.step(rng, states, actions)
        if step.count == 50:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return answer

    step.count = 0
    stopped = plan(numpy_problem(step), planner=planner(), budget=8 * 400, seed=6, out=tmp_path)
    assert stopped.status is Status.INTERRUPTED and stopped.queries == 8 * 49
    same(plan(numpy_problem(), planner=planner(), budget=8 * 400, seed=6, out=tmp_path, resume=True), whole)


# The same run.


def test_a_finished_run_is_given_back(tmp_path):
    problem = coreplan.make("river-swim")
    first = plan(problem, planner=planner(), budget=4000, out=tmp_path)
    again = plan(problem, planner=planner(), budget=4000, out=tmp_path, resume=True)
    same(first, again)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        ".lock", "checkpoint.npz", "policy.npz", "run.json", "trace.csv"
    ]  # fmt: skip
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["status"] == "finished" and record["queries"] == 4000 and record["settings"]["K"] == 7


def test_resume_in_an_empty_folder_starts(tmp_path):
    problem = coreplan.make("river-swim")
    a = plan(problem, planner=planner(), budget=4000, out=tmp_path / "a" / "b", resume=True)
    same(a, plan(problem, planner=planner(), budget=4000))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 5}, "its seed is 0, and now it is 5"),
        ({"planner": planner(eta=0.1)}, "its settings: eta is 0.003, and now it is 0.1"),
        ({"problem": coreplan.make("river-swim:discount=0.9")}, "its problem is"),
        ({"block": 100}, "its block"),
    ],
)
def test_another_run_is_not_resumed(tmp_path, changes, words):
    start = {"problem": coreplan.make("river-swim"), "planner": planner(), "budget": 4000, "out": tmp_path}
    plan(**start)
    with pytest.raises(coreplan.FileError, match=words):
        plan(**{**start, **changes}, resume=True)


def test_filled_in_rates_are_kept_when_the_budget_is_raised(tmp_path):
    problem = coreplan.make("river-swim")
    first = plan(problem, planner=PrimalDual(K=7), budget=4000, out=tmp_path)
    again = plan(problem, planner=PrimalDual(K=7), budget=8000, out=tmp_path, resume=True)
    assert again.planner.eta == first.planner.eta and again.queries == 8000
    with pytest.raises(coreplan.InputError, match="8000 queries already, more than the budget of 4000"):
        plan(problem, planner=PrimalDual(K=7), budget=4000, out=tmp_path, resume=True)


@pytest.mark.parametrize(
    "chosen",
    [
        coreplan.PlugIn(epsilon="0.01%"),
        coreplan.PlugIn(noise="independent", output=30.0),
        coreplan.CoreMirror(allocation="occupancy"),
        coreplan.OptimisticPrimalDual(steps=20),
        coreplan.SampledLP(n_initial=20),
        PrimalDual(K=7, output="last"),
    ],
    ids=lambda p: f"{p.name} {p.output if p.name == 'plug-in' else ''}",
)
def test_a_resumed_run_is_the_same_run(chosen, tmp_path):
    """Only a budget is given, or nothing: planner and settings are those it was started with."""
    problem = coreplan.make("river-linear")
    first = plan(problem, planner=chosen, budget=400, seed=1, out=tmp_path)
    for given in ({}, {"planner": chosen}, {"epsilon": getattr(chosen, "epsilon", None)}):
        same(plan(problem, seed=1, out=tmp_path, resume=True, **given), first)
    raised = plan(problem, budget=2_000, seed=1, out=tmp_path, resume=True)
    assert raised.planner.settings() == first.planner.settings() and raised.planner.name == chosen.name
    rates = {
        k: first.planner.settings()[k] for k in ("K", "eta", "beta", "alpha") if chosen.name == "primal-dual"
    }
    whole = plan(problem, planner=dataclasses.replace(chosen, **rates), budget=2_000, seed=1)
    assert raised.policy.theta.tobytes() == whole.policy.theta.tobytes()
    assert raised.queries == whole.queries > first.queries


def test_a_planner_that_is_given_is_given_with_its_defaults(tmp_path):
    problem = coreplan.make("river-linear")
    plan(problem, planner=coreplan.CoreMirror(output="greedy"), budget=400, out=tmp_path)
    with pytest.raises(coreplan.FileError, match="output is 'greedy', and now it is"):
        plan(problem, planner=coreplan.CoreMirror(), out=tmp_path, resume=True)


def test_noise_that_a_small_budget_chose_is_kept(tmp_path):
    """13 queries of 12 pairs leave none to test the simulator with; 1,300 would, and the run is the same one."""
    problem = coreplan.make("river-swim")
    for budget in (13, 1_300):
        result = plan(problem, planner=coreplan.PlugIn(), budget=budget, out=tmp_path, resume=True)
        assert result.planner.settings()["noise"] == "independent"
    assert result.queries == 1_300
