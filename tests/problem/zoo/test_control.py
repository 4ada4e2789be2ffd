"""Pendulum, cart-pole, acrobot and mountain car: Gymnasium's own steps, and solved through their core sets."""

from __future__ import annotations

import math

import numpy as np
import pytest

import coreplan
from coreplan.features import dense
from coreplan.problem import fingerprint
from coreplan.problem.zoo import acrobot, cart_pole, pendulum
from helpers.mutants import mutant
from helpers.zoo import module


def solve_through_core(problem, sweeps):
    """Value iteration on a deterministic problem's core transitions, with the problem's features."""
    core = coreplan.CoreSet.of(problem)
    rewards, y = problem.model.step(np.random.default_rng(0), core.states, core.actions)
    low, high = problem.reward_range
    phi, theta = problem.features(y), np.zeros(problem.features.dimension)
    for _ in range(sweeps):
        best = np.einsum("nak,nak->na", phi.weight, theta[phi.index]).max(axis=1)
        theta = (rewards - low) / (high - low) + problem.discount * best
    return coreplan.SoftmaxPolicy(theta, np.inf, problem.features)


def total_reward(problem, policy, n, steps):
    rng = np.random.default_rng(1)
    x, total = problem.model.initial(rng, n), np.zeros(n)
    for _ in range(steps):
        rewards, x = problem.model.step(rng, x, policy.act(x, rng))
        total += rewards
    return total


def check_pendulum(factory):
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("Pendulum-v1").unwrapped
    env.reset(seed=0)
    problem = factory(actions=9)
    rng = np.random.default_rng(0)
    x = rng.uniform([-math.pi, -8], [math.pi, 8], size=(300, 2))
    a = rng.integers(0, 9, 300)
    rewards, y = problem.model.step(rng, x, a)
    for n in range(300):
        env.state = x[n].copy()
        _, reward, *_ = env.step(np.array([-2 + a[n] * 0.5]))
        angle, speed = env.state
        assert rewards[n] == pytest.approx(reward, abs=1e-12)
        assert y[n, 1] == pytest.approx(speed, abs=1e-12)
        turns = (y[n, 0] - angle) / (2 * math.pi)
        assert turns == pytest.approx(round(turns), abs=1e-12) and -math.pi <= y[n, 0] <= math.pi


def test_pendulum_follows_gymnasium():
    check_pendulum(pendulum)


def test_pendulum_is_solved_through_its_core():
    """About -140 in 200 steps, the usual figure of good policies; without control about -1200."""
    problem = coreplan.make("pendulum:grid=21")
    policy = solve_through_core(problem, 900)
    assert -155 < total_reward(problem, policy, 300, 200).mean() < -125


def check_cart_pole(factory):
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("CartPole-v1").unwrapped
    problem = factory(grid=3)
    rng = np.random.default_rng(0)
    x = np.c_[rng.uniform([-2.4, -3, -0.209, -3], [2.4, 3, 0.209, 3], size=(400, 4)), np.zeros(400)]
    a = rng.integers(0, 2, 400)
    rewards, y = problem.model.step(rng, x, a)
    ended = 0
    for n in range(400):
        env.reset()
        env.state = x[n, :4].copy()
        _, reward, over, *_ = env.step(int(a[n]))
        assert rewards[n] == reward
        want = [0, 0, 0, 0, 1] if over else [*env.state, 0]
        np.testing.assert_allclose(y[n], want, atol=1e-12)
        ended += over
    assert 20 < ended < 380  # both kinds were met
    rewards, again = problem.model.step(rng, y[y[:, 4] == 1], np.zeros(ended, dtype=int))
    assert not rewards.any() and (again == [0, 0, 0, 0, 1]).all()


def test_cart_pole_follows_gymnasium():
    check_cart_pole(cart_pole)


def test_cart_pole_is_solved_through_its_core():
    problem = coreplan.make("cart-pole:grid=7")
    core = coreplan.CoreSet.of(problem)
    phi = core.features(problem.features)
    top = phi.weight.argmax(axis=1)[:, None]  # the identity, up to rounding
    np.testing.assert_array_equal(np.take_along_axis(phi.index, top, 1)[:, 0], np.arange(2 * 7**4 + 2))
    np.testing.assert_allclose(np.take_along_axis(phi.weight, top, 1), 1.0, atol=1e-12)
    policy = solve_through_core(problem, 400)
    assert total_reward(problem, policy, 200, 500).mean() > 475  # Gymnasium's threshold for "solved"


