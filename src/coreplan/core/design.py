"""Optimal designs: how often to sample each core pair so that a regression on its values is right everywhere."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..base import FloatArray, IntArray
from .frame import Frame

MOST = 10_000  # steps of Frank-Wolfe; it takes about 4 k log log k


class Design(NamedTuple):
    """A distribution over core pairs, and their largest leverage phi' G^-1 phi, where G = sum_j rho_j phi_j phi_j'."""

    rho: FloatArray  # [m]
    leverage: float

    @property
    def pairs(self) -> IntArray:
        """The core pairs with a positive weight."""
        return np.flatnonzero(self.rho)

    def counts(self, n: int) -> IntArray:
        """n samples in these proportions, `[m]`: whole numbers, at least one for each pair; n must be at least as many."""
        more = self.rho * (n - len(self.pairs))
        counts = np.floor(more).astype(np.int64)
        rest = n - len(self.pairs) - counts.sum()
        counts[np.argsort(counts - more, kind="stable")[:rest]] += 1
        return counts + (self.rho > 0.0)


def optimal_design(frame: Frame, sizes: FloatArray | None = None, excess: float = 0.1) -> Design:
    """A nearly G-optimal design over the core pairs, by Frank-Wolfe: its largest leverage is at most (1 + excess) k.

    k, the rank of the core features, is the least possible (Kiefer & Wolfowitz 1960). Leverage is convex, so that on
    features in the core's hull it is no larger: the design is as good for all pairs as one over all pairs. With `sizes [m]`
    the features are phi_j / sizes_j, for regressions whose errors have different sizes. Few pairs have a positive weight:
    it starts at k independent ones (Kumar & Yildirim 2005), and each step adds at most one. If every core feature is a
    multiple of a unit vector, the design is exact: the longest of every axis.
    """
    sizes = np.ones(frame.m) if sizes is None else sizes
    if frame.axes is not None:
        return _on_axes(*frame.axes, sizes)
    X = frame.factors.U / sizes[:, None]  # leverage does not depend on coordinates
    m, k = X.shape
    rho = np.zeros(m)
    rho[frame.basis[0]] = 1.0 / k
    inverse = np.linalg.inv(X.T @ (rho[:, None] * X))
    for _ in range(MOST):
        leverage = np.einsum("mk,kl,ml->m", X, inverse, X, optimize=True)
        j = int(np.argmax(leverage))
        if leverage[j] <= (1.0 + excess) * k * (1.0 + 1e-9):
            break
        step = (leverage[j] / k - 1.0) / (leverage[j] - 1.0)  # the one that maximises log det G
        rho *= 1.0 - step
        rho[j] += step
        v = inverse @ X[j]
        inverse = (inverse - np.outer(v, v) * step / (1.0 - step + step * leverage[j])) / (1.0 - step)
    return Design(rho, float(leverage.max()))


def _on_axes(at: IntArray, lengths: FloatArray, sizes: FloatArray) -> Design:
    """Of every axis the core pair with the longest feature over its size, all with the same weight."""
    long = np.abs(lengths) / sizes
    order = np.lexsort((-long, at))
    first = order[np.unique(at[order], return_index=True)[1]]
    rho = np.zeros(len(at))
    rho[first] = 1.0 / len(first)
    return Design(rho, float(len(first)))


def weighted_fit(frame: Frame, weights: FloatArray, q: FloatArray) -> FloatArray:
    """The theta `[d]` of least norm that minimises sum_j weights_j (phi_j . theta - q_j)^2."""
    theta = np.zeros(frame.d)
    used = weights > 0.0
    if frame.axes is not None:
        at, lengths = frame.axes
        top = np.bincount(at[used], (weights * lengths * q)[used], minlength=frame.d)
        bottom = np.bincount(at[used], (weights * lengths**2)[used], minlength=frame.d)
        return np.divide(top, bottom, out=theta, where=bottom > 0.0)
    root = np.sqrt(weights[used])
    return np.asarray(np.linalg.lstsq(root[:, None] * frame.matrix[used], root * q[used], rcond=None)[0])
