"""Does the core set speak about what was reached? And how strongly to regularise where it is not made of unit vectors.

Both are told from stored samples alone. If every feature is a convex combination of core features, value iteration through
the core is a contraction; next states whose features lie outside their hull are where that ends and extrapolation begins.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.optimize import nnls

from ..core.measure import unit_vectors
from ..problem import Phi, Sparse
from ..problem.features import UNAVAILABLE, dense_rows
from ..problem.model import FloatArray
from .bellman import Sampled, Through, back_up, improve

OUTSIDE = 0.05  # of the longest core feature; less may be rounding, or the tolerance of a core selection
RIDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
_WORK = 2e8  # multiplications that the look may take
_CLOSER = 64  # features that are looked at closely


@njit(cache=True, nogil=True)
def _beyond_units(phi, place):
    """Largest |phi|_1 mass that is not a (sub)convex combination of the core's unit vectors."""
    worst = 0.0
    for n in range(phi.weight.shape[0]):
        for a in range(phi.weight.shape[1]):
            if phi.weight[n, a, 0] == UNAVAILABLE:
                continue
            missing, total = 0.0, 0.0
            for i in range(phi.weight.shape[2]):
                w = phi.weight[n, a, i]
                if place[phi.index[n, a, i]] < 0:
                    missing += abs(w)
                else:
                    missing += max(-w, 0.0)
                    total += max(w, 0.0)
            worst = max(worst, missing + max(total - 1.0, 0.0))
    return worst


def outside(sampled: Sampled, through: Through, core_features: Phi) -> float:
    """How far the worst feature of next and initial states lies outside the hull of the core features and 0.

    In lengths of the longest core feature.

    Exact and complete for cores of unit vectors. Else a look at the rows with the largest leverage among some thousand:
    it can overlook a gap, and never sees one where there is none.
    """
    if through.R is None:
        beyond = (_beyond_units(phi, through.place) for phi in (sampled.phi, sampled.initial))
        return float(max(beyond))
    core = dense_rows(core_features, through.d)
    radius = float(np.linalg.norm(core, axis=1).max()) or 1.0
    unregularised = Through(core_features, through.d).R
    assert unregularised is not None
    worst = 0.0
    for phi in (sampled.phi, sampled.initial):
        rows = _spread(phi, through.d, len(core))
        coefficients = rows @ unregularised  # [n, m], the shortest ones
        gap = np.abs(rows - coefficients @ core).max(axis=1)
        suspects = np.argsort((coefficients**2).sum(axis=1) + gap / radius)[-_CLOSER:]
        worst = max(worst, *(_distance(core, rows[z], radius) for z in suspects))
    return worst / radius


def _spread(phi: Sparse, d: int, m: int) -> FloatArray:
    """Some rows of available actions, evenly spread, dense `[n, d]`."""
    n, A, k = phi.weight.shape
    most = max(8, int(_WORK / (A * d * m)))
    chosen = np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
    index, weight = phi.index[chosen].reshape(-1, k), phi.weight[chosen].reshape(-1, k)
    open_ = weight[:, 0] != UNAVAILABLE
    return dense_rows(Sparse(index[open_], weight[open_]), d)


def _distance(core: FloatArray, z: FloatArray, radius: float) -> float:
    """From z to the hull of the core rows and 0: min |core' b - z| over b >= 0, sum b <= 1, as one NNLS with a slack."""
    m, d = core.shape
    heavy = 1e3 * radius
    system = np.zeros((d + 1, m + 1))
    system[:d, :m], system[d] = core.T, heavy
    try:
        b, _ = nnls(system, np.append(z, heavy))
    except RuntimeError:  # not settled: no alarm without evidence
        return 0.0
    return float(np.linalg.norm(core.T @ b[:m] - z))


def choose_ridge(sampled: Sampled, core_features: Phi, dimension: int, held_out: int = 2) -> float:
    """The ridge whose solution on one half of the samples has the least Bellman error at the core pairs on the other.

    0 where the core features are unit vectors or a well-conditioned basis: nothing is left to choose.
    """
    if unit_vectors(core_features, dimension) is not None:
        return 0.0
    core = dense_rows(core_features, dimension)
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
