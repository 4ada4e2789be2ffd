"""Core sets: pairs that are none are refused, and whole numbers of any size are told apart."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan import FunctionFeatures, InputError
from coreplan.core import CoreSet, coreset
from coreplan.features import UNAVAILABLE


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


@pytest.mark.parametrize("make", [CoreSet.of, CoreSet.every])
def test_the_core_set_of_something_else_than_a_problem(make):
    with pytest.raises(InputError, match="a Problem"):
        make("river-swim")


def test_features_of_pairs_come_in_batches(monkeypatch):
    """Batches of three states, 2 actions and 2 features each; a forbidden pair in the second batch is named by its state."""
    monkeypatch.setattr(coreset, "_NUMBERS", 12)
    asked = []

    def phi(s):
        asked.append(len(s))
        x = np.stack([np.stack([s, s * 0 + a], axis=-1) for a in (0.0, 1.0)], axis=1)  # [n, A, d]
        x[s == 7.0, 1] = [UNAVAILABLE, 0.0]
        return x

    features = FunctionFeatures(phi, 2, 2, 20.0)
    states, actions = np.arange(1.0, 9.0), np.array([0, 1, 0, 1, 1, 0, 0, 1])
    asked.clear()
    found = CoreSet(states, actions).features(features)
    np.testing.assert_array_equal(found, np.stack([states, actions], axis=1))
    assert max(asked) == 3
    with pytest.raises(InputError, match=r"7\.0"):
        CoreSet(states, np.ones(8, dtype=int)).features(features)


def test_every_pair_and_the_states_of_pairs_come_in_batches(monkeypatch):
    """Pairs state by state; the features of distinct states in the order of their first appearance, two states at a time."""
    problem = coreplan.make("random-linear:states=5,actions=3,d=4")
    monkeypatch.setattr(coreset, "_NUMBERS", 2 * 3 * 4)
    every, states = CoreSet.every(problem), problem.tabular().states
    np.testing.assert_array_equal(every.states, np.repeat(states, 3))
    np.testing.assert_array_equal(every.actions, np.tile([0, 1, 2], 5))
    found = coreset.CoreStates.at(CoreSet(states[[4, 1, 4, 0]], np.array([0, 1, 2, 0])), problem.features)
    assert found.of.tolist() == [0, 1, 0, 2]
    np.testing.assert_array_equal(found.features, problem.features(states[[4, 1, 0]]))


def test_features_are_asked_of_a_feature_map():
    with pytest.raises(InputError, match="a feature map"):
        CoreSet(np.zeros(1), np.zeros(1, dtype=int)).features(np.eye(2))
