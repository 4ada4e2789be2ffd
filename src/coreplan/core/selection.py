"""Choosing a core set from a pool, and measuring the error in Assumption 1 on that pool."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from ..base import FloatArray, InputError, IntArray, as_choice, as_count, as_kind, as_number, one_thread
from ..features import distinct_rows, take
from .coreset import CoreSet
from .growing import ZERO, GrowingHull, Points
from .pools import Pool


@dataclass(frozen=True)
class Selection:
    """A core set chosen from a pool, with its coefficients and errors on the WHOLE pool.

    With the core features C, the rows of `B C` are the nearest points of their hull to the feature vectors of the pool, and
    `distances` are the errors in Assumption 1, pair by pair, in the Euclidean norm. Pairs outside the pool are not measured.
    """

    core: CoreSet
    indices: IntArray = field(repr=False)  # [m], rows of the pool in the order in which they were chosen
    B: sparse.csr_matrix = field(repr=False)  # [N, m], rows non-negative with sum 1, at most d + 1 nonzeros
    distances: FloatArray = field(repr=False)  # [N]
    mean: float
    max: float
    weighted: float  # mean weighted by the visits; for a policy's rollouts it estimates <mu, eps_core>
    trail: FloatArray = field(repr=False)  # [m], the distance when each was chosen; infinity for the first


@one_thread
def select(
    pool: Pool, *, size: int | None = None, tolerance: float | None = None, method: str = "hull"
) -> Selection:
    """Choose a core set from the pool: at most `size` pairs, or as many as it takes to come within `tolerance`, or both.

    Parameters
    ----------
    size: m. Fewer are chosen if they already reach the tolerance, or represent the whole pool exactly.
    tolerance: the largest error allowed, in the units of the features, as the method measures it.
    method:
        "hull" adds the pair farthest from the hull of those chosen. This is the one to use: it reduces the very error that
        is reported, finds exactly the vertices if the pool's hull has few, and is not much slower than the others.
        "projection" (successive projection) adds the pair farthest from the affine span of those chosen, so at most
        d + 1 pairs. It is fast, and exact on noiseless mixtures of affinely independent vertices. In other cases the span
        is exhausted long before the hull is covered: look at `max`, which the tolerance does not bound.
        "farthest" adds the pair farthest from all pairs chosen (k-center): it covers the pool with points, not with
        their mixtures, so it needs many more.

    All methods start from the pair farthest from the pool's mean and are deterministic, ties included. Distances are exact
    to about 1e-6 of the root mean square of the pool's feature norms (for dense features, after subtracting the mean), so
    scale down a feature that dwarfs the others. Pairs with equal features count once. "hull" re-evaluates only pairs that
    can be the farthest; that saves nothing if all pairs are equally far, as different one-hot features are.
    """
    as_kind("select", Pool, "a Pool, as `rollout_pool` and `uniform_pool` make them", pool=pool)
    if size is None and tolerance is None:
        raise InputError(
            "`select` needs size=..., a number of pairs, or tolerance=..., the largest error to be left."
        )
    size = as_count("select", optional=True, size=size)
    least = "a finite number of at least 0"
    tolerance = as_number("select", least, lambda error: error >= 0.0, optional=True, tolerance=tolerance)
    method = as_choice("select", _METHODS, method=method)
    first, same = distinct_rows(pool.features)
    if size is not None and len(first) < size:
        raise InputError(
            f"`select(size={size})`: the pool's {len(pool)} pairs have only {len(first)} different feature vectors. Ask for "
            f"at most {len(first)}, leave size out and give a tolerance, or gather a larger pool."
        )
    points = Points(pool.features if len(first) == len(pool) else take(pool.features, first))
    floor = ZERO * np.sqrt(points.unit)
    hull, trail = _METHODS[method](points, size or len(first), max(tolerance or 0.0, floor))
    if method == "projection" and tolerance is None and hull.m < (size or 0):
        raise InputError(
            f"`select(size={size}, method='projection')`: the pool's features span an affine space of dimension "
            f"{hull.m - 1}, and projection finds at most {hull.m} vertices there. Ask for at most {hull.m}, or use "
            "method='hull'."
        )
    B, distances = hull.coefficients()
    if len(first) < len(pool):
        B, distances = B[same], distances[same]
    chosen = first[hull.vertices]
    return Selection(
        core=CoreSet(pool.states[chosen], pool.actions[chosen]),
        indices=chosen,
        B=B,
        distances=distances,
        mean=float(distances.mean()),
        max=float(distances.max()),
        weighted=float(pool.weights @ distances),
        trail=np.array(trail),
    )


def _hull(points: Points, size: int, tolerance: float) -> tuple[GrowingHull, list[float]]:
    """Greedy: adds argmax_z dist(phi(z), conv C), evaluated lazily."""
    hull, trail = GrowingHull(points), [np.inf]
    hull.add(points.farthest_from_mean())
    while hull.m < size:
        z, distance = hull.farthest()
        if distance <= tolerance:
            break
        hull.add(z)
        trail.append(distance)
    return hull, trail


def _projection(points: Points, size: int, tolerance: float) -> tuple[GrowingHull, list[float]]:
    """Successive projection of phi - phi_1: the affine version, like appending a large constant to phi."""
    hull, trail = GrowingHull(points), [np.inf]
    hull.add(points.farthest_from_mean())
    first = points.row(hull.vertices[0])
    rest, Q = points.squares(first), np.zeros((0, points.d))  # squared distances from the span; its basis
    while hull.m < size:
        z = int(np.argmax(rest))
        if rest[z] <= tolerance**2:
            break
        q = points.row(z) - first
        for _ in range(2):  # twice, for accuracy
            q -= Q.T @ (Q @ q)
        q /= np.sqrt(np.square(q).sum())
        hull.add(z)
        trail.append(float(np.sqrt(rest[z])))
        Q = np.vstack([Q, q])
        rest -= np.square(points.products(q) - first @ q)
        rest[hull.vertices] = 0.0
    return hull, trail


def _farthest(points: Points, size: int, tolerance: float) -> tuple[GrowingHull, list[float]]:
    """Farthest point first: adds argmax_z min_{c in C} |phi(z) - phi(c)|."""
    hull, trail, rest = GrowingHull(points), [np.inf], np.full(len(points), np.inf)
    z = points.farthest_from_mean()
    while True:
        hull.add(z)
        rest = np.minimum(rest, points.squares(points.row(z)))
        rest[hull.vertices] = 0.0
        z = int(np.argmax(rest))
        if hull.m >= size or rest[z] <= tolerance**2:
            return hull, trail
        trail.append(float(np.sqrt(rest[z])))


_METHODS = {"hull": _hull, "projection": _projection, "farthest": _farthest}
