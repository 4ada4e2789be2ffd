"""The lower bound: betting covers, and rollouts never overstate."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import binom

import coreplan
from coreplan import CoreSet
from coreplan.base import key_of
from coreplan.judge import policy_value, value_function
from coreplan.judge.certificate import lower
from coreplan.judge.certificate.first_half import Basis, PolicyValues
from coreplan.sampled import intervals as betting
from coreplan.simulate import Simulator
from helpers.mutants import mutant
from helpers.policies import near_optimal, uniform

# Betting.


@pytest.mark.parametrize("kind", ["rare", "beta", "constant"])
def test_lower_mean_covers(kind):
    """400 intervals at 90%: 73 misses or more have probability below 1e-6 if each misses with at most 10%."""
    rng = np.random.default_rng(0)
    draw = {
        "rare": lambda: 1.0 - (rng.random(200) < 0.01),  # the hard case: the bad outcome is rarely seen
        "beta": lambda: rng.beta(2, 5, 200),
        "constant": lambda: np.full(200, 0.4),
    }[kind]
    mean = {"rare": 0.99, "beta": 2 / 7, "constant": 0.4}[kind]
    bounds = np.array([betting.lower_mean(draw(), 0.0, 0.1, 0.2, 200) for _ in range(400)])
    assert binom.sf(72, 400, 0.1) < 1e-6
    assert (bounds > mean).sum() <= 72
    assert np.median(mean - bounds) < {"rare": 0.03, "beta": 0.04, "constant": 0.02}[kind]


def test_the_bet_is_lost_where_its_stake_is_not_bounded(tmp_path, monkeypatch):
    """Fault: staking more than the worst outcome allows. Rare disasters are then bet away."""
    broken = mutant(betting, "most = _STAKE / (m - low)", "most = 1e9", tmp_path, monkeypatch)
    z = np.append(np.full(50, 1.0), 0.0)
    with pytest.raises((ValueError, AssertionError)):
        assert broken.lower_mean(z, 0.0, 0.05, 1e-3, 50) <= betting.lower_mean(z, 0.0, 0.05, 1e-3, 50) + 1e-9


@pytest.mark.parametrize("c", [1e-6, 0.1, 0.5, 0.99])
def test_curvature_is_a_lower_parabola(c):
    u = np.linspace(-c, 3.0, 10_001)
    g = betting.curvature(c)
    assert (np.log1p(u) >= u - g * u**2 - 1e-12).all()
    assert np.log1p(-c) == pytest.approx(-c - g * c**2, abs=2e-3 * c)


# Rollouts.


@pytest.mark.parametrize("good", [True, False])
@pytest.mark.parametrize("policy", [near_optimal, uniform])
def test_rollouts_never_overstate(policy, good):
    """The mean outcome is at most the value, and near it; with a useless V too. 6 standard errors: rarer than 1e-6."""
    problem = coreplan.make("random-linear")
    pi, rng = policy(problem), np.random.default_rng(0)
    basis = Basis.of(problem, CoreSet.of(problem))
    simulator = Simulator(problem, CoreSet.of(problem), seed=key_of(rng))
    first = basis.draw(simulator, np.arange(4000) % 8)
    fitted = PolicyValues.of(basis, first, 0.9, pi)
    if not good:
        fitted = dataclasses.replace(fitted, theta=np.linspace(0, 9, 8))
    value = policy_value(problem.tabular(), pi, 0.9)
    steps = lower.lengths(200_000, 0.9**lower._C, rng)
    before = simulator.queries
    z, lows, *_ = lower.rollouts(simulator, pi, fitted, steps, -np.inf, rng)
    z, error = 0.1 * z, 0.1 * z.std() / np.sqrt(len(z))
    # Rollouts that are cut at the longest length, one in 3,000, lose at most V.
    assert value - 1e-3 - 6 * error <= z.mean() <= value + 6 * error
    assert simulator.queries - before == steps.sum()
    cut = lower.rollouts(simulator, pi, fitted, steps, float(np.median(lows)), rng).z
    assert 0.1 * cut.mean() <= value + 6 * 0.1 * cut.std() / np.sqrt(len(cut))
    line = float(np.median(lows)) - (1 - 0.9**lower._C) * fitted.high
    assert cut.min() >= line - 1e-9


def test_fitted_policy_values_are_near_exact():
    """LSTD-Q on many samples against the table: 20,000 samples a pair leave a few thousandths."""
    problem = coreplan.make("random-linear")
    pi, rng = uniform(problem), np.random.default_rng(0)
    basis = Basis.of(problem, CoreSet.of(problem))
    first = basis.draw(Simulator(problem, CoreSet.of(problem), seed=key_of(rng)), np.arange(160_000) % 8)
    V = PolicyValues.of(basis, first, 0.9, pi).values(problem, np.arange(200))
    np.testing.assert_allclose(V, value_function(problem.tabular(), np.full((200, 4), 0.25), 0.9), atol=0.05)


def test_lengths_keep_the_budget():
    rng = np.random.default_rng(0)
    for budget in (100, 5000, 100_000):
        steps = lower.lengths(budget, 0.9, rng)
        assert (len(steps) >= 1 and budget - 80 <= steps.sum() <= budget) or budget < 200


def test_outcomes_are_the_weighted_sums_of_what_was_recorded():
    """V(x_0) + sum_t w_t d_t; the one of the longest length, which is cut, without what V says is still to come."""
    problem = coreplan.make("random-linear")
    pi, rng = uniform(problem), np.random.default_rng(0)
    simulator = Simulator(problem, CoreSet.of(problem), seed=key_of(rng))
    basis = Basis.of(problem, CoreSet.of(problem))
    fitted = PolicyValues.of(basis, basis.draw(simulator, np.arange(400) % 8), 0.9, pi)
    q = lower.continuing(0.9)
    longest = int(np.ceil(lower._LONGEST / (1 - q)))
    lengths, record = np.array([longest, longest - 1, 3]), []
    z = lower.rollouts(simulator, pi, fitted, lengths, -np.inf, rng, record).z
    want = fitted.values(problem, record[0].states)
    for t, step in enumerate(record, start=1):
        assert step.weight == pytest.approx((0.9 / q) ** (t - 1))
        np.testing.assert_array_equal(step.which, np.flatnonzero(lengths >= t))
        V, V_next = (fitted.values(problem, x) for x in (step.states, step.next_states))
        np.testing.assert_allclose(step.d, step.rewards + 0.9 * V_next - V)
        want[step.which] += step.weight * step.d
    assert len(record) == longest and V_next[0] > 0.1
    want[0] -= (0.9 / q) ** longest * V_next[0]
    np.testing.assert_allclose(z, want)
