"""Functional environments, JAX and gymnax; the same MountainCar three times."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coreplan
from coreplan.features import terminal
from coreplan.problem import alive, from_gymnasium, from_gymnax, from_jax
from coreplan.problem.adapters import jax as jax_adapter
from coreplan.problem.adapters.common import Packing
from helpers.environments import BENCH, GRID, LOW, NumpyFunctional, constant
from helpers.mutants import mutant

# Functional environments.


def test_numpy_functional_environments():
    problem = from_gymnasium(NumpyFunctional(), constant(3), reward_range=(0, 1))
    rng = np.random.default_rng(0)
    states = problem.model.initial(rng, 50)
    a, z = rng.integers(3, size=50), copy.deepcopy(rng).random(50)
    r, y = problem.model.step(rng, states, a)
    np.testing.assert_allclose(r, z)
    x = states[:, 0] + z
    wanted = np.stack([x, 3.0 + a, 2.0**40 + a, np.ones(50), np.zeros(50)], axis=1)
    wanted[x > 1.5] = terminal.terminated(4)
    np.testing.assert_allclose(y, wanted)
    assert 0 < (x > 1.5).sum() < 50


@pytest.mark.parametrize("whole", [True, False], ids=["environment", "functions"])
def test_jax_functional_environments(whole):
    """phys2d's CartPole, by id and as functions, against its own functions called by hand."""
    from gymnasium.envs.phys2d.cartpole import CartPoleFunctional

    hand = CartPoleFunctional()
    problem = from_gymnasium("phys2d/CartPole-v1" if whole else hand, constant(2))
    assert problem.reward_range == (0.0, 1.0)
    rng = np.random.default_rng(0)
    states = problem.model.initial(rng, 10)
    states[:5, 0] = 2.39
    states[:5, 1] = 3.0
    a = rng.integers(2, size=10)
    r, y = problem.model.step(rng, states, a)
    assert r.tolist() == [1.0] * 10
    for n in range(10):
        after = hand.transition(states[n, :4].astype(np.float32), int(a[n]))
        wanted = terminal.terminated(4) if n < 5 else np.append(after, 0.0)
        np.testing.assert_allclose(y[n], wanted, rtol=1e-5, atol=1e-7)


def test_gymnasium_tables_in_jax_have_whole_states():
    problem = from_gymnasium(
        "tabular/CliffWalking-v0", constant(4), reward_range=(-100, 0), actions=[0, 1, 2, 3]
    )
    assert problem.model.names == ["player_position", "last_action", "fallen"]
    states, rng = problem.model.initial(np.random.default_rng(0), 1), np.random.default_rng(0)
    total = 0.0
    for a in [0, *[1] * 11, 2]:
        r, states = problem.model.step(rng, states, np.array([a]))
        total += r[0]
    assert total == -13.0 and (states == terminal.terminated(4)).all()
    r, states = problem.model.step(rng, problem.model.initial(rng, 1), np.array([1]))
    assert r[0] == -100.0 and states[0, :2].tolist() == [3.0, 0.0]


# JAX and gymnax.


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=5), st.floats(width=32, allow_nan=False)
)
def test_packing_is_exact(whole, real):
    leaves = [
        np.array([whole], np.int32),
        np.array([real], np.float32),
        np.array([[True]]),
        np.zeros((1, 2, 2), np.uint8),
    ]
    packing = Packing.of([leaf[0] for leaf in leaves])
    rows = packing.pack(leaves, 1)
    assert rows.shape == (1, packing.columns)
    for leaf, again in zip(leaves, packing.unpack(rows), strict=True):
        assert leaf.dtype == again.dtype
        np.testing.assert_array_equal(leaf, again)


def test_packing_refuses_what_would_be_rounded():
    with pytest.raises(coreplan.SimulatorError, match="2\\^53"):
        Packing.of([np.array(1)]).pack([np.array([2**53 + 1])], 1)
    with pytest.raises(coreplan.InputError, match="real numbers"):
        Packing.of([np.array("x")])


