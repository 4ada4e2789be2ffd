"""Adapters: episodes that end, Gymnasium, functional environments, gymnax and JAX."""

from __future__ import annotations

import copy
import runpy
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

import coreplan
from coreplan.features import dense, terminal
from coreplan.judge import policy_value
from coreplan.problem import (
    FunctionFeatures,
    Sparse,
    alive,
    checked,
    fingerprint,
    from_gymnasium,
    from_gymnax,
    from_jax,
    interpolation,
    one_hot,
    polynomial,
    widened,
    with_terminal,
)
from coreplan.problem.adapters import environments, tables
from coreplan.problem.adapters import jax as jax_adapter
from coreplan.problem.adapters.common import Packing
from coreplan.simulate import Guard
from mutants import mutant

BENCH = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "mountain_car_adapters.py"))
LOW, HIGH = BENCH["LOW"], BENCH["HIGH"]
GRID = interpolation(LOW, HIGH, (5, 4), 3)
WAVES = FunctionFeatures(  # dense
    lambda states: np.sin(states[:, :1, None] * np.arange(1, 13).reshape(1, 3, 4)), 3, 4, 2.0, name="waves"
)
TAXI = "Taxi-v4" if "Taxi-v4" in gymnasium.registry else "Taxi-v3"
CLIFF = "CliffWalking-v1" if "CliffWalking-v1" in gymnasium.registry else "CliffWalking-v0"


def constant(n_actions):
    """Features for tests of models only."""
    return FunctionFeatures(
        lambda states: np.ones((len(states), n_actions, 1)), n_actions, 1, 1.0, name="one"
    )


# The terminal column.


@pytest.mark.parametrize("base", [GRID, WAVES], ids=["sparse", "dense"])
def test_terminated_states_have_a_feature_of_their_own(base):
    features = with_terminal(base)
    states = np.random.default_rng(0).uniform(LOW, HIGH, (50, 2))
    mixed = alive(states)
    mixed[::5] = terminal.terminated(2)
    mixed[::10, :2] = np.nan  # the other columns of a terminated state are never looked at
    phi = checked(features, mixed)
    assert isinstance(phi, Sparse) == isinstance(base(states), Sparse)
    assert features.nonzeros == base.nonzeros and features.radius == max(base.radius, 1.0)
    d = base.dimension
    wanted = np.concatenate([dense(base(states), d), np.zeros((50, 3, 1))], axis=2)
    wanted[::5] = np.eye(d + 1)[d]
    np.testing.assert_array_equal(dense(phi, d + 1), wanted)


def test_the_core_gets_the_column_and_one_pair():
    features = with_terminal(GRID)
    core = coreplan.CoreSet(*features.core())
    assert len(core) == 5 * 4 * 3 + 1
    np.testing.assert_array_equal(dense(core.features(features), features.dimension), np.eye(len(core)))
    assert core.states[-1].tolist() == [0.0, 0.0, 1.0] and core.actions[-1] == 0
    assert with_terminal(GRID, observe=np.sin).core is None


def test_terminal_features_have_their_own_fingerprint():
    others = [
        GRID,
        with_terminal(GRID),
        with_terminal(GRID, observe=np.sin),
        with_terminal(WAVES),
    ]
    assert len({fingerprint(features) for features in others}) == len(others)


def test_whole_states_and_wrong_states():
    features = with_terminal(one_hot(4, 2))
    phi = dense(features(np.array([[2.0, 0.0], [0.0, 1.0]])), 9)
    np.testing.assert_array_equal(phi.argmax(axis=2), [[4, 5], [8, 8]])
    with pytest.raises(coreplan.FeatureError, match="alive"):
        features(np.arange(3.0))
    with pytest.raises(coreplan.FeatureError, match="2 columns; these have 3"):
        with_terminal(GRID)(np.zeros((1, 4)))
    with pytest.raises(coreplan.InputError, match="already"):
        with_terminal(features)
    with pytest.raises(coreplan.InputError, match="batches"):
        alive(1.0)


def test_ranges_are_widened_to_contain_zero():
    assert [widened(r) for r in [(-3, -1), (2, 5), (-1, 1), (0, 0)]] == [(-3, 0), (0, 5), (-1, 1), (0, 1)]


# Classic control.


