"""The paper's quantities against independent computations."""

from __future__ import annotations

import dataclasses
import json
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

import coreplan
from coreplan.cli import main
from coreplan.core import CoreSet, convex_coefficients
from coreplan.planners import best_rates, constants
from coreplan.problem import Tabular, one_hot, tabular_model
from coreplan.theory import (
    Enumerated,
    best_fit,
    bound,
    core_errors,
    default_D,
    gradients,
    inherent_bellman_error,
    lagrangian,
    linear_fit,
    occupancy,
    optimal,
    policy_values,
    queries_needed,
    state_occupancy,
    tuned,
    value,
)
from coreplan.theory.claims import linear_instance, misspecified_instance
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


def test_sparse_tables_stay_sparse():
    X = 50
    P = sparse.csr_matrix(np.roll(np.eye(X), 1, axis=1))
    table = Tabular(np.arange(X), np.linspace(0, 1, X)[:, None], np.full(X, 1 / X), P=P)
    problem = coreplan.Problem(tabular_model(table), one_hot(X, 1), 0.9, tabular=lambda: table)
    e = Enumerated.of(problem)
    assert sparse.issparse(e.P) and sparse.issparse(e.Phi) and sparse.issparse(e.E)
    mu = occupancy(e, np.ones((X, 1)))
    np.testing.assert_allclose(mu, 1 / X)  # a cycle from a uniform start stays uniform


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


# Convex hulls.


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_nearest_points_satisfy_the_optimality_conditions(d, m, seed):
    """x in conv C is nearest to y iff (y - x).(c - x) <= 0 for every c in C."""
    rng = np.random.default_rng(seed)
    points, targets = rng.normal(size=(m, d)), 2 * rng.normal(size=(6, d))
    targets[0] = points[0]
    targets[1] = rng.dirichlet(np.ones(m)) @ points
    B, errors = convex_coefficients(points, targets)
    assert B.min() >= 0
    np.testing.assert_allclose(B.sum(axis=1), 1.0, atol=1e-12)
    x = B @ points
    np.testing.assert_allclose(np.linalg.norm(targets - x, axis=1), errors, atol=1e-9)
    assert errors[0] < 1e-7 and errors[1] < 1e-6
    for y, near in zip(targets, x, strict=True):
        assert ((points - near) @ (y - near)).max() < 1e-6


def test_nearest_points_against_a_general_optimiser():
    rng = np.random.default_rng(1)
    points, targets = rng.normal(size=(15, 4)), 1.5 * rng.normal(size=(5, 4))
    _, errors = convex_coefficients(points, targets)
    for y, error in zip(targets, errors, strict=True):
        result = minimize(
            lambda b, y=y: ((points.T @ b - y) ** 2).sum(), np.full(15, 1 / 15), bounds=[(0, 1)] * 15,
            constraints={"type": "eq", "fun": lambda b: b.sum() - 1}, method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )  # fmt: skip
        assert error == pytest.approx(math.sqrt(max(result.fun, 0)), abs=1e-5)


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


def test_one_far_point_does_not_hurt_the_hull():
    rng = np.random.default_rng(3)
    points = np.concatenate([rng.normal(size=(20, 3)), [[1e6, 0.0, 0.0]]])
    inside = rng.dirichlet(np.ones(20), size=50) @ points[:20]
    assert convex_coefficients(points, inside)[1].max() < 1e-4


def test_policies_are_checked_everywhere():
    e = Enumerated.of(linear_instance())
    pi = np.full((e.X, e.A), 1 / e.A)
    pi[2] = [1.4, -0.4, 0.0]
    for use in (occupancy, policy_values, value, lambda e, pi: e.M(pi)):
        with pytest.raises(coreplan.InputError, match=r"pi\(\.\|x=2\) is not a distribution"):
            use(e, pi)
    with pytest.raises(coreplan.InputError, match="has shape"):
        occupancy(e, pi[:3])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"P": np.array([[0.5, 0.5], [np.nan, 1.0]])}, "not finite"),
        ({"P": np.array([[1.5, -0.5], [0.0, 1.0]])}, r"P\(\.\|x=0, a=0\) has a negative probability"),
        ({"P": np.eye(2)[:1]}, "must have shape"),
        ({"nu0": np.array([1.0, 1.0])}, "nu0 must be a distribution"),
        ({"r": np.array([[5.0], [0.0]])}, r"r\(x=0, a=0\) is 5"),
        ({"r": np.array([[0.0], [np.nan]])}, r"r\(x=1, a=0\) is nan"),
    ],
)
def test_bad_tables(changes, words):
    good = {"states": np.arange(2), "r": np.zeros((2, 1)), "nu0": np.array([1.0, 0.0]), "P": np.eye(2)}
    with pytest.raises(coreplan.InputError, match=words):
        Tabular(**{**good, **changes})


