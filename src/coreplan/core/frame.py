"""The core features Phi~ (Assumption 1, `ass:Core_SA_approx`) as matrices: factorised once, for everyone who needs them.

Interpolating features have core features that are unit vectors, or multiples of them; then nothing is factorised, whatever
the size. Others go through one singular value decomposition, and all that follows from it: rank, condition, the
pseudo-inverse with or without a ridge, coordinates, the default radius D.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.linalg import qr

from ..base import FloatArray, InputError, IntArray
from ..features import Phi, dense, entries, length, single_entries

LARGEST = (
    16_000_000  # numbers of an m x d matrix up to which it is factorised; 4,000 x 4,000 take about a minute
)
RANK = 1e-10  # singular values below this share of the largest are zero
ROUNDING = 1e-9  # of interpolation weights at a node


class Factors(NamedTuple):
    """Phi~ = U diag(s) V', without the singular values that are zero."""

    U: FloatArray  # [m, k]
    s: FloatArray  # [k], falling
    Vt: FloatArray  # [k, d]
    mean_square: float  # of all min(m, d) singular values: the size of the features


class Frame:
    """Core features, `[m, d]` or Sparse `[m, k]`, and what follows from them; each part is computed when first asked for."""

    def __init__(self, features: Phi, dimension: int) -> None:
        if not entries(features).any():
            raise InputError(
                "All core features are zero: nothing can be learned. Give features that tell pairs apart."
            )
        self.features, self.m, self.d = features, length(features), dimension

    # What needs no factorisation.

    @cached_property
    def axes(self) -> tuple[IntArray, FloatArray] | None:
        """Coordinates and lengths `[m]` where every core feature is a multiple of a unit vector, up to rounding."""
        return single_entries(self.features, ROUNDING)

    @cached_property
    def units(self) -> IntArray | None:
        """The coordinates `[m]` where each core feature is a unit vector of its own, up to rounding."""
        if self.axes is None:
            return None
        at, lengths = self.axes
        own = len(np.unique(at)) == self.m and (np.abs(lengths - 1.0) <= ROUNDING).all()
        return at if own else None

    @cached_property
    def identity(self) -> bool:
        """Whether Phi~ = I, exactly."""
        return self.m == self.d and self.fits and bool((self.matrix == np.eye(self.m)).all())

    @cached_property
    def longest(self) -> float:
        """The norm of the longest core feature."""
        return float(np.sqrt((entries(self.features) ** 2).sum(axis=1)).max())

    @property
    def fits(self) -> bool:
        """Whether Phi~ is small enough to be written out and factorised."""
        return self.m * self.d <= LARGEST

    def require_fit(self) -> None:
        """An InputError where Phi~ is too large to be factorised and not made of unit vectors."""
        if not self.fits and self.units is None:
            raise self._too_large()

    def _too_large(self) -> InputError:
        return InputError(
            f"With m = {self.m} core pairs and d = {self.d} features the core features are a matrix of "
            f"{self.m * self.d:,} numbers, too large to be factorised: at most {LARGEST:,} are. Take features whose core "
            "pairs are unit vectors (one-hot, aggregation, interpolation), which need no factors; a smaller core set "
            "(coreplan.core.select); or plan with Grow or PrimalDual."
        )

    # What does.

    @cached_property
    def matrix(self) -> FloatArray:
        """Phi~, dense `[m, d]`."""
        if not self.fits:
            raise self._too_large()
        return dense(self.features, self.d)

    @cached_property
    def factors(self) -> Factors:
        """The singular value decomposition of Phi~."""
        U, s, Vt = np.linalg.svd(self.matrix, full_matrices=False)
        k = int((s > RANK * s[0]).sum())
        return Factors(
            np.ascontiguousarray(U[:, :k]), s[:k], np.ascontiguousarray(Vt[:k]), float((s**2).mean())
        )

    @property
    def rank(self) -> int:
        """The dimension of the span of the core features."""
        return len(np.unique(self.axes[0])) if self.axes is not None else len(self.factors.s)

    @property
    def condition(self) -> float:
        """The largest singular value over the smallest that is not zero."""
        s = self._singular_values
        return float(s.max() / s.min())

    @property
    def _singular_values(self) -> FloatArray:
        if self.axes is None:
            return self.factors.s
        at, lengths = self.axes
        squares = np.bincount(at, lengths**2)
        return np.sqrt(squares[squares > 0])

    def inverse(self, ridge: float = 0.0) -> FloatArray:
        """The pseudo-inverse of Phi~, `[d, m]`; with a ridge, relative to the features' size."""
        U, s, Vt, size = self.factors
        return (Vt.T * (s / (s**2 + ridge * size))) @ U.T

    def radius(self, discount: float) -> float:
        """D: a ball for theta of every Q^pi of a linear MDP with an exact core: |pinv(Phi~)| sqrt(m) / (1 - gamma).

        Q^pi at the core pairs is a vector in [0, 1/(1-gamma)]^m, and theta = pinv(Phi~) of it represents Q^pi everywhere.
        For unit vectors as core features it is sqrt(m) / (1 - gamma). Where the matrix is too large to be factorised,
        sqrt(d) / (1 - gamma) is taken, without a proof.
        """
        if self.axes is None and not self.fits:
            return math.sqrt(self.d) / (1.0 - discount)
        least = 1.0 if self.units is not None else float(self._singular_values.min())
        return math.sqrt(self.m) / ((1.0 - discount) * least)

    @cached_property
    def coordinates(self) -> Coordinates:
        """Coordinates in which theta is measured by its values at the core pairs."""
        if self.identity:
            return Coordinates(self.matrix, np.empty((0, 0)))
        U, s, Vt, _ = self.factors
        W = Vt.T / s
        return Coordinates(np.eye(self.m), W @ U.T) if len(s) == self.m else Coordinates(U, W)

    @cached_property
    def basis(self) -> tuple[IntArray, FloatArray]:
        """Core pairs J `[rho]` whose features span those of all, and the pseudo-inverse of theirs, `[d, rho]`.

        All pairs where they are independent, else a well-conditioned choice (pivoted QR).
        """
        _, R, order = qr(self.matrix.T, mode="economic", pivoting=True)
        size = np.abs(np.diag(R))
        J = np.sort(order[: max(int((size > 1e-9 * size[0]).sum()), 1)])
        return J, np.linalg.pinv(self.matrix[J])

    def outside_span(self, rows: FloatArray) -> FloatArray:
        """How far rows `[n, d]` lie outside the span of the core features: `[n]`."""
        Vt = self.factors.Vt
        return np.linalg.norm(rows - (rows @ Vt.T) @ Vt, axis=1)


