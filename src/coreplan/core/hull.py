"""Distances from the convex hull of the core features (the error in Assumption 1), and one rule for "inside".

Distances are those of the paper's definitions, in the units of the features. Whether a feature lies outside must not depend
on units: metres or millimetres are the user's choice, and in some of them a gap in the core set looks like rounding. So
*errors* are distances after every column has been divided by its range over the features met, and only errors are compared
with a tolerance.

There are two methods for the nearest point: that of `nearest.py` for very many points (distances accurate to 1e-7 of the
features' size), and Wolfe's, accurate to all digits, for the paper's own definitions.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..base import FloatArray, InputError, IntArray, one_thread
from ..features import Phi, column_bounds, dense, entries, length, over, row_sums, stack, take
from .frame import Frame
from .growing import GrowingHull, Points

TOLERANCE = 1e-5  # smaller errors are rounding, maybe of float32
MOST = 5000  # the most core pairs whose inner products are stored as an m x m matrix
_CONSTANT = (
    1e-6  # a column whose range is below this fraction of its largest entry is a constant, and rounding
)
DUST = 1e-9  # the same for weights that sum to 1


def is_inside(error: float) -> bool:
    """Whether an error, as `hull_errors` measures it, is only rounding."""
    return error <= TOLERANCE


def column_sizes(dimension: int, *batches: Phi) -> FloatArray:
    """By what the columns are divided, `[d]`: their range over all rows of the batches or, of a constant, its size.

    A column that is zero everywhere has size 1. So has one with nothing but rounding, as far as that can be told: if all
    rows are weights that sum to 1, their units are not a user's choice, and weights below 1e-9 are rounding.
    """
    bounds = [column_bounds(rows, dimension) for rows in batches]
    low, high = np.minimum.reduce([b[0] for b in bounds]), np.maximum.reduce([b[1] for b in bounds])
    largest, span = np.maximum(-low, high), high - low
    sizes = np.where(span > _CONSTANT * largest, span, largest)
    if all(are_weights(rows) for rows in batches):
        sizes[largest <= DUST] = 1.0
    sizes[sizes == 0.0] = 1.0
    return sizes


def are_weights(rows: Phi) -> bool:
    """Whether all rows are weights: no entry is negative, and each row sums to 1 up to rounding."""
    return bool(entries(rows).min(initial=0.0) >= 0.0 and (np.abs(row_sums(rows) - 1.0) <= DUST).all())


def hull_errors(frame: Frame, rows: Phi) -> FloatArray:
    """How far each row `[N, d]` is from the convex hull of the core features, in units of the columns' ranges: `[N]`.

    The ranges are those over the core features and all of the rows (`column_sizes`), so that no error changes when a column
    is multiplied by a positive number.
    """
    sizes = column_sizes(frame.d, frame.features, rows)
    if (sizes == 1.0).all():
        return hull_distances(frame, rows)
    return hull_distances(Frame(over(frame.features, sizes), frame.d), over(rows, sizes))


def measurable(frame: Frame) -> bool:
    """Whether distances can be computed: the hull is a simplex on axes, or there are at most `MOST` core pairs."""
    return frame.simplex is not None or frame.m <= MOST


def hull_distances(frame: Frame, rows: Phi) -> FloatArray:
    """The distance of every row `[N, d]` from the convex hull of the core features: `[N]`.

    If the core features are positive multiples of different unit vectors, as those of interpolating features are, the hull
    is a simplex and the distance comes from a projection onto it, for any m. Otherwise m must be at most 5,000.
    """
    if frame.simplex is not None:
        at, corners = frame.simplex
        each = (dense(take(rows, slice(n, n + 1)), frame.d)[0] for n in range(length(rows)))
        return np.array([_to_simplex(row, at, 1.0 / corners) for row in each])
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


def _to_simplex(row: FloatArray, at: IntArray, a: FloatArray) -> float:
    """The distance of a row from the simplex {x >= 0, a . x = 1} on the coordinates `at`, for a > 0."""
    inside = row[at]
    outside = max(float(row @ row - inside @ inside), 0.0)
    if outside == 0.0 and inside.min() >= 0.0 and abs(a @ inside - 1.0) <= 1e-12:
        return 0.0
    order = np.argsort(-inside / a, kind="stable")  # the usual projection: subtract tau a, clip at zero
    u, c = inside[order], a[order]
    tau = (np.cumsum(c * u) - 1.0) / np.cumsum(c * c)
    kept = np.flatnonzero(u > tau * c)
    nearest = np.maximum(
        inside - (tau[kept[-1]] if len(kept) else 0.0) * a, 0.0
    )  # none: entries that rounding swallows
    return float(np.sqrt(outside + np.square(inside - nearest).sum()))


@njit(cache=True, nogil=True)
def _nearest(points, y, b, tolerance):
    """Write the b of the simplex that minimises |points' b - y| into `b [m]`; return the distance. Wolfe (1976).

    Works on p_j = points_j - y and the current point x. Major step: activate the point with the smallest p_j . x. Minor
    steps: move to the affine minimiser of the active points, dropping those whose coefficient would turn negative.
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
            # Affine minimiser sum c_i p_i with sum c_i = 1. Solving for c_i |p_i| keeps the system well-conditioned when a
            # point is far away: [0 1/|p|'; 1/|p| cosines] [mu; c |p|] = [1; 0], with one row scaled by the smallest |p|.
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


@one_thread
def convex_coefficients(points: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For each target `[n, d]` the nearest point of the hull of points `[m, d]`: coefficients B `[n, m]`, distances `[n]`.

    The rows of B are nonnegative and sum to 1.
    """
    points, targets = np.ascontiguousarray(points, dtype=float), np.ascontiguousarray(targets, dtype=float)
    B, errors = np.zeros((len(targets), len(points))), np.empty(len(targets))
    _all_nearest(points, targets, B, errors, 1e-13)
    return B, errors
