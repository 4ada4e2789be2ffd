"""The core features Phi~ (Assumption 1, `ass:Core_SA_approx`) as a matrix, factorised once for everyone who needs it.

Interpolating features have core features that are unit vectors, or multiples of them; these need no factorisation, at any
size. Others go through one singular value decomposition, which gives rank, condition number, the pseudo-inverse with or
without a ridge, coordinates, and the default radius D.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.linalg import qr

from ..base import FloatArray, InputError, IntArray
from ..features import Phi, column_bounds, dense, entries, length, over, single_entries

LARGEST = 16_000_000  # the most entries m x d of a matrix to be factorised; 4,000 x 4,000 take about a minute
RANK = 1e-10  # singular values below this fraction of the largest count as zero
ROUNDING = 1e-9  # rounding error of interpolation weights at a node


class Factors(NamedTuple):
    """Phi~ = U diag(s) V', without the singular values that are zero."""

    U: FloatArray  # [m, k]
    s: FloatArray  # [k], decreasing
    Vt: FloatArray  # [k, d]
    mean_square: float  # mean of the squares of all min(m, d) singular values: the size of the features


class Frame:
    """The core features, `[m, d]` or Sparse `[m, k]`, and what follows from them, each computed on first use."""

    def __init__(self, features: Phi, dimension: int) -> None:
        if not entries(features).any():
            raise InputError(
                "All core features are zero: nothing can be learned. Give features that tell pairs apart."
            )
        self.features, self.m, self.d = features, length(features), dimension

    # Properties that need no factorisation.

    @cached_property
    def axes(self) -> tuple[IntArray, FloatArray] | None:
        """If every core feature is a multiple of a unit vector, up to rounding: coordinates and lengths `[m]`; else None."""
        return single_entries(self.features, ROUNDING)

    @cached_property
    def units(self) -> IntArray | None:
        """If the core features are different unit vectors, up to rounding: their coordinates `[m]`; else None."""
        if self.axes is None:
            return None
        at, lengths = self.axes
        own = len(np.unique(at)) == self.m and (np.abs(lengths - 1.0) <= ROUNDING).all()
        return at if own else None

    @cached_property
    def simplex(self) -> tuple[IntArray, FloatArray] | None:
        """Coordinates and lengths `[m]` if the core features are positive multiples of different unit vectors, else None."""
        if self.axes is None:
            return None
        at, lengths = self.axes
        return self.axes if len(np.unique(at)) == self.m and (lengths > 0.0).all() else None

    @cached_property
    def level(self) -> Frame:
        """The same core features with every column divided by its largest entry, `tops`; this frame if all are 1.

        What it says of rank, condition and span does not depend on the units of the columns.
        """
        return self if (self.tops == 1.0).all() else Frame(over(self.features, self.tops), self.d)

    @cached_property
    def tops(self) -> FloatArray:
        """The largest absolute entry of every column, 1 where all are zero: `[d]`."""
        low, high = column_bounds(self.features, self.d)
        tops = np.maximum(-low, high)
        return np.where(tops == 0.0, 1.0, tops)

    @cached_property
    def identity(self) -> bool:
        """Whether Phi~ = I exactly."""
        return self.m == self.d and self.fits and bool((self.matrix == np.eye(self.m)).all())

    @cached_property
    def longest(self) -> float:
        """The norm of the longest core feature."""
        return float(np.sqrt((entries(self.features) ** 2).sum(axis=1)).max())

    @property
    def fits(self) -> bool:
        """Whether Phi~ is small enough to be stored as a dense matrix and factorised."""
        return self.m * self.d <= LARGEST

    def require_fit(self) -> None:
        """Raise InputError if Phi~ is too large to be factorised and not made of unit vectors."""
        if not self.fits and self.units is None:
            raise self._too_large()

    def _too_large(self) -> InputError:
        return InputError(
            f"With m = {self.m} core pairs and d = {self.d} features the core features are a matrix of "
            f"{self.m * self.d:,} numbers, too large to be factorised: at most {LARGEST:,} are. Take features whose core "
            "pairs are unit vectors (one-hot, aggregation, interpolation), which need no factors; a smaller core set "
            "(coreplan.core.select); or plan with Grow or PrimalDual."
        )

    # Properties that need the matrix or its factorisation.

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
        """The largest singular value divided by the smallest nonzero one."""
        s = self._singular_values
        return float(s.max() / s.min())

    @property
    def largest(self) -> float:
        """The largest singular value, the norm of Phi~ as a map from theta to values."""
        return float(self._singular_values.max())

    @property
    def _singular_values(self) -> FloatArray:
        if self.axes is None:
            return self.factors.s
        at, lengths = self.axes
        squares = np.bincount(at, lengths**2)
        return np.sqrt(squares[squares > 0])

    def inverse(self, ridge: float = 0.0) -> FloatArray:
        """The pseudo-inverse of Phi~, `[d, m]`, regularised by `ridge`, which is relative to the features' size."""
        if self.axes is not None:  # at any scale of the columns
            at, lengths = self.axes
            squares = np.bincount(at, lengths**2, self.d)
            R = np.zeros((self.d, self.m))
            R[at, np.arange(self.m)] = lengths / (
                squares[at] + ridge * (lengths**2).sum() / min(self.m, self.d)
            )
            return R
        U, s, Vt, size = self.factors
        return (Vt.T * (s / (s**2 + ridge * size))) @ U.T

    def radius(self, discount: float) -> float:
        """D = |pinv(Phi~)| sqrt(m) / (1 - gamma): bounds |theta| for every Q^pi of a linear MDP with an exact core set.

        There Q^pi at the core pairs is a vector q in [0, 1/(1-gamma)]^m, and theta = pinv(Phi~) q represents Q^pi
        everywhere. If the core features are unit vectors, D is sqrt(m) / (1 - gamma). If the matrix is too large to be
        factorised, D is set to sqrt(d) / (1 - gamma), without a proof.
        """
        if self.axes is None and not self.fits:
            return math.sqrt(self.d) / (1.0 - discount)
        least = 1.0 if self.units is not None else float(self._singular_values.min())
        return math.sqrt(self.m) / ((1.0 - discount) * least)

    @cached_property
    def coordinates(self) -> Coordinates:
        """Coordinates in which the norm of theta is that of its values at the core pairs."""
        if self.identity:
            return Coordinates(self.matrix, np.empty((0, 0)))
        if self.axes is not None and self.rank == self.m:
            return Coordinates(np.eye(self.m), self.inverse())
        U, s, Vt, _ = self.factors
        W = Vt.T / s
        return Coordinates(np.eye(self.m), W @ U.T) if len(s) == self.m else Coordinates(U, W)

    @cached_property
    def basis(self) -> tuple[IntArray, FloatArray]:
        """Core pairs J `[rho]` whose features span those of all core pairs, and the pseudo-inverse of theirs, `[d, rho]`.

        J is all core pairs if their features are independent, otherwise a well-conditioned choice (pivoted QR).
        """
        _, R, order = qr(self.matrix.T, mode="economic", pivoting=True)
        size = np.abs(np.diag(R))
        J = np.sort(order[: max(int((size > RANK * size[0]).sum()), 1)])
        return J, np.linalg.pinv(self.matrix[J])

    def outside_span(self, rows: Phi) -> FloatArray:
        """The distance of each row `[n, d]` from the span of the core features, `[n]`.

        Every column is divided by its largest entry in the core or, if it is zero there, in the rows.
        """
        x = dense(rows, self.d) / self.tops
        unused, Vt = ~self.matrix.any(axis=0), self.level.factors.Vt
        x[:, unused] /= np.maximum(np.abs(x[:, unused]).max(axis=0), np.finfo(float).tiny)
        return np.linalg.norm(x - (x @ Vt.T) @ Vt, axis=1)


