"""Compiled: nearest points of a convex hull for very many points, exact, in the vertices' Gram matrix.

With p_j = c_j - z for the vertices c_j, the nearest point of conv C to z is sum_j b_j c_j for the b in the simplex of least
|P'b|. It is found as the non-negative least squares problem min_w |P'w|^2 + s^2 (sum w - 1)^2, b = w / sum w, whose active
sets are those of Wolfe's method (Lawson & Hanson 1974; Wolfe 1976): on the active set K w = s^2 1 with
K_ij = p_i . p_j + s^2, positive definite as long as the active points are affinely independent. The Cholesky factor of K
follows additions and removals in O(k^2); several vertices enter at once, and the ratio test throws out those that should
not have. One product of Gram rows a step prices all vertices: nothing of size d is touched between start and end.

Rows of a pool are dense `[N, d]` or Sparse `[N, k]`; `load`, `inner` and `subtract` are all that knows which.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..features import SUMS, fast_add, fast_dot, inner, load, subtract

_ACCURACY = 1e-14  # of the duality gap, relative to the mean squared norm: distances to 1.4e-7 of their root
_DEPENDENT = 1e-13  # a vertex this close to the span of the active ones (squared, relative) cannot enter
_PROGRESS = 1.0 - 1e-12  # a step that shortens |x|^2 by less is rounding
_ENTER, _TOGETHER = 0.7, 8  # vertices that violate by this share of the worst enter, so many at once


@njit(cache=True, nogil=True)
def _append(U, y, k, column, diagonal):
    """Let K grow by a row: U'U = K and U'y = 1, both [k] before. False where it depends on the others."""
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
    """Let row and column p of K go: shift the columns of U, rotate the rows back to a triangle, and y with them."""
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
    """Vertex j joins the active set S [k], if it is independent of it."""
    base = zz + unit - g[j]
    for l in range(k):
        column[l] = G[j, S[l]] - g[S[l]] + base
    if not _append(U, y, k, column, G[j, j] - g[j] + base):
        return False
    S[k] = j
    return True


@njit(cache=True, nogil=True)
def _descend(U, y, S, u, v, k, spare):
    """From u >= 0 to the minimiser over the active set, dropping vertices whose weight would turn negative; new k."""
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
    """h[j] = |x|^2 - p_j . x for x = P'b, the gain that vertex j promises; returns |x|^2."""
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
    """The nearest point to z, from the active set `S [k]` with weights `b [k]` (or none); returns the new k.

    G `[m, m]` and g `[m]` are the vertices' products with each other and with z, zz is |z|^2, unit is s^2.
    """
    U, y, u, v, column, h, barred = work
    most = U.shape[0]
    barred[:] = False
    tried = np.empty(_TOGETHER, dtype=np.int64)
    entered, last, factored = 0, np.inf, False
    if k == 0:
        S[0], b[0], k = 0, 1.0, 1
        for j in range(h.shape[0]):  # the nearest vertex
            if G[j, j] - 2.0 * g[j] < G[S[0], S[0]] - 2.0 * g[S[0]]:
                S[0] = j
    for _ in range(10 * (h.shape[0] + most) + 100):
        square = _price(G, g, zz, S, b, k, h)
        if square < last * _PROGRESS:
            barred[:] = False
            last = square
        else:  # rounding: what has just been tried does not help here
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
                elif entered == 0:  # else it may depend only on one that entered with it, as a near copy does
                    barred[j] = True
        k = _descend(U, y, S, u, v, k, column)
        b[:k] = u[:k] / np.sum(u[:k])
    return k


@njit(cache=True, nogil=True)
def _factor(G, g, zz, unit, S, b, k, square, U, y, u, column):
    """The Cholesky factor for an active set that was given, leaving out what has become dependent; new k."""
    kept = 0
    for i in range(k):
        if _enter(G, g, zz, unit, S, kept, S[i], U, y, column):
            u[kept] = b[i] / (square + unit)  # K b = (|x|^2 + s^2) 1 at a minimiser over the active set
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def nearest(rows, d, vertices, G, unit, zs, S, b, count, distance):
    """For the rows `zs [n]`: nearest points of the hull of the rows `vertices [m]`, coefficients and distances.

    `S [n, k]`, `b [n, k]`, `count [n]` hold active sets to start from (count 0: none), and the answer afterwards.
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
        distance[n] = np.sqrt(
            fast_dot(r, r)
        )  # of the very point that b gives, free of the Gram matrix's rounding
