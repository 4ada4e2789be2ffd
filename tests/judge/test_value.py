"""Evaluation: exact against independent solves, Monte Carlo against exact."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import coreplan
from coreplan import SoftmaxPolicy, evaluate
from coreplan.judge import value_function
from coreplan.problem import Tabular


@pytest.mark.parametrize("spec", ["random-linear", "river-linear", "river-swim", "river-swim-long"])
def test_exact_value_against_the_occupancy_measure(spec):
    """<mu^pi, r> from the flow equation E' mu = (1 - gamma) nu0 + gamma P' mu, not from V."""
    problem = coreplan.make(spec)
    table = problem.tabular()
    X, A, gamma = table.n_states, table.n_actions, problem.discount
    P = table.P if table.factors is None else table.factors[0] @ table.factors[1]
    P = np.asarray(P).reshape(X, A, X)
    policy = SoftmaxPolicy(
        np.random.default_rng(1).normal(size=problem.features.dimension), 1.0, problem.features
    )
    pi = policy.probabilities(table.states)
    P_pi = np.einsum("xa,xay->xy", pi, P)
    nu = np.linalg.solve(np.eye(X) - gamma * P_pi.T, (1 - gamma) * table.nu0)
    result = evaluate(problem, policy)
    assert result.exact and result.low == result.value == result.high and result.queries == 0
    assert result.value == pytest.approx((nu[:, None] * pi * table.r).sum(), abs=1e-10)
    assert result.uniform <= result.optimum + 1e-12 and result.value <= result.optimum + 1e-12
    assert result.gap == result.optimum - result.value


def test_dense_sparse_and_factored_agree():
    import scipy.sparse

    problem = coreplan.make("random-linear")
    table = problem.tabular()
    P = table.factors[0] @ table.factors[1]
    pi = np.random.default_rng(0).dirichlet(np.ones(4), size=200)
    want = value_function(table, pi, 0.9)
    for form in (P, scipy.sparse.csr_matrix(P)):
        other = Tabular(table.states, table.r, table.nu0, P=form)
        np.testing.assert_allclose(value_function(other, pi, 0.9), want, atol=1e-10)


def test_monte_carlo_covers_the_exact_value():
    """40 intervals at 99.99%: even two misses in 40 would be rarer than one in 10^5; none is expected."""
    problem = coreplan.make("random-linear")
    blind = dataclasses.replace(problem, tabular=None)
    policy = SoftmaxPolicy(np.linspace(-2, 2, 8), 1.0, problem.features)
    exact = evaluate(problem, policy).value
    misses, widths = 0, []
    for seed in range(40):
        result = evaluate(blind, policy, rollouts=200, confidence=0.9999, seed=seed)
        assert result.optimum is result.gap is result.sub is None and result.queries > 0
        misses += not result.low <= exact <= result.high
        widths.append(result.high - result.low)
    assert misses <= 1
    assert max(widths) < 0.1


def test_rewards_in_other_units():
    """The same problem in rewards 10 r - 3: same normalised value, and the way back."""
    problem = coreplan.make("random-linear:compiled=false")

    def step(rng, states, actions):
        rewards, y = problem.model.step(rng, states, actions)
        return 10 * rewards - 3, y

    model = coreplan.FunctionModel(4, problem.model.initial, step)
    scaled = dataclasses.replace(problem, model=model, reward_range=(-3, 7), tabular=None)
    blind = dataclasses.replace(problem, tabular=None)
    policy = SoftmaxPolicy(np.linspace(-2, 2, 8), 1.0, problem.features)
    a, b = evaluate(blind, policy, rollouts=100), evaluate(scaled, policy, rollouts=100)
    assert a.value == pytest.approx(b.value, abs=1e-12)
    assert scaled.to_reward_units(b.value) == pytest.approx(10 * a.value - 3, abs=1e-10)
    rates = {"K": 5, "eta": 1e-3, "beta": 0.02, "alpha": 0.1, "D": 20.0}
    plans = [coreplan.plan(p, planner=coreplan.PrimalDual(**rates), budget=6000) for p in (problem, scaled)]
    np.testing.assert_allclose(plans[0].policy.theta, plans[1].policy.theta, atol=1e-7)


@pytest.mark.parametrize(
    ("changes", "words"), [({"rollouts": 1}, "rollouts"), ({"confidence": 1.0}, "confidence")]
)
def test_bad_wishes(changes, words):
    problem = dataclasses.replace(coreplan.make("river-swim"), tabular=None)
    with pytest.raises(coreplan.InputError, match=words):
        evaluate(problem, SoftmaxPolicy.uniform(problem.features), **changes)


def test_a_policy_that_is_no_distribution():
    table = coreplan.make("river-swim").tabular()
    pi = np.full((6, 2), 0.5)
    pi[3] = 0.4
    with pytest.raises(coreplan.InputError, match=r"pi\(\.\|x=3\).*sums to 0.8"):
        value_function(table, pi, 0.9)