class Coordinates(NamedTuple):
    """Coordinates z of theta: theta = W z with |z| = |Phi~ theta|.

    If the core features are independent, z is the vector of values at the core pairs. Otherwise z are coordinates of these
    values in an orthonormal basis U of their span. Planning in z does not depend on how features are scaled or mixed.
    theta has no part outside the span of the core features, where nothing is known.
    """

    U: FloatArray  # [m, k], Phi~ W: the values at the core pairs are U z
    W: FloatArray  # [d, k]; empty if Phi~ = I

    @property
    def m(self) -> int:
        return int(self.U.shape[0])

    @property
    def k(self) -> int:
        return int(self.U.shape[1])

    def theta(self, z: FloatArray) -> FloatArray:
        """theta `[d]` for z `[k]`."""
        return z.copy() if not self.W.size else np.asarray(self.W @ z)

    def solve(self, q: FloatArray) -> FloatArray:
        """The theta `[d]` whose values at the core pairs are nearest to q `[m]`."""
        return q if not self.W.size else np.ascontiguousarray(self.W @ self.U.T) @ q


@njit(cache=True, nogil=True)
def into(f, W, out):
    """out = W' f, or f itself if W is empty."""
    if W.shape[0] == 0:
        out[:] = f
        return
    out[:] = 0.0
    for i in range(f.shape[0]):
        if f[i] != 0.0:
            for l in range(out.shape[0]):
                out[l] += f[i] * W[i, l]


class Lift:
    """The linear map theta = R q from values q `[m]` at the core pairs to theta `[d]`.

    If the core features are unit vectors, theta is q scattered to their coordinates: R takes no memory, `place [d]` tells
    which core pair a coordinate belongs to (-1: none), and a feature vector is stored as `width` = m coefficients.
    Otherwise R is the regularised pseudo-inverse and all `width` = d coordinates are stored.
    """

    def __init__(self, frame: Frame, ridge: float = 0.0) -> None:
        self.frame, self.m, self.d = frame, frame.m, frame.d
        self.R: FloatArray | None = None  # [d, m]
        self.place, self.width = np.arange(self.d), self.d  # width: columns of the mean next features
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
