"""Ready-made feature maps: tables, one-hot, multilinear interpolation on a grid. All compiled; `bases.py` has more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from ..base import FloatArray, InputError, IntArray, States, as_array, as_count, shown
from .batch import Phi, Sparse, arrays, entries, is_sparse, n_actions
from .formulas import Formula, copied, describes
from .grids import as_box, as_nodes, check_size
from .periodic import as_flags, fold_into, joined, periodic_formula, wrapped
from .protocol import CompiledFeatures


@njit(cache=True, nogil=True)
def _dense_table(data, states, out):
    table = data[0]
    for n in range(states.shape[0]):
        x = states[n]
        known = 0 <= x < table.shape[0]
        for a in range(out.shape[1]):  # element by element: a slice assignment takes nearly twice as long
            for i in range(out.shape[2]):
                out[n, a, i] = table[x, a, i] if known else np.nan


@njit(cache=True, nogil=True)
def _sparse_table(data, states, out):
    index, weight = data
    for n in range(states.shape[0]):
        x = states[n]
        known = 0 <= x < index.shape[0]
        for a in range(index.shape[1]):
            for i in range(index.shape[2]):
                out.index[n, a, i] = index[x, a, i] if known else 0
                out.weight[n, a, i] = weight[x, a, i] if known else np.nan


@describes(_dense_table)
def _dense_formula(data: Any, A: int) -> Formula:
    return {"kind": "table", "table": data[0]}


@describes(_sparse_table)
def _sparse_formula(data: Any, A: int) -> Formula:
    index, weight = data
    return {"kind": "sparse_table", "index": index, "weight": weight}


def _as_table(table: Any, d: int) -> Phi:
    """A table of features with the right shape and dtypes; else an InputError."""
    form, owner = "[X, A, d], or Sparse(index, weight) with both [X, A, k]", "table_features"
    if not is_sparse(table):
        phi = as_array(owner, form, 3, finite=False, table=table)
        if phi.shape[2] != d or phi.size == 0:
            raise InputError(f"`{owner}(table=...)` must be {form}, here d = {d}; got shape {phi.shape}.")
        return np.ascontiguousarray(phi, dtype=np.float64)
    index = as_array(owner, form, 3, kinds="iu", table=table.index)
    weight = as_array(owner, form, 3, finite=False, table=table.weight)
    if index.shape != weight.shape or index.size == 0 or index.min() < 0 or index.max() >= d:
        raise InputError(
            f"`{owner}(table=...)` must be {form}, with indices from 0 to dimension - 1 = {d - 1}; got shapes {index.shape} "
            f"and {weight.shape} and indices {shown(index)}."
        )
    return Sparse(index.astype(np.int64, copy=False), weight.astype(np.float64, copy=False))


def table_features(table: Phi, dimension: int, radius: float, name: str = "table") -> CompiledFeatures:
    """Features looked up by the state's number: `table` is `[X, A, d]` or Sparse `[X, A, k]`."""
    table = _as_table(table, as_count("table_features", dimension=dimension))
    A, k = n_actions(table), entries(table).shape[2]
    kernel, nonzeros = (_sparse_table, k) if is_sparse(table) else (_dense_table, None)
    return CompiledFeatures(kernel, A, dimension, radius, nonzeros=nonzeros, data=arrays(table), name=name)


@njit(cache=True, nogil=True)
def _one_hot(data, states, out):
    n_states = data[0]
    A = out.index.shape[1]
    for n in range(states.shape[0]):
        x = states[n]
        for a in range(A):
            out.index[n, a, 0] = x * A + a if 0 <= x < n_states else 0
            out.weight[n, a, 0] = 1.0 if 0 <= x < n_states else np.nan


@describes(_one_hot)
def _one_hot_formula(data: Any, A: int) -> Formula:
    return copied({"kind": "one_hot", "count": data[0]}, A)


def one_hot(n_states: int, n_actions: int) -> CompiledFeatures:
    """phi(x, a) = e_{x A + a}: the tabular case, d = X A. Every pair is its own core pair."""
    n_states, n_actions = as_count("one_hot", n_states=n_states), as_count("one_hot", n_actions=n_actions)
    check_size("one_hot", n_states * n_actions)
    return CompiledFeatures(
        _one_hot,
        n_actions,
        n_states * n_actions,
        1.0,
        nonzeros=1,
        data=(n_states,),
        name="one-hot",
        core=lambda: all_pairs(n_states, n_actions),
    )


def all_pairs(n_states: int, n_actions: int) -> tuple[IntArray, IntArray]:
    """All state-action pairs in the order of `one_hot`'s coordinates: states `[X A]`, actions `[X A]`."""
    n_states, n_actions = as_count("all_pairs", n_states=n_states), as_count("all_pairs", n_actions=n_actions)
    check_size("all_pairs", n_states * n_actions)
    states, actions = np.divmod(np.arange(n_states * n_actions), n_actions)
    return states, actions


