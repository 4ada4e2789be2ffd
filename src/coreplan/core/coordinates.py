"""Features seen from the core: coordinates in which theta is measured by its values at the core pairs."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numba import njit

from ..base import FloatArray, InputError
from ..features import Phi, dense, length

LARGEST = 16_000_000  # numbers of an m x d matrix
_RANK = 1e-10  # singular values below this share of the largest are zero


class Coordinates:
    """theta = W z with |z| = |Phi~ theta|: z are the values at the core pairs where the core features are independent.

    Planning in z does not depend on how features are scaled or mixed. theta has no part outside the span of the core
    features, of which nothing is known.
    """

    def __init__(self, core_features: Phi, dimension: int) -> None:
        m = length(core_features)
        if m * dimension > LARGEST:
            raise InputError(
                f"With m = {m} core pairs and d = {dimension} features an m x d matrix holds {m * dimension:,} numbers; "
                f"at most {LARGEST:,} are allowed here. Use fewer features, or a planner that streams, such as PrimalDual."
            )
        self.m, self.d = m, dimension
        self.core = dense(core_features, dimension)  # Phi~, [m, d]
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