def test_a_dense_matrix_that_would_not_fit():
    e = Enumerated.of(coreplan.make("random-linear:states=30000"))
    with pytest.raises(coreplan.InputError, match="GB are written out"):
        e.P  # noqa: B018


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


def test_inherent_bellman_error_is_an_interval_around_every_sample():
    """Sampled (pi, theta') never exceed the upper end, and the search finds at least as much as they do, nearly."""
    e, D = Enumerated.of(misspecified_instance()), 3.0
    for ball in (True, False):
        found = inherent_bellman_error(e, D, ball=ball)
        assert 0 < found.low <= found.high
        rng, most = np.random.default_rng(1), 0.0
        for _ in range(40):
            theta = rng.normal(size=e.d)
            theta *= D / np.linalg.norm(theta)
            pi = np.eye(e.A)[rng.integers(0, e.A, e.X)]
            y = e.r + e.discount * (e.P @ (e.M(pi) @ (e.Phi @ theta)))
            most = max(most, best_fit(e.Phi, y, D if ball else None).low)
        assert most <= found.high + 1e-9
        assert found.low >= 0.8 * most


# Theorem 1.


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 50), st.integers(1, 20), st.floats(0.5, 3), st.floats(0.5, 50), st.integers(10, 10**6),
    st.integers(1, 10**4),
)  # fmt: skip
def test_closed_form_rates_agree_with_a_numerical_minimisation(m, A, R, D, T, K):
    eta, beta, alpha = best_rates(m, A, R, D, T, K)

    def total(logs):
        e, b, a = np.exp(logs)
        return math.log(bound(T=T, K=K, eta=e, beta=b, alpha=a, m=m, A=A, R=R, D=D).eps_opt)

    c1, c2 = constants(m, A, R, D)
    assert math.exp(total(np.log([eta, beta, alpha]))) == pytest.approx(
        c1 / math.sqrt(T) + c2 / math.sqrt(K), rel=1e-6
    )
    if m == 1 or A == 1:
        return  # the best rate is zero there: nothing is learned, and ours is negligible
    start = np.log([eta, beta, alpha]) + np.array([1.0, -1.0, 0.5])
    best = minimize(
        total, start, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-12, "maxiter": 4000}
    )
    np.testing.assert_allclose(np.exp(best.x), [eta, beta, alpha], rtol=0.01)
    assert math.exp(best.fun) == pytest.approx(c1 / math.sqrt(T) + c2 / math.sqrt(K), rel=1e-6)


@pytest.mark.parametrize(("m", "A", "D"), [(8, 4, 28.3), (20, 3, 90.0), (2, 2, 1.5), (441, 9, 420.0)])
def test_the_split_agrees_with_a_numerical_minimisation(m, A, D):
    """Fewest queries T K for c1/sqrt(T) + c2/sqrt(K) = epsilon, over K."""
    epsilon = 0.05
    c1, c2 = constants(m, A, 1.0, D)

    def bill(log_K):
        K = math.exp(log_K)
        rest = epsilon - c2 / math.sqrt(K)
        return math.log(K) + 2 * math.log(c1 / rest) if rest > 0 else 1e9

    grid = np.linspace(math.log((c2 / epsilon) ** 2) + 1e-3, math.log((c2 / epsilon) ** 2) + 8, 400_001)
    log_K = grid[np.argmin([bill(g) for g in grid[::200]]) * 200]
    found = tuned(epsilon=epsilon, m=m, A=A, R=1.0, D=D)
    assert pytest.approx(math.exp(log_K), rel=0.01) == found.K
    assert pytest.approx((c1 / c2) ** 2, rel=0.01) == found.T / found.K
    assert found.bound.eps_opt == pytest.approx(epsilon, rel=1e-3) and found.bound.eps_opt <= epsilon
    paper = queries_needed(epsilon, m=m, A=A, R=1.0, D=D, split="paper")
    assert 1.0 <= paper / found.queries < 1.3
    assert queries_needed(epsilon / 2, m=m, A=A, R=1.0, D=D) == pytest.approx(16 * found.queries, rel=0.01)


