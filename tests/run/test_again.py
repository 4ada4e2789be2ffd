"""A folder whose run had no answer is used again; a run that met a reward outside its range goes on with a wider one."""

from __future__ import annotations

import dataclasses
import json
from functools import partial

import numpy as np
import pytest

import coreplan
from coreplan import CoreMirror, FunctionModel, Grow, PlugIn, Problem, SampledLP
from coreplan.problem import interpolation
from coreplan.run import folder as module
from helpers.mutants import mutant

plan = partial(coreplan.plan, reality=0)  # no rollouts, so that counters are those of the planner


def problem_of(range_=(0.0, 1.0), jump=0.0, fails=(), name="line"):
    """A walk on [0, 1] that pays its position, and 2 or -1 beyond `1 - jump` once in a while."""
    calls = [0]

    def step(rng, states, actions):
        calls[0] += 1
        if calls[0] in fails:
            raise RuntimeError("the licence server is down")
        u = rng.random((len(actions), 2))
        y = np.clip(states + np.where(actions == 1, 0.2, -0.2)[:, None] + 0.1 * (u[:, :1] - 0.5), 0, 1)
        rewards = np.where(u[:, 1] < jump, 2.0 - 3.0 * (u[:, 1] < jump / 2), y[:, 0])
        return rewards, y

    model = FunctionModel(2, lambda rng, n: rng.random((n, 1)), step, block=64)
    return Problem(model, interpolation([0.0], [1.0], [5], 2), 0.9, range_, name=name)


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_without_any_answer_is_used_again(tmp_path, resume):
    with pytest.raises(coreplan.SimulatorError, match="licence"):
        plan(problem_of(fails=[1]), budget=400, out=tmp_path)
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "failed"
    # Everything may be different now, even the planner.
    again = plan(
        problem_of((-1, 2), name="another"), planner=CoreMirror(), budget=400, out=tmp_path, resume=resume
    )
    assert coreplan.load_run(tmp_path, problem_of()).queries == again.queries == 400


def test_a_resume_without_any_answer_keeps_the_settings(tmp_path):
    with pytest.raises(coreplan.SimulatorError):
        plan(problem_of(fails=[1]), planner=PlugIn(samples=3), budget=400, out=tmp_path)
    assert plan(problem_of(), out=tmp_path, resume=True).settings["samples"] == 3


def test_core_pairs_of_the_failed_run_are_forgotten(tmp_path):
    pairs = coreplan.CoreSet(np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0, 1, 0, 1]))
    with pytest.raises(coreplan.SimulatorError):
        plan(problem_of(fails=[1]), pairs, budget=400, out=tmp_path)
    assert (tmp_path / "core.npz").exists()
    plan(problem_of(), budget=400, out=tmp_path)
    assert not (tmp_path / "core.npz").exists() and len(coreplan.load_run(tmp_path, problem_of()).core) == 10


def test_a_folder_with_answers_is_not(tmp_path):
    with pytest.raises(coreplan.SimulatorError):
        plan(problem_of(fails=[5]), planner=PlugIn(samples=64), budget=640, out=tmp_path)
    before = (tmp_path / "checkpoint.npz").read_bytes()
    with pytest.raises(coreplan.FileError, match="already holds a run"):
        plan(problem_of(), budget=400, out=tmp_path)
    assert (tmp_path / "checkpoint.npz").read_bytes() == before
    plan(problem_of(), budget=640, out=tmp_path, resume=True)
    with pytest.raises(coreplan.FileError, match="already holds a run"):
        plan(problem_of(), budget=400, out=tmp_path)


