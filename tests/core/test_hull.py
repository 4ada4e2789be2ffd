"""Nearest points of a convex hull: optimality conditions, other solvers, unit vectors in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from coreplan.core import Frame, column_sizes, convex_coefficients, hull, hull_distances, into
from coreplan.problem import Sparse


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_nearest_points_satisfy_the_optimality_conditions(d, m, seed):
    """x in conv C is nearest to y iff (y - x).(c - x) <= 0 for every c in C."""
    rng = np.random.default_rng(seed)
    points, targets = rng.normal(size=(m, d)), 2 * rng.normal(size=(6, d))
    targets[0] = points[0]
    targets[1] = rng.dirichlet(np.ones(m)) @ points
    B, errors = convex_coefficients(points, targets)
    assert B.min() >= 0
    np.testing.assert_allclose(B.sum(axis=1), 1.0, atol=1e-12)
    x = B @ points
    np.testing.assert_allclose(np.linalg.norm(targets - x, axis=1), errors, atol=1e-9)
    assert errors[0] < 1e-7 and errors[1] < 1e-6
    for y, near in zip(targets, x, strict=True):
        assert ((points - near) @ (y - near)).max() < 1e-6


def test_nearest_points_against_a_general_optimiser():
    rng = np.random.default_rng(1)
    points, targets = rng.normal(size=(15, 4)), 1.5 * rng.normal(size=(5, 4))
    _, errors = convex_coefficients(points, targets)
    for y, error in zip(targets, errors, strict=True):
        result = minimize(
            lambda b, y=y: ((points.T @ b - y) ** 2).sum(), np.full(15, 1 / 15), bounds=[(0, 1)] * 15,
            constraints={"type": "eq", "fun": lambda b: b.sum() - 1}, method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )  # fmt: skip
        assert error == pytest.approx(math.sqrt(max(result.fun, 0)), abs=1e-5)


def test_one_far_point_does_not_hurt_the_hull():
    rng = np.random.default_rng(3)
    points = np.concatenate([rng.normal(size=(20, 3)), [[1e6, 0.0, 0.0]]])
    inside = rng.dirichlet(np.ones(20), size=50) @ points[:20]
    assert convex_coefficients(points, inside)[1].max() < 1e-4


# Distances.


def as_sparse(rows):
    return Sparse(np.broadcast_to(np.arange(rows.shape[1]), rows.shape).copy(), rows)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("units", [False, True])
def test_hull_distances_against_wolfe(units, sparse):
    rng = np.random.default_rng(4)
    core = np.eye(7)[[0, 2, 3, 6]] if units else rng.standard_normal((9, 7))
    points = np.concatenate([rng.standard_normal((20, 7)), rng.dirichlet(np.ones(len(core)), 5) @ core])
    exact = np.linalg.norm(convex_coefficients(core, points)[0] @ core - points, axis=1)
    wrap = as_sparse if sparse else (lambda rows: rows)
    frame = Frame(wrap(core), 7)
    assert (frame.units is not None) == units
    np.testing.assert_allclose(hull_distances(frame, wrap(points)), exact, atol=2e-6)


def test_repeated_unit_vectors_are_not_a_simplex():
    assert Frame(np.eye(3)[[0, 0, 1]], 3).units is None and Frame(2 * np.eye(3), 3).units is None


def test_the_size_of_a_column():
    """Its range over all batches; of a constant its size, of nothing 1."""
    a = np.array([[-1.0, 3.0, 0.0, 1.0], [4.0, 3.0, 0.0, -6.0]])
    b = np.array([[2.0, 3.0, 0.0, 2.0]])
    np.testing.assert_allclose(column_sizes(4, a, b), [5.0, 3.0, 1.0, 8.0])


@pytest.mark.parametrize(
    ("row", "distance"),
    [
        ([1.5, -0.5], 0.5**0.5),
        ([0.5, 0.5], 0.0),
        ([0.0, 0.0], 0.5**0.5),
        ([2.0, 0.0], 1.0),
        ([-1.0, 2.0], 2**0.5),
    ],
)
def test_the_distance_from_the_simplex_by_hand(row, distance):
    """A row with sum 1 and a negative entry lies in the plane of the simplex and outside of it."""
    found = hull._to_simplex(np.array(row), np.arange(2), np.ones(2))
    assert found == pytest.approx(distance)


def test_features_in_reduced_coordinates_are_themselves_where_nothing_is_reduced():
    f, out = np.array([1.0, -2.0, 3.0]), np.zeros(3)
    into(f, np.empty((0, 0)), out)
    np.testing.assert_array_equal(out, f)
    W = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    into(f, W, out[:2])
    np.testing.assert_allclose(out[:2], W.T @ f)
