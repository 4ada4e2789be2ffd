"""The statistics of comparisons against their published definitions, written out here by naive loops."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap as scipy_bootstrap
from scipy.stats import mannwhitneyu

from coreplan.bench.comparing import statistics
from coreplan.bench.comparing.statistics import (
    bootstrap,
    interquartile_mean,
    probability_of_improvement,
    profile,
    quartiles,
)

RNG = np.random.default_rng(7)
numbers = st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0])  # few, so that ties occur


def matrix(runs, tasks):
    return st.lists(st.lists(numbers, min_size=tasks, max_size=tasks), min_size=runs, max_size=runs).map(
        np.array
    )


@given(matrix(4, 3))
def test_the_interquartile_mean_is_the_mean_of_the_middle_half(scores):
    ordered = sorted(scores.ravel())
    assert interquartile_mean(scores) == pytest.approx(sum(ordered[3:9]) / 6)


@given(matrix(3, 2))
def test_a_profile_counts_runs(scores):
    levels = np.array([0.0, 0.2, 0.5])
    for level, share in zip(levels, profile(scores, levels), strict=True):
        counted = [sum(s <= level for s in column) / 3 for column in scores.T]
        assert share == pytest.approx(sum(counted) / 2)
    assert all(a <= b for a, b in pairwise(profile(scores, levels)))


@given(matrix(3, 2), matrix(4, 2))
def test_the_probability_of_improvement_counts_pairs(x, y):
    """`rliable` has higher scores for better runs, and coreplan's are losses, so that lower is better here."""
    per_task = [
        sum(1.0 if a < b else 0.5 if a == b else 0.0 for a, b in product(x[:, k], y[:, k])) / 12
        for k in range(2)
    ]
    assert probability_of_improvement(x, y) == pytest.approx(sum(per_task) / 2)
    U = [mannwhitneyu(b, a).statistic for a, b in zip(x.T, y.T, strict=True)]
    assert probability_of_improvement(x, y) == pytest.approx(np.mean(U) / 12)
    assert probability_of_improvement(x, y) + probability_of_improvement(y, x) == pytest.approx(1.0)


def test_the_bootstrap_draws_within_each_task():
    """Two tasks without any noise, far apart: drawing over tasks too would give an interval, this gives a point."""
    scores = np.tile([0.0, 1.0], (5, 1))
    assert bootstrap(lambda x: float(x.mean()), scores) == (0.5, 0.5, 0.5)


def test_the_bootstrap_interval_on_one_task_is_the_percentile_interval():
    """Against SciPy's, from other random draws: ends of 2,000 samples vary by about 2% of the spread, 10% is asked."""
    x = RNG.exponential(size=40)
    ours = bootstrap(lambda s: float(s.mean()), x[:, None], seed=3)
    theirs = scipy_bootstrap((x,), np.mean, method="percentile", n_resamples=9999, random_state=3)
    spread = theirs.confidence_interval.high - theirs.confidence_interval.low
    assert ours.value == pytest.approx(x.mean())
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.1 * spread)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.1 * spread)


def test_bootstraps_are_the_same_for_the_same_seed_and_matrices_are_drawn_apart():
    x, y = RNG.random((6, 3)), RNG.random((4, 3))
    means = [bootstrap(lambda a, b: float(a.mean() - b.mean()), x, y, seed=seed) for seed in (1, 1, 2)]
    assert means[0] == means[1] != means[2]
    rows = statistics._resampled(np.random.default_rng(0), np.arange(12.0).reshape(6, 2))
    assert (rows[:, 0] % 2 == 0).all() and (rows[:, 1] % 2 == 1).all()


def test_quartiles():
    assert quartiles([4.0, 0.0, 1.0, 3.0, 2.0]) == (2.0, 1.0, 3.0)
