"""Exact nearest points of a convex hull for very many points, in compiled code, by the vertices' Gram matrix.

Let p_j = c_j - z for the vertices c_j and a point z. The nearest point of the hull to z is sum_j b_j c_j, with b the point
of the simplex that minimises |P'b|. It is found as the non-negative least squares problem
min_w |P'w|^2 + s^2 (sum w - 1)^2 with b = w / sum w. Its active sets are those of Wolfe's method (Lawson & Hanson 1974;
Wolfe 1976): on the active set K w = s^2 1 with K_ij = p_i . p_j + s^2, which is positive definite as long as the active
points are affinely independent. The Cholesky factor of K is updated in O(k^2) when a vertex enters or leaves; several
vertices enter at once, and the ratio test removes those that should not have. Each step prices all vertices by one product
with rows of the Gram matrix, so that vectors of length d are used only at the start and at the end.

Rows of a pool are dense `[N, d]` or Sparse `[N, k]`; only `load`, `inner` and `subtract` need to know which.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..features import SUMS, fast_add, fast_dot, inner, load, subtract

_ACCURACY = 1e-14  # duality gap relative to the mean squared norm; gives distances to 1.4e-7 of the norm
_DEPENDENT = 1e-13  # a vertex this close to the span of the active ones (squared, relative) cannot enter
_PROGRESS = 1.0 - 1e-12  # a step that leaves more of |x|^2 than this makes no progress beyond rounding
_ENTER, _TOGETHER = 0.7, 8  # vertices within this fraction of the worst violation enter, at most 8 at once


@njit(cache=True, nogil=True)
def _append(U, y, k, column, diagonal):
    """Add a row to K, keeping U'U = K and U'y = 1; k is the size before. Returns False if the row depends on the others."""
    for i in range(k):  # U' column = the new row of K, in place
        column[i] /= U[i, i]
        fast_add(-column[i], U[i, i + 1 : k], column[i + 1 : k])
    rest = diagonal - fast_dot(column[:k], column[:k])
    if rest <= _DEPENDENT * diagonal:
        return False
    U[:k, k] = column[:k]
    U[k, k] = np.sqrt(rest)
    y[k] = (1.0 - fast_dot(column[:k], y[:k])) / U[k, k]
    return True


@njit(cache=True, nogil=True, fastmath=SUMS)
def _rotate(c, s, carried, lower, out):
    for j in range(lower.shape[0]):
        upper = carried[j]
        out[j] = c * upper + s * lower[j]
        carried[j] = c * lower[j] - s * upper


@njit(cache=True, nogil=True)
def _remove(U, y, k, p, carried):
    """Remove row and column p of K: shift the columns of U, then rotate its rows, and y, back to triangular form."""
    for i in range(p):
        U[i, p : k - 1] = U[i, p + 1 : k]
    carried[p : k - 1] = U[p, p + 1 : k]
    for i in range(p, k - 1):
        size = np.sqrt(carried[i] ** 2 + U[i + 1, i + 1] ** 2)
        c, s = carried[i] / size, U[i + 1, i + 1] / size
        _rotate(c, s, carried[i : k - 1], U[i + 1, i + 1 : k], U[i, i : k - 1])
        y[i], y[i + 1] = c * y[i] + s * y[i + 1], c * y[i + 1] - s * y[i]


@njit(cache=True, nogil=True)
def _enter(G, g, zz, unit, S, k, j, U, y, column):
    """Add vertex j to the active set `S [k]` if it is independent of it; returns whether it was."""
    base = zz + unit - g[j]
    for l in range(k):
        column[l] = G[j, S[l]] - g[S[l]] + base
    if not _append(U, y, k, column, G[j, j] - g[j] + base):
        return False
    S[k] = j
    return True


@njit(cache=True, nogil=True)
def _descend(U, y, S, u, v, k, spare):
    """Move from u >= 0 to the minimiser over the active set, dropping vertices whose weight would turn negative.

    Returns the new size k of the active set.
    """
    while True:
        for i in range(k - 1, -1, -1):
            v[i] = (y[i] - fast_dot(U[i, i + 1 : k], v[i + 1 : k])) / U[i, i]
        step, drop = 1.0, -1
        for i in range(k):
            if v[i] <= 0.0:
                reach = u[i] / (u[i] - v[i]) if u[i] > 0.0 else 0.0
                if drop < 0 or reach < step:
                    step, drop = reach, i
        if drop < 0:
            u[:k] = v[:k]
            return k
        for i in range(k):
            u[i] += step * (v[i] - u[i])
        _remove(U, y, k, drop, spare)
        k -= 1
        for i in range(drop, k):
            S[i], u[i] = S[i + 1], u[i + 1]


@njit(cache=True, nogil=True)
def _price(G, g, zz, S, b, k, h):
    """Set h[j] = |x|^2 - p_j . x for x = P'b, the gain to be expected from vertex j; return |x|^2."""
    h[:] = 0.0
    middle = 0.0
    for i in range(k):
        fast_add(b[i], G[S[i], : h.shape[0]], h)
        middle += b[i] * g[S[i]]
    square = 0.0
    for i in range(k):
        square += b[i] * (h[S[i]] - g[S[i]] + zz - middle)
    for j in range(h.shape[0]):
        h[j] = square - (h[j] - g[j] + zz - middle)
    return square


