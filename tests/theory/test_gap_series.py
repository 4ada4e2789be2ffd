"""The duality gap as a series over a run, against the gap of the recorded run."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan.planners import PrimalDual
from coreplan.theory import (
    Enumerated,
    best_fit,
    duality_gap,
    duality_gaps,
    q_approximation_error,
    record,
    recorded,
)
from coreplan.theory.claims.instances import linear_instance
from helpers.mutants import mutant

RATES = {"K": 2, "eta": 0.01, "beta": 0.05, "alpha": 0.1}


def whole(problem, planner, T):
    return duality_gap(Enumerated.of(problem), record(problem, planner, T))


def test_the_last_point_is_the_gap_of_the_recorded_run():
    problem, planner = coreplan.make("river-swim:states=4"), coreplan.PrimalDual(**RATES)
    series = duality_gaps(problem, planner, 120, points=3)
    assert series.queries[[0, -1]].tolist() == [3, 120] and (np.diff(series.queries) > 0).all()
    for queries, gap, suboptimality in zip(*series, strict=True):
        want = whole(problem, planner, queries // 3)
        assert gap == pytest.approx(want.gap, abs=1e-9)
        assert suboptimality == pytest.approx(want.suboptimality, abs=1e-9)


def test_spaced_points_average_the_spaced_iterations():
    problem, planner = coreplan.make("river-swim:states=3"), coreplan.PrimalDual(**RATES)
    all_of_them = duality_gaps(problem, planner, 90, points=90)
    terms = np.diff(np.arange(1, 31) * all_of_them.gaps, prepend=0.0)
    spaced = duality_gaps(problem, planner, 90, every=4, points=90)
    np.testing.assert_allclose(spaced.gaps, np.cumsum(terms[::4]) / np.arange(1, 9), atol=1e-9)


def test_it_falls_where_algorithm_1_learns():
    series = duality_gaps(
        coreplan.make("random-linear:states=12,d=4"),
        coreplan.PrimalDual(K=5, eta=2e-3, beta=0.05, alpha=0.02),
        30_000,
        every=100,
    )
    assert (
        series.gaps[-1] < 0.5 * series.gaps[:3].mean() and series.suboptimality[-1] < series.suboptimality[0]
    )


def test_mistakes():
    problem = coreplan.make("river-swim:states=3")
    for more in ({"points": 0}, {"every": 0}, {"budget": 0}):
        with pytest.raises(coreplan.InputError, match="at least 1, got 0"):
            duality_gaps(problem, coreplan.PrimalDual(**RATES), **{"budget": 90, **more})
    with pytest.raises(coreplan.InputError, match="cannot be enumerated"):
        duality_gaps(coreplan.make("mountain-car:grid=3"), coreplan.PrimalDual(**RATES), 90)


FAULTS = [
    ("rows.append((step.queries, *(sums / (n + 1))))", "rows.append((step.queries, *(sums / (t + 1))))"),
    ("(step.state.Theta.copy(), dist", "(step.state.Theta, dist"),
]


@pytest.mark.parametrize(("old", "new"), FAULTS)
def test_faults_are_noticed(old, new, tmp_path, monkeypatch):
    broken = mutant(recorded, old, new, tmp_path, monkeypatch)
    problem, planner = coreplan.make("river-swim:states=4"), coreplan.PrimalDual(**RATES)
    assert broken.duality_gaps(problem, planner, 120).gaps[-1] != pytest.approx(
        whole(problem, planner, 40).gap, abs=1e-9
    )


def test_the_errors_of_a_run_are_those_in_the_planners_ball():
    """No Q^pi and no backup has a theta in so small a ball: each error is the mean of exact fits in it."""
    problem, D = linear_instance(), 0.3
    e = Enumerated.of(problem)
    kept = record(problem, PrimalDual(K=5, eta=0.01, beta=0.5, alpha=0.1, D=D), T=4)
    policies = [e.softmax(Theta, 0.5) for Theta in kept.Thetas]
    backups = [
        e.r + e.discount * (e.P @ (e.M(pi) @ (e.Phi @ theta)))
        for pi, theta in zip(policies, kept.thetas, strict=True)
    ]
    found = duality_gap(e, kept)
    for radius, in_the_ball in ((D, True), (None, False)):
        q_error = np.mean([q_approximation_error(e, pi, radius).error for pi in policies])
        bellman_error = np.mean([best_fit(e.Phi, y, radius).error for y in backups])
        assert (found.q_error == pytest.approx(q_error, abs=1e-8)) == in_the_ball
        assert (found.bellman_error == pytest.approx(bellman_error, abs=1e-8)) == in_the_ball
