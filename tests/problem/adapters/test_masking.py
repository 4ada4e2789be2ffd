"""Masks of environments: a function of the state, and what an environment tells in `info["action_mask"]`."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import coreplan
from coreplan.base import FeatureError, InputError, SimulatorError
from coreplan.problem import FunctionFeatures, from_gymnasium, interpolation


class Stairs(gym.Env):
    """Up or down by one step, between 0 and 4; it starts at 2, may not leave, and tells so. At 4 it ends."""

    observation_space, action_space = gym.spaces.Box(0, 4, (1,), np.float64), gym.spaces.Discrete(2)
    wrong = None  # what is told instead

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.array([2.0])
        return self.state.copy(), self.info()

    def step(self, action):
        self.state = np.minimum(self.state + (1.0 if action else -1.0), 4.0)
        assert 0.0 <= self.state[0] <= 4.0, "a forbidden action was taken"
        return self.state.copy(), -1.0, bool(self.state[0] == 4.0), False, self.info()

    def info(self):
        if self.wrong is not None:
            return self.wrong(self)
        return {"action_mask": np.array([self.state[0] > 0.0, True], dtype=np.int8)}


def allowed(states):
    return np.stack([states[:, 0] > 0.0, np.ones(len(states), dtype=bool)], axis=1)


FOUR = interpolation([0.0], [4.0], [5], 2)
RANDOM = FunctionFeatures(
    lambda x: np.eye(10)[2 * x[:, :1].astype(int) + [0, 1]], 2, 10, 1.0
)  # one-hot, no core


def masked(**more):
    return from_gymnasium(Stairs(), **({"features": FOUR, "reward_range": (-1, 0), "mask": allowed} | more))


def test_a_function_of_the_state_is_kept_by_core_set_and_policy():
    problem = masked()
    states, actions = problem.core_pairs
    assert ((states[:, 0] > 0) | (actions == 1) | (states[:, 1] == 1)).all() and len(actions) == 10
    plan = coreplan.plan(problem, planner=coreplan.PlugIn(samples=1), reality=0)
    assert plan.policy.probabilities([[0.0]]).tolist() == [[0.0, 1.0]]
    assert plan.policy.act(np.array([[1.0], [3.0]])).tolist() == [1, 1]
    assert plan.policy.predict(np.array([0.0]))[0] == 1


def test_what_the_environment_tells_is_known_of_states_that_it_has_shown():
    problem = masked(features=RANDOM, mask="info")
    plan = coreplan.plan(problem, planner=coreplan.Grow(), budget=200, reality=0)
    assert plan.policy.act(np.array([[0.0], [1.0], [2.0], [3.0]])).tolist() == [1, 1, 1, 1]
    with pytest.raises(FeatureError, match=r"has not told which actions the state \[0.5\] allows"):
        plan.policy.act(np.array([[0.5]]))


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        (lambda env: {}, "must tell info"),
        (lambda env: {"action_mask": [1, 1, 1]}, "2 zeros and ones"),
        (lambda env: {"action_mask": [2, 0]}, "2 zeros and ones"),
        (lambda env: {"action_mask": [env.np_random.random() < 0.5, True]}, "told two masks for the state"),
    ],
)
def test_what_it_tells_must_be_a_mask_and_a_function_of_the_state(wrong, part, monkeypatch):
    monkeypatch.setattr(Stairs, "wrong", staticmethod(wrong))
    with pytest.raises(SimulatorError, match=part):
        masked(features=RANDOM, mask="info").model.initial(np.random.default_rng(0), 100)


def test_a_table_has_a_mask_of_its_own():
    name = "Taxi-v4" if "Taxi-v4" in gym.registry else "Taxi-v3"
    problem, env = from_gymnasium(name, mask="info"), gym.make(name).unwrapped
    allowed = problem.mask(np.arange(501))
    assert np.array_equal(allowed[:500], [env.action_mask(s).astype(bool) for s in range(500)])
    assert allowed[500].all() and len(problem.core_pairs[1]) == allowed.sum()
    lake = from_gymnasium(
        "FrozenLake-v1", mask=lambda s: np.stack([s >= 0, s >= 0, s % 4 != 3, s > 3], axis=1)
    )
    assert lake.mask(np.array([3, 7, 16])).tolist() == [[1, 1, 0, 0], [1, 1, 0, 1], [1, 1, 1, 1]]


def test_what_is_no_mask_is_refused():
    for mask in ("told", 3, [[True, False]]):
        with pytest.raises(InputError, match="mask"):
            masked(mask=mask)
    with pytest.raises(InputError, match="has no action_mask"):
        from_gymnasium("FrozenLake-v1", mask="info")
