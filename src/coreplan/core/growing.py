"""A convex hull that grows by one vertex of a pool at a time, and the pool's distances to it, evaluated lazily."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy import sparse

from ..base import FloatArray, IntArray
from ..features import Phi, as_sparse, column_means, entries, is_sparse, load, products, take
from .nearest import nearest

_BLOCK = 32  # points a thread takes at once
_CHUNK = 4096  # points whose coefficients are held padded at once
ZERO = 1e-6  # a distance this small, relative to the root mean square of the norms, is rounding
_NONE = np.empty(0, dtype=np.int32), np.empty(0)


class Points:
    """The rows of a pool for computing: dense `[N, d]` moved to mean zero, which saves digits, or Sparse as they are."""

    def __init__(self, features: Phi) -> None:
        if is_sparse(features):
            self.rows: Phi = features
            self.d = int(as_sparse(features).index.max()) + 1
            self.norms = (entries(features) ** 2).sum(axis=1)  # [N], squared
            self.mean = column_means(features, self.d)  # [d]
        else:
            self.rows = centred = entries(features) - entries(features).mean(axis=0)
            self.d = centred.shape[1]
            self.norms = np.einsum("ij,ij->i", centred, centred)
            self.mean = np.zeros(self.d)
        self.unit = float(self.norms.mean()) or 1.0

    def __len__(self) -> int:
        return len(self.norms)

    def row(self, z: int) -> FloatArray:
        """Row z, dense `[d]`."""
        r = np.empty(self.d)
        load(self.rows, z, r)
        return r

    def products(self, r: FloatArray) -> FloatArray:
        """The product of every row with r `[d]`: `[N]`."""
        out = np.empty(len(self))
        parallel(lambda a, b: products(take(self.rows, slice(a, b)), r, out[a:b]), len(self), _CHUNK)
        return out

    def squares(self, centre: FloatArray) -> FloatArray:
        """Squared distances of all rows from `centre [d]`, up to rounding of the size of the norms."""
        return self.norms - 2.0 * self.products(centre) + np.square(centre).sum()

    def farthest_from_mean(self) -> int:
        """A vertex of the rows' hull, since a convex function is largest at one."""
        return int(np.argmax(self.squares(self.mean)))


def parallel(work: Callable[[int, int], None], n: int, block: int) -> None:
    """`work(start, end)` on blocks of 0..n in threads. Compiled work leaves the interpreter free; bits do not
    depend on the number of threads, since the blocks do not."""
    edges = [(a, min(a + block, n)) for a in range(0, n, block)]
    threads = min(len(edges), _cores())
    if threads <= 1:
        for a, b in edges:
            work(a, b)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(lambda edge: work(*edge), edges):
            pass


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class GrowingHull:
    """conv of chosen points, with an upper bound on every point's distance.

    Vertices are only added, so a distance once exact remains an upper bound. `farthest` re-evaluates from the top: it needs
    only those points whose bound exceeds the largest exact distance. Each keeps its active set to start from.
    """

    def __init__(self, points: Points) -> None:
        N = len(points)
        self.points, self.m = points, 0
        self.vertices = np.empty(0, dtype=np.int64)  # [m]
        self.G = np.empty((64, 64))  # products of the vertices, in the corner [m, m]
        self.bound = np.full(N, np.inf)  # [N]
        self.known = np.zeros(N, dtype=np.int64)  # [N], the number of vertices for which the bound is exact
        self.sets: dict[int, tuple[IntArray, FloatArray]] = {}  # active vertices and weights, where evaluated
        self.evaluations = 0

    def add(self, z: int) -> None:
        """Point z becomes a vertex."""
        m = self.m
        if m == len(self.G):
            G = np.empty((2 * m, 2 * m))
            G[:m, :m] = self.G
            self.G = G
        row = self.points.row(z)
        self.vertices = np.append(self.vertices, z)
        self.sets.pop(z, None)  # its nearest point is now itself, not a mixture that rounds to it
        products(take(self.points.rows, self.vertices), row, self.G[m, : m + 1])
        self.G[:m, m] = self.G[m, :m]
        self.m += 1
        if m == 0:  # the first bounds: distances from the vertex, plus what rounding may have taken away
            slack = 1e-14 * (self.points.norms + self.G[0, 0])
            self.bound = np.sqrt(np.maximum(self.points.squares(row), 0.0) + slack)

    def farthest(self) -> tuple[int, float]:
        """The point that is farthest from the hull, up to rounding, and its distance, exact."""
        exact = np.flatnonzero(self.known == self.m)
        best, width = float(self.bound[exact].max(initial=-1.0)), _BLOCK
        while True:
            stale = np.flatnonzero((self.bound > best) & (self.known < self.m))
            if len(stale) == 0:
                break
            if len(stale) > width:
                stale = stale[np.argpartition(-self.bound[stale], width)[:width]]
            self.remember(stale, *self.refresh(stale))
            best, width = max(best, float(self.bound[stale].max())), min(2 * width, _CHUNK)
        z = int(np.flatnonzero((self.bound == best) & (self.known == self.m))[0])
        return z, best

    def refresh(self, zs: IntArray) -> tuple[IntArray, IntArray, FloatArray]:
        """Make the bounds of the points `zs [n]` exact; their active sets as `count [n]`, `S` and `b [n, k]`."""
        n, k = len(zs), min(self.m, self.points.d + 1)
        S, b = np.zeros((n, k), dtype=np.int64), np.zeros((n, k))
        count, distance = np.zeros(n, dtype=np.int64), np.empty(n)
        for i, z in enumerate(zs):
            index, weight = self.sets.pop(z, _NONE)
            if len(index):
                count[i] = len(index)
                S[i, : len(index)], b[i, : len(index)] = index, weight
        rows, d, unit = self.points.rows, self.points.d, self.points.unit

        def work(start: int, end: int) -> None:
            part = slice(start, end)
            nearest(
                rows, d, self.vertices, self.G, unit, zs[part], S[part], b[part], count[part], distance[part]
            )

        parallel(work, n, _BLOCK)
        self.bound[zs], self.known[zs] = distance, self.m
        self.evaluations += n
        return count, S, b

    def remember(self, zs: IntArray, count: IntArray, S: IntArray, b: FloatArray) -> None:
        """Keep active sets to start from."""
        for i, z in enumerate(zs):
            self.sets[z] = S[i, : count[i]].astype(np.int32), b[i, : count[i]].copy()

    def coefficients(self) -> tuple[sparse.csr_matrix, FloatArray]:
        """B `[N, m]` with the nearest points `B C` of the whole pool, and the distances `[N]`, all exact."""
        N = len(self.points)
        counts, indices, weights = [], [], []
        for start in range(0, N, _CHUNK):
            count, S, b = self.refresh(np.arange(start, min(start + _CHUNK, N)))
            used = np.arange(S.shape[1]) < count[:, None]
            counts.append(count)
            indices.append(S[used].astype(np.int32))
            weights.append(b[used])
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
        parts = (np.concatenate(weights), np.concatenate(indices), indptr)
        B = sparse.csr_matrix(parts, shape=(N, self.m))
        B.sort_indices()
        return B, self.bound.copy()