@pytest.mark.parametrize(
    "planner", [PlugIn(samples=256), PlugIn(), SampledLP()], ids=["fixed", "plug-in", "lp"]
)
def test_a_run_goes_on_with_a_wider_range(tmp_path, planner):
    """It ends where a run with the wide range from the start ends, but for the rounding of the mapped rewards."""
    jump, budget = 2e-3, 2560
    with pytest.raises(coreplan.SimulatorError, match="outside the declared range"):
        plan(problem_of(jump=jump), planner=planner, budget=budget, seed=1, out=tmp_path)
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["status"] == "failed" and 0 < record["queries"] < budget
    wide = problem_of((-1.0, 3.0), jump=jump)
    resumed = plan(wide, planner=planner, budget=budget, seed=1, out=tmp_path, resume=True)
    whole = plan(problem_of((-1.0, 3.0), jump=jump), planner=planner, budget=budget, seed=1)
    assert resumed.queries == whole.queries == budget and resumed.status is whole.status
    np.testing.assert_allclose(resumed.stored.rewards, whole.stored.rewards, atol=1e-14)
    np.testing.assert_allclose(resumed.policy.theta, whole.policy.theta, atol=1e-9)
    again = plan(
        wide, budget=2 * budget, seed=1, out=tmp_path, resume=True
    )  # the folder is of the wide range now
    assert again.queries == (budget if planner.samples else 2 * budget)


def test_a_wider_range_goes_with_rollouts_too(tmp_path):
    with pytest.raises(coreplan.SimulatorError, match="outside the declared range"):
        coreplan.plan(problem_of(jump=2e-3), planner=PlugIn(), budget=2_560, seed=1, out=tmp_path)
    wide = problem_of((-1.0, 3.0), jump=2e-3)
    resumed = coreplan.plan(wide, budget=2_560, seed=1, out=tmp_path, resume=True)
    assert resumed.reality_queries > 0 and abs(resumed.earned.value - resumed.believed) < 0.02


def test_what_was_solved_is_solved_again(tmp_path):
    """A finished run that is resumed with a wider range and the same budget: the policy of the wide range, at no query."""
    table = coreplan.make("river-swim")
    first = plan(table, planner=PlugIn(), budget=2_000, out=tmp_path)
    wide = dataclasses.replace(table, reward_range=(-1.0, 3.0), tabular=None)
    again = plan(wide, budget=2_000, out=tmp_path, resume=True)
    assert again.queries == first.queries
    np.testing.assert_allclose(again.stored.rewards, (first.stored.rewards + 1) / 4, atol=1e-14)
    np.testing.assert_allclose(again.policy.theta, first.policy.theta / 4 + 0.25 / (1 - 0.95), atol=1e-9)
    np.testing.assert_allclose(again.trace["value"], (first.trace["value"] + 1) / 4, atol=1e-12)


@pytest.mark.parametrize(
    "planner", [CoreMirror(), Grow(), coreplan.PrimalDual()], ids=["mirror", "grow", "primal-dual"]
)
def test_what_cannot_be_mapped_is_refused(tmp_path, planner):
    plan(problem_of(), planner=planner, budget=600, out=tmp_path)
    before = (tmp_path / "checkpoint.npz").read_bytes()
    with pytest.raises(coreplan.FileError, match=f"'{planner.name}' has learnt cannot be mapped"):
        plan(problem_of((-1, 2)), budget=1_200, out=tmp_path, resume=True)
    assert (tmp_path / "checkpoint.npz").read_bytes() == before


@pytest.mark.parametrize("range_", [(0.0, 0.9), (0.1, 2.0), (-1.0, 0.5)])
def test_a_range_that_does_not_contain_the_old_one_is_refused(tmp_path, range_):
    plan(problem_of(), planner=PlugIn(), budget=400, out=tmp_path)
    with pytest.raises(coreplan.FileError, match=r"reward_range is.*contains the old one"):
        plan(problem_of(range_), budget=800, out=tmp_path, resume=True)


@pytest.mark.parametrize(
    ("old", "new"), [("(low - lowest) / width)", "low - lowest)"), ("(high - low) / width,", "high - low,")]
)
def test_faults_are_noticed(old, new, tmp_path, monkeypatch):
    broken = mutant(module, old, new, tmp_path, monkeypatch)
    r = np.array([0.0, 0.25, 1.0])

    def mapped(kind):
        scale, shift = kind._widening([-2.0, 2.0], [-4.0, 6.0])
        return scale * r + shift

    want = (-2.0 + 4.0 * r + 4.0) / 10.0
    np.testing.assert_allclose(mapped(module), want)
    assert not np.allclose(mapped(broken), want)
