"""`rollout`: what happened, step by step, is what the model does, in the units and with the ends that the problem says."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan import rollout
from coreplan.base import InputError
from coreplan.policy import SoftmaxPolicy
from coreplan.problem import FunctionModel, Problem, interpolation, make


def line(**more):
    """From 0 to the right by 0.25 (action 1) or not at all (action 0); a step costs 2 and the position is paid."""

    def step(rng, states, actions):
        after = np.clip(states + 0.25 * actions[:, None], 0.0, 1.0)
        return after[:, 0] - 2.0, after

    model = FunctionModel(2, lambda rng, n: np.zeros((n, 1)), step)
    phi = interpolation([0.0], [1.0], [5], 2)
    return Problem(model, phi, **({"discount": 0.9, "reward_range": (-2, 1)} | more))


def test_every_step_is_the_models_own():
    found = rollout(line(), 1, episodes=2, steps=6)
    assert found.states[:, 0].tolist() == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0] * 2
    assert found.next_states[:, 0].tolist() == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0] * 2
    assert found.rewards == pytest.approx(found.next_states[:, 0] - 2.0)
    assert found.episode.tolist() == [0] * 6 + [1] * 6 and found.step.tolist() == [*range(6)] * 2
    assert (found.actions == 1).all() and not found.ended.any() and len(found) == found.queries == 12
    assert found.returns == pytest.approx([sum(0.9**t * r for t, r in enumerate(found.rewards[:6]))] * 2)
    assert found.lengths.tolist() == [6, 6] and found.initial_states.tolist() == [[0.0], [0.0]]


def test_an_end_ends_an_episode_and_costs_no_more_queries():
    walker = lambda states: (states[:, 0] < 2).astype(np.int64)  # noqa: E731  # always to the right
    found = rollout(line(ends=lambda states: states[:, 0] >= 0.75), walker, episodes=3)
    assert found.lengths.tolist() == [3] * 3 and found.queries == 9
    assert found.ended.tolist() == [False, False, True] * 3
    over = rollout(line(ends=lambda states: states[:, 0] >= 0.0), 0, episodes=3)
    assert (
        len(over) == over.queries == 0 and over.returns.tolist() == [0.0] * 3 and over.states.shape == (0, 1)
    )


def test_with_a_horizon_rewards_are_the_users_own():
    found = rollout(line(discount=1.0, horizon=4), 1)
    assert found.lengths.tolist() == [4] * 10 and found.ended.reshape(10, 4)[:, 3].all()
    assert found.rewards[:4] == pytest.approx([-1.75, -1.5, -1.25, -1.0])
    assert found.returns == pytest.approx([-5.5] * 10)


def test_returns_are_on_average_the_value():
    """8 standard errors: by chance in fewer than one run of a million, whatever the seed."""
    problem = make("river-swim")
    policy = SoftmaxPolicy(np.tile([0.0, 1.0], 6), 1.0, problem.features)
    found = rollout(problem, policy, episodes=400, seed=3)
    exact = problem.to_return_units(coreplan.evaluate(problem, policy).value)
    error = found.returns.std() / np.sqrt(400)
    assert 0 < error < 0.1 * exact and abs(found.returns.mean() - exact) < 8 * error


def test_the_same_seed_gives_the_same_bits():
    problem = make("inventory:grid=2")
    policy = SoftmaxPolicy(np.random.default_rng(0).normal(size=36), 1.0, problem.features)
    one, two, three = (rollout(problem, policy, episodes=4, steps=9, seed=s) for s in (5, 5, 6))
    for name in ("states", "actions", "rewards", "next_states", "episode", "step"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert not np.array_equal(one.actions, three.actions)


def test_what_does_not_fit_into_memory_is_refused_before_it_is_simulated():
    with pytest.raises(InputError, match="would keep"):
        rollout(line(), 0, episodes=1000, steps=10**15)