@pytest.mark.parametrize(
    ("name", "actions"),
    [
        ("CartPole-v1", None),
        ("MountainCar-v0", None),
        ("Acrobot-v1", None),
        ("Pendulum-v1", [-2.0, 0.0, 2.0]),
    ],
)
def test_classic_control_steps_as_the_environment_does(name, actions):
    """From each state of real episodes, to the bit, in an order that the environment never saw."""
    env = gymnasium.make(name)
    A = int(env.action_space.n) if actions is None else len(actions)
    problem = from_gymnasium(name, constant(A), actions=actions)
    rng, rows = np.random.default_rng(0), []
    for episode in range(3):
        env.reset(seed=episode)
        for _ in range(60):
            before, a = np.array(env.unwrapped.state, dtype=float), int(rng.integers(A))
            _, reward, done, _, _ = env.step(a if actions is None else np.array([actions[a]], np.float32))
            after = np.array(env.unwrapped.state, dtype=float)
            rows.append(
                (before, a, reward, np.append(after, 0) if not done else terminal.terminated(len(after)))
            )
            if done:
                break
    states, a, rewards, after = (np.array(column) for column in zip(*rows, strict=True))
    order = rng.permutation(len(a))
    r, y = problem.model.step(rng, alive(states[order]), a[order])
    np.testing.assert_array_equal(r, rewards[order])
    np.testing.assert_array_equal(y, after[order])
    again = Guard(problem).step(rng, y, a[order])  # rewards within the known range
    np.testing.assert_array_equal(again[1][y[:, -1] == 1], y[y[:, -1] == 1])


def test_cart_pole_ends_again_and_again_and_pays_zero_after():
    """Many falls in one batch: the environment's memory of an end (`steps_beyond_terminated`) must not leak."""
    problem = from_gymnasium("CartPole-v1", constant(2))
    falling = np.tile([2.39, 2.0, 0.0, 0.0, 0.0], (5, 1))
    r, y = problem.model.step(np.random.default_rng(0), falling, np.ones(5, dtype=int))
    assert r.tolist() == [1.0] * 5 and (y == terminal.terminated(4)).all()
    r, y = problem.model.step(np.random.default_rng(0), y, np.ones(5, dtype=int))
    assert r.tolist() == [0.0] * 5 and (y == terminal.terminated(4)).all()


def test_truncation_is_not_termination():
    env = gymnasium.wrappers.TimeLimit(gymnasium.make("MountainCar-v0"), 3)
    problem = from_gymnasium(env, GRID)
    rng = np.random.default_rng(0)
    states = problem.model.initial(rng, 1)
    for _ in range(400):
        states = problem.model.step(rng, states, np.array([1]))[1]
        assert states[0, -1] == 0.0


def test_observations_can_be_what_features_see():
    def cosines(states):
        return np.stack([np.cos(states[:, 0]), np.sin(states[:, 0])], axis=1)

    seen = polynomial([-1, -1], [1, 1], 1, 3)
    pairs = (np.zeros((3, 2)), np.arange(3))
    problem = from_gymnasium("Pendulum-v1", seen, actions=[-2, 0, 2], observe=cosines, core_pairs=pairs)
    states = problem.model.initial(np.random.default_rng(0), 5)
    np.testing.assert_array_equal(
        dense(problem.features(states), seen.dimension + 1)[:, :, :-1],
        dense(seen(cosines(states[:, :2])), seen.dimension),
    )
    assert problem.core_pairs[0].shape == (4, 3) and problem.core_pairs[1].tolist() == [0, 1, 2, 0]


# Toy text.


def quantecon_optimum(env, discount, start):
    """E[V*] in the environment's own rewards, from its table and an independent solver."""
    from quantecon.markov import DiscreteDP

    P = env.unwrapped.P
    S, A = len(P), len(P[0])
    R, Q = np.zeros((S + 1, A)), np.zeros((S + 1, A, S + 1))
    Q[S, :, S] = 1.0
    for s in range(S):
        for a in range(A):
            for p, y, r, done in P[s][a]:
                R[s, a] += p * r
                Q[s, a, S if done else y] += p
    V = DiscreteDP(R, Q, discount).solve(method="policy_iteration").v
    return float(start @ V[:S])


