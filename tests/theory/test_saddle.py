"""The game over the compact sets, against a search that shares no code with its solver."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import coreplan
from coreplan.theory import Enumerated, saddle_point
from coreplan.theory.claims.instances import _problem, false_lemma_instance, linear_instance
from coreplan.theory.saddle import worst


def test_bounds_meet_and_no_point_does_better():
    """With a core pair left out and a small ball, which binds; 4,000 points of the sets are no better."""
    e = Enumerated.of(linear_instance())
    few, D = replace(e, rows=e.rows[:2]), 2.0
    found = saddle_point(few, D)
    assert np.linalg.norm(found.theta) == pytest.approx(D, abs=1e-3)
    assert abs(found.value - found.low) <= 2e-7 and worst(few, found.theta, found.V) == pytest.approx(
        found.value
    )
    assert np.abs(found.V).max() <= e.radius * D + 1e-9
    rng = np.random.default_rng(0)
    for spread in (0.01, 0.3):
        for _ in range(2_000):
            theta = found.theta + spread * rng.normal(size=e.d)
            theta *= min(1.0, D / np.linalg.norm(theta))
            V = np.clip(found.V + spread * rng.normal(size=e.X), -e.radius * D, e.radius * D)
            assert worst(few, theta, V) >= found.low - 1e-7


def test_one_state_by_hand():
    """One state, core (.5, 1), features (1, 1) and (.5, 1), r = first coordinate, discount .5.

    The value is max over the core of .5 + .5 V - q_core, plus .5 V, plus max(q - V): with q = theta_1 x + theta_2 it is
    .5 + max(0, theta_1 / 2), whatever V and theta_2: least at theta_1 <= 0, where it is .5.
    """
    found = saddle_point(Enumerated.of(false_lemma_instance()), 2.0)
    assert found.value == pytest.approx(0.5, abs=1e-6)


def test_where_nothing_is_ever_paid_the_value_is_zero():
    """theta = 0 is optimal: the ball needs no care there."""
    e = Enumerated.of(
        _problem("nothing", 0.9, [[0.0, 0.0]], np.ones((2, 1)), np.eye(2)[None], ([0, 0], [0, 1]))
    )
    found = saddle_point(e, 3.0)
    assert found.value == pytest.approx(0.0, abs=1e-9) and found.low == pytest.approx(0.0, abs=1e-9)


def test_it_needs_a_core_set_and_a_ball():
    e = Enumerated.of(linear_instance())
    with pytest.raises(coreplan.InputError, match="needs a core set"):
        saddle_point(replace(e, rows=e.rows[:0]), 1.0)
    with pytest.raises(coreplan.InputError, match="D"):
        saddle_point(e, 0.0)
