"""Features seen from the core: coordinates in which theta is measured by its values at the core pairs, and which
features lie outside of what the core can speak about."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload

from ..errors import InputError
from ..hull import convex_coefficients
from ..problem import Phi, Sparse
from ..problem.features import UNAVAILABLE, dense_rows
from ..problem.model import FloatArray
from ..softmax import add
from ..status import Status
from .base import Verdict

LARGEST = 16_000_000  # numbers of an m x d matrix
OUTSIDE = (
    0.05  # features this share of the radius outside the hull of the core features make a result doubtful
)
_RANK = 1e-10  # singular values below this share of the largest are zero


class Worst(NamedTuple):
    """The feature that looked farthest outside; where the core features are independent, a score of 0 is inside."""

    score: float
    feature: FloatArray  # [d]


class Coordinates:
    """theta = W z with |z| = |Phi~ theta|: z are the values at the core pairs where the core features are independent.

    Planning in z does not depend on how features are scaled or mixed. theta has no part outside the span of the core
    features, of which nothing is known.
    """

    def __init__(self, core_features: Phi, dimension: int) -> None:
        m = len(core_features.index if isinstance(core_features, Sparse) else core_features)
        if m * dimension > LARGEST:
            raise InputError(
                f"With m = {m} core pairs and d = {dimension} features an m x d matrix holds {m * dimension:,} numbers; "
                f"at most {LARGEST:,} are allowed here. Use fewer features, or a planner that streams, such as PrimalDual."
            )
        self.m, self.d = m, dimension
        self.core = dense_rows(core_features, dimension)  # Phi~, [m, d]
        self.identity = m == dimension and bool((self.core == np.eye(m)).all())
        if self.identity:
            self.U, self.W = self.core, np.empty((0, 0))  # [m, k], [d, k]; empty: the identity
            return
        left, s, right = np.linalg.svd(self.core, full_matrices=False)
        rank = int((s > _RANK * s[0]).sum()) if s[0] > 0 else 0
        if rank == 0:
            raise InputError("All core features are zero. Give features that tell pairs apart.")
        W = right[:rank].T / s[:rank]
        # Independent core features: z are the values at the core pairs. Else an orthonormal basis of their span.
        self.U, self.W = (np.eye(m), W @ left[:, :rank].T) if rank == m else (left[:, :rank].copy(), W)

    @property
    def k(self) -> int:
        return int(self.U.shape[1])

    @cached_property
    def pinv(self) -> FloatArray:
        """`[d, m]`: a feature times this are its coefficients over the core features; empty for the identity."""
        return self.W if self.identity else np.ascontiguousarray(self.W @ self.U.T)

    def theta(self, z: FloatArray) -> FloatArray:
        """theta of z, `[d]`."""
        return z.copy() if self.identity else np.asarray(self.W @ z)

    def worst(self, phi: Phi) -> Worst:
        """Of a batch `[n, A, ...]` the feature whose coefficients over the core are least like those of a convex
        combination: how far their sum is from 1, the negative ones, and what they do not explain."""
        f = np.empty(self.d)
        score, n, a = _worst(phi, self.core, self.pinv, f, np.empty(self.m))
        f[:] = 0.0
        _add(phi, n, a, 1.0, f)
        return Worst(float(score), f)

    def verdict(self, worst: Worst, radius: float) -> Verdict | None:
        """Doubtful where that feature lies outside the convex hull of the core features, exactly measured."""
        if worst.score <= OUTSIDE * radius:
            return None
        distance = float(convex_coefficients(self.core, worst.feature[None])[1][0])
        if distance <= OUTSIDE * radius:
            return None
        return Verdict(
            Status.DOUBTFUL,
            f"A state within reach has a feature that lies {distance:.2g} outside the convex hull of the core features: "
            "the core set is incomplete, and what happens there was never asked. Add core pairs, the extreme points of "
            "the features above all.",
        )


@njit(cache=True, nogil=True)
def _add(phi, n, a, by, out):
    add(phi, n, a, by, out)


@njit(cache=True, nogil=True)
def into(f, W, out):
    """out = W' f, or f itself where W is empty."""
    if W.shape[0] == 0:
        out[:] = f
        return
    out[:] = 0.0
    for i in range(f.shape[0]):
        if f[i] != 0.0:
            for l in range(out.shape[0]):
                out[l] += f[i] * W[i, l]


@njit(cache=True, nogil=True)
def _score(f, core, pinv, b):
    """|1 - sum b| + sum of the negative b + |f - Phi~' b| for b = pinv' f; f is used up."""
    into(f, pinv, b)
    total, negative, rest = 0.0, 0.0, 0.0
    for j in range(b.shape[0]):
        total += b[j]
        negative -= min(b[j], 0.0)
        if pinv.shape[0]:
            for i in range(f.shape[0]):
                f[i] -= b[j] * core[j, i]
    if pinv.shape[0]:
        for i in range(f.shape[0]):
            rest += f[i] * f[i]
    return abs(1.0 - total) + negative + np.sqrt(rest)


@njit(cache=True, nogil=True)
def _worst(phi, core, pinv, f, b):
    top, row, action = -1.0, 0, 0
    shape = available_shape(phi)
    for n in range(shape[0]):
        for a in range(shape[1]):
            if not is_available(phi, n, a):
                continue
            f[:] = 0.0
            add(phi, n, a, 1.0, f)
            score = _score(f, core, pinv, b)
            if score > top:
                top, row, action = score, n, a
    return top, row, action


def available_shape(phi: Any) -> tuple[int, int]:
    """(n, A) of a batch of features."""
    raise TypeError("available_shape is for compiled code")


def is_available(phi: Any, n: int, a: int) -> bool:
    """Whether no mask forbids action a at state n of a batch."""
    raise TypeError("is_available is for compiled code")


@overload(available_shape)
def _overload_shape(phi):
    if isinstance(phi, types.Array):
        return lambda phi: (phi.shape[0], phi.shape[1])
    return lambda phi: (phi.weight.shape[0], phi.weight.shape[1])


@overload(is_available)
def _overload_available(phi, n, a):
    if isinstance(phi, types.Array):
        return lambda phi, n, a: phi[n, a, 0] != UNAVAILABLE
    return lambda phi, n, a: phi.weight[n, a, 0] != UNAVAILABLE