def test_cart_pole_with_polynomials():
    """All 15 monomials of degree at most 2 in the clipped coordinates, per action, and one feature for the fallen pole."""
    problem = coreplan.make("cart-pole:features=polynomial")
    assert problem.features.dimension == 31 and problem.core_pairs is None
    x = np.array([[1.2, -1.5, 0.1, 4.0, 0], [0, 0, 0, 0, 1]])
    phi = dense(problem.features(x), 31)
    z = np.array([1, 0.5, -0.5, 0.1 / (12 * 2 * math.pi / 360), 1.0])
    products = sorted(z[i] * z[j] for i in range(5) for j in range(i, 5))
    for a in (0, 1):
        np.testing.assert_allclose(np.sort(phi[0, a, a:30:2]), products, atol=1e-12)
        assert not phi[0, a, 1 - a : 30 : 2].any() and phi[0, a, 30] == 0
    np.testing.assert_array_equal(phi[1], np.eye(31)[[30, 30]])


# Acrobot.


def check_acrobot(factory):
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("Acrobot-v1").unwrapped
    env.reset(seed=0)
    step, rng = factory().model.step, np.random.default_rng(0)
    edges = np.array([math.pi, math.pi, 4 * math.pi, 9 * math.pi])
    x = np.c_[rng.uniform(-edges, edges, size=(600, 4)), np.zeros(600)]
    x[:300, 2:4] /= 5  # ordinary speeds too
    a = rng.integers(0, 3, 600)
    rewards, y = step(rng, x, a)
    ended = 0
    for n in range(600):
        env.state = x[n, :4].copy()
        _, reward, over, *_ = env.step(int(a[n]))
        assert rewards[n] == reward and y[n, 4] == over
        want = np.zeros(4) if over else np.asarray(env.state)
        np.testing.assert_allclose(np.exp(1j * y[n, :2]), np.exp(1j * want[:2]), atol=1e-9)
        np.testing.assert_allclose(y[n, 2:4], want[2:], atol=1e-9)
        ended += over
    assert (np.abs(y[:, :2]) <= math.pi).all()
    assert 60 < ended < 540  # both kinds were met
    rewards, again = step(rng, y[y[:, 4] == 1], np.zeros(ended, dtype=int))
    assert not rewards.any() and (again == [0, 0, 0, 0, 1]).all()


def test_acrobot_follows_gymnasium():
    check_acrobot(acrobot)


def test_acrobot_follows_a_whole_episode_of_gymnasium():
    """The rule "push the way the second link turns" swings it up: every step of the episode agrees, and so does its end."""
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("Acrobot-v1").unwrapped
    env.reset(seed=3)
    model, rng = acrobot().model, np.random.default_rng(0)
    x, over, steps = np.append(np.asarray(env.state, float), 0.0)[None], False, 0
    while not over:
        a = 2 if x[0, 3] > 0 else 0
        _, reward, over, *_ = env.step(a)
        rewards, x = model.step(rng, x, np.array([a]))
        steps += 1
        assert rewards[0] == reward and x[0, 4] == over
        if not over:
            np.testing.assert_allclose(x[0, :4], env.state, atol=1e-6)  # errors grow along a chaotic path
    assert 30 < steps < 300


def test_acrobot_features():
    problem = coreplan.make("acrobot")
    assert problem.features.dimension == 85 and problem.core_pairs is None
    x = np.array([[0.3, -2.0, 1.0, -5.0, 0], [0, 0, 0, 0, 1]])
    phi = dense(problem.features(x), 85)
    z = [1, math.cos(0.3), math.sin(0.3), math.cos(2), -math.sin(2), 1 / (4 * math.pi), -5 / (9 * math.pi)]
    products = sorted(z[i] * z[j] for i in range(7) for j in range(i, 7))
    for a in range(3):
        np.testing.assert_allclose(np.sort(phi[0, a, a:84:3]), products, atol=1e-12)
    np.testing.assert_array_equal(phi[1], np.eye(85)[[84] * 3])


