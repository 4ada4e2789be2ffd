"""`Grow`: its books, its doubts, and planning without a core set."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan import CoreSet, FunctionFeatures, FunctionModel, Grow, Problem, Status
from coreplan.base.files import read_npz, write_npz
from coreplan.run.folder import KIND, VERSION
from helpers.runs import plan


@pytest.mark.parametrize(("spec", "budget"), [("river-linear", 5000), ("inventory:features=quadratic", 6000)])
def test_plans_without_a_core_set(spec, budget):
    """Measured means over ten seeds at these budgets: .007 and .01; this seed is one of them, so no chance is involved."""
    problem = coreplan.make(spec)
    result = plan(problem, planner=Grow(), budget=budget, seed=1)
    assert result.status is Status.FINISHED and not result.reason
    assert coreplan.evaluate(problem, result.policy).sub < 0.03
    assert budget - 200 < result.queries <= budget


def test_the_books_are_right():
    """Every pair is counted once; every action of a visited state is queried; chains go on at next states."""
    problem, asked = coreplan.make("river-linear"), []

    def step(rng, states, actions):
        rewards, y = problem.model.step(rng, states, actions)
        asked.append((states.copy(), np.asarray(actions).copy(), y))
        return rewards, y

    spied = Problem(FunctionModel(3, problem.model.initial, step), problem.features, problem.discount)
    result = plan(spied, planner=Grow(), budget=2000, seed=3)
    states, actions = (np.concatenate([a[i] for a in asked]) for i in range(2))
    assert result.queries == len(actions) == result.trace["queries"][-1]
    assert (states.reshape(-1, 3) == states.reshape(-1, 3)[:, :1]).all() and (
        actions.reshape(-1, 3) == [0, 1, 2]
    ).all()
    assert isinstance(result.core, CoreSet)
    assert {(s, a) for s, a in zip(states, actions, strict=True)} == set(
        zip(result.core.states.tolist(), result.core.actions.tolist(), strict=True)
    )
    seen = {0}  # the start
    for x, _, y in asked:
        assert set(x.tolist()) <= seen
        seen |= set(y.tolist())


def test_same_seed_same_bits_and_resume(tmp_path):
    problem = coreplan.make("inventory:features=quadratic")
    whole = plan(problem, planner=Grow(), budget=1800, seed=5, out=tmp_path / "whole")

    def step(rng, states, actions):
        if step.left == 0:
            raise ValueError("out of luck")
        step.left -= 1
        return problem.model.step(rng, states, actions)

    step.left = 0
    fragile = Problem(
        FunctionModel(9, problem.model.initial, step), problem.features, problem.discount, problem.reward_range,
        name=problem.name,
    )  # fmt: skip
    for lucky in (0, 7, 1, 20, 10**9):
        step.left = lucky
        if lucky < 10**9:
            with pytest.raises(coreplan.SimulatorError, match="out of luck"):
                plan(fragile, planner=Grow(), budget=1800, seed=5, out=tmp_path / "parts", resume=True)
    parts = plan(fragile, planner=Grow(), budget=1800, seed=5, out=tmp_path / "parts", resume=True)
    assert parts.policy.theta.tobytes() == whole.policy.theta.tobytes() and parts.queries == whole.queries
    assert parts.core.states.tobytes() == whole.core.states.tobytes()
    saved = CoreSet.load(tmp_path / "parts" / "core.npz")
    assert (
        saved.states.tobytes() == whole.core.states.tobytes() and (saved.actions == whole.core.actions).all()
    )


def test_the_budget_may_be_raised(tmp_path):
    problem = coreplan.make("river-linear")
    first = plan(problem, planner=Grow(), budget=1000, seed=2, out=tmp_path)
    second = plan(problem, planner=Grow(), budget=3000, seed=2, out=tmp_path, resume=True)
    assert first.queries <= 1000 < 2900 < second.queries <= 3000
    assert coreplan.evaluate(problem, second.policy).sub < 0.1


def test_damaged_checkpoints_are_refused(tmp_path):
    problem = coreplan.make("river-linear")
    plan(problem, planner=Grow(), budget=600, out=tmp_path)
    path = tmp_path / "checkpoint.npz"
    arrays, meta = read_npz(path, KIND, VERSION)
    for name, change in {
        "next_index": lambda a: a + 1000,
        "pair_weight": lambda a: a[:-1],
        "rewards": lambda a: a.astype(np.float32),
        "filled": lambda a: a + 10**6,
        "kind": lambda a: a[:0],
    }.items():
        write_npz(path, {**arrays, f"state.{name}": change(arrays[f"state.{name}"])}, meta)
        with pytest.raises(coreplan.FileError, match="damaged"):
            plan(problem, planner=Grow(), budget=900, out=tmp_path, resume=True)


def chain(length, goal_reward):
    """A corridor: action 1 leads on, action 0 back to the start; one-hot features."""

    def step(rng, states, actions):
        y = np.where(actions == 1, np.minimum(states + 1, length - 1), 0)
        return np.where((states == length - 1) & (actions == 1), goal_reward, 0.0), y

    def phi(states):
        return np.eye(2 * length)[2 * states[:, None] + np.arange(2)]

    model = FunctionModel(2, lambda rng, n: np.zeros(n, dtype=np.int64), step)
    return Problem(model, FunctionFeatures(phi, 2, 2 * length, 1.0), 0.9)


def test_a_long_corridor_is_explored_from_the_frontier():
    """A uniform walk reaches the end of 40 cells once in 2^39 tries; the frontier is reached by handing states back."""
    result = plan(chain(40, 1.0), planner=Grow(), budget=4000, seed=0)
    assert result.status is Status.FINISHED
    assert (result.policy.act(np.arange(39), 0) == 1).all()


def test_doubts_are_said(tmp_path):
    same = plan(chain(5, 0.0), planner=Grow(), budget=500, seed=0)
    assert same.status is Status.DOUBTFUL and "same" in same.reason
    far = plan(chain(400, 1.0), planner=Grow(), budget=400, seed=0, out=tmp_path)
    assert far.status is Status.DOUBTFUL and "Raise the budget" in far.reason
    assert '"doubtful"' in (tmp_path / "run.json").read_text()
    noisy = plan(coreplan.make("queue-network-cut:features=polynomial"), planner=Grow(), budget=1000, seed=0)
    assert noisy.status is Status.DOUBTFUL and "halves" in noisy.reason


def test_forbidden_actions_are_never_queried():
    base = chain(10, 1.0)

    def mask(states):
        return np.stack(
            [states % 2 == 0, np.ones(len(states), dtype=bool)], axis=1
        )  # no way back from odd cells

    def step(rng, states, actions):
        assert mask(states)[np.arange(len(states)), actions].all()
        return base.model.step(rng, states, actions)

    problem = Problem(FunctionModel(2, base.model.initial, step), base.features, 0.9, mask=mask)
    result = plan(problem, planner=Grow(), budget=1500, seed=0)
    assert (result.policy.act(np.arange(9), 0) == 1).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Grow(rounds=1), "at least 2"),
        (lambda: Grow(horizon=0.5), "at least 1"),
        (lambda: Grow(ridge=-1), "positive"),
        (lambda: plan(coreplan.make("river-linear"), planner=Grow(), budget=20), "Raise the budget"),
        (lambda: plan(coreplan.make("river-linear"), planner=Grow(), budget=10**13), "smaller budget"),
    ],
)
def test_bad_settings(make, words):
    with pytest.raises(coreplan.InputError) as caught:
        make()
    assert words in str(caught.value)


def test_features_that_tell_no_action_apart_are_said():
    base = chain(6, 1.0)

    def phi(states):
        return np.repeat(np.eye(6)[states][:, None], 2, axis=1)

    blind = Problem(base.model, FunctionFeatures(phi, 2, 6, 1.0), 0.9)
    result = plan(blind, planner=Grow(), budget=2000, seed=0)
    assert result.status is Status.DOUBTFUL and "features of its own" in result.reason


def test_one_action_is_no_reason_for_doubt():
    model = FunctionModel(
        1, lambda rng, n: np.zeros((n, 1)), lambda rng, x, a: (rng.random(len(x)), rng.random(x.shape))
    )
    problem = Problem(model, FunctionFeatures(lambda x: x[:, None], 1, 1, 1.0), 0.9)
    assert plan(problem, planner=Grow(), budget=500, seed=0).status is Status.FINISHED


def test_states_of_another_dtype_are_refused_not_wrapped():
    base = chain(300, 1.0)

    def step(rng, states, actions):
        return base.model.step(rng, states.astype(np.int64), actions)

    narrow = FunctionModel(2, lambda rng, n: np.zeros(n, dtype=np.int8), step)
    with pytest.raises(coreplan.SimulatorError, match="int64"):
        plan(Problem(narrow, base.features, 0.9), planner=Grow(), budget=1000)


def test_a_given_core_does_not_hide_what_was_queried():
    problem = coreplan.make("river-linear")
    result = plan(problem, CoreSet.of(problem), Grow(), budget=600)
    assert len(result.core) > len(CoreSet.of(problem))
