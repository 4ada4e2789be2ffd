"""Assumption 1, watched: do the features that a run meets lie in the convex hull of its core features?

Every planner with a core set extrapolates where they do not, and none can tell from its own numbers. So a run looks at
the features of initial and next states as they come, for all planners in the same way, and doubts its result where they
lie outside. What is not met, or met rarely by a long run, is not seen: `check` and `certify` look elsewhere.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numba import njit

from ..core.measure import on_axes
from ..hull import convex_coefficients
from ..problem import Phi, Sparse, available
from ..problem.features import UNAVAILABLE, dense_rows, row_count
from ..problem.model import FloatArray
from ..status import Status
from .base import Setup, Stored, Verdict
from .bellman import as_rows

COST = 0.01  # of normalised value: what a feature outside may cost over a horizon before a result is doubtful
ROUNDING = 1e-6  # of the longest core feature: below this nothing is outside
_ENTRIES, _WORK = (
    16_000_000,
    2e10,
)  # of the core's pseudo-inverse: numbers, multiplications; beyond, nothing is measured
_LOOK = 1e8  # multiplications of a look
_OFTEN = 256  # looks until the count of queries has grown by a factor e, once they are many
_DIRECTIONS = 128  # in which the core's hull is compared with what comes


class Cover:
    """Looks at features and remembers how far outside the hull of the core features the farthest was.

    `far` is in lengths of the longest core feature. Where the core features are multiples of different unit vectors,
    every feature that is handed over is measured, as the mass of its coefficients that would have to move. Else
    distances are Euclidean; coefficients over independent core features are unique and tell for certain, and over
    dependent ones (m > d) the nearest points of some features are computed: those that stick out in some direction,
    and random ones. Zero features are inside: their value is known to be 0.
    """

    def __init__(self, core_features: Phi, dimension: int, discount: float) -> None:
        self._core_features, self.d, self.discount = core_features, dimension, discount
        self.far = 0.0
        self.rows = 0  # features looked at
        self.due = 0  # queries at which the next look is due

    @property
    def tolerance(self) -> float:
        """The distance that may cost COST: an error of theta.phi adds up over 1/(1 - gamma) steps."""
        return max(COST * (1.0 - self.discount), ROUNDING)

    def mark(self) -> list[float]:
        """What has been seen, as JSON types; `return_to` puts it back."""
        return [self.far, self.rows, self.due]

    def return_to(self, mark: Any) -> None:
        """Put back what `mark` returned."""
        self.far, self.rows, self.due = float(mark[0]), int(mark[1]), int(mark[2])

    def see(self, queries: int, *batches: Phi | None) -> None:
        """Look at the features that came with an ask, after `queries` in all; seldom where asks are many."""
        if queries < self.due:
            return
        self.due = queries + queries // _OFTEN
        for phi in batches:
            if phi is not None:
                self.look(phi)

    def look(self, phi: Phi) -> None:
        """Measure a batch `[n, A, ...]`."""
        if self._units is not None:
            rows = as_rows(phi)
            self.far = max(self.far, _beyond_units(rows.index, rows.weight, self._units))
        elif self._hull is not None and self.far <= self.tolerance:  # one alarm is enough
            rng = np.random.default_rng(self.rows)
            self.far = max(self.far, self._hull.farthest(_rows(phi, self.d, self._hull.most, rng), rng))
        self.rows += row_count(phi)

    def verdict(self) -> Verdict | None:
        """Doubtful where a feature was met outside."""
        if self.far <= self.tolerance:
            return None
        cost = min(1.0, self.far / (1.0 - self.discount))
        return Verdict(
            Status.DOUBTFUL,
            f"Features were met that lie outside the convex hull of the core features, by {self.far:.2g} of the longest "
            f"of these: the core set is incomplete, values there are extrapolated, and over the horizon that may cost up to "
            f"{cost:.2g} of normalised value. Add core pairs, the extreme ones above all (coreplan.core.select), or plan "
            "with Grow, which needs none.",
        )

    def joined(self, own: Verdict | None) -> Verdict | None:
        """A planner's own verdict, and this one: what is worse counts, and both reasons are given."""
        outside = self.verdict()
        if outside is None or own is None or own.status is Status.FINISHED:
            return outside or own
        status = Status.DOUBTFUL if own.status is Status.NOT_REACHED else own.status
        return Verdict(status, f"{outside.reason} {own.reason}")

    @cached_property
    def _units(self) -> FloatArray | None:
        """1 / c_j at the coordinates of core features c_j e_i, else 0: `[d]`; None where they are not of that kind."""
        axes = on_axes(self._core_features)
        if axes is None or len(np.unique(axes[0])) < len(axes[0]):
            return None
        inverse = np.zeros(self.d)
        inverse[axes[0]] = 1.0 / axes[1]
        return inverse

    @cached_property
    def _hull(self) -> _Hull | None:
        m, d = row_count(self._core_features), self.d
        if m * d > _ENTRIES or m * d * min(m, d) > _WORK:
            return None
        return _Hull(dense_rows(self._core_features, d))


