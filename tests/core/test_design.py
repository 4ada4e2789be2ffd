"""Optimal designs against their definition, closed forms and another algorithm; regressions on them; and these, broken."""

from __future__ import annotations

import numpy as np
import pytest

from coreplan.core import Frame, design, optimal_design, weighted_fit
from coreplan.features import Sparse
from helpers.mutants import mutant


def leverages(X, rho, points=None):
    points = X if points is None else points
    return np.einsum("ni,ij,nj->n", points, np.linalg.pinv(X.T @ (rho[:, None] * X)), points)


def random_frame(m=80, d=6, rank=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, rank)) @ rng.normal(size=(rank, d))
    return Frame(X, d), X, rng


@pytest.mark.parametrize(("rank", "excess"), [(6, 1.0), (6, 0.01), (4, 0.1)])
def test_the_leverage_is_nearly_the_rank_everywhere_in_the_hull(rank, excess):
    frame, X, rng = random_frame(rank=rank)
    found = optimal_design(frame, excess=excess)
    assert found.rho.sum() == pytest.approx(1.0) and (found.rho >= 0).all()
    assert found.leverage == pytest.approx(leverages(X, found.rho).max(), rel=1e-6)
    assert found.leverage <= (1 + excess) * rank * (1 + 1e-6)
    inside = rng.dirichlet(np.full(80, 0.1), 200) @ X
    assert leverages(X, found.rho, inside).max() <= found.leverage * (1 + 1e-9)
    assert len(found.pairs) <= 4 * rank * np.log(np.log(rank + 3)) + 16 or excess < 1.0


def test_another_algorithm_finds_the_same_determinant():
    """The multiplicative algorithm (Titterington), which shares no step with Frank-Wolfe."""
    frame, X, _ = random_frame()
    rho = np.full(80, 1 / 80)
    for _ in range(3_000):
        rho *= leverages(X, rho) / 6
    found = optimal_design(frame, excess=1e-4).rho
    det = [np.linalg.slogdet(X.T @ (r[:, None] * X))[1] for r in (rho, found)]
    assert det[1] == pytest.approx(det[0], abs=2e-3)


def test_sizes_scale_the_features():
    frame, X, rng = random_frame()
    f = rng.uniform(0.5, 2.0, 80)
    one, two = optimal_design(frame, f, 0.01), optimal_design(Frame(X / f[:, None], 6), excess=0.01)
    assert one.leverage <= 6.07 and leverages(X / f[:, None], one.rho).max() == pytest.approx(one.leverage)
    assert two.leverage <= 6.07


@pytest.mark.parametrize("sparse", [False, True])
def test_on_axes_it_is_the_longest_of_each(sparse):
    at, lengths = np.array([0, 2, 0, 2, 1]), np.array([1.0, -3.0, 2.0, 1.0, 0.5])
    X = np.zeros((5, 4))
    X[np.arange(5), at] = lengths
    frame = Frame(Sparse(at[:, None], lengths[:, None]) if sparse else X, 4)
    found = optimal_design(frame)
    np.testing.assert_allclose(found.rho, np.array([0, 1, 1, 0, 1]) / 3)
    assert found.leverage == 3 and leverages(X, found.rho).max() == pytest.approx(3)
    np.testing.assert_allclose(optimal_design(frame, np.array([1, 9, 9, 1, 1.0])).rho * 3, [1, 0, 0, 1, 1])


def test_counts_are_whole_and_in_proportion():
    frame, _, _ = random_frame()
    found = optimal_design(frame)
    for n in (len(found.pairs), 40, 12_345):
        counts = found.counts(n)
        assert counts.sum() == n and ((counts > 0) == (found.rho > 0)).all()
    assert np.abs(counts / n - found.rho).max() < 2e-3


@pytest.mark.parametrize("form", ["dense", "sparse", "axes"])
def test_fits_are_weighted_least_squares_of_least_norm(form):
    frame, X, rng = random_frame(m=12, rank=4)
    if form != "dense":
        index = np.array([rng.permutation(6)[: 1 if form == "axes" else 3] for _ in range(12)])
        weight = rng.normal(size=index.shape)
        X = np.zeros((12, 6))
        np.put_along_axis(X, index, weight, axis=1)
        frame = Frame(Sparse(index, weight), 6)
    w, q = rng.exponential(size=12) * (rng.random(12) < 0.7), rng.normal(size=12)
    right = np.linalg.pinv(X.T @ (w[:, None] * X), rcond=1e-12, hermitian=True) @ X.T @ (w * q)
    np.testing.assert_allclose(weighted_fit(frame, w, q), right, atol=1e-8)


FAULTS = [
    ("(leverage[j] / k - 1.0) / (leverage[j] - 1.0)", "0.5"),
    ("* step / (1.0", "* 0.5 * step / (1.0"),
    ("frame.factors.U / sizes[:, None]", "frame.factors.U"),
]


@pytest.mark.parametrize(("old", "new"), FAULTS, ids=range(3))
def test_a_broken_design_is_noticed(old, new, tmp_path, monkeypatch):
    frame, X, rng = random_frame()
    f = rng.uniform(0.3, 3.0, 80)
    broken = mutant(design, old, new, tmp_path, monkeypatch)
    broken.MOST = 300
    found = broken.optimal_design(frame, f, 0.01)
    assert leverages(X / f[:, None], found.rho).max() > 1.02 * 6
