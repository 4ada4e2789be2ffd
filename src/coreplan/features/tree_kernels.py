"""Compiled parts of features on a tree: the boxes of its cells, the cell of a place, and interpolation among its corners.

Places are counted in ticks: coordinate i goes from 0 to `sizes[i]`. A cell is split in the middle of one axis; a cell whose
`child` is negative is a leaf, and the two halves of another one are cells number `child` and `child + 1`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_SNAP = (
    1e-6  # ticks: a place this near to a whole one is taken for it, since ticks are computed with rounding
)


@njit(cache=True, nogil=True)
def fill_boxes(axis, child, sizes, lo, hi, parent, first):
    """Fill edges `[N, D]` and parents of cells number `first` and up; returns the first malformed cell, or -1."""
    N, D = lo.shape
    if first == 0:
        parent[0] = -1
        for i in range(D):
            lo[0, i], hi[0, i] = 0, sizes[i]
        for k in range(1, N):
            parent[k] = -1
    for k in range(N):
        c = child[k]
        if c < 0 or c < first:
            continue
        i = axis[k]
        if c <= k or c + 1 >= N or i < 0 or i >= D or parent[c] >= 0 or hi[k, i] - lo[k, i] < 2:
            return k
        if k > 0 and parent[k] < 0:
            return k
        mid = (lo[k, i] + hi[k, i]) // 2
        for half in range(2):
            parent[c + half] = k
            for j in range(D):
                lo[c + half, j], hi[c + half, j] = lo[k, j], hi[k, j]
        hi[c, i] = mid
        lo[c + 1, i] = mid
    for k in range(max(first, 1), N):
        if parent[k] < 0:
            return k
    return -1


@njit(cache=True, nogil=True)
def key_of(at, sizes, periodic):
    """The number of a node at whole ticks `at [D]`; the two ends of a periodic axis are one place."""
    key = 0
    for i in range(len(sizes)):
        t = at[i]
        if periodic[i] and t == sizes[i]:
            t = 0
        key = key * (sizes[i] + 1) + t
    return key


@njit(cache=True, nogil=True)
def corner_keys(lo, hi, sizes, periodic, cells, keys):
    """The keys `[n, 2^D]` of the corners of some cells; bit i of a corner's number says whether it is at the upper edge."""
    at = np.empty(len(sizes), dtype=np.int64)
    for n in range(len(cells)):
        k = cells[n]
        for c in range(keys.shape[1]):
            for i in range(len(sizes)):
                at[i] = hi[k, i] if (c >> i) & 1 else lo[k, i]
            keys[n, c] = key_of(at, sizes, periodic)


@njit(cache=True, nogil=True)
def fill_complete(parent, corners, complete):
    """For each cell, itself or the nearest cell above it all of whose corners are nodes; -1 if there is none."""
    for k in range(len(parent)):
        whole = True
        for c in range(corners.shape[1]):
            whole = whole and corners[k, c] >= 0
        complete[k] = k if whole else (complete[parent[k]] if parent[k] >= 0 else -1)


@njit(cache=True, nogil=True)
def into_ticks(x, low, width, sizes, periodic, z):
    """The place z `[D]` in ticks of a state x `[D]`: clipped, or modulo the period; False if it is not a number."""
    whole = True
    for i in range(len(sizes)):
        u = (x[i] - low[i]) / width[i]
        if periodic[i]:
            u -= np.floor(u)
        elif u < 0.0:
            u = 0.0
        elif u > 1.0:
            u = 1.0
        if not (u >= 0.0 and u <= 1.0):
            return False, False
        t = u * sizes[i]
        near = np.rint(t)
        if abs(t - near) < _SNAP:
            t = near
            if periodic[i] and t == sizes[i]:
                t = 0.0
        else:
            whole = False
        z[i] = t
    return True, whole


@njit(cache=True, nogil=True)
def leaf_of(z, axis, child, lo, hi):
    """The leaf of a place in ticks."""
    k = 0
    while child[k] >= 0:
        i = axis[k]
        k = child[k] + (1 if z[i] >= (lo[k, i] + hi[k, i]) // 2 else 0)
    return k


@njit(cache=True, nogil=True)
def find_key(key, sorted_keys):
    """The position of a key, or -1."""
    at = np.searchsorted(sorted_keys, key)
    return at if at < len(sorted_keys) and sorted_keys[at] == key else -1


@njit(cache=True, nogil=True)
def place(data, x, z, node, weight):
    """Nodes and convex weights `[2^D]` at a state x; weights are NaN if it has no place. Returns the leaf."""
    low, width, sizes, periodic, axis, child, lo, hi, corners, complete, sorted_keys, order = data
    D, C = len(sizes), len(node)
    known, whole = into_ticks(x, low, width, sizes, periodic, z)
    if not known:
        for c in range(C):
            node[c], weight[c] = 0, np.nan
        return 0
    k = leaf_of(z, axis, child, lo, hi)
    leaf = k
    if whole:  # a node is its own unit vector, also where it lies on the face of a larger cell
        at = np.empty(D, dtype=np.int64)
        for i in range(D):
            at[i] = int(z[i])
        found = find_key(key_of(at, sizes, periodic), sorted_keys)
        if found >= 0:
            for c in range(C):
                node[c], weight[c] = order[found], 0.0
            weight[0] = 1.0
            return leaf
    k = complete[k]
    for c in range(C):
        node[c], weight[c] = corners[k, c], 1.0
    for i in range(D):
        s = (z[i] - lo[k, i]) / (hi[k, i] - lo[k, i])
        for c in range(C):
            weight[c] *= s if (c >> i) & 1 else 1.0 - s
    for i in range(D):
        if (
            periodic[i] and hi[k, i] - lo[k, i] == sizes[i]
        ):  # both edges are one place: its weight stands once
            for c in range(C):
                if (c >> i) & 1:
                    weight[c - (1 << i)] += weight[c]
                    weight[c] = 0.0
    return leaf


@njit(cache=True, nogil=True)
def place_all(data, states, node, weight, leaf):
    """`place` for a batch of states `[n, D]`: nodes and weights `[n, 2^D]`, leaves `[n]`."""
    z = np.empty(states.shape[1])
    for n in range(len(states)):
        leaf[n] = place(data, states[n], z, node[n], weight[n])


@njit(cache=True, nogil=True)
def tree_into(data, states, out):
    """The feature map: the weights of nodes, one copy per action."""
    index, weight = out
    A, C = index.shape[1], index.shape[2]
    z = np.empty(states.shape[1])
    node, w = np.empty(C, dtype=np.int64), np.empty(C)
    for n in range(len(states)):
        place(data, states[n], z, node, w)
        for a in range(A):
            for c in range(C):
                index[n, a, c] = node[c] * A + a
                weight[n, a, c] = w[c]