@njit(cache=True, nogil=True, inline="always")
def locate_cell(x, low, step, nodes):
    """The cell of x on a regular axis and the position in [0, 1] within it; x is clipped to the axis, NaN gives NaN."""
    z = (x - low) / step
    if z < 0.0:
        z = 0.0
    elif z > nodes - 1.0:
        z = nodes - 1.0
    cell = min(int(z), nodes - 2) if z == z else 0
    return cell, z - cell


@njit(cache=True, nogil=True)
def interpolate_into(data, states, out):
    low, step, shape = data  # [D] each
    index, weight = out
    A, corners, D = index.shape[1], index.shape[2], shape.shape[0]
    for n in range(states.shape[0]):
        for c in range(corners):
            index[n, 0, c] = 0
            weight[n, 0, c] = 1.0
        for i in range(D):
            cell, z = locate_cell(states[n, i], low[i], step[i], shape[i])
            for c in range(corners):
                up = (c >> i) & 1
                index[n, 0, c] = index[n, 0, c] * shape[i] + cell + up
                weight[n, 0, c] *= z if up else 1.0 - z
        for c in range(corners):
            node = index[n, 0, c]
            for a in range(A):
                index[n, a, c] = node * A + a
                weight[n, a, c] = weight[n, 0, c]


@njit(cache=True, nogil=True)
def interpolate_periodic_into(data, states, out):
    base, low, high, periodic, fold = data
    interpolate_into(base, wrapped(states, low, high, periodic), out)
    fold_into(fold, out)


def _grid(data: Any) -> Formula:
    low, step, shape = data
    return {"kind": "interpolation", "low": low, "step": step, "shape": shape}


@describes(interpolate_into)
def _grid_formula(data: Any, A: int) -> Formula:
    return copied(_grid(data), A)


@describes(interpolate_periodic_into)
def _periodic_grid_formula(data: Any, A: int) -> Formula:
    return copied(periodic_formula(data, A, _grid(data[0])), A)


def interpolation(
    low: Sequence[float], high: Sequence[float], shape: Sequence[int], n_actions: int, *,
    periodic: Sequence[bool] | None = None,
) -> CompiledFeatures:  # fmt: skip
    """Multilinear interpolation on a regular grid, one copy per action: d = nodes x A, k = 2^D nonzeros.

    phi(x, a) IS the vector of convex coefficients over (node, action) pairs. So the nodes, each with every action, are an
    exact core set (Assumption 1 holds with zero error), and of the paper's approximation errors only the inherent Bellman
    error remains. States outside the grid are clipped to it. Radius 1: weights are nonnegative and sum to 1.

    `periodic`: one True or False per coordinate. A periodic coordinate, such as an angle from -pi to pi, counts modulo
    high - low: its `shape` nodes are spread over one period, and the last cell leads back to the first node.
    """
    n_actions = as_count("interpolation", n_actions=n_actions)
    lows, highs = as_box("interpolation", low, high)
    flags = as_flags("interpolation", periodic, len(lows))
    nodes = as_nodes("interpolation", shape, lows, flags, n_actions)
    base = CompiledFeatures(
        interpolate_into,
        n_actions,
        int(nodes.prod()) * n_actions,
        1.0,
        nonzeros=2 ** len(nodes),
        data=(lows, (highs - lows) / (nodes - 1), nodes),
        name="interpolation",
        state_shape=(len(nodes),),
        state_dtype=np.float64,
        core=lambda: interpolation_core(lows, highs, nodes, n_actions),
        box=(lows, highs),
        clips=True,
    )
    return joined(base, interpolate_periodic_into, nodes, flags)


def interpolation_core(
    low: Sequence[float] | FloatArray, high: Sequence[float] | FloatArray, shape: Sequence[int] | IntArray, n_actions: int
) -> tuple[States, IntArray]:  # fmt: skip
    """Every node of the grid with every action, in the order of the coordinates, so that Phi~ is the identity."""
    owner = "interpolation_core"
    lows, highs = as_box(owner, low, high)
    counts, n_actions = (
        as_nodes(owner, shape, lows, np.zeros(len(lows), dtype=bool)),
        as_count(owner, n_actions=n_actions),
    )
    axes: list[FloatArray] = [np.linspace(a, b, n) for a, b, n in zip(lows, highs, counts, strict=True)]
    nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))  # [nodes, D]
    return np.repeat(nodes, n_actions, axis=0), np.tile(np.arange(n_actions), len(nodes))
