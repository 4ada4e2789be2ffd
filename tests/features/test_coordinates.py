"""Bounds of a state's coordinates, and the features that say where a state is."""

from __future__ import annotations

import numpy as np
import pytest

from coreplan import InputError
from coreplan.features import Box, Coordinates, MaskedFeatures, bounds_of, checked, outside_box, with_terminal
from coreplan.planners import Setup


def test_places_in_the_unit_cube_and_back():
    box = Box([-1.0, 0.0, 2.0], [1.0, 4.0, 10.0], periodic=[True, False, False], whole=[False, False, True])
    states = np.array([[0.0, 1.0, 2.0], [3.5, -1.0, 6.0], [-1.25, 9.0, 10.0]])
    unit = box.unit(states)
    np.testing.assert_allclose(unit, [[0.5, 0.25, 0.0], [0.25, 0.0, 0.5], [0.875, 1.0, 1.0]])
    np.testing.assert_allclose(box.states(unit), [[0.0, 1.0, 2.0], [-0.5, 0.0, 6.0], [0.75, 4.0, 10.0]])
    assert box.states(np.array([[0.0, 0.0, 0.45]]))[0, 2] == 6.0  # 5.6, rounded
    assert not box.low.flags.writeable


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"low": [0.0], "high": [0.0]}, "low < high"),
        ({"low": [1.0], "high": [0.0]}, "low < high"),
        ({"low": [], "high": []}, "are empty"),
        ({"low": [0.0], "high": [np.inf], "periodic": [True]}, "one period"),
        ({"low": [np.nan], "high": [1.0]}, "low < high"),
        ({"low": [0.0], "high": [1.0], "periodic": [1]}, "periodic"),
        ({"low": [0.0], "high": [1.0], "whole": [True, False]}, "whole"),
        ({"low": [0.5], "high": [3.0], "whole": [True]}, "whole bounds"),
    ],
)
def test_boxes_that_are_none(fields, says):
    with pytest.raises(InputError, match=says):
        Box(**fields)


def test_coordinates_are_the_same_for_every_action_and_warn_outside():
    features = Coordinates(Box([0.0, -1.0], [1.0, 1.0]), 3)
    states = np.array([[0.25, 0.5], [2.0, 0.0]])
    phi = checked(features, states)
    assert phi.shape == (2, 3, 3)
    np.testing.assert_array_equal(phi, np.repeat([[[0.25, 0.75, 0.0]], [[1.0, 0.5, 1.0]]], 3, axis=1))
    assert outside_box(features, states).outside == 1
    assert outside_box(Coordinates(Box([0.0, 0.0], [1.0, 1.0], [True, False]), 3), states) is None


def test_the_box_is_found_under_a_mask_and_a_terminal_column():
    features = Coordinates(Box([0.0], [1.0]), 2)
    ended = with_terminal(MaskedFeatures(features, lambda states: np.ones((len(states), 2), dtype=bool)))
    assert bounds_of(ended) is features.bounds
    np.testing.assert_array_equal(
        ended(np.array([[0.5, 0.0], [0.0, 1.0]]))[:, 0], [[0.5, 0.0, 0.0], [0.0, 0.0, 1.0]]
    )
    setup = Setup(dimension=1, n_actions=2, radius=1.0, discount=0.9, budget=10, box=features.bounds)
    assert setup.box is features.bounds