def jax_walk():
    import jax

    def initial(key):
        return {"x": jax.random.uniform(key), "n": 7, "big": jax.numpy.uint32(4_000_000_001)}

    def step(key, state, action):
        x = state["x"] + 0.5 * jax.random.uniform(key) + 0.1 * action
        return 1.0000001 * action, {**state, "x": x, "n": state["n"] + action}, x > 1.2

    return initial, step


def test_jax_functions_of_one_state():
    """Columns in JAX's order, whole numbers exact, the same bits from the same seed, noise of its own for every query."""
    problem = from_jax(*jax_walk(), 2, constant(2))
    model = problem.model
    assert model.names == ["big", "n", "x"]
    states = model.initial(np.random.default_rng(0), 1000)
    a = np.arange(1000) % 2
    r, y = model.step(np.random.default_rng(1), states, a)
    _, y2 = model.step(np.random.default_rng(1), states, a)
    np.testing.assert_array_equal(y, y2)
    assert (r == a).all()  # 1.0000001 is 1 but for float32's rounding
    living = y[:, -1] == 0
    assert 100 < living.sum() < 900 and (y[~living] == terminal.terminated(3)).all()
    assert (y[living, 0] == 4_000_000_001).all() and (y[living, 1] == 7 + a[living]).all()
    noise = (y[living, 2] - states[living, 2] - 0.1 * a[living]) / 0.5
    assert noise.min() >= -1e-6 and noise.max() <= 1 + 1e-6 and len(np.unique(noise)) == living.sum()
    np.testing.assert_array_equal(
        model.step(np.random.default_rng(1), states[:3], a[:3])[1], y[:3]
    )  # padding


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_actions": 0}, "whole number"),
        ({"actions": [1.0]}, "1 values for n_actions=2"),
        ({"drop": ["y"]}, "no part 'y'"),
        ({"initial": lambda key: 1 / 0}, "ZeroDivisionError"),
        ({"initial": lambda key: "state"}, "initial"),
        ({"step": lambda key, state, action: (0.0, state)}, "reward, next_state, terminated"),
        ({"step": lambda key, state, action: (0.0, {"x": 0.0}, False)}, "looks like"),
        ({"step": lambda key, state, action: (0.0, {**state, "n": 0.5}, False)}, "'n' is int32 .* float32"),
        ({"step": lambda key, state, action: (0.0, state if action else 0, False)}, "pure JAX"),
    ],
)
def test_jax_functions_that_cannot_be_used(change, message):
    initial, step = jax_walk()
    arguments = {"initial": initial, "step": step, "n_actions": 2, "features": constant(2), **change}
    with pytest.raises(coreplan.InputError, match=message):
        from_jax(**arguments)


def test_gymnax_clocks_are_dropped_or_needed():
    with pytest.raises(coreplan.InputError, match="depends on time"):
        from_gymnax("DiscountingChain-bsuite", constant(5), reward_range=(0, 2))
    kept = from_gymnax("DiscountingChain-bsuite", constant(5), reward_range=(0, 2), drop=())
    assert kept.model.names[0] == "time"
    with pytest.raises(coreplan.InputError, match="gymnax has no environment"):
        from_gymnax("MountainCar-v9", GRID)
    with pytest.raises(coreplan.InputError, match="takes a gymnax environment"):
        from_gymnax(3, GRID)


class OldCar:
    """MountainCar as gymnax had it before 1.0: `step_env` tells one `done`, the time limit included."""

    def __init__(self, env):
        self.env = env
        self.name, self.default_params, self.reset_env = env.name, env.default_params, env.reset_env
        self.action_space = env.action_space

    def step_env(self, key, state, action, params):
        observation, after, reward, over, info = self.env.step_env(key, state, action, params)
        return observation, after, reward, over | (after.time >= params.max_steps_in_episode), info


