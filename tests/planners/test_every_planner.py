"""What holds of every planner that is given a core set: refusals, masks, ends of episodes, faults, resumes."""

from __future__ import annotations

import dataclasses
import json

import gymnasium
import numpy as np
import pytest

import coreplan
from coreplan import (
    CoreMirror,
    FunctionFeatures,
    FunctionModel,
    InputError,
    OptimisticPrimalDual,
    PlugIn,
    PrimalDual,
    SampledLP,
    SimulatorError,
    SoftmaxPolicy,
    Status,
    evaluate,
)
from coreplan.core import frame
from coreplan.planners import sampled_lp
from coreplan.planners.plug_in import planner as plug_in
from coreplan.problem import from_gymnasium, one_hot
from coreplan.run import PythonLoop
from helpers.masked import ALLOWED, S, masked_problem
from helpers.rivers import River
from helpers.runs import plan

FOUR = [PlugIn(), CoreMirror(), OptimisticPrimalDual(), SampledLP()]


def name(planner):
    return planner.name


@pytest.mark.parametrize("planner", [*FOUR, PrimalDual(K=5, D=3.0)], ids=name)
@pytest.mark.parametrize("sparse", [False, True])
def test_core_features_that_are_all_zero_are_refused(planner, sparse):
    phi = (np.zeros((200, 4, 2), dtype=int), np.zeros((200, 4, 2))) if sparse else np.zeros((200, 4, 8))
    features = FunctionFeatures(
        lambda x: (phi[0][x], phi[1][x]) if sparse else phi[x], 4, 8, 1.0, nonzeros=2 if sparse else None
    )
    problem = dataclasses.replace(coreplan.make("random-linear"), features=features, tabular=None)
    with pytest.raises(InputError, match="All core features are zero: nothing can be learned"):
        plan(problem, planner=planner, budget=400)


@pytest.mark.parametrize(
    ("planner", "rows"),
    list(zip(FOUR, (8 + 2, 12 + 1, 12 + 8, 0), strict=True)),
    ids=lambda p: getattr(p, "name", ""),
)
def test_warming_up_is_cheap_and_changes_nothing(planner, rows, tmp_path, monkeypatch):
    """It makes no query, looks at few states (also of a run that has stored many), and no map sees an empty batch."""
    seen, warm_up = [], PythonLoop.warm_up

    def watched(loop):
        before = len(river.batches)
        warm_up(loop)
        seen.append(river.batches[before:])
        assert river.steps == []

    monkeypatch.setattr(PythonLoop, "warm_up", watched)
    for budget in (240, 2_400):
        river = River()
        warm = plan(river.problem, planner=planner, budget=budget, seed=1, out=tmp_path, resume=True)
        assert min(river.batches) > 0
    assert [sum(s) for s in seen] == [rows] * 2
    monkeypatch.setattr(PythonLoop, "warm_up", lambda loop: None)
    cold = plan(River().problem, planner=planner, budget=2_400, seed=1)
    assert cold.policy.theta.tobytes() == warm.policy.theta.tobytes()
    assert cold.policy.theta.any()


def test_no_lp_is_solved_for_nothing(monkeypatch):
    solved, solve = [], sampled_lp.solve_sampled
    monkeypatch.setattr(sampled_lp, "solve_sampled", lambda *a: solved.append(a) or solve(*a))
    plan(River().problem, planner=SampledLP(), budget=240)
    assert len(solved) == 1


def test_a_core_that_is_too_large_is_refused_before_a_query(monkeypatch):
    monkeypatch.setattr(frame, "LARGEST", 143)
    river = River()
    with pytest.raises(InputError, match="m = 12 core pairs and d = 12"):
        plan(river.problem, planner=SampledLP(), budget=240)
    assert river.steps == []


# Masks and ends of episodes.


@pytest.mark.parametrize("planner", FOUR, ids=name)
def test_masks_are_respected(planner):
    """Forbidden pairs are never simulated, forbidden actions never played, and the optimum under the mask is found.

    At 300 samples of each pair the best action is ahead of the next by 21 standard deviations of a sampled backup, in
    every state: a false alarm is rarer than 1e-90.
    """
    problem = masked_problem("sparse")

    def step(rng, states, actions):
        assert ALLOWED[states, actions].all()
        return problem.model.step(rng, states, actions)

    watched = dataclasses.replace(problem, model=FunctionModel(4, problem.model.initial, step))
    result = plan(watched, planner=planner, budget=3_000, seed=0)
    assert result.status is Status.FINISHED
    p = result.policy.probabilities(np.arange(S))
    assert (p[~ALLOWED] == 0).all() and np.isfinite(p).all()
    assert evaluate(problem, result.policy).sub < 0.01


@pytest.mark.parametrize("planner", FOUR, ids=name)
@pytest.mark.parametrize("rewards", [(0.0, 1.0), (-1.0, 1.0)])
def test_ends_of_episodes(planner, rewards):
    """A lake without slipping, through the terminal column: nothing is random, so the optimum is found and holes are not.

    The declared rewards (-1, 1) map what terminated states pay, 0, to 1/2; a planner that took it for 0 would fear the goal.
    """
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)

    def put(env, state):
        env.unwrapped.s = int(state[0])

    problem = from_gymnasium(
        lake, one_hot(16, 4), 0.9, get_state=lambda env: np.array([env.unwrapped.s]), set_state=put,
        reward_range=rewards,
    )  # fmt: skip
    assert problem.features.dimension == 16 * 4 + 1
    result = plan(problem, planner=planner, budget=65 * 100, seed=0)
    assert result.status is Status.FINISHED
    table = from_gymnasium(gymnasium.make("FrozenLake-v1", is_slippery=False), discount=0.9)
    theta = np.append(result.policy.theta[:64], np.zeros(4))
    judged = evaluate(table, SoftmaxPolicy(theta, result.policy.scale, table.features))
    assert judged.optimum == pytest.approx(0.1 * 0.9**5) and judged.sub < 1e-3
    if planner.name in ("plug-in", "sampled-lp"):
        assert result.policy.theta[-1] == pytest.approx(
            (0 - rewards[0]) / (rewards[1] - rewards[0]) / 0.1, abs=1e-6
        )


# Faults and resumes.


@pytest.mark.parametrize(
    "planner", [*FOUR, PlugIn(epsilon="0.01%"), CoreMirror(allocation="occupancy")], ids=name
)
def test_a_fault_costs_no_sample_and_no_bit(planner, tmp_path, monkeypatch):
    """What was answered before the fault is kept and not asked again, and the end is the same to the last bit."""
    monkeypatch.setattr(plug_in, "BATCH", 50)
    monkeypatch.setattr(sampled_lp, "BATCH", 50)
    whole = plan(River().problem, planner=planner, budget=600, seed=3)
    river = River(fail_at=4)
    with pytest.raises(SimulatorError, match="licence"):
        plan(river.problem, planner=planner, budget=600, seed=3, out=tmp_path)
    paid = sum(river.steps)
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["status"] == "failed" and record["queries"] == paid > 0
    resumed = plan(river.problem, budget=600, seed=3, out=tmp_path, resume=True)
    assert resumed.queries == whole.queries > paid
    assert sum(river.steps) == resumed.queries + resumed.rechecked_queries
    assert resumed.initial_draws == whole.initial_draws
    assert resumed.policy.theta.tobytes() == whole.policy.theta.tobytes()
    assert (resumed.policy.scale, resumed.status) == (whole.policy.scale, whole.status)
    keep = [c for c in whole.trace.columns if c != "seconds"]
    for column in keep:
        np.testing.assert_array_equal(resumed.trace[column], whole.trace[column])
