"""Batches of features and the operations on them: the one place that distinguishes dense from sparse features.

A batch holds phi(x, a) for n states and all actions: dense `[n, A, d]`, or `Sparse(index, weight)`, both `[n, A, k]`.
Interpolation and tile features have a handful of nonzeros, and dense d-vectors would waste orders of magnitude.
*Rows* are a batch without the action axis, one feature vector for each of n pairs: `[n, d]`, or Sparse `[n, k]`.
Within a sparse feature vector the indices of nonzero weights are distinct; it is padded with weight 0.

Masks travel with the features: a feature vector whose first entry (first weight, if sparse) is `UNAVAILABLE` means
that the action cannot be taken at that state, and every policy gives it probability zero.

`kernels.py` and `row_kernels.py` hold the operations for compiled code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..base import FloatArray, IntArray, fenced

# Marks a masked row. Finite, so that it survives files and checks; longer than any real feature vector.
UNAVAILABLE = -float(np.finfo(np.float64).max)


class Sparse(NamedTuple):
    """Sparse vectors of k entries: `sum_l weight[..., l] e_{index[..., l]}`."""

    index: IntArray  # type: ignore[assignment]  # [..., k]; hides tuple.index on purpose
    weight: FloatArray  # [..., k]


Phi: TypeAlias = FloatArray | Sparse


# Form and sizes of a batch.


def is_sparse(phi: Phi) -> bool:
    """Whether the features are in the sparse form."""
    return isinstance(phi, Sparse)


def entries(phi: Phi) -> FloatArray:
    """The numbers of the features: `[..., d]`, or the weights `[..., k]`."""
    return phi.weight if isinstance(phi, Sparse) else phi


def arrays(phi: Phi) -> tuple[NDArray[Any], ...]:
    """The arrays of a batch: (features,) or (index, weight)."""
    return tuple(phi) if isinstance(phi, Sparse) else (phi,)


def length(phi: Phi) -> int:
    """n of `[n, ...]`. Works in compiled code too."""
    return len(entries(phi))


def n_actions(phi: Phi) -> int:
    """A of `[n, A, ...]`. Works in compiled code too."""
    return int(entries(phi).shape[1])


def available(phi: Phi) -> NDArray[np.bool_]:
    """Which actions can be taken, `[n, A]`, read off the features `[n, A, ...]`; single precision cannot forbid any."""
    first = entries(phi)[..., 0]
    return np.ones(first.shape, dtype=np.bool_) if first.dtype == np.float32 else first != UNAVAILABLE


def empty(n: int, n_actions: int, dimension: int, nonzeros: int | None) -> Phi:
    """A batch of zeros for `n` states: `[n, A, d]`, or Sparse `[n, A, k]` if `nonzeros` is k; between fences."""
    if nonzeros is None:
        return fenced((n, n_actions, dimension), np.float64)
    shape = (n, n_actions, nonzeros)
    return Sparse(fenced(shape, np.int64), fenced(shape, np.float64))


# Taking batches apart and putting them together.


def take(phi: Phi, which: Any) -> Phi:
    """`phi[which]`: `which` selects along the first axis (index array, mask, slice) or the first axes (tuple of arrays)."""
    if isinstance(phi, Sparse):
        return Sparse(phi.index[which], phi.weight[which])
    return phi[which]


def rows_of(phi: Phi, actions: IntArray) -> Phi:
    """Rows `[n, ...]` of a batch `[n, A, ...]`: for state n the row of `actions[n]`."""
    return take(phi, (np.arange(len(actions)), actions))


def flat(phi: Phi) -> Phi:
    """A batch `[n, A, ...]` as rows `[n A, ...]`."""
    if isinstance(phi, Sparse):
        k = phi.weight.shape[-1]
        return Sparse(phi.index.reshape(-1, k), phi.weight.reshape(-1, k))
    return phi.reshape(-1, phi.shape[-1])


def stack(parts: Sequence[Phi]) -> Phi:
    """Batches, all dense or all sparse, concatenated along the first axis."""
    if isinstance(parts[0], Sparse):
        return Sparse(*(np.concatenate([part[i] for part in parts]) for i in range(2)))
    return np.concatenate(parts)  # type: ignore[arg-type]


def put(phi: Phi, where: NDArray[np.bool_], values: Phi) -> None:
    """Write `values` into `phi` at the states `where [n]`, in place; shorter dense vectors are padded with zeros."""
    if isinstance(phi, Sparse):
        assert isinstance(values, Sparse)
        phi.index[where], phi.weight[where] = values
    else:
        assert not isinstance(values, Sparse)
        phi[where] = 0.0
        phi[where, :, : values.shape[-1]] = values


def forbid(phi: Phi, where: NDArray[np.bool_]) -> Phi:
    """Mark the pairs `where [n, A]` as unavailable, in place."""
    for array in arrays(phi):
        array[where] = 0
    entries(phi)[where, 0] = UNAVAILABLE
    return phi


def leading(phi: Phi, dimension: int) -> Phi:
    """The features with their first `dimension` coordinates only; those that fall away must be zero."""
    return phi if isinstance(phi, Sparse) else phi[..., :dimension]


def crossed(phi: Phi, blocks: IntArray, weights: FloatArray, dimension: int) -> Sparse:
    """psi (x) phi, sparse: the features `[n, A, ...]` of state n, times `weights[n, c]`, in block `blocks[n, c]` for each c.

    A block holds `dimension` coordinates; there are c k nonzeros.
    """
    index, weight = as_sparse(phi)
    n, A, _ = weight.shape
    cells = blocks[:, None, :, None] * dimension + index[:, :, None, :]  # [n, A, c, k]
    values = weights[:, None, :, None] * weight[:, :, None, :]
    return Sparse(cells.reshape(n, A, -1), values.reshape(n, A, -1))


# Conversion between the two forms.


def dense(phi: Phi, dimension: int) -> FloatArray:
    """The features in the dense form, `[..., d]`."""
    if not isinstance(phi, Sparse):
        return phi
    k = phi.weight.shape[-1]
    out = np.zeros((phi.weight.size // max(k, 1), dimension))
    np.add.at(out, (np.arange(len(out))[:, None], phi.index.reshape(-1, k)), phi.weight.reshape(-1, k))
    return out.reshape(*phi.weight.shape[:-1], dimension)


def as_sparse(phi: Phi) -> Sparse:
    """The features in the sparse form. Dense ones become Sparse with k = d; their index is a view that takes no memory."""
    if isinstance(phi, Sparse):
        return phi
    return Sparse(np.broadcast_to(np.arange(phi.shape[-1], dtype=np.int32), phi.shape), phi)


def as_matrix(rows: Phi, dimension: int) -> Any:
    """Rows as a matrix `[n, d]`: a csr copy, which may be changed in place, if they are sparse; else the array itself."""
    if not isinstance(rows, Sparse):
        return rows
    n, k = rows.weight.shape
    parts = (rows.weight.ravel(), rows.index.ravel(), np.arange(0, n * k + 1, k))
    return sparse.csr_matrix(parts, shape=(n, dimension), copy=True)


def from_csr(matrix: sparse.csr_matrix) -> Sparse:
    """The rows of a csr matrix as Sparse `[n, k]`, padded to the longest row's k."""
    matrix.sum_duplicates()
    count = np.diff(matrix.indptr)
    used = np.arange(max(int(count.max(initial=0)), 1)) < count[:, None]  # [n, k]
    index, weight = np.zeros(used.shape, dtype=np.int64), np.zeros(used.shape)
    index[used], weight[used] = matrix.indices, matrix.data
    return Sparse(index, weight)


