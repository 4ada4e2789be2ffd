"""Any environment: where its noise comes from, copies of it, and what cannot be used is refused in words."""

from __future__ import annotations

import copy

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import coreplan
from coreplan.features import terminal
from coreplan.problem import alive, from_gymnasium, one_hot
from helpers.environments import GRID, NumpyFunctional, constant


class Walk(gymnasium.Env):
    """A noisy walk on a line that ends beyond 1; `hidden` faults can be switched on."""

    observation_space = spaces.Box(-10, 10, (1,))
    action_space = spaces.Discrete(2, start=5)
    fault = ""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.time = self.np_random.uniform(-0.5, 0.5), 0
        return np.array([self.x]), {}

    def step(self, action):
        assert action in (5, 6)
        source = np.random.default_rng() if self.fault == "own noise" else self.np_random
        self.time += 1
        slope = self.time if self.fault == "clock" else 1
        self.x += 0.1 * slope * (2 * (action - 5) - 1) + 0.05 * source.standard_normal()
        done = self.time > 150 if self.fault == "hidden limit" else abs(self.x) > 1
        return np.array([self.x]), self.x / 10, done, False, {}


class Tame(Walk):
    """Leaves its state where the adapter finds it."""

    @property
    def state(self):
        return np.array([self.x])

    @state.setter
    def state(self, value):
        self.x = float(value[0])


FUNCTIONS = {
    "get_state": lambda env: [env.unwrapped.x],
    "set_state": lambda env, x: setattr(env.unwrapped, "x", x[0]),
}


def make_walk(fault="", kind=Walk):
    env = kind()
    env.fault = fault
    return env


@pytest.mark.parametrize("how", ["functions", "attribute", "copies"])
def test_noise_comes_from_the_generator_and_nowhere_else(how):
    """Same seed, same bits; and the noise is the generator's own: x + 0.1 a + 0.05 z."""
    more = {"functions": FUNCTIONS, "attribute": {}, "copies": {"copy": True}}[how]
    env = make_walk(kind=Tame if how == "attribute" else Walk)
    if how == "copies":
        with pytest.warns(UserWarning, match="deep copies"):
            problem = from_gymnasium(env, constant(2), reward_range=(-1, 1), **more)
    else:
        problem = from_gymnasium(env, constant(2), reward_range=(-1, 1), **more)
    model, rng = problem.model, np.random.default_rng(3)
    states, a = model.initial(rng, 20), rng.integers(2, size=20)
    z = copy.deepcopy(rng).standard_normal(20)
    r, y = model.step(rng, states, a)
    x = states[:, -2] + 0.1 * (2 * a - 1) + 0.05 * z
    living = np.abs(x) <= 1
    np.testing.assert_allclose(y[living, -2], x[living], rtol=1e-12)
    np.testing.assert_allclose(r, x / 10, rtol=1e-12)
    assert (y[~living] == terminal.terminated(y.shape[1] - 1)).all()


def test_copies_follow_the_state_model_and_are_bounded():
    with pytest.warns(UserWarning, match="cannot be resumed"):
        problem = from_gymnasium("MountainCar-v0", GRID, copy=True, max_copies=100)
    exact = from_gymnasium("MountainCar-v0", GRID)
    rng = np.random.default_rng(0)
    states = problem.model.initial(rng, 30)
    for _ in range(3):
        a = rng.integers(3, size=30)
        _, wanted = exact.model.step(rng, alive(states[:, 1:-1]), a)
        _, states = problem.model.step(rng, states, a)
        np.testing.assert_allclose(states[:, 1:], wanted, atol=1e-6)  # observations are float32
    first = np.array([[0.0, -0.5, 0.0, 0.0]])
    with pytest.raises(coreplan.SimulatorError, match="max_copies"):
        problem.model.step(rng, first, np.array([0]))
    assert problem.core_pairs is None and len(problem.model.copies) == 100


def cannot_copy(self, memo):
    raise TypeError("cannot pickle this")


@pytest.mark.parametrize(
    ("make", "more", "message"),
    [
        (lambda: "NoSuch-v0", {}, "NoSuch"),
        (lambda: 3, {}, "takes an environment"),
        (lambda: gymnasium.make_vec("CartPole-v1", 2), {}, "vector"),
        (lambda: "Pendulum-v1", {}, r"actions=\[-2.0, 0.0, 2.0\]"),
        (lambda: "Pendulum-v1", {"actions": []}, "at least one"),
        (lambda: "Pendulum-v1", {"actions": [[1.0, 2.0]]}, "does not fit"),
        (lambda: "CartPole-v1", {"features": None, "copy": True}, "needs features"),
        (lambda: "CartPole-v1", {"features": GRID}, "2 numbers; those of CartPole-v1 have 4"),
        (lambda: "CartPole-v1", {"core_pairs": (np.zeros((2, 2)), np.arange(2))}, r"\(m, 4\)"),
        (lambda: "CartPole-v1", {"reward_range": (1, 0)}, "lowest"),
        (lambda: "CartPole-v1", {"reward_range": (0, np.nan)}, "finite"),
        (make_walk, FUNCTIONS, "reward_range"),
        (make_walk, {"reward_range": (-1, 1)}, "Three cures"),
        (make_walk, {"reward_range": (-1, 1), "get_state": len}, "go together"),
        (lambda: make_walk("clock"), {"reward_range": (-9, 9), **FUNCTIONS}, "does not capture everything"),
        (
            lambda: make_walk("hidden limit"),
            {"reward_range": (-9, 9), **FUNCTIONS},
            "does not capture everything",
        ),
        (lambda: make_walk("own noise"), {"reward_range": (-9, 9), **FUNCTIONS}, "self.np_random"),
        (lambda: make_walk("own noise", Tame), {"reward_range": (-9, 9)}, "self.np_random"),
        (
            make_walk,
            {"reward_range": (-1, 1), **FUNCTIONS, "set_state": lambda env, x: None},
            "does not round-trip",
        ),
        (make_walk, {"reward_range": (-1, 1), **FUNCTIONS, "get_state": lambda env: "x"}, "real numbers"),
        (make_walk, {"reward_range": (-1, 1), **FUNCTIONS, "get_state": lambda env: env.y}, "AttributeError"),
        (
            lambda: type("Stuck", (Walk,), {"__deepcopy__": cannot_copy})(),
            {"reward_range": (-1, 1), "copy": True},
            "cannot pickle this.*Three cures",
        ),
        (lambda: "FrozenLake-v1", {"features": None, "actions": [0, 1]}, "leave `actions`"),
        (lambda: "FrozenLake-v1", {"features": None, "reward_range": (0, 0.5)}, "does not hold the rewards"),
        (lambda: "FrozenLake-v1", {"features": one_hot(17, 3)}, "4 actions and the features 3"),
        (NumpyFunctional, {"copy": True}, "Leave them out"),
        (lambda: "CartPole-v1", {"copy": True, "max_copies": 0}, "max_copies"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(make, more, message):
    env = make()
    arguments = {"features": constant(2), **more}
    with pytest.raises(coreplan.InputError, match=message):
        from_gymnasium(env, **arguments)


def test_self_resetting_environments_are_refused():
    inner = gymnasium.wrappers.Autoreset(Walk())
    env = gymnasium.wrappers.TransformReward(inner, lambda r: r)
    with pytest.raises(coreplan.InputError, match="resets itself"):
        from_gymnasium(env, constant(2), reward_range=(-1, 1), **FUNCTIONS)
    from_gymnasium(inner, constant(2), reward_range=(-1, 1), **FUNCTIONS)  # outermost: taken off