def test_acrobot_on_a_grid_has_an_exact_core():
    problem = coreplan.make("acrobot:features=grid,grid=4")
    core = coreplan.CoreSet.of(problem)
    phi = core.features(problem.features)
    assert len(core) == problem.features.dimension == 3 * (4**4 + 1)
    np.testing.assert_allclose(dense(phi, len(core)).reshape(len(core), -1), np.eye(len(core)), atol=1e-12)
    same = problem.features(np.array([[math.pi, -math.pi, 1, 2, 0], [-math.pi, math.pi, 1, 2, 0]]))
    np.testing.assert_allclose(*dense(same, len(core)), atol=1e-12)


# Mountain car.


def test_mountain_car_follows_gymnasium():
    """Three transitions worked out from the published dynamics, the left wall and the goal."""
    step = coreplan.make("mountain-car:grid=5").model.step
    x = np.array([[-0.5, 0.0], [-1.19, -0.05], [0.49, 0.06], [0.55, 0.0]])
    rewards, y = step(np.random.default_rng(0), x, np.array([2, 0, 1, 1]))
    v = 0.001 - 0.0025 * math.cos(-1.5)
    np.testing.assert_allclose(y[0], [-0.5 + v, v], rtol=1e-14)
    np.testing.assert_array_equal(y[1], [-1.2, 0.0])
    np.testing.assert_array_equal(y[2:], [[0.6, 0.07]] * 2)
    np.testing.assert_array_equal(rewards, [-1, -1, -1, 0])


def test_mountain_car_is_solved_through_its_core():
    """Value iteration on the core's transitions (they are deterministic) with the interpolation features:
    about 100 steps to the goal on the 61 x 61 grid, as published for such grids; value = discount^steps."""
    problem = coreplan.make("mountain-car")
    core = coreplan.CoreSet.of(problem)
    rewards, y = problem.model.step(np.random.default_rng(0), core.states, core.actions)
    phi, theta = problem.features(y), np.zeros(problem.features.dimension)
    for _ in range(1200):
        theta = (
            rewards
            + 1.0
            + problem.discount * np.einsum("nak,nak->na", phi.weight, theta[phi.index]).max(axis=1)
        )
    policy = coreplan.SoftmaxPolicy(theta, np.inf, problem.features)
    result = coreplan.evaluate(problem, policy, rollouts=200)
    steps = math.log(result.value) / math.log(problem.discount)
    assert 90 < steps < 105
    assert result.high - result.low < 0.03 and result.optimum is None


def test_mountain_car_with_bumps():
    problem = coreplan.make("mountain-car:features=rbf")
    assert problem.features.dimension == 195 and problem.core_pairs is None
    x = np.array([[-0.5, 0.0], [0.6, 0.07], [0.5, 0.01], [0.49, 0.07]])
    phi = dense(problem.features(x), 195).reshape(4, 3, 65, 3)
    np.testing.assert_allclose(phi.sum(axis=(2, 3)), 1.0)
    np.testing.assert_array_equal(phi[:, 1, 64, 1], [0, 1, 1, 0])
    centres = np.stack(np.meshgrid(np.linspace(-1.2, 0.6, 8), np.linspace(-0.07, 0.07, 8), indexing="ij"), -1)
    z = ((x[0] - centres.reshape(64, 2)) / [1.8, 0.14]) * 7
    bumps = np.exp(-0.5 * (z**2).sum(axis=1))
    np.testing.assert_allclose(phi[0, 2, :64, 2], bumps / bumps.sum(), atol=1e-14)
    assert fingerprint(coreplan.make("mountain-car").features) == "af06b781a99903cd"  # as it was before


# The tests above notice faults.


FAULTS = {
    "torque is dear": ("pendulum", "pendulum", "0.001 * u**2)", "0.01 * u**2)", check_pendulum),
    "angle is not wrapped": ("pendulum", "pendulum", "% (2.0 * math.pi)", "% (4.0 * math.pi)", check_pendulum),
    "new spin moves the pole": ("cart_pole", "cart_pole", "angle + _DT * w\n", "angle + _DT * (w + _DT * spin)\n",
                                check_cart_pole),
    "the NIPS paper's equations": ("acrobot", "acrobot", "- 0.5 * v1 * v1 * s2 - phi2", "- phi2", check_acrobot),
    "arriving costs a step": ("acrobot", "acrobot", "rewards[n] = 0.0", "rewards[n] = -1.0", check_acrobot),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(fault, tmp_path, monkeypatch):
    file, name, old, new, check = FAULTS[fault]
    broken = mutant(module(file), old, new, tmp_path, monkeypatch)
    with pytest.raises(AssertionError):
        check(getattr(broken, name))