def with_constant(phi: Phi, dimension: int) -> Sparse:
    """Features in the sparse form with one more entry: the constant 1, at coordinate `dimension`."""
    index, weight = as_sparse(phi)
    shape = (*weight.shape[:-1], 1)
    return Sparse(
        np.concatenate([index, np.full(shape, dimension)], axis=-1).astype(np.int32),
        np.concatenate([weight, np.ones(shape)], axis=-1),
    )


def parts_of(phi: Phi) -> tuple[IntArray, FloatArray]:
    """Index and weight, the form in which files and planners' states store features. `from_parts` is the inverse.

    Dense features are stored as the weight, with an empty index.
    """
    if isinstance(phi, Sparse):
        return phi.index.astype(np.int32), phi.weight
    return np.zeros((0, phi.shape[1], 0), dtype=np.int32), phi


def from_parts(index: IntArray, weight: FloatArray) -> Phi:
    """The inverse of `parts_of`."""
    return Sparse(index, weight) if len(index) else weight


# Arithmetic on rows.


def row_scores(rows: Phi, theta: FloatArray) -> FloatArray:
    """phi_n . theta for every row, `[n]`, with theta `[d]`."""
    if isinstance(rows, Sparse):
        return np.einsum("...k,...k->...", rows.weight, theta[rows.index])
    return rows @ theta


