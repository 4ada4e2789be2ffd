"""The core features' matrix: its regularised inverse, radius, coordinates and basis against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coreplan.core import Frame, frame

RNG = np.random.default_rng(0)
CORES = {
    "independent": RNG.normal(size=(3, 5)),
    "dependent": RNG.normal(size=(6, 2)) @ RNG.normal(size=(2, 4)),
    "identity": np.eye(4),
    "units": np.eye(4)[[2, 0]],
    "axes": np.diag([2.0, -0.5, 3.0]),
    "repeated axes": np.diag([1.0, 2.0, 3.0])[[0, 0, 2]],
}


@pytest.mark.parametrize("kind", CORES)
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_the_inverse_solves_the_ridge_problem(kind, ridge):
    """(Phi'Phi + lambda I)^+ Phi', lambda a multiple of the mean square of the min(m, d) singular values."""
    Phi = CORES[kind]
    lam = ridge * (Phi**2).sum() / min(Phi.shape)
    want = np.linalg.pinv(Phi.T @ Phi + lam * np.eye(Phi.shape[1])) @ Phi.T
    np.testing.assert_allclose(Frame(Phi, Phi.shape[1]).inverse(ridge), want, atol=1e-10)


@pytest.mark.parametrize("kind", CORES)
def test_coordinates_are_orthonormal_coordinates_of_the_values(kind):
    """Phi~ W = U with orthonormal columns, as many as the rank: the norm of z is that of the values Phi~ W z."""
    Phi = CORES[kind]
    rank = np.linalg.matrix_rank(Phi)
    found = Frame(Phi, Phi.shape[1])
    at = found.coordinates
    assert found.rank == at.k == rank and found.identity == (kind == "identity")
    W = np.stack([at.theta(z) for z in np.eye(rank)], axis=1)
    np.testing.assert_allclose(Phi @ W, at.U, atol=1e-10)
    np.testing.assert_allclose(at.U.T @ at.U, np.eye(rank), atol=1e-10)
    q = np.arange(1.0, len(Phi) + 1)
    np.testing.assert_allclose(Phi @ at.solve(q), Phi @ np.linalg.pinv(Phi) @ q, atol=1e-9)


@pytest.mark.parametrize("kind", CORES)
def test_the_basis_spans_the_core_features_and_is_independent(kind):
    Phi = CORES[kind]
    J, inverse = Frame(Phi, Phi.shape[1]).basis
    assert len(J) == np.linalg.matrix_rank(Phi[J]) == np.linalg.matrix_rank(Phi)
    np.testing.assert_allclose(Phi @ inverse @ Phi[J], Phi, atol=1e-10)


def test_the_radius_of_a_core_that_is_too_large_to_be_factorised(monkeypatch):
    """sqrt(d) / (1 - gamma); of unit vectors sqrt(m) / (1 - gamma), at any size."""
    monkeypatch.setattr(frame, "LARGEST", 3)
    assert Frame(np.array([[1.0, 2.0], [0.0, 1.0]]), 2).radius(0.75) == pytest.approx(4 * math.sqrt(2))
    assert Frame(np.eye(3), 3).radius(0.75) == pytest.approx(4 * math.sqrt(3))