@pytest.mark.parametrize(("name", "samples"), [("FrozenLake-v1", 1000), (TAXI, 1), (CLIFF, 1)])
def test_toy_text_planned_against_quantecon(name, samples):
    """The exact value of a policy planned from samples, within 1e-3 normalised of the optimum."""
    problem = from_gymnasium(name, discount=0.95)
    policy = BENCH["sampled_value_iteration"](problem, samples)
    judged = coreplan.evaluate(problem, policy)
    env = gymnasium.make(name)
    best = quantecon_optimum(env, 0.95, env.unwrapped.initial_state_distrib)
    low, high = problem.reward_range
    assert judged.exact
    assert judged.optimum == pytest.approx((0.05 * best - low) / (high - low), abs=1e-9)
    assert judged.optimum - 1e-3 <= judged.value <= judged.optimum + 1e-9


def test_cliff_walking_has_its_closed_form():
    """13 steps of -1 and then nothing: (1 - gamma) times the return is -(1 - gamma^13), in the user's units."""
    problem = from_gymnasium(CLIFF, discount=0.95)
    assert problem.reward_range == (-100.0, 0.0) and problem.compiled
    optimum = coreplan.evaluate(problem, coreplan.SoftmaxPolicy.uniform(problem.features)).optimum
    assert problem.to_reward_units(optimum) == pytest.approx(-(1 - 0.95**13))


def test_the_compiled_table_draws_what_the_environment_draws():
    """Successors of every pair of FrozenLake: frequencies of 9,000 draws are within 6 standard deviations of P,
    rarer than 1e-8 for each of some 200 entries."""
    problem = from_gymnasium("FrozenLake-v1", discount=0.9)
    table, n = problem.tabular(), 9000
    P = np.asarray(table.P.todense())
    for z in range(0, len(P), 5):
        x, a = divmod(z, 4)
        _, y = problem.model.step(np.random.default_rng(z), np.full(n, x), np.full(n, a))
        found = np.bincount(y, minlength=len(P[0])) / n
        assert (np.abs(found - P[z]) <= 6 * np.sqrt(P[z] * (1 - P[z]) / n) + 1e-12).all()


# Any environment.


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


class Position(NamedTuple):
    x: float
    cell: np.ndarray


class NumpyFunctional:
    """A functional environment of an old signature (`terminal(state)`), with a structured state."""

    action_space = spaces.Discrete(3)

    def initial(self, rng):
        return {"place": Position(rng.random(), np.array([3, 2**40])), "t": 0}

    def transition(self, state, action, rng):
        place = state["place"]
        return {"place": Position(place.x + rng.random(), place.cell + action), "t": state["t"] + 1}

    def reward(self, state, action, next_state):
        assert isinstance(state["t"], int) and state["place"].cell.dtype == np.int64
        return next_state["place"].x - state["place"].x

    def terminal(self, state):
        return state["place"].x > 1.5


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


def test_wrappers_of_ones_own_are_kept():
    env = gymnasium.wrappers.TransformReward(gymnasium.make("MountainCar-v0"), lambda r: 7 * r)
    with pytest.raises(coreplan.InputError, match="reward_range"):
        from_gymnasium(env, GRID)
    problem = from_gymnasium(env, GRID, reward_range=(-7, 0))
    assert problem.model.step(np.random.default_rng(0), alive([[0.0, 0.0]]), np.array([1]))[0] == [-7.0]


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
        (lambda: "CartPole-v1", {"features": None}, "needs features"),
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


