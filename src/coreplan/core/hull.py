"""Is a feature inside the convex hull of the core features? Assumption 1's error, measured, by one rule.

Two ways to the nearest point: for very many points the compiled method of `nearest.py` (distances to 1e-7 of the
features' size), for the paper's own definitions Wolfe's, to all digits.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..base import FloatArray, InputError, IntArray
from ..features import Phi, dense, entries, length, stack, take
from .frame import Frame
from .growing import GrowingHull, Points

TOLERANCE = 1e-5  # of the core features' size: a distance below it is rounding, of single precision too
MOST = 5000  # core pairs whose products are held as an m x m matrix


def is_inside(distance: float, core_features: Phi) -> bool:
    """Whether a distance from the hull is no more than rounding, relative to the root mean square of the core's norms."""
    size = math.sqrt(float((entries(core_features) ** 2).sum(axis=1).mean()))
    return distance <= TOLERANCE * size


def measurable(frame: Frame) -> bool:
    """Whether `hull_distances` can be computed: unit vectors, or at most `MOST` core pairs."""
    return frame.units is not None or frame.m <= MOST


def hull_distances(frame: Frame, rows: Phi) -> FloatArray:
    """The distance of every row `[N, d]` from the convex hull of the core features: `[N]`.

    Where the core features are unit vectors, as those of interpolating features are, the hull is a simplex and the
    distance is that of a projection onto it, for any m. Otherwise m is at most 5,000.
    """
    if frame.units is not None:
        each = (dense(take(rows, slice(n, n + 1)), frame.d)[0] for n in range(length(rows)))
        return np.array([_to_simplex(row, frame.units) for row in each])
    if not measurable(frame):
        raise InputError(
            f"The hull of {frame.m} core pairs is too large to be measured; at most {MOST}. Choose some: "
            "coreplan.core.select."
        )
    hull = GrowingHull(Points(stack([frame.features, rows])))
    for j in range(frame.m):
        hull.add(j)
    hull.refresh(np.arange(frame.m, frame.m + length(rows)))
    return hull.bound[frame.m :].copy()


def _to_simplex(row: FloatArray, units: IntArray) -> float:
    """The distance from {x >= 0, sum x = 1} on the coordinates `units`."""
    inside = row[units]
    outside = max(float(row @ row - inside @ inside), 0.0)
    if outside == 0.0 and inside.min() >= 0.0 and abs(inside.sum() - 1.0) <= 1e-12:
        return 0.0
    u = np.sort(inside)[::-1]  # the classic projection: subtract tau, cut at zero
    tau = (np.cumsum(u) - 1.0) / np.arange(1, len(u) + 1)
    nearest = np.maximum(inside - tau[np.flatnonzero(u > tau)[-1]], 0.0)
    return float(np.sqrt(outside + np.square(inside - nearest).sum()))


@njit(cache=True, nogil=True)
def _nearest(points, y, b, tolerance):
    """min |points' b - y| over the simplex, into `b [m]`; returns the distance. Wolfe (1976).

    Works on p_j = points_j - y. Major step: add the point that most decreases p_j . x; minor steps: move to the
    affine minimiser of the active points, dropping those whose coefficient would turn negative.
    """
    m, d = points.shape
    P = points - y
    norms = np.empty(m)
    for j in range(m):
        norms[j] = P[j] @ P[j]
    b[:] = 0.0
    active = np.empty(m, dtype=np.int64)
    active[0] = np.argmin(norms)
    n = 1
    b[active[0]] = 1.0
    x = P[active[0]].copy()
    for _ in range(20 * (m + d) + 100):
        products = P @ x
        new = np.argmin(products)
        square = x @ x
        if square <= 1e-30 * norms[active[0]] or products[new] >= square - tolerance * (
            square + np.sqrt(square * norms[new])
        ):
            break
        known = False
        for i in range(n):
            known |= active[i] == new
        if known or n > d:  # rounding: no further progress is possible
            break
        active[n] = new
        n += 1
        while True:
            # Affine minimiser sum c_i p_i with sum c_i = 1. In units c_i |p_i| a far point does not spoil the system:
            # [0 1/|p|'; 1/|p| cosines] [mu; c |p|] = [1; 0], with one row scaled by the smallest |p|.
            K = np.zeros((n + 1, n + 1))
            right = np.zeros(n + 1)
            unit = np.inf
            for i in range(n):
                unit = min(unit, norms[active[i]])
            unit = np.sqrt(max(unit, 1e-300))
            right[0] = unit
            for i in range(n):
                size = np.sqrt(max(norms[active[i]], 1e-300))
                K[0, i + 1] = unit / size
                K[i + 1, 0] = unit / size
                for l in range(n):
                    K[i + 1, l + 1] = (
                        P[active[i]] @ P[active[l]] / size / np.sqrt(max(norms[active[l]], 1e-300))
                    )
                K[i + 1, i + 1] += 1e-14
            c = np.linalg.solve(K, right)[1:]
            for i in range(n):
                c[i] /= np.sqrt(max(norms[active[i]], 1e-300))
            step = 1.0
            drop = -1
            for i in range(n):
                old = b[active[i]]
                if c[i] <= 1e-14 and old - c[i] > 0.0 and old / (old - c[i]) < step:
                    step, drop = old / (old - c[i]), i
            for i in range(n):
                b[active[i]] += step * (c[i] - b[active[i]])
            if drop < 0:
                break
            b[active[drop]] = 0.0
            n -= 1
            active[drop] = active[n]
            if n == 0:
                break
        total = 0.0
        for i in range(n):
            b[active[i]] = max(b[active[i]], 0.0)
            total += b[active[i]]
        x[:] = 0.0
        for i in range(n):
            b[active[i]] /= total
            x += b[active[i]] * P[active[i]]
    return np.sqrt(x @ x)


@njit(cache=True, nogil=True)
def _all_nearest(points, targets, B, errors, tolerance):
    for z in range(targets.shape[0]):
        errors[z] = _nearest(points, targets[z], B[z], tolerance)


def convex_coefficients(points: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For each target the nearest point of conv(points): coefficients B `[n, m]` and distances `[n]`.

    points `[m, d]`, targets `[n, d]`. Rows of B are nonnegative with sum 1.
    """
    points, targets = np.ascontiguousarray(points, dtype=float), np.ascontiguousarray(targets, dtype=float)
    B, errors = np.zeros((len(targets), len(points))), np.empty(len(targets))
    _all_nearest(points, targets, B, errors, 1e-13)
    return B, errors