class Coordinates(NamedTuple):
    """theta = W z with |z| = |Phi~ theta|: z are the values at the core pairs where the core features are independent.

    Else z are coordinates in an orthonormal basis U of the values that are possible there. Planning in z does not
    depend on how features are scaled or mixed. theta has no part outside the span of the core features, of which nothing
    is known.
    """

    U: FloatArray  # [m, k] Phi~ W: the values at the core pairs are U z
    W: FloatArray  # [d, k]; empty where Phi~ = I

    @property
    def m(self) -> int:
        return int(self.U.shape[0])

    @property
    def k(self) -> int:
        return int(self.U.shape[1])

    def theta(self, z: FloatArray) -> FloatArray:
        """theta of z, `[d]`."""
        return z.copy() if not self.W.size else np.asarray(self.W @ z)

    def solve(self, q: FloatArray) -> FloatArray:
        """The theta `[d]` whose values at the core pairs are nearest to q `[m]`."""
        return q if not self.W.size else np.ascontiguousarray(self.W @ self.U.T) @ q


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


class Lift:
    """From values of core pairs to theta: theta = R q. Scatters q where the core features are unit vectors.

    Then R takes no memory, `place [d]` says which core pair a coordinate is (-1: none), and a feature has one
    coefficient per core pair; else all d coordinates are kept and R is the regularised pseudo-inverse.
    """

    def __init__(self, frame: Frame, ridge: float = 0.0) -> None:
        self.frame, self.m, self.d = frame, frame.m, frame.d
        self.R: FloatArray | None = None  # [d, m]
        self.place, self.width = np.arange(self.d), self.d  # columns of mean next features
        if frame.units is None:
            self.R = frame.inverse(ridge)
            return
        self.place, self.width = np.full(self.d, -1), self.m
        self.place[frame.units] = np.arange(self.m)

    def theta(self, q: FloatArray) -> FloatArray:
        """R q, `[d]`."""
        if self.R is not None:
            return self.R @ q
        theta = np.zeros(self.d)
        theta[self.frame.units] = q
        return theta
