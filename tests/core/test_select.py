"""Core sets chosen from pools: planted vertices, independent solvers, deliberate faults."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import nnls

import coreplan
from coreplan import InputError
from coreplan.core import Pool, convex_coefficients, growing, rollout_pool, select, uniform_pool
from coreplan.problem import Sparse
from helpers.greedy import assert_exact, cloud, pool_of
from helpers.mutants import mutant

METHODS = ("hull", "projection", "farthest")


def planted(vertices, d, n, seed):
    """`vertices` random points in the midst of n mixtures of them; returns the points and where the vertices are."""
    rng = np.random.default_rng(seed)
    B = rng.dirichlet(np.full(vertices, 0.3), size=n)
    where = np.sort(rng.choice(n, size=vertices, replace=False))
    B[where] = np.eye(vertices)
    return B @ rng.normal(size=(vertices, d)) + 5.0, where


def independent(C, y):
    """dist(y, conv C) by scipy's NNLS with a heavy row for sum b = 1: an upper bound, tight to 1e-6 of its scale."""
    P = C - y
    heavy = 1e3 * max(np.abs(P).max(), 1e-9)
    b = nnls(np.vstack([P.T, np.full(len(C), heavy)]), np.append(np.zeros(C.shape[1]), heavy))[0]
    return np.linalg.norm(P.T @ (b / b.sum()))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["cloud", "far away", "flat", "grid", "tiny"])
def test_errors_are_exact(kind, method):
    rng = np.random.default_rng(1)
    X = {
        "cloud": cloud(),
        "far away": 1e5 + cloud(),
        "flat": rng.normal(size=(100, 3)) @ rng.normal(size=(3, 9)),
        "grid": rng.integers(0, 3, size=(200, 4)).astype(float),
        "tiny": 1e-6 * cloud(),
    }[kind]
    scale = np.linalg.norm(X - X.mean(axis=0), axis=1).mean()
    found = select(pool_of(X), size=4, method=method)
    assert_exact(X, found, accuracy=1e-6 * scale)
    assert len(found.core) == 4 and (np.diff(found.trail[1:]) <= 1e-9 * scale).all()
    C = X[found.indices]
    for z in rng.choice(len(X), size=20, replace=False):
        assert found.distances[z] == pytest.approx(independent(C, X[z]), abs=1e-5 * scale)