@njit(cache=True, nogil=True)
def _solve(G, g, zz, unit, S, b, k, work):
    """Find the nearest point to z, starting from the active set `S [k]` with weights `b [k]` (k may be 0); return the new k.

    G `[m, m]` and g `[m]` are the vertices' inner products with each other and with z; zz is |z|^2, unit is s^2.
    """
    U, y, u, v, column, h, barred = work
    most = U.shape[0]
    barred[:] = False
    tried = np.empty(_TOGETHER, dtype=np.int64)
    entered, last, factored = 0, np.inf, False
    if k == 0:
        S[0], b[0], k = 0, 1.0, 1
        for j in range(h.shape[0]):  # start at the nearest vertex
            if G[j, j] - 2.0 * g[j] < G[S[0], S[0]] - 2.0 * g[S[0]]:
                S[0] = j
    for _ in range(10 * (h.shape[0] + most) + 100):
        square = _price(G, g, zz, S, b, k, h)
        if square < last * _PROGRESS:
            barred[:] = False
            last = square
        else:  # rounding: the vertices just tried make no progress here
            for i in range(entered):
                barred[tried[i]] = True
        for i in range(k):
            h[S[i]] = 0.0
        worst = 0.0
        for j in range(h.shape[0]):
            if not barred[j]:
                worst = max(worst, h[j])
        if min(worst, square) <= _ACCURACY * unit or k == most:
            break
        if not factored:
            factored, k = True, _factor(G, g, zz, unit, S, b, k, square, U, y, u, column)
        entered = 0
        for j in range(h.shape[0]):
            if h[j] >= _ENTER * worst and not barred[j] and entered < _TOGETHER and k < most:
                if _enter(G, g, zz, unit, S, k, j, U, y, column):
                    u[k] = 0.0
                    k += 1
                    tried[entered] = j
                    entered += 1
                elif entered == 0:  # otherwise it may depend only on one that has just entered, a near copy
                    barred[j] = True
        k = _descend(U, y, S, u, v, k, column)
        b[:k] = u[:k] / np.sum(u[:k])
    return k


@njit(cache=True, nogil=True)
def _factor(G, g, zz, unit, S, b, k, square, U, y, u, column):
    """The Cholesky factor for a given active set, without the vertices that have become dependent; returns the new k."""
    kept = 0
    for i in range(k):
        if _enter(G, g, zz, unit, S, kept, S[i], U, y, column):
            u[kept] = b[i] / (square + unit)  # K b = (|x|^2 + s^2) 1 at a minimiser over the active set
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def nearest(rows, d, vertices, G, unit, zs, S, b, count, distance):
    """For each of the rows `zs [n]` the nearest point of the hull of the rows `vertices [m]`, and its distance.

    The active sets `S [n, k]`, `b [n, k]`, `count [n]` are the start (count 0: none) and are replaced by the solution;
    `distance [n]` is filled.
    """
    m, most = len(vertices), S.shape[1]
    r = np.empty(d)
    work = (
        np.empty((most, most)), np.empty(most), np.empty(most), np.empty(most), np.empty(most),
        np.empty(m), np.empty(m, dtype=np.bool_),
    )  # fmt: skip
    g = np.empty(m)
    for n in range(len(zs)):
        load(rows, zs[n], r)
        for j in range(m):
            g[j] = inner(rows, vertices[j], r)
        count[n] = _solve(G, g, fast_dot(r, r), unit, S[n], b[n], count[n], work)
        for i in range(count[n]):
            subtract(rows, vertices[S[n, i]], b[n, i], r)
        # Computed from the point that b gives, not from the Gram matrix, whose rounding is larger.
        distance[n] = np.sqrt(fast_dot(r, r))
