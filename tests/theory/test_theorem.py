"""Theorem 1: rates and splits against numerical minimisation; the bound of CoreMirror."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import coreplan
from coreplan.planners import best_rates, constants
from coreplan.theory import bound, queries_needed, tuned
from coreplan.theory.mirror import best_beta, mirror_bound, mirror_queries


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


@pytest.mark.parametrize("D", [0.001, 0.02, 0.3, 28.3])
@pytest.mark.parametrize("epsilon", [0.05, 0.9])
def test_tuned_for_an_accuracy_has_the_fewest_queries(epsilon, D):
    """Against every K that could do: for each, the least T whose bound is epsilon."""
    wish = {"m": 5, "A": 3, "R": 1.0, "D": D}
    found = tuned(epsilon=epsilon, **wish)
    assert found.bound.eps_opt <= epsilon * (1 + 1e-9)
    c1, c2 = constants(**wish)
    K = np.unique(np.geomspace(1, 20 * found.K, 100_000).astype(int))
    left = epsilon - c2 / np.sqrt(K)
    bills = np.ceil((c1 / left[left > 0]) ** 2) * (K[left > 0] + 1)
    assert found.queries <= bills.min() * (1 + 1 / found.T), (
        "beyond what rounding T up to a whole number costs"
    )


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


# CoreMirror.


def test_the_bound_and_its_best_rate():
    beta = best_beta(T=1000, A=4, discount=0.9)
    assert mirror_bound(T=1000, beta=beta, A=4, discount=0.9).total == pytest.approx(
        0.01 + math.sqrt(1000 * math.log(4) / 1000)
    )
    for factor in (0.9, 1.1):
        assert mirror_bound(T=1000, beta=factor * beta, A=4, discount=0.9).total > 0.01 + math.sqrt(
            math.log(4)
        )
    n = mirror_queries(0.1, m=8, A=4, discount=0.9)
    T = n // 8
    at = [
        mirror_bound(T=t, beta=best_beta(T=t, A=4, discount=0.9), A=4, discount=0.9).total for t in (T - 1, T)
    ]
    assert at[0] > 0.1 >= at[1]


# Corners.


def test_one_core_pair_and_one_action_need_one_iteration():
    """log m = log A = 0, so only theta is learned: K is the least with 4 R D / sqrt(K) <= epsilon."""
    found = tuned(epsilon=0.1, m=1, A=1, R=1.0, D=2.0)
    assert (1, math.ceil((4 * 2.0 / 0.1) ** 2)) == (found.T, found.K)
    assert found.bound.eps_opt == pytest.approx(0.1)


@pytest.mark.parametrize("split", ["best", "paper"])
def test_accuracies_that_nobody_can_reach_are_refused(split):
    """From 10^18 iterations on: 10% above it and below it in its root."""
    wish = {"m": 8, "A": 4, "R": 1.0, "D": 28.3, "split": split}
    c1, c2 = constants(8, 4, 1.0, 28.3)
    whole = 2 * c1 if split == "best" else c1 + c2 * 8 * math.sqrt(math.log(32))  # c1 + c2 sqrt(T / K)
    assert tuned(epsilon=whole / 0.9e9, **wish).T < 10**18
    with pytest.raises(coreplan.InputError, match="10\\^18"):
        tuned(epsilon=whole / 1.1e9, **wish)


def test_scales_that_leave_all_floats_are_refused():
    good = {"T": 10, "K": 10, "eta": 0.1, "beta": 0.1, "alpha": 0.1, "m": 2, "A": 2, "R": 1.0}
    assert math.isfinite(bound(**good, D=0.4e60).eps_opt)
    with pytest.raises(coreplan.InputError, match="leave all floats"):
        bound(**good, D=0.6e60)
