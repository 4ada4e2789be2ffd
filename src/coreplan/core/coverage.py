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

from ..base import FloatArray
from ..features import UNAVAILABLE, Phi, as_sparse, available, dense, is_sparse, length, take
from .frame import LARGEST, Frame
from .nearest import nearest

COST = 0.01  # of normalised value: what a feature outside may cost over a horizon before a result is doubtful
ROUNDING = 1e-6  # below this nothing is outside
BLUR = 0.05  # where the rounding of features, seen in white coordinates, is larger than this, nothing is measured
_LOOK = 1e8  # multiplications of a look
_NEAREST = 4e9  # multiplications of a run that go into nearest points; there are cheaper looks, less sharp
_OFTEN = 128  # looks until the count of queries has grown by a factor e, once they are many
_DIRECTIONS = 128  # in which the core's hull is compared with what comes


class HullWatch:
    """Looks at features and remembers how far outside the hull of the core features the farthest was.

    `far` does not depend on the units of the features. Where the core features are independent, a feature has one set of
    coefficients over them, and `far` is their mass that is negative, or off 1, or that the core does not reach. Where
    they are not (m > d), it is the distance from the hull after whitening (Phi~' Phi~ = I), in lengths of the longest core
    feature: bounded from below for all features, by some directions, and exact for some features.
    """

    def __init__(self, frame: Frame, discount: float) -> None:
        self.frame, self.discount = frame, discount
        self.far = 0.0
        self.rows = 0  # states looked at
        self.due = 0  # queries at which the next look is due
        self.work = 0.0  # spent on nearest points

    @property
    def tolerance(self) -> float:
        """The distance that may cost COST: an error of theta.phi adds up over 1/(1 - gamma) steps."""
        return max(COST * (1.0 - self.discount), ROUNDING)

    @property
    def outside(self) -> float:
        """`far`; NaN where the core set is too large for it to be measured, or so ill-conditioned that rounding hides it."""
        if self._axes is not None or self.far > self.tolerance:
            return self.far
        return self.far if self._hull is not None and self._hull.white_error < BLUR else np.nan

    def mark(self) -> list[float]:
        """What has been seen, as JSON types; `return_to` puts it back."""
        return [self.far, self.rows, self.due, self.work]

    def return_to(self, mark: Any) -> None:
        """Put back what `mark` returned."""
        self.far, self.rows, self.due, self.work = float(mark[0]), int(mark[1]), int(mark[2]), float(mark[3])

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
        if self._axes is not None:
            index, weight = as_sparse(phi)
            self.far = max(self.far, _beyond_axes(index, weight, *self._axes, is_sparse(phi)))
        elif self._hull is not None and self.far <= self.tolerance:  # one alarm is enough
            rng = np.random.default_rng(self.rows)
            rows = _some_rows(phi, self.frame.d, self._hull.most, rng)
            far, work = self._hull.farthest(rows, _NEAREST - self.work, self.tolerance, rng)
            self.far, self.work = max(self.far, far), self.work + work
        self.rows += length(phi)

    @property
    def finding(self) -> str:
        """What is wrong, in a sentence: features were met outside, or nothing could be measured; empty where nothing is."""
        if np.isnan(self.outside):
            return (
                "Whether the core set covers the features that were met was not measured: it is too large, or "
                "its features are nearly dependent."
            )
        if self.far <= self.tolerance:
            return ""
        cost = min(1.0, self.far / (1.0 - self.discount))
        return (
            f"Features were met that lie outside the convex hull of the core features, by {self.far:.2g} of its size: the "
            "core set is incomplete, values there are extrapolated, and over the horizon that may cost up to "
            f"{cost:.2g} of normalised value. Add core pairs, the extreme ones above all (coreplan.core.select), or plan "
            "with Grow, which needs none."
        )

    @cached_property
    def _axes(self) -> tuple[FloatArray, float] | None:
        """1 / c_j at the coordinates of core features c_j e_i, else 0, `[d]`, and the least |c_j|; None for other cores."""
        axes = self.frame.axes
        if axes is None or self.frame.rank < self.frame.m:
            return None
        inverse = np.zeros(self.frame.d)
        inverse[axes[0]] = 1.0 / axes[1]
        return inverse, float(np.abs(axes[1]).min())

    @cached_property
    def _hull(self) -> _Hull | None:
        m, d = self.frame.m, self.frame.d
        return _Hull(self.frame) if m * max(m, d) <= LARGEST else None


