"""A watch over Assumption 1: do the features that a run meets lie in the convex hull of its core features?

Where they do not, every planner with a core set extrapolates, and none can tell from its own numbers. So a run looks at
the features of initial and next states as they come, in the same way for all planners, and declares its result doubtful
if they lie outside. It cannot see what a run never meets, and may miss what a long run meets rarely; `check` and
`certify` test other states.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numba import njit

from ..base import FloatArray, checks
from ..features import UNAVAILABLE, Phi, as_sparse, available, dense, is_sparse, length, take
from .frame import LARGEST, Frame
from .hull import DUST, are_weights
from .nearest import nearest

COST = 0.01  # normalised value that features outside may cost over the horizon before a result is doubtful
ROUNDING = 1e-6  # a smaller distance does not count as outside
BLUR = 0.05  # if whitening amplifies the features' rounding errors beyond this, no distance is reported
_LOOK = 1e8  # multiplications per look
_NEAREST = 4e9  # multiplications per run for exact nearest points; after that, only lower bounds
_OFTEN = 128  # looks while the number of queries grows by a factor e, once there are many queries
_DIRECTIONS = 128  # number of directions in which features are compared with the core's hull


class HullWatch:
    """Looks at features and remembers in `far` how far outside the hull of the core features the farthest one was.

    `far` does not depend on the units of the features, column by column. If the core features are linearly independent, a
    feature vector has unique coefficients over them, and `far` is the sum of their negative parts, the difference of their
    sum from 1, or the part of the feature outside the core's span, whichever is largest; that part counts as 1 where its
    column is zero in the whole core, since nothing is known of its size. If they are dependent (m > d), `far` is the
    distance from the hull after whitening (Phi~' Phi~ = I), in units of the longest core feature: a lower bound from a
    number of directions for all features, and exact for some of them.
    """

    def __init__(self, frame: Frame, discount: float) -> None:
        self.frame, self.discount = frame, discount
        self.far = 0.0
        self.rows = 0  # number of states looked at
        self.due = 0  # number of queries at which the next look is due
        self.work = 0.0  # multiplications spent on nearest points

    @property
    def tolerance(self) -> float:
        """The distance that may cost `COST` of normalised value: errors of theta . phi add up over 1/(1-gamma) steps."""
        return max(COST * (1.0 - self.discount), ROUNDING)

    @property
    def outside(self) -> float:
        """`far`; NaN if the core set is too large to measure it, or so ill-conditioned that rounding hides it."""
        if self._axes is not None or self.far > self.tolerance:
            return self.far
        return self.far if self._hull is not None and self._hull.white_error < BLUR else np.nan

    def mark(self) -> list[float]:
        """What has been seen so far, as JSON types; `return_to` restores it."""
        return [float(self.far), self.rows, self.due, self.work]

    def return_to(self, mark: Any) -> None:
        """Restore what `mark` returned; ValueError or KeyError for what it cannot have returned."""
        if not isinstance(mark, list) or len(mark) != 4:
            raise ValueError("what was seen of the features is not four numbers")
        seen = dict(zip(("far", "rows", "due", "work"), mark, strict=True))
        self.far, self.work = (checks.number(seen, name, 0.0) for name in ("far", "work"))
        self.rows, self.due = (checks.whole(seen, name) for name in ("rows", "due"))

    def see(self, queries: int, *batches: Phi | None) -> None:
        """Look at the features that an ask returned, after `queries` in total; skips most asks once they are many."""
        if queries < self.due:
            return
        self.due = queries + queries // _OFTEN
        for phi in batches:
            if phi is not None:
                self.look(phi)

    def look(self, phi: Phi) -> None:
        """Measure a batch of features `[n, A, ...]`."""
        if self._axes is not None:
            index, weight = as_sparse(phi)
            self.far = max(self.far, _beyond_axes(index, weight, self._axes, is_sparse(phi)))
        elif self._hull is not None and self.far <= self.tolerance:  # one alarm is enough
            rng = np.random.default_rng(self.rows)
            rows = _some_rows(phi, self.frame.d, self._hull.most, rng)
            far, work = self._hull.farthest(rows, _NEAREST - self.work, self.tolerance, rng)
            self.far, self.work = max(self.far, far), self.work + work
        self.rows += length(phi)

    @property
    def finding(self) -> str:
        """The reason for doubt: features lie outside the hull, or nothing could be measured; empty if all is well."""
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
    def _axes(self) -> FloatArray | None:
        """1 / c_j at coordinate i for core features c_j e_i, else 0, `[d]`.

        None unless the core features are multiples of different unit vectors.
        """
        axes = self.frame.level.axes
        if axes is None or len(np.unique(axes[0])) < self.frame.m:
            return None
        inverse = np.zeros(self.frame.d)
        inverse[axes[0]] = 1.0 / (axes[1] * self.frame.tops[axes[0]])
        return inverse

    @cached_property
    def _hull(self) -> _Hull | None:
        m, d = self.frame.m, self.frame.d
        return _Hull(self.frame) if m * max(m, d) <= LARGEST else None


class _Hull:
    """The hull of core features that are not multiples of unit vectors, and how far rows lie outside.

    It works in *white* coordinates: with Phi~ = white diag(s) Vt, a row phi becomes z = diag(1/s) Vt phi `[k]`. These do
    not depend on the choice of basis. All columns, of Phi~ and of the rows, are divided by those of Phi~ beforehand: then
    neither what counts as a zero singular value nor distances from the span depend on units.
    """

    def __init__(self, frame: Frame) -> None:
        m, d = frame.m, frame.d
        self.sizes, level = frame.tops, frame.level
        self.white, self.s, self.vt, _ = level.factors  # [m, k], [k], [k, d]
        self.unused = ~frame.matrix.any(axis=0)
        k = len(self.s)
        self.independent = k == m
        self.size = float(np.linalg.norm(self.white, axis=1).max())
        # Features in single precision have relative errors of 1e-7 in each column; white coordinates amplify them.
        single = bool((frame.matrix == frame.matrix.astype(np.float32)).all())
        self.error = 4 * 2.0**-23 if single else 16 * 2.0**-52 * np.sqrt(d)
        blown_up = float(np.sqrt(((self.vt / self.s[:, None]) ** 2).sum()))
        self.white_error = self.error * blown_up * (np.sqrt(m) if self.independent else 1.0 / self.size)
        U = np.random.default_rng(0).standard_normal((_DIRECTIONS, k))
        self.U = U / np.linalg.norm(U, axis=1, keepdims=True)  # [K, k]
        self.support = (self.white @ self.U.T).max(axis=0)  # [K]
        ones = self.white.sum(axis=0)  # if some a has white a = 1, it is this one; the hull lies in z . a = 1
        self.plane = ones if np.abs(self.white @ ones - 1.0).max() < 1e-9 else None  # [k]
        self.gram = self.white @ self.white.T if not self.independent else np.empty((0, 0))
        self.most = max(8, int(_LOOK / (d * k + 2 * k * max(m, _DIRECTIONS))))  # rows per look
        self.price = 2e4 + 4.0 * k**3 + 4.0 * m * k  # multiplications per nearest point

    def farthest(
        self, rows: FloatArray, left: float, enough: float, rng: np.random.Generator
    ) -> tuple[float, float]:
        """The largest distance found among rows `[n, d]`, and the work done on nearest points, at most `left`.

        Stops early once it exceeds `enough`.
        """
        if len(rows) == 0:
            return 0.0, 0.0
        rows = rows / self.sizes
        z = rows @ (self.vt.T / self.s)  # [n, k]
        far = self._off_span(rows, z)
        b = z @ self.white.T  # [n, m], coefficients over the core features, of least norm
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
        """The largest exact distance of the targets `[n, k]` from the hull."""
        (m, k), n = self.white.shape, len(targets)
        most = min(m, k + 1)
        S, b = np.zeros((n, most), dtype=np.int64), np.zeros((n, most))
        count, distance = np.zeros(n, dtype=np.int64), np.empty(n)
        unit = float((self.white**2).sum(axis=1).mean())
        points = np.concatenate([self.white, targets])
        nearest(points, k, np.arange(m), self.gram, unit, np.arange(m, m + n), S, b, count, distance)
        return float(distance.max())

    def _off_span(self, rows: FloatArray, z: FloatArray) -> float:
        """The largest entry of the rows' parts outside the span of the core features.

        A coordinate that is zero in all core features counts as 1, unless the row's entry is rounding.
        """
        rest = np.abs(rows - (z * self.s) @ self.vt).max(axis=0) - self.error  # [d]
        rest[self.unused] = np.abs(rows[:, self.unused]).max(axis=0) > (DUST if are_weights(rows) else 0.0)
        return float(max(rest.max(), 0.0))

    def _at_least(self, z: FloatArray) -> FloatArray:
        """Lower bounds `[n]` on distances from the hull: from its plane, in fixed directions, and away from its mean."""
        away = z - self.white.mean(axis=0)
        away /= np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-300)
        radial = (away * z).sum(axis=1) - (away @ self.white.T).max(axis=1)
        bounds = np.maximum((z @ self.U.T - self.support).max(axis=1), radial)
        if self.plane is None:
            return bounds
        return np.maximum(bounds, np.abs(z @ self.plane - 1.0) / np.linalg.norm(self.plane))


@njit(cache=True, nogil=True)
def _beyond_axes(index, weight, inverse, sparse):
    """For core features c_i e_i: how far the coefficients b_i = phi_i / c_i of the worst row are from convex ones.

    That is the sum of the negative ones, or |sum b - 1| if that is larger. Entries off the core's coordinates are in units
    that nothing tells. If the other coefficients are convex but for a part that is missing to 1, this part is what they
    stand for; otherwise they count as 1, unless they are rounding among weights that sum to 1.
    """
    worst = 0.0
    for n in range(weight.shape[0]):
        for a in range(weight.shape[1]):
            if weight[n, a, 0] == UNAVAILABLE:
                continue
            negative, total, off, whole, signed = 0.0, 0.0, 0.0, 0.0, False
            for i in range(weight.shape[2]):
                signed |= weight[n, a, i] < 0.0
            for i in range(weight.shape[2]):
                w = weight[n, a, i]
                if sparse and signed:  # entries of the same coordinate may cancel
                    w = _entry(index[n, a], weight[n, a], i)
                c = inverse[index[n, a, i]]
                whole += w
                if c != 0.0:
                    negative += max(-w * c, 0.0)
                    total += w * c
                else:
                    off += abs(w)
            worst = max(worst, negative, abs(total - 1.0))
            dust = off <= DUST and not signed and abs(whole - 1.0) <= DUST
            if off > 0.0 and not dust and (negative > 0.0 or total >= 1.0 - DUST):
                worst = max(worst, 1.0)
    return worst


@njit(cache=True, nogil=True)
def _entry(index, weight, i):
    """The total weight of entry i's coordinate if i is the first entry with that coordinate, else 0."""
    w = 0.0
    for e in range(index.shape[0]):
        if index[e] == index[i]:
            if e < i:
                return 0.0
            w += weight[e]
    return w


def _some_rows(phi: Phi, d: int, most: int, rng: np.random.Generator) -> FloatArray:
    """The features of available actions, at most `most` of them, chosen at random: dense `[n, d]`."""
    n, a = np.nonzero(available(phi))
    if len(n) > most:
        chosen = rng.choice(len(n), most, replace=False)
        n, a = n[chosen], a[chosen]
    return dense(take(phi, (n, a)), d)
