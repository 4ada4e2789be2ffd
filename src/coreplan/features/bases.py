"""More feature maps: aggregation, and grids over a box; all compiled and batched. `smooth.py` has those without cells.

Each has base functions of the state and one copy of them per action, so d = (number of base functions) x A.
Aggregation, simplicial and rectilinear interpolation carry an exact core set by construction. Tile coding carries none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit

from ..base import InputError, IntArray, States, as_array, as_count, shown
from .formulas import Formula, copied, describes
from .grids import as_box, as_nodes, check_size
from .maps import interpolation_core, locate_cell
from .periodic import as_flags, fold_into, joined, periodic_formula, wrapped
from .protocol import CompiledFeatures


@njit(cache=True, nogil=True, inline="always")
def copy_to_actions(out, n, k):
    """Copy entries 0..k-1 of state n from action 0, which holds base indices, to all actions: index * A + a."""
    index, weight = out
    A = index.shape[1]
    for i in range(k):
        base = index[n, 0, i]
        for a in range(A):
            index[n, a, i] = base * A + a
            weight[n, a, i] = weight[n, 0, i]


# Aggregation: one nonzero per feature vector.


def aggregation(groups: IntArray, n_actions: int) -> CompiledFeatures:
    """State aggregation for states 0..X-1: phi(x, a) = e_{(groups[x], a)}; `groups [X]` uses every number from 0 up.

    The first state of each group, with every action, gives an exact core set.
    """
    n_actions = as_count("aggregation", n_actions=n_actions)
    groups = as_array("aggregation", "whole numbers, one per state", 1, kinds="iu", groups=groups)
    if len(groups) == 0:
        raise InputError(
            "`aggregation(groups=...)` must be whole numbers, one per state, and there are none."
        )
    present, first = np.unique(groups, return_index=True)
    if not np.array_equal(present, np.arange(len(present))):
        raise InputError(
            f"`aggregation(groups=...)` must use every number from 0 to {present.max()}; "
            f"it uses {shown(present)}..."
        )

    def core() -> tuple[States, IntArray]:
        return np.repeat(first, n_actions), np.tile(np.arange(n_actions), len(first))

    return CompiledFeatures(
        _aggregate, n_actions, len(present) * n_actions, 1.0, nonzeros=1, data=(groups.astype(np.int64),),
        name="aggregation", core=core,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _aggregate(data, states, out):
    groups = data[0]
    for n in range(states.shape[0]):
        known = 0 <= states[n] < groups.shape[0]
        out.index[n, 0, 0] = groups[states[n]] if known else 0
        out.weight[n, 0, 0] = 1.0 if known else np.nan
        copy_to_actions(out, n, 1)


@describes(_aggregate)
def _aggregation_formula(data: Any, A: int) -> Formula:
    return copied({"kind": "aggregation", "groups": data[0]}, A)


# Simplicial (Kuhn) interpolation: D + 1 nonzeros per feature vector.


@njit(cache=True, nogil=True)
def _kuhn(data, states, out):
    low, step, shape = data
    D = shape.shape[0]
    fraction, order, cell = np.empty(D), np.empty(D, dtype=np.int64), np.empty(D, dtype=np.int64)
    for n in range(states.shape[0]):
        for i in range(D):
            cell[i], fraction[i] = locate_cell(states[n, i], low[i], step[i], shape[i])
            # Insertion sort by decreasing fraction: the order in which to walk from the cell's low to its high corner.
            j = i
            while j > 0 and fraction[order[j - 1]] < fraction[i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
        before = 1.0
        for c in range(D + 1):
            node = 0
            for i in range(D):
                node = node * shape[i] + cell[i]
            out.index[n, 0, c] = node
            after = fraction[order[c]] if c < D else 0.0
            out.weight[n, 0, c] = before - after
            before = after
            if c < D:
                cell[order[c]] += 1
        copy_to_actions(out, n, D + 1)


@njit(cache=True, nogil=True)
def _kuhn_periodic(data, states, out):
    base, low, high, periodic, fold = data
    _kuhn(base, wrapped(states, low, high, periodic), out)
    fold_into(fold, out)


def _simplices(data: Any) -> Formula:
    low, step, shape = data
    return {"kind": "simplicial", "low": low, "step": step, "shape": shape}


@describes(_kuhn)
def _kuhn_formula(data: Any, A: int) -> Formula:
    return copied(_simplices(data), A)


@describes(_kuhn_periodic)
def _periodic_kuhn_formula(data: Any, A: int) -> Formula:
    return copied(periodic_formula(data, A, _simplices(data[0])), A)


def simplicial(
    low: Sequence[float], high: Sequence[float], shape: Sequence[int], n_actions: int, *,
    periodic: Sequence[bool] | None = None,
) -> CompiledFeatures:  # fmt: skip
    """Kuhn's piecewise linear interpolation on a regular grid of `shape` nodes: D + 1 nonzeros instead of 2^D.

    The nodes, each with every action, are an exact core set. States outside the grid are clipped to it, except along
    `periodic` coordinates (see `interpolation`). Radius 1.
    """
    n_actions = as_count("simplicial", n_actions=n_actions)
    lows, highs = as_box("simplicial", low, high)
    flags, width = as_flags("simplicial", periodic, len(lows)), highs - lows
    nodes = as_nodes("simplicial", shape, lows, flags, n_actions)
    base = CompiledFeatures(
        _kuhn, n_actions, int(nodes.prod()) * n_actions, 1.0, nonzeros=len(nodes) + 1,
        data=(lows, width / (nodes - 1), nodes), name="simplicial", state_shape=(len(nodes),), state_dtype=np.float64,
        core=lambda: interpolation_core(lows, highs, nodes, n_actions), box=(lows, lows + width), clips=True,
    )  # fmt: skip
    return joined(base, _kuhn_periodic, nodes, flags)


# Multilinear interpolation on nodes that are not evenly spaced.


@njit(cache=True, nogil=True)
def _rectilinear(data, states, out):
    nodes, shape = data  # nodes [D, most]
    index, weight = out
    D, corners = shape.shape[0], index.shape[2]
    for n in range(states.shape[0]):
        for c in range(corners):
            index[n, 0, c] = 0
            weight[n, 0, c] = 1.0
        for i in range(D):
            x = states[n, i]
            cell = 0
            while cell < shape[i] - 2 and x >= nodes[i, cell + 1]:
                cell += 1
            z = (x - nodes[i, cell]) / (nodes[i, cell + 1] - nodes[i, cell])
            z = 0.0 if z < 0.0 else 1.0 if z > 1.0 else z  # NaN passes
            for c in range(corners):
                up = (c >> i) & 1
                index[n, 0, c] = index[n, 0, c] * shape[i] + cell + up
                weight[n, 0, c] *= z if up else 1.0 - z
        copy_to_actions(out, n, corners)


@njit(cache=True, nogil=True)
def _rectilinear_periodic(data, states, out):
    base, low, high, periodic, fold = data
    _rectilinear(base, wrapped(states, low, high, periodic), out)
    fold_into(fold, out)


def _axes(data: Any) -> Formula:
    nodes, shape = data
    return {"kind": "rectilinear", "nodes": nodes, "shape": shape}


@describes(_rectilinear)
def _rectilinear_formula(data: Any, A: int) -> Formula:
    return copied(_axes(data), A)


@describes(_rectilinear_periodic)
def _periodic_rectilinear_formula(data: Any, A: int) -> Formula:
    return copied(periodic_formula(data, A, _axes(data[0])), A)


def rectilinear(
    axes: Sequence[Sequence[float]], n_actions: int, *, periodic: Sequence[bool] | None = None
) -> CompiledFeatures:
    """Multilinear interpolation on the product of `axes`, each an increasing list of nodes: hat functions, 2^D nonzeros.

    The nodes, each with every action, are an exact core set. States outside the grid are clipped to it. Radius 1.
    A `periodic` axis lists one period from end to end: its last node is the first one again.
    """
    n_actions = as_count("rectilinear", n_actions=n_actions)
    form = "a list with one rising list of at least 2 nodes per coordinate of the state"
    listed = isinstance(axes, (list, tuple)) or (isinstance(axes, np.ndarray) and axes.ndim > 0)
    if not listed or not 0 < len(axes) <= 28:  # with more, the grid has more than 2^28 nodes
        raise InputError(f"`rectilinear(axes=...)` must be {form}, got {shown(axes)}.")
    lists = [as_array("rectilinear", form, 1, axes=axis).astype(float) for axis in axes]
    for axis in lists:
        if len(axis) < 2 or not (np.diff(axis) > 0).all() or not np.isfinite(axis[-1] - axis[0]):
            raise InputError(
                f"`rectilinear(axes=...)` needs rising lists of at least 2 nodes, got {shown(axis)}."
            )
    shape = np.array([len(axis) for axis in lists], dtype=np.int64)
    check_size("rectilinear", math.prod(shape.tolist()) * n_actions)
    flags = as_flags("rectilinear", periodic, len(lists))
    for i in np.flatnonzero(flags & (shape < 3)):
        raise InputError(
            f"`rectilinear(axes=...)`: the periodic axis {i} is {shown(lists[i])}, whose two nodes are one place. Give "
            "at least 3, the last of which is the first one again."
        )
    nodes = np.zeros((len(lists), shape.max()))
    for row, axis in zip(nodes, lists, strict=True):
        row[: len(axis)] = axis

    def core() -> tuple[States, IntArray]:
        points = np.stack(np.meshgrid(*lists, indexing="ij"), axis=-1).reshape(-1, len(lists))
        return np.repeat(points, n_actions, axis=0), np.tile(np.arange(n_actions), len(points))

    base = CompiledFeatures(
        _rectilinear, n_actions, int(shape.prod()) * n_actions, 1.0, nonzeros=2 ** len(lists), data=(nodes, shape),
        name="rectilinear", state_shape=(len(lists),), state_dtype=np.float64, core=core,
        box=([axis[0] for axis in lists], [axis[-1] for axis in lists]), clips=True,
    )  # fmt: skip
    return joined(base, _rectilinear_periodic, shape, flags)


# Tile coding: one nonzero per tiling.


@njit(cache=True, nogil=True)
def _tiles(data, states, out):
    low, width, shape, shifts = data  # shifts [tilings, D] in parts of a tile
    D, tilings = shape.shape[0], shifts.shape[0]
    cells = 1
    for i in range(D):
        cells *= shape[i] + 1
    for n in range(states.shape[0]):
        for t in range(tilings):
            cell, known = 0, True
            for i in range(D):
                z = (states[n, i] - low[i]) / width[i] * shape[i] + shifts[t, i]
                known &= z == z
                tile = min(
                    max(z, 0.0), float(shape[i])
                )  # first, since far out z is no whole number of 64 bits
                cell = cell * (shape[i] + 1) + (int(tile) if z == z else 0)
            out.index[n, 0, t] = t * cells + cell
            out.weight[n, 0, t] = 1.0 / tilings if known else np.nan
        copy_to_actions(out, n, tilings)


@njit(cache=True, nogil=True)
def _tiles_periodic(data, states, out):
    base, low, high, periodic, fold = data
    _tiles(base, wrapped(states, low, high, periodic), out)
    fold_into(fold, out)


def _tilings(data: Any) -> Formula:
    low, width, shape, shifts = data
    return {"kind": "tile_coding", "low": low, "width": width, "shape": shape, "shifts": shifts}


@describes(_tiles)
def _tiles_formula(data: Any, A: int) -> Formula:
    return copied(_tilings(data), A)


@describes(_tiles_periodic)
def _periodic_tiles_formula(data: Any, A: int) -> Formula:
    return copied(periodic_formula(data, A, _tilings(data[0])), A)


def tile_coding(
    low: Sequence[float], high: Sequence[float], shape: Sequence[int], tilings: int, n_actions: int, *,
    periodic: Sequence[bool] | None = None,
) -> CompiledFeatures:  # fmt: skip
    """Tile coding: `tilings` grids of shape + 1 tiles, shifted by odd multiples of 1/tilings of a tile; weights 1/tilings.

    Each feature vector has `tilings` entries of 1/tilings, hence radius 1/sqrt(tilings). The weights of an action sum
    to 1, so constants are in the span without an intercept. There is no core set. States outside the box fall into the
    tiles at its edge. A `periodic` coordinate (see `interpolation`) has `shape` tiles per period, not shape + 1: the tile
    that sticks out at one edge comes in again at the other.
    """
    n_actions, tilings = (
        as_count("tile_coding", n_actions=n_actions),
        as_count("tile_coding", tilings=tilings),
    )
    lows, highs = as_box("tile_coding", low, high)
    flags, width = as_flags("tile_coding", periodic, len(lows)), highs - lows
    tiles = as_nodes("tile_coding", shape, lows, flags, tilings * n_actions, least=1) - flags
    check_size("tile_coding", math.prod((tiles + 1).tolist()) * tilings * n_actions)
    odd = 2 * np.arange(len(tiles)) + 1
    shifts = (np.arange(tilings)[:, None] * odd / tilings) % 1.0  # [tilings, D]
    base = CompiledFeatures(
        _tiles, n_actions, int((tiles + 1).prod()) * tilings * n_actions, 1.0 / math.sqrt(tilings), nonzeros=tilings,
        data=(lows, width, tiles, shifts), name="tile coding", state_shape=(len(tiles),), state_dtype=np.float64,
        box=(lows, lows + width), clips=True,
    )  # fmt: skip
    return joined(base, _tiles_periodic, tiles + 1, flags)