@pytest.mark.parametrize(
    ("package", "call"), [("gymnasium", from_gymnasium), ("jax", from_gymnax), ("gymnax", from_gymnax)]
)
def test_missing_packages_name_the_extra(package, call, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    extra = "gymnasium" if package == "gymnasium" else "gymnax"
    with pytest.raises(coreplan.InputError, match=rf"pip install 'coreplan\[{extra}\]'"):
        call("MountainCar-v0", GRID)


def test_optional_packages_are_not_imported_unasked():
    code = "import sys, coreplan; print([p for p in ('gymnasium', 'jax', 'gymnax', 'sklearn') if p in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


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


def test_a_whole_run_through_an_adapter(tmp_path):
    """plan, save and load work on states with a terminal column; the sparse features stay sparse."""
    problem = from_gymnasium("MountainCar-v0", GRID, 0.9)
    planner = coreplan.PrimalDual(K=20, eta=1e-3, beta=0.05, alpha=0.05, output="last")
    result = coreplan.plan(problem, planner=planner, budget=2_000, seed=0)
    result.policy.save(tmp_path / "p.npz")
    policy = coreplan.load_policy(tmp_path / "p.npz", problem=problem)
    states = problem.model.initial(np.random.default_rng(0), 4)
    np.testing.assert_array_equal(policy.probabilities(states), result.policy.probabilities(states))


# Deliberate faults.

FAULTS = [
    (tables, "np.where(rows[:, 5] != 0, S, target)", "target"),  # ends that do not end
    (tables, "np.full(A, S)", "np.full(A, 0)"),  # an end that starts again
    (tables, "low, high = reward_bounds(given, found, name)", "low, high = found"),  # an end that pays -1
]


@pytest.mark.parametrize(("module", "old", "new"), FAULTS)
def test_faults_in_tables_are_noticed(module, old, new, tmp_path, monkeypatch):
    broken = mutant(module, old, new, tmp_path, monkeypatch)
    env = gymnasium.make(CLIFF).unwrapped
    problem = broken.from_tables(env, None, 0.95, "broken")
    optimum = coreplan.evaluate(problem, coreplan.SoftmaxPolicy.uniform(problem.features)).optimum
    assert problem.to_reward_units(optimum) != pytest.approx(-(1 - 0.95**13))


MODEL_FAULTS = [
    (
        "            if not done:\n                next_states[i, :-1], next_states[i, -1] = self._read(), 0.0",
        "            if True:\n                next_states[i, :-1], next_states[i, -1] = self._read(), 0.0",
    ),
    ("self.set_state(self.env, states[i, :-1].reshape(self.shape))", "pass"),
]


@pytest.mark.parametrize(("old", "new"), MODEL_FAULTS)
def test_faults_in_models_are_noticed(old, new, tmp_path, monkeypatch):
    broken = mutant(environments, old, new, tmp_path, monkeypatch)
    env = gymnasium.make("CartPole-v1").unwrapped
    get, put = (
        (lambda env: env.state),
        (lambda env, x: env.__dict__.update(state=x, steps_beyond_terminated=None)),
    )
    rng = np.random.default_rng(0)
    states = np.array([[2.39, 2.0, 0, 0, 0], [0, 0, 0.1, 0, 0], [0, 0, 0.2, 3.0, 0]])
    a = np.array([1, 0, 1])
    right, wrong = (
        kind.StateModel(env, [0, 1], get, put).step(rng, states, a)[1] for kind in (environments, broken)
    )
    assert not np.array_equal(right, wrong)


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


def test_a_fault_in_the_features_is_noticed(tmp_path, monkeypatch):
    broken = mutant(terminal, "phi[living, :, -1] = 0.0", "pass", tmp_path, monkeypatch)
    with pytest.raises(AssertionError):
        base = WAVES
        states = alive(np.zeros((1, 2)))
        np.testing.assert_array_equal(broken.with_terminal(base)(states), with_terminal(base)(states))


def test_policy_values_are_exact_through_the_table():
    """The uniform policy on FrozenLake: the table's value against a plain power sum over its matrix."""
    problem = from_gymnasium("FrozenLake-v1", discount=0.9)
    table = problem.tabular()
    P = np.asarray(table.P.todense()).reshape(17, 4, 17).mean(axis=1)
    V, r = np.zeros(17), table.r.mean(axis=1)
    for _ in range(400):
        V = r + 0.9 * P @ V
    uniform = coreplan.SoftmaxPolicy.uniform(problem.features)
    assert policy_value(table, uniform, 0.9) == pytest.approx(0.1 * table.nu0 @ V, abs=1e-12)


def test_the_box_is_seen_through_the_terminal_column():
    narrow = interpolation([-0.7, -0.01], [-0.45, 0.01], [5, 5], 3)
    problem = coreplan.from_gymnasium("MountainCar-v0", narrow, 0.99)
    with pytest.warns(coreplan.CoverageWarning, match="clip"):
        coreplan.plan(problem, planner=coreplan.Grow(rounds=2), budget=600)


def test_tables_that_the_environment_does_not_follow_are_refused():
    gym = pytest.importorskip("gymnasium")
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

    class Paid(FrozenLakeEnv):
        def step(self, action):
            state, reward, *rest = super().step(action)
            return state, reward - 0.5, *rest

    assert issubclass(Paid, gym.Env)
    with pytest.raises(coreplan.InputError, match="does not do what its table"):
        coreplan.from_gymnasium(Paid())
