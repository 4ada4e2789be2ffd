"""Masses on springs: steps against an integrator of differential equations, the regulator's costs against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import coreplan
from coreplan.problem.zoo.masses import dynamics, masses, nearest_force, regulator
from helpers.mutants import mutant
from helpers.zoo import module


def rates(n, spring, damper, push):
    """The equations of motion, mass by mass."""

    def at(t, state):
        q, v = state[:n], state[n:]
        force = np.zeros(n)
        force[: len(push)] += push
        for i in range(n - 1):
            pull = spring * (q[i + 1] - q[i]) + damper * (v[i + 1] - v[i])
            force[i] += pull
            force[i + 1] -= pull
        return np.concatenate([v, force])

    return at


def check_steps(factory):
    for n, driven in ((1, 1), (2, 1), (3, 2)):
        problem = factory(masses=n, driven=driven, spring=1.7, damper=0.3, actions=3, features="none")
        assert problem.n_actions == 3**driven
        rng = np.random.default_rng(n)
        x, a = rng.uniform(-1, 1, (20, 2 * n)), rng.integers(0, problem.n_actions, 20)
        rewards, y = problem.model.step(rng, x, a)
        for k in range(20):
            push = [-1.0 + a[k] // 3 ** (driven - 1 - j) % 3 for j in range(driven)]
            end = solve_ivp(rates(n, 1.7, 0.3, push), (0, 0.25), x[k], rtol=1e-10, atol=1e-12).y[:, -1]
            np.testing.assert_allclose(y[k], np.clip(end, -2, 2), atol=1e-8)
            cost = (x[k, :n] ** 2).sum() + 0.1 * (x[k, n:] ** 2).sum() + 0.1 * np.square(push).sum()
            assert rewards[k] == pytest.approx(-cost, abs=1e-12)


def test_steps_solve_the_equations_of_motion():
    check_steps(masses)


FAULTS = {
    "the damper pulls the wrong way": ("-spring * L, -damper * L", "-spring * L, damper * L"),
    "speeds cost as much as places": ("else _COST_SPEED) * states", "else _COST_PLACE) * states"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(fault, tmp_path, monkeypatch):
    broken = mutant(module("masses"), *FAULTS[fault], tmp_path, monkeypatch)
    with pytest.raises(AssertionError):
        check_steps(broken.masses)


def linear_cost(A, B, K, x, gamma, noise, rng, steps=600):
    """Discounted costs of the forces -K x, any real numbers, from states `[n, D]`, in plain matrices without a box."""
    n, total = A.shape[0] // 2, np.zeros(len(x))
    weights = np.array([1.0] * n + [0.1] * n)
    for t in range(steps):
        u = -x @ K.T
        total += gamma**t * ((x**2) @ weights + 0.1 * (u**2).sum(axis=1))
        x = x @ A.T + u @ B.T
        x[:, n:] += noise * rng.standard_normal((len(x), n))
    return total


@pytest.mark.parametrize(("n", "driven"), [(2, 1), (3, 1), (3, 3)])
def test_the_regulator_costs_what_riccati_says_and_no_other_gain_costs_less(n, driven):
    A, B = dynamics(n, 1.0, 0.1, driven)
    P, K = regulator(A, B, 0.97)
    rng = np.random.default_rng(n)
    x = rng.uniform(-1, 1, (30, 2 * n))
    want = np.einsum("ni,ij,nj->n", x, P, x)
    np.testing.assert_allclose(linear_cost(A, B, K, x.copy(), 0.97, 0.0, rng), want, rtol=1e-5)
    for _ in range(5):
        other = K + 0.05 * rng.standard_normal(K.shape)
        assert (linear_cost(A, B, other, x.copy(), 0.97, 0.0, rng) > want * (1 - 1e-6)).all()


def test_the_regulator_with_noise():
    """g / (1 - g) trace(P W) on top; 4,000 runs, a window of 6 standard errors (a false alarm is rarer than 1e-8)."""
    A, B = dynamics(2, 1.0, 0.1, 1)
    P, K = regulator(A, B, 0.97)
    rng = np.random.default_rng(5)
    x = np.tile([1.0, -0.5, 0.0, 0.0], (4_000, 1))
    cost = linear_cost(A, B, K, x.copy(), 0.97, 0.1, rng)
    want = x[0] @ P @ x[0] + 0.97 / 0.03 * 0.1**2 * np.trace(P[2:, 2:])
    assert abs(cost.mean() - want) < 6 * cost.std() / np.sqrt(len(cost))


def test_noise_moves_the_speeds_by_its_standard_deviation():
    """20,000 draws: the standard deviation within 5% (its standard error is 0.5%), and the places as without noise."""
    still, noisy = coreplan.make("masses:features=none"), coreplan.make("masses:features=none,noise=0.1")
    x, a = np.tile([0.5, -0.5, 0.1, 0.2], (20_000, 1)), np.full(20_000, 3)
    rng = np.random.default_rng(6)
    _, y = noisy.model.step(rng, x, a)
    _, mean = still.model.step(rng, x, a)
    np.testing.assert_array_equal(y[:, :2], mean[:, :2])
    np.testing.assert_allclose((y - mean)[:, 2:].std(axis=0), 0.1, rtol=0.05)
    np.testing.assert_allclose((y - mean)[:, 2:].mean(axis=0), 0.0, atol=0.005)
    u = np.random.default_rng(7).random((20_000, 4))
    np.testing.assert_array_equal(
        noisy.model.step_with(x, a, u)[1], noisy.model.step(np.random.default_rng(7), x, a)[1]
    )


def test_the_rounded_regulator():
    """Nearest of the forces -1, -0.5, 0, 0.5, 1; it costs little more than any real force, and much less than none."""
    problem = coreplan.make("masses")
    A, B, forces, _ = problem.model.data
    P, K = regulator(A, B, problem.discount)
    rule = nearest_force(K, forces)
    x = np.random.default_rng(8).uniform(-1, 1, (100, 4))
    wish = -x @ K[0]
    np.testing.assert_array_equal(rule(x), np.rint(np.clip(2 * wish, -2, 2)).astype(int) + 2)
    start = problem.model.initial(np.random.default_rng(9), 20_000)
    free = np.einsum("ni,ij,nj->n", start, P, start).mean()
    earned = -coreplan.evaluate(problem, rule, rollouts=400).returns.value
    assert free < earned < 1.2 * free < -coreplan.evaluate(problem, 2, rollouts=400).returns.value / 3
