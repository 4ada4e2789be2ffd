"""How far features lie from the convex hull of a given core set: Assumption 1's error, measured."""

from __future__ import annotations

import numpy as np

from ..base import FloatArray, InputError, IntArray
from ..features import Phi, dense, length, single_entries, stack, take
from .growing import GrowingHull, Points

LARGEST = 5000  # core pairs whose products are held as an m x m matrix
ROUNDING = 1e-9  # of interpolation weights at a node


def hull_distances(core_features: Phi, features: Phi, dimension: int) -> FloatArray:
    """The distance of every row of `features [N, d]` from the convex hull of `core_features [m, d]`: `[N]`.

    Where the core features are unit vectors, as those of interpolating features are, the hull is a simplex and the
    distance is that of a projection onto it, for any m. Otherwise m is at most 5,000.
    """
    units = unit_vectors(core_features)
    if units is not None:
        each = (dense(take(features, slice(n, n + 1)), dimension)[0] for n in range(length(features)))
        return np.array([_to_simplex(row, units) for row in each])
    m = length(core_features)
    if m > LARGEST:
        raise InputError(
            f"The hull of {m} core pairs is too large to be measured; at most {LARGEST}. Choose some: coreplan.core.select."
        )
    points = Points(stack([core_features, features]))
    hull = GrowingHull(points)
    for j in range(m):
        hull.add(j)
    return hull.coefficients()[1][m:]


def on_axes(core_features: Phi) -> tuple[IntArray, FloatArray] | None:
    """Coordinates and lengths `[m]` of core features that all are multiples of unit vectors, up to rounding; else None."""
    return single_entries(core_features, ROUNDING)


def unit_vectors(core_features: Phi) -> IntArray | None:
    """Which coordinates the core features are, `[m]`, if each is a unit vector of its own up to rounding; else None."""
    axes = on_axes(core_features)
    if axes is None or (np.abs(axes[1] - 1.0) > ROUNDING).any() or len(np.unique(axes[0])) < len(axes[0]):
        return None
    return axes[0]


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
