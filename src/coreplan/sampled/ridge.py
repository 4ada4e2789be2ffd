"""How strongly to regularise the least squares through core features that are not unit vectors, told from samples alone."""

from __future__ import annotations

import numpy as np

from ..base import FloatArray
from ..core import unit_vectors
from ..features import Phi, dense
from .policy_iteration import Sampled, Through, back_up, improve

RIDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


def choose_ridge(sampled: Sampled, core_features: Phi, dimension: int, held_out: int = 2) -> float:
    """The ridge whose solution on one half of the samples has the least Bellman error at the core pairs on the other.

    0 where the core features are unit vectors or a well-conditioned basis: nothing is left to choose.
    """
    if unit_vectors(core_features) is not None:
        return 0.0
    core = dense(core_features, dimension)
    m, d = core.shape
    if m <= d and np.linalg.cond(core) < 1e3:
        return 0.0
    N = sampled.n // m
    if N < 2:
        return RIDGES[2]
    parity = np.repeat(np.arange(N) % held_out, m)
    errors = [_held_out_error(sampled, core_features, core, ridge, parity) for ridge in RIDGES]
    return RIDGES[int(np.argmin(errors))]


def _held_out_error(
    sampled: Sampled, core_features: Phi, core: FloatArray, ridge: float, parity: np.ndarray
) -> float:
    """Mean squared Bellman error at the core pairs, solved on one half and measured on the other, both ways."""
    m, d = core.shape
    through = Through(core_features, d, ridge)
    total = 0.0
    for half in (0, 1):
        w, other = (np.where(parity == p, m / (parity == p).sum(), 0.0) for p in (half, 1 - half))
        solution = sampled.solve(through, w)
        if not solution.settled:
            return np.inf
        value, q = np.empty(sampled.n), np.zeros(m)
        improve(sampled.phi, solution.theta, solution.choice, value)
        back_up(value, other, sampled.top, q)
        total += float(((core @ solution.theta - sampled.r - sampled.discount * q) ** 2).mean())
    return total
