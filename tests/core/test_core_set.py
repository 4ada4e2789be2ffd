"""Core sets: pairs that are none are refused, and whole numbers of any size are told apart."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan.core import CoreSet


@pytest.mark.parametrize(
    ("states", "actions", "words"),
    [
        (np.empty(0), np.empty(0, dtype=int), "m >= 1"),
        (np.array([1, 2, 1]), np.array([0, 0, 0]), "Core pairs 0 and 2 are the same"),
        (np.array([1, 2]), np.array([0, 0, 0]), "as many actions"),
        (np.array([1, 2]), np.array([0.0, 1.0]), "whole numbers"),
        (np.array([0.0, -0.0]), np.array([0, 0]), "are the same"),
        (np.array([None, 2]), np.array([0, 0]), "an array of numbers"),
    ],
)
def test_bad_core_sets(states, actions, words):
    with pytest.raises(coreplan.InputError) as caught:
        coreplan.CoreSet(states, actions)
    assert words in str(caught.value)


def test_core_action_out_of_range():
    problem = coreplan.make("river-swim")
    with pytest.raises(coreplan.InputError, match="action 2; actions run from 0 to 1"):
        coreplan.CoreSet(np.array([0]), np.array([2])).features(problem.features)


def test_distinct_pairs_of_huge_whole_numbers():
    states = np.array([2**60, 2**60 + 1, 2**60], dtype=np.uint64)
    core = CoreSet.distinct(states, np.zeros(3, dtype=np.int64))
    assert core.states.tolist() == [2**60, 2**60 + 1]


def test_the_core_set_of_a_problem_is_its_own():
    problem = coreplan.make("river-swim")
    found = CoreSet.of(problem)
    assert (found.states == problem.core_pairs[0]).all() and (found.actions == problem.core_pairs[1]).all()


def test_distinct_pairs_keep_the_order_of_their_first_appearance():
    """States that differ in one column only, in the action only, and copies; later in the array and smaller by value."""
    states = np.array([[5.0, 1.0], [5.0, 0.0], [5.0, 1.0], [2.0, 0.0], [5.0, 0.0], [5.0, 1.0]])
    actions = np.array([1, 0, 1, 0, 2, 1])
    found = CoreSet.distinct(states, actions)
    np.testing.assert_array_equal(found.states, states[[0, 1, 3, 4]])
    np.testing.assert_array_equal(found.actions, [1, 0, 0, 2])
