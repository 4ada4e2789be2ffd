"""Sums over sparse rows that have few supports, by matrix products.

The *support* of a row is its list of coordinates. Dense features have one in all; polynomials or radial bases with a copy
per action have one per action. Rows with the same support are a dense matrix, whose sums of products are a few calls of
BLAS: ten times as fast as a loop over k x k numbers per row. Tiles and interpolation have as many supports as cells; they
have few nonzeros, and the loops in `systems.py` serve them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ..base import FloatArray, IntArray
from ..features import Sparse

MANY = 64  # supports; rows that have more are not grouped; their numbers fit into 8 bits
CHUNK = 4096  # rows per product, so that copies stay small


class Supports(NamedTuple):
    """The supports `[U, K]` of rows, and for every row which one it has, `[n]`."""

    table: IntArray
    ids: IntArray


@njit(cache=True, nogil=True)
def _same(row, other):
    same = True
    for i in range(row.shape[0]):
        same = same and row[i] == other[i]
        if not same:
            break
    return same


@njit(cache=True, nogil=True)
def _find(index, table, ids):
    """Fill `table` and `ids`; the number of supports, or -1 if there are more than the table has room for."""
    found, s = 0, 0
    for n in range(index.shape[0]):
        if found == 0 or not _same(index[n], table[s]):
            s = 0
            while s < found and not _same(index[n], table[s]):
                s += 1
            if s == table.shape[0]:
                return -1
            if s == found:
                table[s] = index[n]
                found += 1
        ids[n] = s
    return found


def supports(index: IntArray) -> Supports | None:
    """The supports of rows `[n, K]`; None if they have many, or one that names a coordinate twice (as padding may)."""
    ids: Any = np.empty(len(index), dtype=np.int8)
    table = np.empty((MANY, index.shape[1]), dtype=index.dtype)
    found = _find(index, table, ids)
    if found < 0 or any(len(np.unique(row)) < len(row) for row in table[:found]):
        return None
    return Supports(table[:found].astype(np.int64), ids)


def next_supports(index: IntArray) -> Supports | None:
    """The supports of all actions' rows `[n, A, K]`, as rows `[n A, K]`; a view that repeats one state is looked at once."""
    n, _, K = index.shape
    once = index.strides[0] == 0
    found = supports((index[:1] if once else index).reshape(-1, K))
    return found._replace(ids=np.tile(found.ids, n)) if once and found is not None else found


def groups(key: IntArray) -> Iterator[tuple[int, IntArray]]:
    """The positions of each number in `key [n]`, in chunks."""
    for value in np.unique(key):
        where = np.flatnonzero(key == value)
        for start in range(0, len(where), CHUNK):
            yield int(value), where[start : start + CHUNK]


def grouped_gram(phi: Sparse, s: Supports, w: FloatArray, G: FloatArray) -> None:
    """G += sum_i w_i phi_i phi_i'."""
    for u, rows in groups(s.ids):
        X = phi.weight[rows]
        G[np.ix_(s.table[u], s.table[u])] += (X * w[rows, None]).T @ X


def grouped_cross(
    phi: Sparse, here: Supports, next_phi: Sparse, there: Supports, rows: IntArray, choice: IntArray, w: FloatArray, C: Any
) -> None:  # fmt: skip
    """C += sum over `rows` of w_i phi_i phi(y_i, choice_i)'; `there` has the supports of the next rows `[N A]`."""
    A, U = next_phi.weight.shape[1], len(there.table)
    key = here.ids[rows].astype(np.int64) * U + there.ids[rows * A + choice]
    for value, at in groups(key):
        n, a = rows[at], choice[at]
        block = (phi.weight[n] * w[at, None]).T @ next_phi.weight[n, a]
        C[np.ix_(here.table[value // U], there.table[value % U])] += block


def grouped_mean_cross(
    phi: Sparse, here: Supports, next_phi: Sparse, there: Supports, rows: IntArray, share: FloatArray, C: FloatArray
) -> None:  # fmt: skip
    """C += sum over `rows` of phi_i (sum_a share_ia phi(y_i, a))', where `share [N, A]` is 0 for unavailable actions."""
    A = share.shape[1]
    for u, at in groups(here.ids[rows]):
        for n in np.array_split(rows[at], 1 + len(at) // 512):
            mean = np.zeros((len(n), len(C)))
            if len(there.table) == 1:
                mean[:, there.table[0]] = (share[n, None, :] @ next_phi.weight[n])[:, 0]
            for a in range(A) if len(there.table) > 1 else ():
                for v, part in groups(there.ids[n * A + a]):
                    mean[part[:, None], there.table[v]] += (
                        share[n[part], a, None] * next_phi.weight[n[part], a]
                    )
            C[here.table[u]] += phi.weight[n].T @ mean


def quadratics(phi: Sparse, s: Supports, S: FloatArray) -> FloatArray:
    """phi_i' S phi_i for every row, `[n]`."""
    out = np.empty(len(phi.weight))
    for u, rows in groups(s.ids):
        X = phi.weight[rows]
        out[rows] = np.einsum("nk,nk->n", X @ S[np.ix_(s.table[u], s.table[u])], X)
    return out
