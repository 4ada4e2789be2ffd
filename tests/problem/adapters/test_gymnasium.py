"""Gymnasium's classic control: steps to the bit, ends, truncation, wrappers; whole runs; packages that are missing."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import coreplan
from coreplan.features import dense, terminal
from coreplan.problem import alive, from_gymnasium, from_gymnax, polynomial
from coreplan.problem.adapters import environments
from coreplan.simulate import Guard
from helpers.environments import GRID, constant
from helpers.mutants import mutant


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


def test_wrappers_of_ones_own_are_kept():
    env = gymnasium.wrappers.TransformReward(gymnasium.make("MountainCar-v0"), lambda r: 7 * r)
    with pytest.raises(coreplan.InputError, match="reward_range"):
        from_gymnasium(env, GRID)
    problem = from_gymnasium(env, GRID, reward_range=(-7, 0))
    assert problem.model.step(np.random.default_rng(0), alive([[0.0, 0.0]]), np.array([1]))[0] == [-7.0]


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


MODEL_FAULTS = [
    ("over if done else np.append(self._read(), 0.0)", "np.append(self._read(), 0.0)"),
    ("self.set_state(self.env, state[:-1].reshape(self.shape))", "pass"),
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


# Packages.


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