def mean_scores(phi: Phi, theta: FloatArray, pi: FloatArray) -> FloatArray:
    """sum_a pi(a|x_n) phi(x_n, a) . theta, `[n]`, from probabilities `[n, A]`."""
    taken = pi > 0.0  # the score of a masked action means nothing
    return (pi * np.where(taken, row_scores(phi, theta), 0.0)).sum(axis=1)


def column_means(rows: Phi, dimension: int) -> FloatArray:
    """The mean of the rows, `[d]`."""
    if isinstance(rows, Sparse):
        total = np.bincount(rows.index.ravel(), weights=rows.weight.ravel(), minlength=dimension)
        return total / len(rows.weight)
    return rows.mean(axis=0)


def row_sums(rows: Phi) -> FloatArray:
    """The sum of the entries of each row, `[n]`."""
    return np.asarray(entries(rows).sum(axis=1))


def used_columns(rows: Phi) -> IntArray:
    """The coordinates in which some row is not zero, in order."""
    if isinstance(rows, Sparse):
        return np.unique(rows.index[rows.weight != 0.0]).astype(np.int64)
    return np.flatnonzero((rows != 0.0).any(axis=0))


def column_bounds(rows: Phi, dimension: int) -> tuple[FloatArray, FloatArray]:
    """The least and the largest entry of every column, each `[d]`; an entry that a sparse row leaves out is zero."""
    if not isinstance(rows, Sparse):
        return rows.min(axis=0), rows.max(axis=0)
    low, high = np.zeros(dimension), np.zeros(dimension)
    np.minimum.at(low, rows.index.ravel(), rows.weight.ravel())
    np.maximum.at(high, rows.index.ravel(), rows.weight.ravel())
    every = np.bincount(rows.index[rows.weight != 0.0], minlength=dimension) == len(rows.weight)
    for column in np.flatnonzero(every):  # no row leaves it out, as with a constant
        met = rows.weight[(rows.index == column) & (rows.weight != 0.0)]
        low[column], high[column] = met.min(), met.max()
    return low, high


def over(rows: Phi, sizes: FloatArray) -> Phi:
    """The rows with every column divided by its size, `sizes [d]`."""
    if isinstance(rows, Sparse):
        return Sparse(rows.index, rows.weight / sizes[rows.index])
    return rows / sizes


def mass_outside(rows: Phi, known: NDArray[np.bool_]) -> FloatArray:
    """For every row the sum of its absolute entries on the coordinates that are not `known [d]`: `[n]`."""
    if isinstance(rows, Sparse):
        return (np.abs(rows.weight) * ~known[rows.index]).sum(axis=1)
    return np.abs(rows[:, ~known]).sum(axis=1)


def single_entries(rows: Phi, rounding: float) -> tuple[IntArray, FloatArray] | None:
    """Coordinate `[n]` and value `[n]` of each row's only nonzero entry; None if a row has more than one.

    Entries below `rounding` times the row's largest count as zero.
    """
    weight = entries(rows)
    if weight.shape[1] == 0:
        return None
    used = np.abs(weight) > rounding * np.abs(weight).max(axis=1, keepdims=True)
    if not (used.sum(axis=1) == 1).all():
        return None
    which = rows.index[used] if isinstance(rows, Sparse) else np.nonzero(used)[1]
    return which.astype(np.int64), weight[used]


def distinct_rows(rows: Phi) -> tuple[IntArray, IntArray]:
    """The M distinct feature vectors: the row where each first occurs, `[M]`, and for every row which one it is, `[n]`."""
    if isinstance(rows, Sparse):  # bring the same vector to the same bytes, whatever its order and padding
        index = np.where(rows.weight == 0.0, -1, rows.index)
        order = np.argsort(index, axis=1, kind="stable")
        rows = np.hstack([np.take_along_axis(x, order, axis=1) for x in (index.astype(float), rows.weight)])
    seen: dict[int, int] = {}
    first: list[int] = []
    same = np.empty(len(rows), dtype=np.int64)
    for z, row in enumerate(rows):
        at = seen.setdefault(hash((row + 0.0).tobytes()), len(first))  # + 0.0 turns -0.0 into 0.0
        # The second condition: two different vectors may have the same hash.
        if at == len(first) or not np.array_equal(rows[first[at]], row):
            at = len(first)
            first.append(z)
        same[z] = at
    return np.array(first), same
