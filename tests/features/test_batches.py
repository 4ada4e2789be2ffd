"""Batches of features: whatever a map gives is checked before a kernel reads it."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan.problem import checked


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.ones((5, 2, 4)), "must have shape (5, 2, 3)"),
        (np.ones((4, 2, 3)), "must have shape (5, 2, 3)"),
        (np.full((5, 2, 3), np.nan), "not finite"),
        (np.full((5, 2, 3), np.inf), "not finite"),
        (np.full((5, 2, 3), 0.1 + 0j), "must be real numbers, got dtype complex128"),
        ([[1, 2], [3]], "cannot be read as one array"),
        (np.full((5, 2, 3), 0.6), "norm 1.03923, above the declared radius R = 1"),
    ],
)
def test_bad_features(values, words):
    features = coreplan.FunctionFeatures(lambda x: values, 2, 3, radius=1.0)
    with pytest.raises(coreplan.FeatureError) as caught:
        checked(features, np.arange(5))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("index", "weight", "words"),
    [
        (np.full((5, 2, 1), 3), np.ones((5, 2, 1)), "each must be from 0 to"),
        (np.full((5, 2, 1), -1), np.ones((5, 2, 1)), "indices [-1]"),
        (np.zeros((5, 2, 1), int), np.full((5, 2, 1), np.nan), "not finite"),
        (np.zeros((5, 2, 1)), np.ones((5, 2, 1)), "must be whole numbers"),
        (np.zeros((5, 2, 2), int), np.ones((5, 2, 2)), "must have shape (5, 2, 1)"),
    ],
)
def test_bad_sparse_features(index, weight, words):
    features = coreplan.FunctionFeatures(lambda x: (index, weight), 2, 3, radius=1.0, nonzeros=1)
    with pytest.raises(coreplan.FeatureError) as caught:
        checked(features, np.arange(5))
    assert words in str(caught.value)


def test_a_coordinate_named_twice():
    index, weight = np.zeros((5, 2, 2), int), np.full((5, 2, 2), 0.5)
    features = coreplan.FunctionFeatures(lambda x: (index, weight), 2, 3, radius=1.0, nonzeros=2)
    with pytest.raises(coreplan.FeatureError, match="name a coordinate twice"):
        checked(features, np.arange(5))


def test_any_feature_class_is_checked():
    """A class of the user's own goes through the same checks: kernels never read past an array."""

    class Mine:
        n_actions, dimension, radius, nonzeros, description = 2, 3, 1.0, None, {}

        def __call__(self, states):
            return np.zeros((len(states), 2, 100_000))

    with pytest.raises(coreplan.FeatureError, match=r"must have shape \(5, 2, 3\)"):
        checked(Mine(), np.arange(5))


def test_a_map_that_reuses_its_output_is_copied():
    out = np.zeros((5, 2, 3))

    def reuse(x):
        out[...] = x[:, None, None] / 10
        return out

    features = coreplan.FunctionFeatures(reuse, 2, 3, radius=1.0)
    first = checked(features, np.arange(5))
    checked(features, np.zeros(5))
    assert first[4, 0, 0] == 0.4


@pytest.mark.parametrize(
    ("spec", "states", "words"),
    [
        ("mountain-car:grid=3", np.array([[0.5]]), r"needs states of shape \(n, 2\), got \(1, 1\)"),
        ("mountain-car:grid=3", np.array([0.5]), "needs states of shape"),
        ("river-swim", np.array([[3]]), "needs states of shape"),
        ("river-swim", np.array([3.7]), "dtype int64, got float64"),
    ],
)
def test_states_of_the_wrong_shape_never_reach_a_kernel(spec, states, words):
    problem = coreplan.make(spec)
    with pytest.raises(coreplan.InputError, match=words):
        coreplan.SoftmaxPolicy.uniform(problem.features).act(states, 0)
    with pytest.raises(coreplan.InputError, match=words):
        problem.model.step(np.random.default_rng(0), states, np.zeros(1, dtype=int))


def test_raising_features():
    def broken(x):
        raise ZeroDivisionError("oh")

    with pytest.raises(coreplan.FeatureError, match=r"'.*broken' raised ZeroDivisionError: oh"):
        checked(coreplan.FunctionFeatures(broken, 2, 3, 1.0), np.arange(5))