@pytest.mark.parametrize("old", [False, True], ids=["1.0", "before"])
def test_the_time_limit_of_gymnax_stands_with_the_whole_state_and_is_lifted_without_the_clock(old):
    import gymnax

    env, _ = gymnax.make("MountainCar-v0")
    assert hasattr(env, "is_truncated")  # gymnax 1.0 or newer; the other case is written out above
    env = OldCar(env) if old else env
    rng, idle = np.random.default_rng(0), np.ones(1, dtype=int)
    for drop, ends in (((), 200), (None, 0)):
        model = from_gymnax(env, constant(3), reward_range=(-1, 0), drop=drop).model
        states = model.initial(rng, 1)
        if drop is None:
            assert "time" not in model.names
        else:  # a car that does nothing never arrives: only the clock moves it
            states[0, model.names.index("time")] = 195.0
        over = []
        for _ in range(8):
            _, states = model.step(rng, states, idle)
            over.append(bool(terminal.ended(states)[0]))
        assert over == ([False] * 4 + [True] * 4 if ends else [False] * 8)


JAX_FAULTS = [
    ("before | np.asarray(done)[:n]", "before"),  # ends that do not end
    ("np.where(before, 0.0, np", "np.where(before & False, 0.0, np"),  # an end that goes on paying
    ("dtype=np.uint32))", "dtype=np.uint32) * 0)"),  # the same noise for all
]


@pytest.mark.parametrize(("old", "new"), JAX_FAULTS)
def test_faults_in_jax_models_are_noticed(old, new, tmp_path, monkeypatch):
    broken = mutant(jax_adapter, old, new, tmp_path, monkeypatch)
    states = alive([[7.0, 0.0, 0.1], [7.0, 0.0, 1.1], [0.0, 0.0, 0.0]])
    states[2, 3] = 1.0
    answers = [
        module.JaxModel(*jax_walk(), np.arange(2), (0.0, 1.0), "walk").step(
            np.random.default_rng(0), states, np.ones(3, dtype=int)
        )
        for module in (jax_adapter, broken)
    ]
    (r, y), (r_broken, y_broken) = answers
    assert r.tolist() == [1.0, 1.0, 0.0] and y[:, -1].tolist() == [0.0, 1.0, 1.0]
    assert not (np.array_equal(r, r_broken) and np.array_equal(y, y_broken))


# The same MountainCar three times.


@pytest.fixture(scope="module")
def cars():
    return BENCH["problems"](31, 0.995)


def test_three_mountain_cars_are_one(cars):
    """The built-in, Gymnasium's (to the bit) and gymnax's (to float32) on 4,000 pairs, walls and goal included."""
    rng = np.random.default_rng(0)
    states = rng.uniform(LOW, (0.4999, 0.07), (4000, 2))
    states[:200, 0], states[200:600, 0] = -1.2, rng.uniform(0.4, 0.4999, 400)
    a = rng.integers(3, size=4000)
    _, known = cars["built in"].model.step(rng, states, a)
    goal = (known == [0.6, 0.07]).all(axis=1)
    assert goal.sum() > 50
    for name, close in (("gymnasium", 0.0), ("gymnax", 3e-7)):
        r, y = cars[name].model.step(rng, alive(states), a)
        np.testing.assert_array_equal(y[:, -1], goal)
        np.testing.assert_allclose(y[~goal, :2], known[~goal], rtol=0, atol=close)
        assert (r == -1.0).all()


def test_gymnax_does_not_run_out_of_time(cars):
    model, rng = cars["gymnax"].model, np.random.default_rng(0)
    assert model.names == ["position", "velocity"]
    states = model.initial(rng, 4)
    for _ in range(400):
        states = model.step(rng, states, np.ones(4, dtype=int))[1]
    assert not states[:, -1].any()


def test_planned_in_gymnax_driven_in_gymnasium(cars):
    """Values of policies planned through the three agree, and gymnax's solves the real MountainCar-v0."""
    policies = {name: BENCH["sampled_value_iteration"](problem) for name, problem in cars.items()}
    judged = {name: coreplan.evaluate(p, policies[name], rollouts=100) for name, p in cars.items()}
    assert max(j.low for j in judged.values()) <= min(j.high for j in judged.values())
    steps = BENCH["drive"](policies["gymnax"])
    assert (steps < 200).all() and steps.mean() < 120


@pytest.mark.long
def test_finer_grids_drive_better():
    problem = BENCH["problems"](61, 0.995)["gymnax"]
    steps = BENCH["drive"](BENCH["sampled_value_iteration"](problem))
    assert (steps < 200).all() and steps.mean() < 103
