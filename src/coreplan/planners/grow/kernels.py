"""The frontier: next states that were seen, but whose features the samples do not cover.

The *leverage* of a feature vector is phi' S phi with S = (sum phi phi' + g I)^-1, summed over the n sampled pairs, where g
is the mean of the diagonal of sum phi phi' / n. It is about 1 over the number of times that phi's direction was sampled,
and above 1 if it was hardly sampled at all. It only decreases as samples are added (g hardly changes), so that old values
are upper bounds.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ...base import FloatArray, IntArray
from ...features import UNAVAILABLE, Sparse

STALE = 0.5  # bounds below this are not updated, since g does not change by a factor of two


def inverse(gram: FloatArray, n: int, floor: float = 1.0) -> FloatArray:
    """S = (gram + floor g I)^-1, `[d + 1, d + 1]`, where gram is the unweighted sum of phi phi' over n pairs."""
    g = float(np.diag(gram)[:-1].mean()) / n or 1.0
    return np.asarray(np.linalg.inv(gram + floor * g * np.eye(len(gram))), dtype=np.float64)


@njit(cache=True, nogil=True)
def _quadratic(index, weight, S):
    """phi' S phi for one sparse row phi."""
    total = 0.0
    for i in range(index.shape[0]):
        part = 0.0
        for j in range(index.shape[0]):
            part += S[index[i], index[j]] * weight[j]
        total += weight[i] * part
    return total


@njit(cache=True, nogil=True)
def _quadratics(phi, S, out):
    for n in range(out.shape[0]):
        out[n] = _quadratic(phi.index[n], phi.weight[n], S)


@njit(cache=True, nogil=True)
def leverage(phi, S, rows, out):
    """Write the largest phi(y_n, a)' S phi(y_n, a) over the available actions into `out`, for each n in `rows`."""
    for i in range(rows.shape[0]):
        n = rows[i]
        out[i] = 0.0
        for a in range(phi.index.shape[1]):
            if phi.weight[n, a, 0] != UNAVAILABLE:
                out[i] = max(out[i], _quadratic(phi.index[n, a], phi.weight[n, a], S))


@njit(cache=True, nogil=True)
def absorb(index, weight, S, u):
    """Update S for one more sample phi, in place (Sherman-Morrison formula); `u [d + 1]` is scratch space."""
    u[:] = 0.0
    for j in range(index.shape[0]):
        for i in range(u.shape[0]):
            u[i] += S[i, index[j]] * weight[j]
    scale = 1.0
    for j in range(index.shape[0]):
        scale += weight[j] * u[index[j]]
    for i in range(u.shape[0]):
        for j in range(u.shape[0]):
            S[i, j] -= u[i] * u[j] / scale


@njit(cache=True, nogil=True)
def absorb_all(phi, S, u):
    """Update S for the samples phi `[n, K]`, in place."""
    for n in range(phi.index.shape[0]):
        absorb(phi.index[n], phi.weight[n], S, u)


def uncertainty(phi: Sparse, S: FloatArray) -> FloatArray:
    """sqrt(phi' S phi) for every sample `[N, K]`, scaled to at most 1: a reward for going where little is known."""
    out = np.empty(len(phi.weight))
    _quadratics(phi, S, out)
    out = np.sqrt(np.maximum(out, 0.0))
    return out / out.max()


def measured(next_phi: Sparse, S: FloatArray, bounds: FloatArray, new: int) -> FloatArray:
    """Upper bounds on the leverage of the next states, `[N]`; recomputed if new (from row `new` on) or large."""
    bounds = bounds.copy()
    rows = np.flatnonzero((np.arange(len(bounds)) >= new) | (bounds >= STALE))
    out = np.empty(len(rows))
    leverage(next_phi, S, rows, out)
    bounds[rows] = out
    return bounds


def pick(
    next_phi: Sparse, S: FloatArray, bounds: FloatArray, m: int, least: float = 0.0, most: int = 500
) -> IntArray:
    """Up to m next states with leverage above `least`, largest first.

    They lie far from one another, since each pick counts as sampled for the next. Updates the bounds of the (at most
    `most`) states that it considers.
    """
    rows = np.flatnonzero(bounds > least)
    if len(rows) > most:
        rows = rows[np.argpartition(-bounds[rows], most)[:most]]
    S, u, picks, here = S.copy(), np.empty(len(S)), [], np.empty(len(rows))
    leverage(next_phi, S, rows, here)
    bounds[rows] = here
    for _ in range(min(m, len(rows))):
        best = rows[here.argmax()]
        if here.max() <= least:
            break
        picks.append(best)
        for a in range(next_phi.index.shape[1]):  # every action there will be queried
            if next_phi.weight[best, a, 0] != UNAVAILABLE:
                absorb(next_phi.index[best, a], next_phi.weight[best, a], S, u)
        leverage(next_phi, S, rows, here)
    return np.array(picks, dtype=np.int64)
