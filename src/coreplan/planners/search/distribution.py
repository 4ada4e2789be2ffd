"""The distribution from which `Search` draws candidates, and the cross-entropy update.

Only differences phi(x, a) - phi(x, b) between actions matter to a greedy policy. Let K be their covariance over states that
were visited. Candidates are theta = K^(-1/2) z with z ~ N(center, diag(var)): every direction in which features differ has
the same say, whatever the units of the features are, and whatever invertible linear map was applied to them. A
greedy policy does not depend on the length of theta, so `center` is kept at length sqrt(d).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...base import FloatArray, IntArray

FLOOR = 1e-6  # of the largest eigenvalue of K: directions with less spread count as if they had this much


class Roots(NamedTuple):
    """K^(1/2) and K^(-1/2), both symmetric `[d, d]`: z = K^(1/2) theta."""

    root: FloatArray
    inverse: FloatArray


def roots(K: FloatArray) -> Roots:
    """The roots of a covariance; the identity if nothing varies."""
    values, vectors = np.linalg.eigh(K)
    if not values[-1] > 0.0:
        return Roots(np.eye(len(K)), np.eye(len(K)))
    r = np.sqrt(np.maximum(values, FLOOR * values[-1]))
    return Roots((vectors * r) @ vectors.T, (vectors / r) @ vectors.T)


def normalised(center: FloatArray) -> tuple[FloatArray, float]:
    """`center [d]` with length sqrt(d), and the factor that it was multiplied by; a zero stays as it is."""
    norm = float(np.linalg.norm(center))
    factor = math.sqrt(len(center)) / norm if norm > 0.0 else 1.0
    return factor * center, factor


def drawn(
    rng: np.random.Generator, n: int, center: FloatArray, var: FloatArray, inverse: FloatArray
) -> FloatArray:
    """n candidates theta `[n, d]`."""
    return (center + np.sqrt(var) * rng.standard_normal((n, len(center)))) @ inverse


def fitted(elite: FloatArray, root: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The cross-entropy update: mean and variance of the elite, thetas `[e, d]`, in the coordinates z, as center and var."""
    z = elite @ root
    center, factor = normalised(z.mean(axis=0))
    return center, factor**2 * z.var(axis=0)


def best(low: FloatArray, high: FloatArray, e: int) -> IntArray:
    """The numbers of the e best candidates, by scores between `low [N]` and `high [N]`; ties go to the larger `high`."""
    return np.lexsort((-high, -low))[:e]


def decided(low: FloatArray, high: FloatArray, e: int) -> bool:
    """Whether it is certain which candidates are the e best: no other can still reach the worst of them."""
    order = best(low, high, len(low))
    return bool(high[order[e:]].max(initial=-math.inf) <= low[order[:e]].min(initial=math.inf))