def test_many_vertices_in_high_dimension():
    """Gaussian points, where faces have dozens of vertices, and deep mixtures, where all d + 1 are needed."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(1500, 60))
    found = select(pool_of(X), size=200)
    C = X[found.indices]
    for z in rng.choice(1500, size=40, replace=False):
        assert found.distances[z] == pytest.approx(independent(C, X[z]), abs=1e-6)
    Y, where = planted(200, 60, 800, seed=3)
    found = select(pool_of(Y), size=300)
    assert sorted(found.indices) == where.tolist() and found.max < 1e-5


@pytest.mark.parametrize("seed", range(12))
def test_near_copies_on_uneven_scales(seed):
    """Clusters around few vertices, coordinates from 0.01 to 100, more chosen than there are clusters: vertices that
    depend on each other come and go."""
    rng = np.random.default_rng(seed)
    d, vertices = rng.integers(2, 25), rng.integers(3, 15)
    X = rng.dirichlet(np.full(vertices, 0.2), size=300) @ rng.normal(size=(vertices, d))
    X = (X + 10.0 ** -rng.integers(1, 9) * rng.normal(size=X.shape)) * 10.0 ** rng.uniform(-2, 2, d)
    scale = np.linalg.norm(X - X.mean(axis=0), axis=1).mean()
    assert_exact(X, select(pool_of(X), size=45), accuracy=1e-6 * scale)


@pytest.mark.parametrize(("method", "vertices", "d"), [("hull", 12, 4), ("hull", 30, 25), ("projection", 10, 20),
                                                       ("projection", 21, 20)])  # fmt: skip
def test_planted_vertices_are_recovered(method, vertices, d):
    """Projection finds affinely independent vertices, up to d + 1 of them; the hull finds any."""
    X, where = planted(vertices, d, 500, seed=4)
    if method == "hull":  # of 12 random points in dimension 4 some may be mixtures of the others
        inner = [v for v in where if convex_coefficients(X[where[where != v]], X[[v]])[1][0] < 1e-6]
        where = np.setdiff1d(where, inner)
    for found in (
        select(pool_of(X), tolerance=1e-5, method=method),
        select(pool_of(X), size=len(where), method=method),
    ):
        assert sorted(found.indices) == where.tolist()
        assert found.max < 1e-5
        assert_exact(X, found, accuracy=2e-6)


def test_noise_costs_little():
    """With noise of norm at most e at every point the hull of the vertices leaves at most 2 e."""
    X, where = planted(15, 10, 1000, seed=5)
    noise = np.random.default_rng(6).normal(size=X.shape)
    noise *= 0.01 / np.linalg.norm(noise, axis=1, keepdims=True)
    found = select(pool_of(X + noise), tolerance=0.02)
    assert found.max <= 0.02 and set(where) <= set(found.indices.tolist())


def test_more_vertices_less_error():
    X = cloud(400, 6)
    largest = [select(pool_of(X), size=m).max for m in (1, 5, 20, 60)]
    assert (np.diff(largest) < 0).all()
    found = select(pool_of(X), size=60)
    assert largest[1] == pytest.approx(found.trail[5]) and largest[2] == pytest.approx(found.trail[20])
    within = select(pool_of(X), tolerance=largest[2])
    assert within.indices.tolist() == found.indices[:20].tolist()  # a tolerance that is met needs no more
    both = select(pool_of(X), size=5, tolerance=1e-3)
    assert len(both.core) == 5 and both.max == largest[1]


def test_farthest_is_within_twice_the_best():
    """k-center: the m-th point was at distance trail[m-1] of all before it, and every point is within that (Gonzalez)."""
    X = cloud(300, 3)
    found = select(pool_of(X), size=20, method="farthest")
    between = np.linalg.norm(X[:, None] - X[found.indices], axis=2)
    assert between.min(axis=1).max() <= found.trail[-1]
    chosen = between[found.indices]
    assert (chosen + 1e9 * np.eye(20)).min() == pytest.approx(found.trail[-1])


def test_visits_weigh():
    X = cloud(50, 3)
    visits = np.zeros(50)
    visits[[3, 8]] = 1.0, 3.0
    found = select(pool_of(X, visits), size=4)
    assert found.weighted == pytest.approx(0.25 * found.distances[3] + 0.75 * found.distances[8])
    assert found.weighted != pytest.approx(found.mean)


@pytest.mark.parametrize("method", METHODS)
def test_sparse_is_dense(method):
    rng = np.random.default_rng(7)
    matrix = sparse.random(250, 30, density=0.15, random_state=8, format="csr")
    matrix.data = rng.random(len(matrix.data)) + 0.1
    thin, thick = pool_of(matrix), pool_of(matrix.toarray())
    assert isinstance(thin.features, Sparse) and growing.Points(thin.features).rows is thin.features
    one, two = (select(pool, size=20, method=method) for pool in (thin, thick))
    assert one.indices.tolist() == two.indices.tolist()
    np.testing.assert_allclose(one.distances, two.distances, atol=1e-6)
    assert_exact(matrix.toarray(), one)


def test_one_hot_pool():
    """Ten thousand one-hot rows of dimension 60: each unit vector is chosen once, and nothing is left."""
    where = np.random.default_rng(9).integers(60, size=10_000)
    matrix = sparse.csr_matrix((np.ones(10_000), (np.arange(10_000), where)), shape=(10_000, 60))
    found = select(pool_of(matrix), size=60)
    assert sorted(where[found.indices]) == list(range(60)) and found.max == 0.0
    assert found.B.nnz == 10_000 and (where[found.indices][found.B.indices] == where).all()


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_pool(data):
    """Small pools with ties, copies and flat directions: exact errors, at most `size`, within the tolerance."""
    n, d = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 4))
    rows = st.lists(st.integers(-3, 3), min_size=d, max_size=d)
    X = np.array(data.draw(st.lists(rows, min_size=n, max_size=n)), dtype=float)
    tolerance = data.draw(st.sampled_from([0.0, 0.5, 1.0]))
    for method in METHODS:
        found = select(pool_of(X), tolerance=tolerance, method=method)
        assert_exact(X, found, accuracy=1e-5)
        assert method == "projection" or found.max <= tolerance + 1e-5
        assert (np.diff(found.trail[1:]) <= 1e-9).all()
    distinct = len(np.unique(X, axis=0))
    assert len(select(pool_of(X), size=distinct, method="farthest").core) == distinct
    with pytest.raises(InputError, match=f"only {distinct} different"):
        select(pool_of(X), size=distinct + 1)


BAD = {
    "needs size": (lambda p: select(p), "needs size"),
    "size": (lambda p: select(p, size=0), "at least 1"),
    "tolerance": (lambda p: select(p, tolerance=-1.0), "at least 0"),
    "method": (lambda p: select(p, size=2, method="magic"), "must be one of hull"),
    "span": (lambda p: select(p, size=20, method="projection"), "at most 6"),
    "shape": (lambda p: Pool(np.arange(3), np.zeros(3, int), np.ones((2, 4))), r"shape \(3, d\)"),
    "nan": (lambda p: Pool([0, 1], [0, 0], [[1.0], [np.nan]]), "pair 1 of the pool"),
    "actions": (lambda p: Pool([0, 1], [0.5, 0.0], np.ones((2, 1))), "whole numbers"),
    "empty": (lambda p: Pool(np.zeros(0), np.zeros(0, int), np.zeros((0, 2))), "m >= 1"),
    "visits": (lambda p: Pool([0, 1], [0, 0], np.ones((2, 1)), [1.0, -1.0]), "none negative"),
    "index": (lambda p: Pool([0], [0], Sparse(np.array([[-1]]), np.ones((1, 1)))), "not negative"),
    "action": (lambda p: Pool.of(coreplan.make("river-swim"), [0, 1], [0, 2]), "Pair 1 has action 2"),
    "box": (lambda p: uniform_pool(coreplan.make("river-swim"), 5, box=(3, 1)), "low <= high"),
    "no box": (lambda p: uniform_pool(coreplan.make("river-swim"), 5), "either box"),
    "count": (lambda p: rollout_pool(coreplan.make("river-swim"), None, 0), "at least 1"),
    "seed": (lambda p: rollout_pool(coreplan.make("river-swim"), None, 5, seed="x"), "seed"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_explained(case):
    call, words = BAD[case]
    with pytest.raises(InputError, match=words):
        call(pool_of(cloud()))


# Deliberate faults.


selecting = importlib.import_module(
    "coreplan.core.selection"
)  # the module; the package's name is the function
OTHER_FAULTS = {
    "weighted by nothing": ("float(pool.weights @ distances)", "float(distances.mean())", test_visits_weigh),
    "a projection that forgets the origin": ("points.products(q) - first @ q", "points.products(q)",
                                             lambda: test_planted_vertices_are_recovered("projection", 21, 20)),
    "the farthest from any": ("np.minimum(rest, ", "np.maximum(np.where(rest < 1e300, rest, 0.0), ",
                              test_farthest_is_within_twice_the_best),
}  # fmt: skip


@pytest.mark.parametrize("fault", OTHER_FAULTS)
def test_other_faults_are_noticed(fault, tmp_path, monkeypatch):
    old, new, test = OTHER_FAULTS[fault]
    monkeypatch.setitem(globals(), "select", mutant(selecting, old, new, tmp_path, monkeypatch).select)
    with pytest.raises((AssertionError, InputError)):
        test()


@pytest.mark.parametrize("method", METHODS)
def test_a_distance_of_exactly_the_tolerance_is_near_enough(method):
    """Two points, 10 apart: whole numbers, so that nothing is rounded."""
    pool = pool_of(np.array([[-3.0, -4.0], [3.0, 4.0]]))
    assert len(select(pool, tolerance=10.0, method=method).core) == 1
    assert len(select(pool, tolerance=9.999, method=method).core) == 2
