"""The frontier: next states that were seen, but whose features the samples do not cover.

The *leverage* of a feature vector is phi' S phi with S = (sum phi phi' + g I)^-1, summed over the n sampled pairs, where g
is the mean of the diagonal of sum phi phi' / n. It is about 1 over the number of times that phi's direction was sampled,
and above 1 if it was hardly sampled at all. It only decreases as samples are added (g hardly changes), so that old values
are upper bounds.

If d is large, there is no room for S. With k nonzeros per feature vector, (phi . theta)^2 <= k sum_i phi_i^2 theta_i^2
(Cauchy-Schwarz), so sum phi phi' is at most k D, where D is its diagonal, and the leverage is at least

    sum_i phi_i^2 / (k D_ii + g),

which takes the place of the leverage: S is then diagonal, and stored as one column `[d + 1, 1]`. It is still 1 / n for a
vector that was sampled n times and shares its coordinates with no other, and large for one with a coordinate that was never
sampled. It sees which coordinates were sampled, not in which combinations: a frontier that it finds is one, and it may miss
some.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ...base import FloatArray, IntArray
from ...features import UNAVAILABLE, Sparse, available
from ...sampled import is_large, quadratics, supports

FEW = 1024  # rows, below which loops are as fast as matrix products
COPIED = 4096  # states whose features are copied at a time
STALE = 0.5  # bounds below this are not updated, since g does not change by a factor of two


def no_gram(dimension: int) -> FloatArray:
    """sum phi phi' over no pairs, `[d + 1, d + 1]`; if d is large its diagonal, `[d + 1, 1]`."""
    return np.zeros((dimension + 1, 1 if is_large(dimension) else dimension + 1))


def first_S(dimension: int) -> FloatArray:
    """S before the first solve: the identity, in the form of `no_gram`."""
    return np.ones((dimension + 1, 1)) if is_large(dimension) else np.eye(dimension + 1)


def inverse(gram: FloatArray, n: int, k: int, floor: float = 1.0) -> FloatArray:
    """S = (gram + floor g I)^-1, where gram is the unweighted sum of phi phi' over n pairs with k nonzeros each.

    If d is large, gram and S are diagonals, and the first counts k times.
    """
    large = gram.shape[1] == 1
    g = float((gram[:, 0] if large else np.diag(gram))[:-1].mean()) / n or 1.0
    if large:
        return np.asarray(1.0 / (k * gram + floor * g), dtype=np.float64)
    return np.asarray(np.linalg.inv(gram + floor * g * np.eye(len(gram))), dtype=np.float64)


@njit(cache=True, nogil=True)
def _quadratic(index, weight, S):
    """phi' S phi for one sparse row phi."""
    total = 0.0
    for i in range(index.shape[0]):
        if S.shape[1] == 1:
            total += weight[i] * S[index[i], 0] * weight[i]
            continue
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
    if S.shape[1] == 1:
        for i in range(index.shape[0]):
            S[index[i], 0] /= 1.0 + index.shape[0] * weight[i] * weight[i] * S[index[i], 0]
        return
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
    out = np.sqrt(np.maximum(_all_quadratics(phi, S), 0.0))
    return out / out.max()


def measured(next_phi: Sparse, S: FloatArray, bounds: FloatArray, new: int) -> FloatArray:
    """Upper bounds on the leverage of the next states, `[N]`; recomputed if new (from row `new` on) or large."""
    bounds, open_ = bounds.copy(), available(next_phi)
    rows = np.flatnonzero((np.arange(len(bounds)) >= new) | (bounds >= STALE))
    for part in np.array_split(rows, 1 + len(rows) // COPIED):
        largest = np.zeros(len(part))
        for a in range(open_.shape[1]):
            here = open_[part, a]
            phi = Sparse(next_phi.index[part[here], a], next_phi.weight[part[here], a])
            largest[here] = np.maximum(largest[here], _all_quadratics(phi, S))
        bounds[part] = largest
    return bounds


def _all_quadratics(phi: Sparse, S: FloatArray) -> FloatArray:
    """phi' S phi for rows phi `[n, K]`, by matrix products where many rows have few supports."""
    s = None if S.shape[1] == 1 or len(phi.weight) < FEW else supports(phi.index)
    if s is not None:
        return quadratics(phi, s, S)
    out = np.empty(len(phi.weight))
    _quadratics(phi, S, out)
    return out


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
    S, u, picks, here, open_ = S.copy(), np.empty(len(S)), [], np.empty(len(rows)), available(next_phi)
    leverage(next_phi, S, rows, here)
    bounds[rows] = here
    for _ in range(min(m, len(rows))):
        best = rows[here.argmax()]
        if here.max() <= least:
            break
        picks.append(best)
        for a in range(next_phi.index.shape[1]):  # every action there will be queried
            if open_[best, a]:
                absorb(next_phi.index[best, a], next_phi.weight[best, a], S, u)
        leverage(next_phi, S, rows, here)
    return np.array(picks, dtype=np.int64)
