"""The expected gap of pi_J that the benchmarks report, against the mean over every J of the recorded run."""

import numpy as np
import pytest

import coreplan
from coreplan.run import Run
from coreplan.theory import Enumerated, optimal, record, value
from helpers.places import benchmark

PLANNER = coreplan.PrimalDual(K=3, eta=2e-3, beta=0.5, alpha=0.05)
T = 40


@pytest.fixture(scope="module")
def exact():
    """The gap of pi_t for t = 1..T, from the recorded iterates."""
    problem = coreplan.make("river-swim")
    e, kept = Enumerated.of(problem), record(problem, PLANNER, T, seed=5)
    best = value(e, optimal(e)[1])
    return np.array([best - value(e, e.softmax(Theta, kept.planner.beta)) for Theta in kept.Thetas])


def started():
    problem = coreplan.make("river-swim")
    run = Run.of(problem, PLANNER, budget=T * (PLANNER.K + 1), seed=5)
    return run, Enumerated.of(problem)


def test_gaps_along_a_run_are_those_of_its_policies(exact):
    assert exact.max() - exact.min() > 1e-4
    moments = [1, 2, 17, T]
    np.testing.assert_allclose(benchmark("over_j").gaps_at(*started(), moments), exact[np.array(moments) - 1])


def test_with_a_part_for_every_J_it_is_the_mean_over_all(exact):
    found = benchmark("over_j").expected_gap(*started(), T, 10_000, np.random.default_rng(0))
    assert found == pytest.approx(exact.mean(), rel=1e-12)


def test_a_part_counts_with_its_length(exact, monkeypatch):
    """The mean of 4,000 draws in 6 parts has no bias: 5 standard errors are passed by chance once in a million."""
    over_j = benchmark("over_j")
    monkeypatch.setattr(over_j, "gaps_at", lambda run, e, moments: exact[np.array(moments) - 1].tolist())
    rng = np.random.default_rng(1)
    draws = np.array([over_j.expected_gap(None, None, T, 6, rng) for _ in range(4_000)])
    assert abs(draws.mean() - exact.mean()) <= 5 * draws.std() / np.sqrt(len(draws))
    assert draws.std() > 0
