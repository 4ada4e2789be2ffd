"""The greedy hull as written on paper, and what a choice of core pairs has to fulfil."""

from __future__ import annotations

import numpy as np
import pytest

from coreplan.core import Pool, convex_coefficients, select


def pool_of(features, visits=None):
    n = features.shape[0]
    return Pool(np.arange(n), np.zeros(n, dtype=int), features, visits)


def eager(X, size):
    """The greedy hull as written on paper: every distance anew at every step, by Wolfe's method."""
    chosen = [int(np.argmax(np.linalg.norm(X - X.mean(axis=0), axis=1)))]
    trail = [np.inf]
    while len(chosen) < size:
        distances = convex_coefficients(X[chosen], X)[1]
        chosen.append(int(np.argmax(distances)))
        trail.append(distances.max())
    return chosen, trail


def assert_exact(X, found, accuracy=1e-6):
    """Coefficients on the simplex, sparse, that give the very distances; distances of an independent method."""
    C, B = X[found.indices], found.B
    assert B.shape == (len(X), len(found.core)) and B.data.min() >= 0.0
    assert np.diff(B.indptr).max() <= X.shape[1] + 1  # Caratheodory
    np.testing.assert_allclose(B.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(X - B @ C, axis=1), found.distances, atol=1e-9)
    np.testing.assert_allclose(found.distances, convex_coefficients(C, X)[1], atol=accuracy)
    assert found.mean == pytest.approx(found.distances.mean()) and found.max == found.distances.max()


def assert_greedy(X, size=25):
    """The lazy choice is the eager one, and its errors are exact."""
    found = select(pool_of(X), size=size)
    chosen, trail = eager(X, size)
    assert found.indices.tolist() == chosen
    np.testing.assert_allclose(found.trail, trail, rtol=1e-6)
    assert_exact(X, found)


def cloud(n=150, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) * np.linspace(1.0, 3.0, d)
