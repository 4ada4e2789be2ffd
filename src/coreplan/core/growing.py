"""A convex hull that grows by one point of a pool at a time, and the distances of the pool from it, computed lazily."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy import sparse

from ..base import FloatArray, IntArray, processors
from ..features import Phi, as_sparse, column_means, entries, is_sparse, load, products, take
from .nearest import nearest

_BLOCK = 32  # points per task of a thread
_CHUNK = 4096  # points whose padded coefficients are in memory at once
ZERO = 1e-6  # distances below this, relative to the root mean square of the norms, are rounding
_NONE = np.empty(0, dtype=np.int32), np.empty(0)


class Points:
    """The rows of a pool in a form for computing: dense `[N, d]` shifted to mean zero for accuracy, or Sparse unchanged."""

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
        """The inner product of every row with r `[d]`: `[N]`."""
        out = np.empty(len(self))
        parallel(lambda a, b: products(take(self.rows, slice(a, b)), r, out[a:b]), len(self), _CHUNK)
        return out

    def squares(self, centre: FloatArray) -> FloatArray:
        """Squared distances of all rows from `centre [d]`, `[N]`; their rounding error is relative to the norms."""
        return self.norms - 2.0 * self.products(centre) + np.square(centre).sum()

    def farthest_from_mean(self) -> int:
        """The row farthest from the mean: a vertex of the rows' hull, since a convex function is largest at a vertex."""
        return int(np.argmax(self.squares(self.mean)))


def parallel(work: Callable[[int, int], None], n: int, block: int) -> None:
    """Call `work(start, end)` on blocks of 0..n, in threads; compiled work releases the interpreter lock.

    Results do not depend on the number of threads, since the blocks do not.
    """
    edges = [(a, min(a + block, n)) for a in range(0, n, block)]
    threads = min(len(edges), processors())
    if threads <= 1:
        for a, b in edges:
            work(a, b)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(lambda edge: work(*edge), edges):
            pass


class GrowingHull:
    """The convex hull of chosen points, with an upper bound on the distance of every point of the pool.

    Vertices are only ever added, so a distance that was exact remains an upper bound. `farthest` re-evaluates the points
    with the largest bounds first, and only those whose bound exceeds the largest exact distance. Each evaluated point keeps
    its *active set* (the vertices with positive weight in its nearest point) as the start of the next evaluation.
    """

    def __init__(self, points: Points) -> None:
        N = len(points)
        self.points, self.m = points, 0
        self.vertices = np.empty(0, dtype=np.int64)  # [m]
        self.G = np.empty((64, 64))  # products of the vertices, in the corner [m, m]
        self.bound = np.full(N, np.inf)  # [N]
        self.known = np.zeros(N, dtype=np.int64)  # [N], the number of vertices when the bound was last exact
        self.sets: dict[int, tuple[IntArray, FloatArray]] = {}  # point -> active vertices and their weights
        self.evaluations = 0

    def add(self, z: int) -> None:
        """Make point z a vertex."""
        m = self.m
        if m == len(self.G):
            G = np.empty((2 * m, 2 * m))
            G[:m, :m] = self.G
            self.G = G
        row = self.points.row(z)
        self.vertices = np.append(self.vertices, z)
        self.sets.pop(z, None)  # its nearest point is now itself, not a mixture
        products(take(self.points.rows, self.vertices), row, self.G[m, : m + 1])
        self.G[:m, m] = self.G[m, :m]
        self.m += 1
        if m == 0:  # the first bounds: distances from this vertex, plus a margin for rounding
            slack = 1e-14 * (self.points.norms + self.G[0, 0])
            self.bound = np.sqrt(np.maximum(self.points.squares(row), 0.0) + slack)

    def farthest(self) -> tuple[int, float]:
        """The point farthest from the hull, up to rounding, and its exact distance."""
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
        """Make the bounds of the points `zs [n]` exact.

        Returns their active sets: the sizes `count [n]`, the vertices `S [n, k]` and the weights `b [n, k]`.
        """
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
        """Store active sets as the start of the next evaluation."""
        for i, z in enumerate(zs):
            self.sets[z] = S[i, : count[i]].astype(np.int32), b[i, : count[i]].copy()

    def coefficients(self) -> tuple[sparse.csr_matrix, FloatArray]:
        """Exact for the whole pool: B `[N, m]`, such that B C are the nearest points for vertices C, and distances `[N]`."""
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
