"""Feature maps for boxes: closed forms, partitions of unity, radii that hold and are attained."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coreplan
from coreplan.features import dense
from coreplan.problem import (
    aggregation,
    checked,
    fourier,
    interpolation,
    interpolation_core,
    polynomial,
    radial,
    simplicial,
    tile_coding,
)

LOW, HIGH = [-1.0, 2.0], [1.0, 5.0]
MAPS = {
    "simplicial": lambda: simplicial(LOW, HIGH, [4, 3], 3),
    "tile coding": lambda: tile_coding(LOW, HIGH, [4, 3], 5, 3),
    "polynomial": lambda: polynomial(LOW, HIGH, 3, 3),
    "fourier": lambda: fourier(LOW, HIGH, 2, 3),
    "radial": lambda: radial(LOW, HIGH, [4, 4], 3),
    "radial, plain": lambda: radial(LOW, HIGH, [4, 4], 3, normalise=False, intercept=True),
}


def box(rng, n):
    return np.array(LOW) + (np.array(HIGH) - LOW) * rng.random((n, 2))


@pytest.mark.parametrize("name", MAPS)
def test_maps_keep_their_word(name):
    """Norms within the radius, also outside the box; one copy an action; NaN is refused."""
    features = MAPS[name]()
    rng = np.random.default_rng(0)
    states = np.concatenate([box(rng, 300), 10 * rng.normal(size=(300, 2)), [LOW, HIGH]])
    phi = dense(checked(features, states), features.dimension)
    assert np.linalg.norm(phi, axis=2).max() <= features.radius * (1 + 1e-9)
    base = phi[:, 0, 0::3]
    for a in range(3):
        np.testing.assert_array_equal(phi[:, a, a::3], base)
        assert not phi[:, a, (a + 1) % 3 :: 3].any()
    with pytest.raises(coreplan.FeatureError, match="not finite"):
        checked(features, np.array([[np.nan, 3.0]]))


@pytest.mark.parametrize("name", ["polynomial", "fourier"])
def test_radii_are_attained(name):
    features = MAPS[name]()
    phi = dense(features(np.array([HIGH if name == "polynomial" else LOW])), features.dimension)
    assert np.linalg.norm(phi[0, 0]) == pytest.approx(features.radius)


@pytest.mark.parametrize("name", ["simplicial", "tile coding", "radial"])
def test_partitions_of_unity(name):
    features = MAPS[name]()
    phi = dense(features(box(np.random.default_rng(1), 200)), features.dimension)
    assert phi.min() >= 0
    np.testing.assert_allclose(phi.sum(axis=2), 1.0, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_simplicial_interpolation_is_exact_on_linear_functions(D, seed):
    rng = np.random.default_rng(seed)
    low, high = -rng.random(D) - 0.1, rng.random(D) + 0.1
    features = simplicial(low, high, [3] * D, 1)
    nodes, actions = features.core()
    slope = rng.normal(size=D)
    core = dense(features(nodes), features.dimension)[np.arange(len(nodes)), actions]
    np.testing.assert_allclose(core, np.eye(len(nodes)), atol=1e-12)
    x = low + (high - low) * rng.random((20, D))
    phi = dense(features(x), features.dimension)[:, 0]
    np.testing.assert_allclose(phi @ (nodes @ slope), x @ slope, atol=1e-9)
    assert (np.count_nonzero(phi, axis=1) <= D + 1).all()


def test_polynomials_and_cosines_in_closed_form():
    x = box(np.random.default_rng(2), 50)
    z = 2 * (x - LOW) / (np.array(HIGH) - LOW) - 1
    features = polynomial(LOW, HIGH, 2, 1)
    phi = dense(features(x), features.dimension)[:, 0]
    want = {tuple(np.round(z[:, 0] ** i * z[:, 1] ** j, 12)) for i in range(3) for j in range(3 - i)}
    assert {tuple(np.round(column, 12)) for column in phi.T} == want
    features = fourier(LOW, HIGH, 1, 1)
    unit = (z + 1) / 2
    want = [np.cos(np.pi * unit @ c) for c in ([0, 0], [0, 1], [1, 0], [1, 1])]
    np.testing.assert_allclose(dense(features(x), 4)[:, 0].T, want, atol=1e-12)


def test_aggregation():
    features = aggregation(np.array([0, 0, 1, 2, 2]), 2)
    phi = dense(features(np.arange(5)), 6)
    np.testing.assert_array_equal(phi[:, 1].argmax(axis=1), [1, 1, 3, 5, 5])
    states, actions = features.core()
    np.testing.assert_array_equal(dense(features(states), 6)[np.arange(6), actions], np.eye(6))
    with pytest.raises(coreplan.FeatureError, match="state 5"):
        checked(features, np.array([5]))


def test_radial_at_given_points_and_far_away():
    features = radial(LOW, HIGH, np.array([[0.0, 3.0], [1.0, 5.0]]), 1, scale=0.1)
    phi = dense(features(np.array([[0.0, 3.0], [1e6, 1e6]])), 2)[:, 0]
    np.testing.assert_allclose(phi, [[1, 0], [0, 1]], atol=1e-12)  # the nearest counts, however far


def test_features_hand_their_core_over():
    """A problem that gives no core set takes the one its features carry; others have none."""
    model = coreplan.FunctionModel(
        3, lambda rng, n: np.zeros((n, 2)), lambda rng, x, a: (np.zeros(len(x)), x)
    )
    problem = coreplan.Problem(model, MAPS["simplicial"](), 0.9)
    assert len(coreplan.CoreSet.of(problem)) == 36
    with pytest.raises(coreplan.InputError, match="brings no core set"):
        coreplan.CoreSet.of(coreplan.Problem(model, MAPS["fourier"](), 0.9))


# Interpolation.


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 3), st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_interpolation_is_exact_on_multilinear_functions(D, nodes, seed):
    rng = np.random.default_rng(seed)
    low, high = -rng.random(D) - 0.1, rng.random(D) + 0.1
    features = interpolation(low, high, [nodes] * D, 2)
    states, actions = interpolation_core(low, high, [nodes] * D, 2)
    d = features.dimension
    core = dense(features(states), d)[np.arange(len(states)), actions]
    np.testing.assert_allclose(core, np.eye(d), atol=1e-12)
    corners = rng.normal(size=(2,) * D)

    def f(x):  # multilinear in every coordinate
        value = np.zeros(len(x))
        for c in np.ndindex(corners.shape):
            value += corners[c] * np.prod(x ** np.array(c), axis=1)
        return value

    x = low + (high - low) * rng.random((20, D))
    phi = dense(features(x), d)
    assert phi.min() >= 0
    np.testing.assert_allclose(phi.sum(axis=2), 1.0, atol=1e-12)
    theta = f(states) * (1 + actions)
    np.testing.assert_allclose(phi @ theta, np.outer(f(x), [1, 2]), atol=1e-9)


def test_interpolation_clips_and_refuses_nan():
    features = interpolation([0.0], [1.0], [3], 1)
    outside = dense(features(np.array([[-5.0], [9.0]])), 3)[:, 0]
    np.testing.assert_array_equal(outside, [[1, 0, 0], [0, 0, 1]])
    with pytest.raises(coreplan.FeatureError, match="not finite"):
        checked(features, np.array([[np.nan]]))


# Bad input.


@pytest.mark.parametrize(
    "make",
    [
        lambda: simplicial([0.0], [0.0], [3], 1),
        lambda: simplicial([0.0], [1.0], [1], 1),
        lambda: simplicial([0.0, 1.0], [1.0], [3], 1),
        lambda: tile_coding([0.0], [1.0], [4], 0, 1),
        lambda: polynomial([0.0], [1.0], -1, 1),
        lambda: fourier([1.0], [0.0], 2, 1),
        lambda: radial([0.0], [1.0], [4], 1, scale=-1.0),
        lambda: radial([0.0], [1.0], np.zeros((3, 2)), 1),
        lambda: aggregation(np.array([0, 2]), 1),
        lambda: aggregation(np.array([0.5]), 1),
    ],
)
def test_bad_maps(make):
    with pytest.raises(coreplan.InputError):
        make()
