"""Operations on rows of features, in compiled and in interpreted code: inner products, and adding a row to a vector.

`load`, `inner`, `subtract` and `products` take rows, dense `[N, d]` or Sparse `[N, k]`; z is a row's number and r `[d]`.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import overload

from .batch import is_sparse

# `fastmath` flags: sums may be reordered and fused, so that they use vector instructions. That is safe here, since no
# result is compared bit by bit with an interpreted run. The bits depend on the machine, as with BLAS, but never on the
# number of threads.
SUMS = {"reassoc", "contract"}


@njit(cache=True, nogil=True, fastmath=SUMS)
def fast_dot(a, b):
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@njit(cache=True, nogil=True, fastmath=SUMS)
def fast_add(c, a, out):
    for i in range(a.shape[0]):
        out[i] += c * a[i]


def load(rows, z, r):
    """Copy row z into r, dense."""
    r[:] = 0.0
    subtract(rows, z, -1.0, r)


def inner(rows, z, r):
    """The inner product of row z and r."""
    return rows.weight[z] @ r[rows.index[z]] if is_sparse(rows) else rows[z] @ r


def subtract(rows, z, c, r):
    """r -= c * row z, in place."""
    if is_sparse(rows):
        np.subtract.at(r, rows.index[z], c * rows.weight[z])
    else:
        r -= c * rows[z]


@njit(cache=True, nogil=True)
def _load(rows, z, r):
    r[:] = 0.0
    subtract(rows, z, -1.0, r)


@njit(cache=True, nogil=True)
def _inner_dense(rows, z, r):
    return fast_dot(rows[z], r)


@njit(cache=True, nogil=True)
def _inner_sparse(rows, z, r):
    index, weight = rows
    total = 0.0
    for l in range(index.shape[1]):
        total += weight[z, l] * r[index[z, l]]
    return total


@njit(cache=True, nogil=True)
def _subtract_dense(rows, z, c, r):
    fast_add(-c, rows[z], r)


@njit(cache=True, nogil=True)
def _subtract_sparse(rows, z, c, r):
    index, weight = rows
    for l in range(index.shape[1]):
        r[index[z, l]] -= c * weight[z, l]


@overload(load)
def _overload_load(rows, z, r):
    return lambda rows, z, r: _load(rows, z, r)


@overload(inner)
def _overload_inner(rows, z, r):
    if isinstance(rows, types.Array):
        return lambda rows, z, r: _inner_dense(rows, z, r)
    return lambda rows, z, r: _inner_sparse(rows, z, r)


@overload(subtract)
def _overload_subtract(rows, z, c, r):
    if isinstance(rows, types.Array):
        return lambda rows, z, c, r: _subtract_dense(rows, z, c, r)
    return lambda rows, z, c, r: _subtract_sparse(rows, z, c, r)


@njit(cache=True, nogil=True)
def products(rows, r, out):
    """out[z] = row z . r, for every row z."""
    for z in range(out.shape[0]):
        out[z] = inner(rows, z, r)
