"""The inherent Bellman error: an interval that holds every sample, and says something."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import coreplan
from coreplan.theory import Enumerated, bellman, best_fit, inherent_bellman_error
from coreplan.theory.claims import instances
from coreplan.theory.claims.instances import (
    _problem,
    approximate_instance,
    constant_feature_instance,
    linear_instance,
    misspecified_instance,
    nearly_linear_instance,
    optimality_complete_instance,
    two_actions,
)
from helpers.places import ROOT

SMALL = [
    approximate_instance,
    constant_feature_instance,
    misspecified_instance,
    optimality_complete_instance,
    two_actions,
]


@pytest.mark.parametrize("ball", [True, False])
@pytest.mark.parametrize("instance", SMALL, ids=lambda f: f.__name__)
def test_no_policy_exceeds_the_interval(instance, ball):
    """Over every deterministic policy, at which the largest value is attained, and many theta' of norm D and less."""
    e, rng = Enumerated.of(instance()), np.random.default_rng(1)
    for D in (0.5, 3.0):
        most = 0.0
        found = inherent_bellman_error(e, D, ball=ball)
        assert 0.0 <= found.low <= found.high
        policies = list(itertools.product(range(e.A), repeat=e.X))
        for choice in [policies[i] for i in rng.permutation(len(policies))[:64]]:
            theta = rng.normal(size=e.d)
            theta *= D * rng.choice([1.0, 0.5]) / np.linalg.norm(theta)
            y = e.r + e.discount * (e.P @ (e.M(np.eye(e.A)[list(choice)]) @ (e.Phi @ theta)))
            most = max(most, best_fit(e.Phi, y, D if ball else None).low)
        assert most <= found.high + 1e-9
        assert found.low >= 0.8 * most


# The widths that the relaxation is there for; before it, the upper ends were 2.33, 9.0, 66.8, 6.66 and .113.


@pytest.mark.parametrize(
    ("problem", "D", "ball", "high"),
    [
        (constant_feature_instance, 10 / 3, True, 1e-12),
        (linear_instance, 10.0, True, 3.4),  # from 2.34
        (lambda: coreplan.make("river-swim"), math.sqrt(12) / 0.05, True, 18.5),  # from 16.83
        (optimality_complete_instance, math.sqrt(2) / 0.2, True, 2.17),  # from 2.13
        (nearly_linear_instance, 10.0, False, 0.089),  # from .042
    ],
    ids=["constant", "linear", "river-swim", "complete", "nearly linear"],
)  # fmt: skip
def test_the_upper_end_says_something(problem, D, ball, high):
    assert bellman.upper(Enumerated.of(problem()), D, ball) <= high


def test_where_it_is_zero_it_is_told():
    """phi = 1 and constant rewards: every backup is a constant, and within the ball if D >= r / (1 - gamma)."""
    found = inherent_bellman_error(Enumerated.of(constant_feature_instance()), 0.5 / 0.3 + 1e-9)
    assert found == (0.0, pytest.approx(0.0, abs=1e-12))
    outside = inherent_bellman_error(Enumerated.of(constant_feature_instance()), 0.5)
    assert outside.low > 0.3  # .5 + .7 * .5 = .85 is .35 outside of the ball
    assert outside.high == pytest.approx(0.35)


def test_one_state_by_hand():
    """One state, one action, phi = 1: the backup of theta' is r + gamma theta', so IBE = max(0, r + gamma D - D)."""
    e = Enumerated.of(_problem("one", 0.9, [[1.0]], np.ones((1, 1)), np.ones((1, 1, 1)), ([0], [0])))
    for D, want in ((20.0, 0.0), (10.0, 0.0), (4.0, 0.6), (1.0, 0.9)):
        found = inherent_bellman_error(e, D)
        assert found.low == pytest.approx(want, abs=1e-9) and found.high == pytest.approx(want, abs=1e-9)


def test_the_sum_of_columns_is_bounded():
    """|W e| over all 2^6 signs."""
    W = np.random.default_rng(0).normal(size=(3, 6))
    most = max(np.linalg.norm(W @ signs) for signs in itertools.product((-1.0, 1.0), repeat=6))
    exact = bellman._largest_sum(W)
    assert most <= exact <= np.linalg.norm(W, axis=0).sum() + 1e-12
    assert bellman._largest_sum(np.abs(W)) == pytest.approx(np.linalg.norm(np.abs(W).sum(axis=1)))


def test_policies_other_than_greedy_have_a_bellman_error():
    """Closed under maxima, and under nothing else: the search must not stay with greedy policies."""
    e = Enumerated.of(optimality_complete_instance())
    assert inherent_bellman_error(e, 2.0, ball=False).low > 0.02


@pytest.mark.parametrize(
    "name", ["linear", "nearly linear", "misspecified", "optimality complete", "approximate"]
)
def test_the_intervals_are_those_of_the_results(name):
    """benchmarks/results/bellman_error.md, to its three digits: both ends, with and without the ball."""
    page = (ROOT / "benchmarks" / "results" / "bellman_error.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {name} instance |")]
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    e = Enumerated.of(getattr(instances, f"{name.replace(' ', '_')}_instance")())
    D = np.sqrt(e.d) / (1 - e.discount)
    for ball, (low, _, high, *_) in ((True, cells[4:9]), (False, cells[9:14])):
        found = inherent_bellman_error(e, D, ball=ball)
        assert found.high == pytest.approx(float(high), rel=6e-3, abs=1e-12)
        assert found.low == pytest.approx(float(low), rel=6e-3, abs=1e-9)
