"""Linear problems of the zoo against their own exact description: random, rivers, hard ones, and lazy ones of any size."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import coreplan
from coreplan.features import dense
from coreplan.judge import optimal_values
from coreplan.judge.exact import normalised
from coreplan.problem import checked
from coreplan.problem.zoo.random_linear import _dirichlet
from coreplan.theory import Enumerated, core_errors, linear_fit
from helpers.zoo import ENUMERABLE, known


def transition_matrix(problem):
    table = problem.tabular()
    P = table.P if table.factors is None else table.factors[0] @ table.factors[1]
    P = P.toarray() if hasattr(P, "toarray") else np.asarray(P)
    return table, P.reshape(table.n_states, table.n_actions, table.n_states)


@pytest.mark.parametrize("spec", ENUMERABLE)
def test_the_simulator_follows_its_description(spec):
    """Chi-square of 20,000 next states from a few pairs, threshold at 1e-9 each: a false alarm over all pairs
    and problems is rarer than one in a million; rewards are compared exactly."""
    problem = coreplan.make(spec)
    table, P = transition_matrix(problem)
    rng = np.random.default_rng(11)
    for x, a in [(0, 0), (1, 1), (table.n_states - 1, problem.n_actions - 1)]:
        n = 20_000
        rewards, y = problem.model.step(rng, np.full(n, x), np.full(n, a))
        np.testing.assert_allclose(rewards, table.r[x, a], atol=1e-12)
        assert_follows(np.bincount(y, minlength=table.n_states), P[x, a])
    assert_follows(np.bincount(problem.model.initial(rng, 20_000), minlength=table.n_states), table.nu0)


def assert_follows(counts, p):
    assert counts[p == 0].sum() == 0
    big = p * counts.sum() >= 5
    observed, expected = counts[big], p[big] * counts.sum()
    rest = counts.sum() - observed.sum(), counts.sum() - expected.sum()
    if rest[1] >= 5:
        observed, expected = np.append(observed, rest[0]), np.append(expected, rest[1])
    if len(observed) > 1:
        assert ((observed - expected) ** 2 / expected).sum() < stats.chi2.ppf(1 - 1e-9, len(observed) - 1)


@pytest.mark.parametrize("spec", ["random-linear", "river-linear", "random-linear:states=500,lazy=true"])
def test_linear_mdp_with_an_exact_core(spec):
    """Phi is stochastic, the core features are the unit vectors, P = Phi W, r = Phi vartheta (def:linMDP)."""
    problem = coreplan.make(spec)
    table, P = transition_matrix(problem)
    d = problem.features.dimension
    Phi = dense(problem.features(table.states), d).reshape(-1, d)
    assert Phi.min() >= 0
    np.testing.assert_allclose(Phi.sum(axis=1), 1.0, atol=1e-12)
    core = coreplan.CoreSet.of(problem)
    np.testing.assert_allclose(dense(core.features(problem.features), d), np.eye(d), atol=1e-12)
    r = table.r.ravel()
    assert np.linalg.norm(Phi @ np.linalg.lstsq(Phi, r, rcond=None)[0] - r) < 1e-9
    assert r.min() >= 0 and r.max() <= 1
    flat = P.reshape(len(r), -1)
    rows = core.states * problem.n_actions + core.actions
    np.testing.assert_allclose(Phi @ flat[rows], flat, atol=1e-12)  # B U P = P through the core alone


@pytest.mark.parametrize("spec", ENUMERABLE)
def test_optimum_by_an_independent_method(spec):
    """Policy iteration on factors or solves, against plain value iteration on the dense matrix."""
    problem = coreplan.make(spec)
    table, P = transition_matrix(problem)
    V = np.zeros(table.n_states)
    for _ in range(math.ceil(math.log(1e-10 * (1 - problem.discount)) / math.log(problem.discount))):
        V = (table.r + problem.discount * P @ V).max(axis=1)
    best, Q = optimal_values(table, problem.discount)
    np.testing.assert_allclose(best, V, atol=1e-8)
    np.testing.assert_allclose(Q.max(axis=1), best, atol=1e-9)


def test_river_swim_closed_form():
    """Two states, always right: V = r + gamma P V solved by hand."""
    problem = coreplan.make("river-swim:states=2,discount=0.9")
    table = problem.tabular()
    P = np.array([[0.1, 0.9], [0.1, 0.9]])
    V = np.linalg.solve(np.eye(2) - 0.9 * P, [0.0, 1.0])
    assert normalised(table, optimal_values(table, 0.9)[0], 0.9) == pytest.approx(0.1 * V[0], abs=1e-12)


def test_instances_differ():
    a, b = coreplan.make("random-linear"), coreplan.make("random-linear:instance=3")
    assert not np.array_equal(a.tabular().r, b.tabular().r)


def test_lazy_dirichlet_has_the_right_marginals():
    """phi_1 ~ Beta(0.3, 2.1) for d = 8: Kolmogorov-Smirnov over 20,000 hashed draws, threshold at p = 1e-7."""
    out, first = np.empty(8), np.empty(20_000)
    for i in range(len(first)):
        _dirichlet(np.uint64(i * 7919 + 1), out)
        first[i] = out[0]
        assert abs(out.sum() - 1) < 1e-12
    assert stats.kstest(first, stats.beta(0.3, 2.1).cdf).pvalue > 1e-7


def test_lazy_is_a_function_of_the_pair_and_knows_its_core():
    problem = coreplan.make("random-linear:states=2^62,lazy=true")
    x = np.array([0, 1, 2**62 - 1, 12345678901234567])
    np.testing.assert_array_equal(problem.features(x), problem.features(x[::-1])[::-1])
    core = coreplan.CoreSet.of(problem)
    np.testing.assert_array_equal(core.features(problem.features), np.eye(8))
    with pytest.raises(coreplan.FeatureError, match="not finite"):
        checked(problem.features, np.array([2**62]))


def test_hard_linear_is_a_linear_mdp_with_an_exact_core():
    problem = coreplan.make("hard-linear")
    e = Enumerated.of(problem)
    assert linear_fit(e).holds and e.d == 4
    assert core_errors(e)[1].max() < 1e-7
    _, best, uniform, Q = known(problem)
    assert 0 < best - uniform < 0.1  # the actions differ by Delta only
    points = problem.features(np.array([0]))[0, :, 2:]
    assert Q[0].argmax() == (points @ points[-1]).argmax()  # the best action has the largest a . b
