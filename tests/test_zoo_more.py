"""More of the zoo: each problem's published or exact numbers, and simulators against their tables."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import coreplan
from coreplan.judge import optimal_values, value_function
from coreplan.judge.exact import normalised
from coreplan.theory import Enumerated, core_errors, linear_fit


def known(problem):
    table, gamma = problem.tabular(), problem.discount
    V, Q = optimal_values(table, gamma)
    uniform = np.full(table.r.shape, 1 / table.n_actions)
    return (
        table,
        normalised(table, V, gamma),
        normalised(table, value_function(table, uniform, gamma), gamma),
        Q,
    )


@pytest.mark.parametrize(
    "spec",
    [
        "inventory",
        "hard-linear",
        "queue-network-cut",
        "queue-network-cut:features=polynomial",
        "queue:buffer=30",
        "frozen-lake",
        "taxi",
    ],
)
def test_simulators_follow_their_tables(spec):
    """Next states of some pairs: exact support and a chi-square at 1e-9 each (a false alarm is rarer than 1e-7)."""
    problem = coreplan.make(spec)
    table = problem.tabular()
    states = np.asarray(table.states)
    number = {tuple(np.atleast_1d(s)): x for x, s in enumerate(states)}
    rng = np.random.default_rng(3)
    low, high = problem.reward_range
    for x in {0, table.n_states - 1, table.n_states // 2, table.n_states // 3}:
        a = x % problem.n_actions
        n = 5000
        rewards, y = problem.model.step(rng, np.repeat(states[x : x + 1], n, axis=0), np.full(n, a))
        np.testing.assert_allclose((rewards - low) / (high - low), table.r[x, a], atol=1e-12)
        p = np.asarray(
            table.P[x * problem.n_actions + a].todense()
            if hasattr(table.P, "todense")
            else table.P[x * problem.n_actions + a]
        ).ravel()
        counts = np.bincount([number[tuple(np.atleast_1d(s))] for s in y], minlength=table.n_states)
        assert counts[p == 0].sum() == 0
        big = p * n >= 5
        statistic = ((counts[big] - n * p[big]) ** 2 / (n * p[big])).sum()
        assert statistic < stats.chi2.ppf(1 - 1e-9, max(big.sum() - 1, 1))
    start = problem.model.initial(rng, 5000)
    counts = np.bincount([number[tuple(np.atleast_1d(s))] for s in start], minlength=table.n_states)
    assert counts[table.nu0 == 0].sum() == 0
    big = table.nu0 * 5000 >= 5
    assert ((counts[big] - 5000 * table.nu0[big]) ** 2 / (5000 * table.nu0[big])).sum() < stats.chi2.ppf(
        1 - 1e-9, big.sum()
    )


def test_inventory_numbers():
    problem = coreplan.make("inventory")
    _, best, uniform, _ = known(problem)
    assert best == pytest.approx(0.6497, abs=5e-5) and uniform == pytest.approx(0.5155, abs=5e-5)
    assert problem.features.dimension == 441 and len(coreplan.CoreSet.of(problem)) == 441
    assert coreplan.make("inventory:features=quadratic").features.dimension == 54
    assert coreplan.make("inventory:features=quadratic").core_pairs is None


def test_queue_network_cut_numbers():
    """Greedy on the least-squares projection of Q* loses 0.063; with the hat functions, nothing."""
    problem = coreplan.make("queue-network-cut:features=polynomial")
    table, best, uniform, Q = known(problem)
    for spec, loss in (("polynomial", 0.063), ("hat", 0.0)):
        e = Enumerated.of(coreplan.make(f"queue-network-cut:features={spec}"))
        gram = (e.Phi.T @ e.Phi).toarray()
        theta = np.linalg.lstsq(gram, e.Phi.T @ Q.ravel(), rcond=1e-12)[0]
        value = normalised(table, value_function(table, e.softmax(theta, np.inf), 0.98), 0.98)
        assert (best - value) / (best - uniform) == pytest.approx(loss, abs=1e-3)
    assert e.m == e.d == 1024


def test_hard_linear_is_a_linear_mdp_with_an_exact_core():
    problem = coreplan.make("hard-linear")
    e = Enumerated.of(problem)
    assert linear_fit(e).holds and e.d == 4
    assert core_errors(e)[1].max() < 1e-7
    _, best, uniform, Q = known(problem)
    assert 0 < best - uniform < 0.1  # the actions differ by Delta only
    points = problem.features(np.array([0]))[0, :, 2:]
    assert Q[0].argmax() == (points @ points[-1]).argmax()  # the best action has the largest a . b


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("inventory:features=cubic", "grid, quadratic"),
        ("queue-network-cut:features=3", "a word"),
        ("hard-linear:delta=0.2", "(1 - discount) / 2"),
        ("hard-linear:actions=2", "at least 3"),
    ],
)
def test_bad_parameters(spec, words):
    with pytest.raises(coreplan.InputError) as caught:
        coreplan.make(spec)
    assert words in str(caught.value)
