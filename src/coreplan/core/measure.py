"""How far features lie from the convex hull of a given core set: Assumption 1's error, measured."""

from __future__ import annotations

import numpy as np

from ..errors import InputError
from ..problem import Phi, Sparse
from ..problem.features import row_count
from ..problem.model import FloatArray, IntArray
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
        return np.array([_to_simplex(row, units) for row in _dense_rows(features, dimension)])
    m = row_count(core_features)
    if m > LARGEST:
        raise InputError(
            f"The hull of {m} core pairs is too large to be measured; at most {LARGEST}. Choose some: coreplan.core.select."
        )
    points = Points(_stacked(core_features, features))
    hull = GrowingHull(points)
    for j in range(m):
        hull.add(j)
    return hull.coefficients()[1][m:]


def on_axes(core_features: Phi) -> tuple[IntArray, FloatArray] | None:
    """Coordinates and lengths `[m]` of core features that all are multiples of unit vectors, up to rounding; else None."""
    weight = core_features.weight if isinstance(core_features, Sparse) else core_features
    if weight.shape[1] == 0:
        return None
    used = np.abs(weight) > ROUNDING * np.abs(weight).max(axis=1, keepdims=True)
    if not (used.sum(axis=1) == 1).all():
        return None
    which = core_features.index[used] if isinstance(core_features, Sparse) else np.nonzero(used)[1]
    return which.astype(np.int64), weight[used]


def unit_vectors(core_features: Phi) -> IntArray | None:
    """Which coordinates the core features are, `[m]`, if each is a unit vector of its own up to rounding; else None."""
    axes = on_axes(core_features)
    if axes is None or (np.abs(axes[1] - 1.0) > ROUNDING).any() or len(np.unique(axes[0])) < len(axes[0]):
        return None
    return axes[0]


def _dense_rows(features: Phi, dimension: int):  # type: ignore[no-untyped-def]
    if not isinstance(features, Sparse):
        yield from features
        return
    for index, weight in zip(*features, strict=True):
        row = np.zeros(dimension)
        np.add.at(row, index, weight)
        yield row


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


def _stacked(first: Phi, second: Phi) -> Phi:
    if not isinstance(first, Sparse) or not isinstance(second, Sparse):
        assert not isinstance(first, Sparse) and not isinstance(second, Sparse)
        return np.concatenate([first, second])
    return Sparse(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))