def test_tuned_for_a_budget():
    found = tuned(budget=10**6, m=8, A=4, R=1.0, D=28.3)
    assert found.queries <= 10**6 < found.queries + 2 * (found.K + 1)
    for K in (found.K // 2, found.K * 2):
        T = 10**6 // (K + 1)
        eta, beta, alpha = best_rates(8, 4, 1.0, 28.3, T, K)
        assert (
            bound(T=T, K=K, eta=eta, beta=beta, alpha=alpha, m=8, A=4, R=1.0, D=28.3).eps_opt
            > found.bound.eps_opt
        )


def test_the_bound_of_the_issue_and_its_approximation_terms():
    eta, beta, alpha = best_rates(2, 2, 1.0, 1.5, 20_000, 2_000)
    rates = {
        "T": 20_000,
        "K": 2_000,
        "eta": eta,
        "beta": beta,
        "alpha": alpha,
        "m": 2,
        "A": 2,
        "R": 1.0,
        "D": 1.5,
    }
    plain = bound(**rates)
    assert plain.total == pytest.approx(0.2133, abs=1e-3)
    more = bound(**rates, q_error=0.01, bellman_error=0.02, core_error=0.03)
    assert more.eps_approx == pytest.approx(2 * 0.01 + 2 * 0.02 + 2 * 1.5 * 0.03)
    assert more.eps_opt == plain.eps_opt


@pytest.mark.parametrize(
    "bad",
    [
        {"T": 0},
        {"relative_entropy": -5.0},
        {"policy_entropy": math.nan},
        {"R": 1e200},
        {"eta": -1.0},
        {"D": math.inf},
        {"m": 2.5},
        {"q_error": -0.1},
        {"bellman_error": math.nan},
    ],
)
def test_bounds_refuse_outside_the_assumptions(bad):
    good = {"T": 10, "K": 10, "eta": 0.1, "beta": 0.1, "alpha": 0.1, "m": 2, "A": 2, "R": 1.0, "D": 1.5}
    with pytest.raises(coreplan.InputError):
        bound(**{**good, **bad})


@pytest.mark.parametrize(
    "wish",
    [{}, {"epsilon": 0.1, "budget": 10}, {"epsilon": -1.0}, {"budget": 1}, {"epsilon": 0.1, "split": "x"}],
)
def test_bad_wishes(wish):
    with pytest.raises(coreplan.InputError):
        tuned(**wish, m=2, A=2, R=1.0, D=1.5)


# Bad input.


def test_too_large_to_enumerate():
    X, A = 700_000, 3
    P = sparse.csr_matrix(
        (np.ones(X * A), np.zeros(X * A, dtype=int), np.arange(X * A + 1)), shape=(X * A, X)
    )
    table = Tabular(np.arange(X), np.zeros((X, A)), np.full(X, 1 / X), P=P)
    problem = coreplan.Problem(tabular_model(table), one_hot(X, A), 0.9, tabular=lambda: table, name="big")
    with pytest.raises(coreplan.InputError, match="2,100,000 pairs; at most 2,000,000"):
        Enumerated.of(problem)
    with pytest.raises(coreplan.InputError, match="cannot be enumerated"):
        Enumerated.of(coreplan.make("mountain-car:grid=3"))


def test_core_pairs_outside_the_table():
    problem = linear_instance()
    with pytest.raises(
        coreplan.InputError, match="Core pair 1, state 99 and action 0, is not in the problem's table"
    ):
        Enumerated.of(problem, CoreSet(np.array([0, 99]), np.array([0, 0])))
    e = Enumerated.of(problem)
    with pytest.raises(coreplan.InputError, match="Core pair 1 is number 36; pairs run from 0 to 35"):
        dataclasses.replace(e, rows=np.array([0, 36]))


# The command.


def test_tune_prints_the_terms_and_the_bill(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["coreplan", "tune", "random-linear", "--epsilon", "0.1", "--json"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    record = json.loads(capsys.readouterr().out)
    assert record["best"]["bound"]["eps_opt"] == pytest.approx(0.1, rel=1e-3)
    assert 1.08 < record["paper"]["queries"] / record["best"]["queries"] < 1.16
    assert "years" in record["sentence"]
    monkeypatch.setattr(sys, "argv", ["coreplan", "tune", "random-linear", "--budget", "100000"])
    with pytest.raises(SystemExit):
        main()
    out = capsys.readouterr().out
    assert "eta m^2 (1 + 2 R D)^2 / 2" in out and "says nothing" in out
    monkeypatch.setattr(sys, "argv", ["coreplan", "tune", "random-linear"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