class _Hull:
    """The hull of core features that are not on axes, and how far rows lie outside.

    In white coordinates, Phi~ = white diag(s) Vt, a row is z `[k]`; the sizes of columns and changes of basis drop out.
    """

    def __init__(self, frame: Frame) -> None:
        m, d = frame.m, frame.d
        self.white, self.s, self.vt, _ = frame.factors  # [m, k], [k], [k, d]
        self.column = np.abs(frame.matrix).max(axis=0)  # [d], 0 where the core has nothing
        self.unused = self.column == 0.0
        self.column[self.unused] = self.column[self.column > 0].min()
        k = len(self.s)
        self.independent = k == m
        self.size = float(np.linalg.norm(self.white, axis=1).max())
        # Features of simulators in single precision are right to 1e-7, column by column; white coordinates make it more.
        single = bool((frame.matrix == frame.matrix.astype(np.float32)).all())
        self.error = 4 * 2.0**-23 if single else 16 * 2.0**-52 * np.sqrt(d)
        blown_up = float(np.sqrt((((self.vt * self.column) / self.s[:, None]) ** 2).sum()))
        self.white_error = self.error * blown_up * (np.sqrt(m) if self.independent else 1.0 / self.size)
        U = np.random.default_rng(0).standard_normal((_DIRECTIONS, k))
        self.U = U / np.linalg.norm(U, axis=1, keepdims=True)  # [K, k]
        self.support = (self.white @ self.U.T).max(axis=0)  # [K]
        ones = self.white.sum(axis=0)  # white a = 1, if there is such an a: all of the hull lies on z . a = 1
        self.plane = ones if np.abs(self.white @ ones - 1.0).max() < 1e-9 else None  # [k]
        self.gram = self.white @ self.white.T if not self.independent else np.empty((0, 0))
        self.most = max(8, int(_LOOK / (d * k + 2 * k * max(m, _DIRECTIONS))))  # rows in a look
        self.price = 2e4 + 4.0 * k**3 + 4.0 * m * k  # of a nearest point

    def farthest(
        self, rows: FloatArray, left: float, enough: float, rng: np.random.Generator
    ) -> tuple[float, float]:
        """The largest distance found among rows `[n, d]`, with at most `left` work on nearest points; the work done."""
        if len(rows) == 0:
            return 0.0, 0.0
        z = rows @ (self.vt.T / self.s)  # [n, k]
        far = self._off_span(rows, z)
        b = z @ self.white.T  # [n, m], coefficients over the core features, the shortest ones
        off = np.maximum(np.abs(b.sum(axis=1) - 1.0), np.maximum(-b, 0.0).sum(axis=1))
        if self.independent:
            return max(far, float(off.max()) - self.white_error), 0.0
        z = z[off > self.white_error + 1e-9]
        if far > enough or len(z) == 0:
            return far, 0.0
        least = self._at_least(z)  # [n]
        far = max(far, float(least.max()) / self.size - self.white_error)
        half = (min(256, max(16, len(rows) // 4), int(left / self.price)) + 1) // 2
        if far > enough or left < self.price:
            return far, 0.0
        order = np.argsort(least)
        chosen = np.concatenate([order[-half:], rng.permutation(order[:-half])[:half]])
        targets = np.unique(z[chosen], axis=0)
        return max(far, self._nearest(targets) / self.size - self.white_error), self.price * len(targets)

    def _nearest(self, targets: FloatArray) -> float:
        """The largest distance of targets `[n, k]` from the hull, exact."""
        (m, k), n = self.white.shape, len(targets)
        most = min(m, k + 1)
        S, b = np.zeros((n, most), dtype=np.int64), np.zeros((n, most))
        count, distance = np.zeros(n, dtype=np.int64), np.empty(n)
        unit = float((self.white**2).sum(axis=1).mean())
        points = np.concatenate([self.white, targets])
        nearest(points, k, np.arange(m), self.gram, unit, np.arange(m, m + n), S, b, count, distance)
        return float(distance.max())

    def _off_span(self, rows: FloatArray, z: FloatArray) -> float:
        """The largest entry of a row that is not in the span of the core features, relative to its column's size."""
        rest = np.abs(rows - (z * self.s) @ self.vt).max(axis=0) / self.column - self.error  # [d]
        # What the core has nothing of counts whole, unless it is rounding.
        rest[self.unused] = np.abs(rows[:, self.unused]).max(axis=0) > ROUNDING * self.column[self.unused]
        return float(max(rest.max(), 0.0))

    def _at_least(self, z: FloatArray) -> FloatArray:
        """Lower bounds `[n]` on distances from the hull: off its plane, out in some directions, away from its middle."""
        away = z - self.white.mean(axis=0)
        away /= np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-300)
        radial = (away * z).sum(axis=1) - (away @ self.white.T).max(axis=1)
        bounds = np.maximum((z @ self.U.T - self.support).max(axis=1), radial)
        if self.plane is None:
            return bounds
        return np.maximum(bounds, np.abs(z @ self.plane - 1.0) / np.linalg.norm(self.plane))


@njit(cache=True, nogil=True)
def _beyond_axes(index, weight, inverse, least, sparse):
    """The largest mass of coefficients b_i = phi_i / c_i of a row that is negative, off the core, or missing to sum 1."""
    worst = 0.0
    for n in range(weight.shape[0]):
        for a in range(weight.shape[1]):
            if weight[n, a, 0] == UNAVAILABLE:
                continue
            missing, total, size, signed = 0.0, 0.0, 0.0, False
            for i in range(weight.shape[2]):
                size = max(size, abs(weight[n, a, i]))
                signed |= weight[n, a, i] < 0.0
            for i in range(weight.shape[2]):
                w = weight[n, a, i]
                if sparse and signed:  # entries of the same coordinate may cancel
                    w = _entry(index[n, a], weight[n, a], i)
                c = inverse[index[n, a, i]]
                if c != 0.0:
                    missing += max(-w * c, 0.0)
                    total += w * c
                elif abs(w) > 1e-9 * size:
                    missing += abs(w) / least
            worst = max(worst, missing, abs(total - 1.0))
    return worst


@njit(cache=True, nogil=True)
def _entry(index, weight, i):
    """The sum of the entries of i's coordinate if i is the first of them, else 0."""
    w = 0.0
    for e in range(index.shape[0]):
        if index[e] == index[i]:
            if e < i:
                return 0.0
            w += weight[e]
    return w


def _some_rows(phi: Phi, d: int, most: int, rng: np.random.Generator) -> FloatArray:
    """At most `most` of the features of available actions, at random, dense `[n, d]`."""
    n, a = np.nonzero(available(phi))
    if len(n) > most:
        chosen = rng.choice(len(n), most, replace=False)
        n, a = n[chosen], a[chosen]
    return dense(take(phi, (n, a)), d)