class _Hull:
    """The hull of core features `[m, d]` in general position, and how far rows lie outside."""

    def __init__(self, core: FloatArray) -> None:
        self.core = core
        m, d = core.shape
        self.longest = float(np.linalg.norm(core, axis=1).max()) or 1.0
        u, s, vt = np.linalg.svd(core, full_matrices=False)
        keep = s > 1e-10 * s[0]
        self.pinv = (vt[keep].T / s[keep]) @ u[:, keep].T  # [d, m]
        self.independent = int(keep.sum()) == m
        # Directions that are isotropic as the core sees it, with the core's support in each.
        normal = np.random.default_rng(0).standard_normal((_DIRECTIONS, int(keep.sum())))
        U = normal @ (vt[keep] / s[keep, None])
        self.U = U / np.linalg.norm(U, axis=1, keepdims=True)  # [K, d]
        self.support = (core @ self.U.T).max(axis=0)  # [K]
        self.most = max(8, int(_LOOK / (d * max(m, _DIRECTIONS))))  # rows in a look
        self.closer = int(np.clip(_LOOK / (m * d * min(m, d)), 1, 256))  # nearest points in a look, at most

    def farthest(self, rows: FloatArray, rng: np.random.Generator) -> float:
        """The largest distance found among rows `[n, d]`, relative to the longest core feature."""
        b = rows @ self.pinv  # [n, m]
        off = np.linalg.norm(rows - b @ self.core, axis=1) / self.longest
        off = off + np.abs(b.sum(axis=1) - 1.0) + np.maximum(-b, 0.0).sum(axis=1)
        off[~rows.any(axis=1)] = 0.0
        suspects = np.flatnonzero(off > 1e-9)
        if len(suspects) == 0:
            return 0.0
        if self.independent:
            chosen = suspects[np.argsort(off[suspects])[-self.closer :]]
        else:
            out = (rows[suspects] @ self.U.T - self.support).max(axis=1)
            order, half = suspects[np.argsort(out)], (min(self.closer, max(16, len(rows) // 4)) + 1) // 2
            chosen = np.concatenate([order[-half:], rng.permutation(order[:-half])[:half]])
        targets = np.unique(rows[chosen], axis=0)
        return float(convex_coefficients(self.core, targets)[1].max()) / self.longest


def stored_verdict(stored: Stored, setup: Setup, own: Verdict | None) -> Verdict | None:
    """A planner's own verdict on stored samples, and what their features say."""
    cover = Cover(stored.core_features, setup.dimension, stored.discount)
    cover.look(stored.next_features)
    cover.look(stored.initial_features)
    return cover.joined(own)


@njit(cache=True, nogil=True)
def _beyond_units(index, weight, inverse):
    """The largest mass of coefficients b_i = phi_i / c_i of a row that is negative, off the core, or missing to sum 1."""
    worst = 0.0
    for n in range(weight.shape[0]):
        for a in range(weight.shape[1]):
            if weight[n, a, 0] == UNAVAILABLE:
                continue
            missing, total, size = 0.0, 0.0, 0.0
            for i in range(weight.shape[2]):
                w, c = weight[n, a, i], inverse[index[n, a, i]]
                size += abs(w)
                if c == 0.0:
                    missing += abs(w)
                else:
                    missing += max(-w * c, 0.0)
                    total += w * c
            if size > 0.0:
                worst = max(worst, missing, abs(total - 1.0))
    return worst


def _rows(phi: Phi, d: int, most: int, rng: np.random.Generator) -> FloatArray:
    """At most `most` of the features of available actions, at random, dense `[n, d]`."""
    n, a = np.nonzero(available(phi))
    if len(n) > most:
        chosen = rng.choice(len(n), most, replace=False)
        n, a = n[chosen], a[chosen]
    return dense_rows(Sparse(phi.index[n, a], phi.weight[n, a]) if isinstance(phi, Sparse) else phi[n, a], d)
