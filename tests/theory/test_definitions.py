"""The paper's quantities against independent computations: operators, fits, inherent Bellman error."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import OptimizeResult

import coreplan
from coreplan.theory import (
    Enumerated,
    best_fit,
    core_errors,
    default_D,
    definitions,
    gradients,
    lagrangian,
    linear_fit,
    occupancy,
    optimal,
    policy_values,
    state_occupancy,
    value,
)
from coreplan.theory.claims.instances import _problem as tabular_problem
from coreplan.theory.claims.instances import (
    constant_feature_instance,
    linear_instance,
    misspecified_instance,
)
from coreplan.theory.operators import conditional_entropy


def random_policy(e, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(e.A), size=e.X)


@pytest.mark.parametrize("spec", ["random-linear:states=20", "river-swim", "river-linear:L=3,states=30"])
def test_operators_are_what_the_paper_says(spec):
    e = Enumerated.of(coreplan.make(spec))
    rng = np.random.default_rng(0)
    v, Q, pi = rng.normal(size=e.X), rng.normal(size=e.Z), random_policy(e)
    for x in range(e.X):
        for a in range(e.A):
            assert (e.E @ v)[x * e.A + a] == v[x]
    np.testing.assert_allclose(e.M(pi) @ Q, (pi * Q.reshape(e.X, e.A)).sum(axis=1))
    np.testing.assert_allclose(np.asarray(e.P @ np.ones(e.X)).ravel(), 1.0)
    np.testing.assert_array_equal((e.U @ Q), Q[e.rows])
    mu = occupancy(e, pi)
    flow = e.E.T @ mu - (1 - e.discount) * e.nu0 - e.discount * (e.P.T @ mu)
    assert np.abs(flow).max() < 1e-12 and mu.sum() == pytest.approx(1.0) and mu.min() >= -1e-15
    assert mu @ e.r == pytest.approx(value(e, pi), abs=1e-12)
    np.testing.assert_allclose(state_occupancy(e, pi), mu.reshape(e.X, e.A).sum(axis=1))
    V, Qpi = policy_values(e, pi)
    np.testing.assert_allclose(e.M(pi) @ Qpi, V, atol=1e-9)
    best, star = optimal(e)
    assert (best.V >= V - 1e-9).all() and value(e, star) == pytest.approx((1 - e.discount) * e.nu0 @ best.V)


def test_gradients_are_the_derivatives_of_the_lagrangian():
    e = Enumerated.of(linear_instance())
    rng = np.random.default_rng(3)
    at = [rng.random(e.m), rng.random(e.Z), rng.normal(size=e.d), rng.normal(size=e.X)]
    exact = gradients(e, *at)
    for i in range(4):
        direction = rng.normal(size=at[i].shape)
        moved = [a + 1e-3 * direction if j == i else a for j, a in enumerate(at)]
        slope = (lagrangian(e, *moved) - lagrangian(e, *at)) / 1e-3  # bilinear: exact
        assert slope == pytest.approx(exact[i] @ direction, abs=1e-8)


def test_conditional_entropy():
    e = Enumerated.of(linear_instance())
    uniform = np.full((e.X, e.A), 1 / e.A)
    assert conditional_entropy(e, np.eye(e.A)[np.zeros(e.X, int)], uniform) == pytest.approx(math.log(e.A))
    assert conditional_entropy(e, uniform, uniform) == pytest.approx(0.0, abs=1e-15)
    with pytest.raises(coreplan.InputError, match="infinite"):
        conditional_entropy(e, uniform, np.eye(e.A)[np.zeros(e.X, int)])


def test_core_errors():
    e = Enumerated.of(linear_instance())
    B, errors = core_errors(e)
    assert errors.max() < 1e-12
    np.testing.assert_allclose(B, e.Phi, atol=1e-12)  # unit vectors as core: phi is its own coefficients
    assert core_errors(Enumerated.of(misspecified_instance()))[1].max() > 0.05


# Uniform fits in a ball.


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 3.0))
def test_best_fit_is_certified(seed, D):
    """Lower and upper bound meet, so the cone program is solved; no random theta in the ball does better."""
    rng = np.random.default_rng(seed)
    Phi, y = rng.normal(size=(25, 3)), rng.normal(size=25)
    fit = best_fit(Phi, y, D)
    assert np.linalg.norm(fit.theta) <= D * (1 + 1e-9)
    assert fit.error - fit.low <= 1e-6
    assert np.abs(fit.weights).sum() <= 1 + 1e-9
    for theta in rng.normal(size=(200, 3)):
        theta *= D * rng.random() / np.linalg.norm(theta)
        assert np.abs(y - Phi @ theta).max() >= fit.low - 1e-9


def test_best_fit_without_a_ball_is_the_chebyshev_fit():
    """Of x^2 by a line on [-1, 1]: the error is 1/2, with the constant 1/2."""
    x = np.linspace(-1, 1, 201)
    fit = best_fit(np.stack([np.ones(201), x], axis=1), x**2)
    assert fit.error == pytest.approx(0.5) and fit.low == pytest.approx(0.5)
    np.testing.assert_allclose(fit.theta, [0.5, 0.0], atol=1e-9)


def test_best_fit_of_tiny_features():
    rng = np.random.default_rng(0)
    Phi, noise = rng.normal(size=(30, 3)), 0.1 * rng.normal(size=30)
    y = Phi @ [1.0, -2.0, 0.5] + noise
    fit = best_fit(1e-10 * Phi, y)
    assert fit.error == pytest.approx(best_fit(Phi, y).error, abs=1e-7) and fit.error < 0.3
    assert best_fit(1e-10 * Phi, y, D=5e10).error < 0.3


@pytest.mark.parametrize("D", [0.0, -1.0, math.nan])
def test_best_fit_needs_a_ball(D):
    with pytest.raises(coreplan.InputError):
        best_fit(np.ones((3, 1)), np.ones(3), D)


def test_best_fit_needs_numbers():
    with pytest.raises(coreplan.InputError, match="finite"):
        best_fit(np.ones((3, 1)), np.array([1.0, np.nan, 0.0]), 1.0)


# Linear problems, and others.


def test_core_features_that_are_all_zero():
    with pytest.raises(coreplan.InputError, match="All core features are zero"):
        default_D(np.zeros((3, 2)), 2, 0.9)


def test_q_functions_of_a_linear_mdp_are_linear():
    e = Enumerated.of(linear_instance())
    fit = linear_fit(e)
    assert fit.holds
    D = default_D(e.Phi[e.rows], e.d, e.discount)
    assert pytest.approx(math.sqrt(4) / 0.2) == D
    for seed in range(5):
        Q = policy_values(e, random_policy(e, seed)).Q
        assert best_fit(e.Phi, Q, D).error < 1e-9
    assert not linear_fit(Enumerated.of(misspecified_instance())).holds


def test_default_D_holds_theta_for_a_skew_core():
    """Features T phi with an invertible T: theta becomes T^-1 theta, and D still holds it."""
    problem = linear_instance()
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(4, 4))
    phi = problem.features(np.arange(12)) @ mix
    radius = float(np.linalg.norm(phi, axis=2).max())
    skew = dataclasses.replace(problem, features=coreplan.problem.table_features(phi, 4, radius))
    e = Enumerated.of(skew)
    D = default_D(e.Phi[e.rows], 4, e.discount)
    for seed in range(5):
        Q = policy_values(e, random_policy(e, seed)).Q
        theta = np.linalg.lstsq(e.Phi, Q, rcond=None)[0]
        assert np.abs(e.Phi @ theta - Q).max() < 1e-8 and np.linalg.norm(theta) <= D


# Closed forms, each of which a small fault in a definition would miss.


def two_states(phi, core, nu0=(1.0, 0.0), discount=0.5):
    """State 0: action 0 stays, action 1 goes to state 1, which is never left."""
    P = [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
    r = [[0.0, 1.0], [0.5, 0.5]]
    return Enumerated.of(tabular_problem("two states", discount, r, P, np.asarray(phi), core, nu0=nu0))


def test_the_core_error_is_the_euclidean_distance():
    """A feature off the single core feature by (.3, .4): .5, not .25 (squared), .4 (sup norm) or .7 (sum)."""
    phi = [[[1.0, 1.0], [1.0, 1.0]], [[1.3, 1.4], [1.0, 1.0]]]
    B, eps = core_errors(two_states(phi, ([0], [0])))
    np.testing.assert_allclose(eps, [0.0, 0.0, 0.5, 0.0], atol=1e-9)
    np.testing.assert_allclose(B, 1.0)


def test_the_conditional_entropy_weighs_states_by_occupancy():
    """pi leaves state 0 at once, so nu = (1/2, 1/2) at discount 1/2, and nu0 = (1, 0)."""
    e = two_states(np.ones((2, 2, 1)), ([0], [0]))
    pi, pi1 = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[0.5, 0.5], [0.9, 0.1]])
    want = 0.5 * math.log(2) - 0.5 * math.log(0.9)
    assert conditional_entropy(e, pi, pi1) == pytest.approx(want, abs=1e-12)


def test_linear_rewards_alone_make_no_linear_mdp():
    fit = linear_fit(Enumerated.of(constant_feature_instance()))
    assert fit.reward_error < 1e-12 and not fit.holds


def test_default_D_grows_with_the_number_of_core_pairs():
    """Each of d unit vectors k times: pinv has norm 1/sqrt(k), and q can be all ones: |theta| = sqrt(d)/(1 - gamma) = D."""
    for k in (1, 4):
        core = np.repeat(np.eye(3), k, axis=0)
        assert default_D(core, 3, 0.9) == pytest.approx(math.sqrt(3) / 0.1)
    skew = np.array([[1.0, 0.0], [0.0, 0.5], [0.5, 0.25]])
    want = np.linalg.norm(np.linalg.pinv(skew), 2) * math.sqrt(3) / 0.2
    assert default_D(skew, 2, 0.8) == pytest.approx(want)


def test_the_conditional_entropy_refuses_what_is_no_policy():
    e, good = two_states(np.ones((2, 2, 1)), ([0], [0])), np.full((2, 2), 0.5)
    for pi, pi1 in ((good * 0.5, good), (good, good * 0.5), (good[:1], good)):
        with pytest.raises(coreplan.InputError):
            conditional_entropy(e, pi, pi1)


def test_without_multipliers_a_fit_has_no_certificate(monkeypatch):
    """A solver's point with multipliers zero: the error is the point's own, and nothing but 0 is known from below."""
    found = OptimizeResult(x=np.zeros(2), ineqlin=OptimizeResult(marginals=np.zeros(4)))
    monkeypatch.setattr(definitions, "linprog", lambda *arguments, **named: found)
    fit = best_fit(np.ones((2, 1)), np.array([1.0, 3.0]))
    assert (fit.low, fit.error) == (0.0, 3.0)


def test_where_the_solver_fails_the_fit_is_by_least_squares_and_has_no_certificate(monkeypatch):
    monkeypatch.setattr(definitions, "linprog", lambda *arguments, **named: OptimizeResult(x=None))
    fit = best_fit(np.ones((3, 1)), np.array([0.0, 0.0, 3.0]))
    np.testing.assert_allclose(fit.theta, [1.0])
    assert (fit.low, fit.error) == (0.0, pytest.approx(2.0)) and fit.weights.tolist() == [0.0] * 3
