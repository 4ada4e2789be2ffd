"""More feature maps, most of them for states in a box; all compiled and batched.

Each has base functions of the state and one copy of them per action, so d = (number of base functions) x A.
Aggregation, simplicial and rectilinear interpolation carry an exact core set by construction. Tile coding and the smooth
bases (polynomial, Fourier, radial) carry none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numba import njit

from ..base import FloatArray, InputError, IntArray, States, require_count, require_positive
from .maps import check_grid, interpolation_core, locate_cell
from .protocol import CompiledFeatures


@njit(cache=True, nogil=True, inline="always")
def _copy_to_actions(out, n, k):
    """Copy entries 0..k-1 of state n from action 0, which holds base indices, to all actions: index * A + a."""
    index, weight = out
    A = index.shape[1]
    for i in range(k):
        base = index[n, 0, i]
        for a in range(A):
            index[n, a, i] = base * A + a
            weight[n, a, i] = weight[n, 0, i]


def _box(low: Sequence[float], high: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    check_grid(low, high, [2] * np.size(low))
    lows = np.array(low, dtype=float)
    return lows, np.array(high, dtype=float) - lows


# Aggregation: one nonzero per feature vector.


def aggregation(groups: IntArray, n_actions: int) -> CompiledFeatures:
    """State aggregation for states 0..X-1: phi(x, a) = e_{(groups[x], a)}; `groups [X]` uses every number from 0 up.

    The first state of each group, with every action, gives an exact core set.
    """
    groups = np.asarray(groups)
    if groups.ndim != 1 or groups.dtype.kind not in "iu" or len(groups) == 0:
        raise InputError(
            f"`aggregation(groups=...)` must be whole numbers, one per state, got {groups.dtype} {groups.shape}."
        )
    present, first = np.unique(groups, return_index=True)
    if not np.array_equal(present, np.arange(len(present))):
        raise InputError(
            f"`aggregation(groups=...)` must use every number from 0 to {present.max()}; "
            f"it uses {present[:8].tolist()}..."
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
        _copy_to_actions(out, n, 1)


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
        _copy_to_actions(out, n, D + 1)


def simplicial(
    low: Sequence[float], high: Sequence[float], shape: Sequence[int], n_actions: int
) -> CompiledFeatures:
    """Kuhn's piecewise linear interpolation on a regular grid of `shape` nodes: D + 1 nonzeros instead of 2^D.

    The nodes, each with every action, are an exact core set. States outside the grid are clipped to it. Radius 1.
    """
    check_grid(low, high, shape)
    lows, width = _box(low, high)
    nodes = np.array(shape, dtype=np.int64)
    return CompiledFeatures(
        _kuhn, n_actions, int(nodes.prod()) * n_actions, 1.0, nonzeros=len(nodes) + 1,
        data=(lows, width / (nodes - 1), nodes), name="simplicial", state_shape=(len(nodes),), state_dtype=np.float64,
        core=lambda: interpolation_core(low, high, shape, n_actions), box=(lows, lows + width), clips=True,
    )  # fmt: skip


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
        _copy_to_actions(out, n, corners)


def rectilinear(axes: Sequence[Sequence[float]], n_actions: int) -> CompiledFeatures:
    """Multilinear interpolation on the product of `axes`, each an increasing list of nodes: hat functions, 2^D nonzeros.

    The nodes, each with every action, are an exact core set. States outside the grid are clipped to it. Radius 1.
    """
    lists = [np.asarray(axis, dtype=float) for axis in axes]
    for axis in lists:
        if axis.ndim != 1 or len(axis) < 2 or not (np.diff(axis) > 0).all():
            raise InputError(
                f"`rectilinear(axes=...)` needs rising lists of at least 2 nodes, got {axis.tolist()}."
            )
    shape = np.array([len(axis) for axis in lists], dtype=np.int64)
    nodes = np.zeros((len(lists), shape.max()))
    for row, axis in zip(nodes, lists, strict=True):
        row[: len(axis)] = axis

    def core() -> tuple[States, IntArray]:
        points = np.stack(np.meshgrid(*lists, indexing="ij"), axis=-1).reshape(-1, len(lists))
        return np.repeat(points, n_actions, axis=0), np.tile(np.arange(n_actions), len(points))

    return CompiledFeatures(
        _rectilinear, n_actions, int(shape.prod()) * n_actions, 1.0, nonzeros=2 ** len(lists), data=(nodes, shape),
        name="rectilinear", state_shape=(len(lists),), state_dtype=np.float64, core=core,
        box=([axis[0] for axis in lists], [axis[-1] for axis in lists]), clips=True,
    )  # fmt: skip


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
                cell = cell * (shape[i] + 1) + (min(max(int(z), 0), shape[i]) if z == z else 0)
            out.index[n, 0, t] = t * cells + cell
            out.weight[n, 0, t] = 1.0 / tilings if known else np.nan
        _copy_to_actions(out, n, tilings)


def tile_coding(
    low: Sequence[float], high: Sequence[float], shape: Sequence[int], tilings: int, n_actions: int
) -> CompiledFeatures:
    """Tile coding: `tilings` grids of shape + 1 tiles, shifted by odd multiples of 1/tilings of a tile; weights 1/tilings.

    Each feature vector has `tilings` entries of 1/tilings, hence radius 1/sqrt(tilings). The weights of an action sum
    to 1, so constants are in the span without an intercept. There is no core set. States outside the box fall into the
    tiles at its edge.
    """
    check_grid(low, high, shape, least=1)
    require_count("tile_coding", tilings=tilings)
    lows, width = _box(low, high)
    tiles = np.array(shape, dtype=np.int64)
    odd = 2 * np.arange(len(tiles)) + 1
    shifts = (np.arange(tilings)[:, None] * odd / tilings) % 1.0  # [tilings, D]
    return CompiledFeatures(
        _tiles, n_actions, int((tiles + 1).prod()) * tilings * n_actions, 1.0 / math.sqrt(tilings), nonzeros=tilings,
        data=(lows, width, tiles, shifts), name="tile coding", state_shape=(len(tiles),), state_dtype=np.float64,
        box=(lows, lows + width), clips=True,
    )  # fmt: skip


# Smooth bases: one nonzero per base function.


@njit(cache=True, nogil=True)
def _polynomial(data, states, out):
    low, width, powers = data  # powers [k, D]
    for n in range(states.shape[0]):
        for j in range(powers.shape[0]):
            value = 1.0
            for i in range(powers.shape[1]):
                z = 2.0 * (states[n, i] - low[i]) / width[i] - 1.0
                z = -1.0 if z < -1.0 else 1.0 if z > 1.0 else z
                for _ in range(powers[j, i]):
                    value *= z
            out.index[n, 0, j] = j
            out.weight[n, 0, j] = value
        _copy_to_actions(out, n, powers.shape[0])


@njit(cache=True, nogil=True)
def _fourier(data, states, out):
    low, width, coefficients = data  # [k, D]
    for n in range(states.shape[0]):
        for j in range(coefficients.shape[0]):
            angle = 0.0
            for i in range(coefficients.shape[1]):
                angle += coefficients[j, i] * (states[n, i] - low[i]) / width[i]
            out.index[n, 0, j] = j
            out.weight[n, 0, j] = math.cos(math.pi * angle)
        _copy_to_actions(out, n, coefficients.shape[0])


def _exponents(D: int, degree: int, total: bool) -> IntArray:
    every = itertools.product(range(degree + 1), repeat=D)
    return np.array([p for p in every if not total or sum(p) <= degree], dtype=np.int64)


def polynomial(low: Sequence[float], high: Sequence[float], degree: int, n_actions: int) -> CompiledFeatures:
    """All monomials up to total degree `degree`, the constant included, in coordinates scaled and clipped to [-1, 1].

    The radius is sqrt(number of monomials), which is attained at a corner of the box.
    """
    require_count("polynomial", least=0, degree=degree)
    return _smooth(
        _polynomial,
        "polynomial",
        low,
        high,
        _exponents(np.size(low), degree, total=True),
        n_actions,
        clips=True,
    )


def fourier(low: Sequence[float], high: Sequence[float], order: int, n_actions: int) -> CompiledFeatures:
    """cos(pi c . x) for all c in {0..order}^D, the constant (c = 0) included, with x scaled to [0, 1]^D.

    The radius is sqrt(number of base functions). States outside the box are not clipped: the cosines continue, mirrored.
    """
    require_count("fourier", least=0, order=order)
    return _smooth(
        _fourier, "Fourier", low, high, _exponents(np.size(low), order, total=False), n_actions, clips=False
    )


def _smooth(
    kernel: object, name: str, low: Sequence[float], high: Sequence[float], table: IntArray, n_actions: int, clips: bool
) -> CompiledFeatures:  # fmt: skip
    lows, width = _box(low, high)
    k = len(table)
    return CompiledFeatures(
        kernel, n_actions, k * n_actions, math.sqrt(k), nonzeros=k, data=(lows, width, table), name=name,  # type: ignore[arg-type]
        state_shape=(len(lows),), state_dtype=np.float64, box=(lows, lows + width), clips=clips,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def radial_into(data, states, out):
    low, width, centres, scale, normalise, intercept = data  # centres [k, D] in [0, 1]^D
    k = centres.shape[0]
    for n in range(states.shape[0]):
        least = np.inf
        for j in range(k):
            square = 0.0
            for i in range(centres.shape[1]):
                z = ((states[n, i] - low[i]) / width[i] - centres[j, i]) / scale
                square += z * z
            out.index[n, 0, j] = j
            out.weight[n, 0, j] = square / 2.0
            least = min(least, square / 2.0)
        total = 0.0
        shift = least if normalise else 0.0  # so that far from all centres the sum does not underflow to 0
        for j in range(k):
            out.weight[n, 0, j] = math.exp(shift - out.weight[n, 0, j])
            total += out.weight[n, 0, j]
        for j in range(k):
            out.weight[n, 0, j] /= total if normalise else 1.0
        if intercept:
            out.index[n, 0, k] = k
            out.weight[n, 0, k] = 1.0
        _copy_to_actions(out, n, k + 1 if intercept else k)


def radial(
    low: Sequence[float], high: Sequence[float], centres: Sequence[int] | FloatArray, n_actions: int, *,
    scale: float | None = None, normalise: bool = True, intercept: bool = False,
) -> CompiledFeatures:  # fmt: skip
    """Gaussian bumps of width `scale`, centred on a grid of `centres [D]` nodes or at given points `centres [k, D]`.

    Coordinates are scaled to [0, 1] before `scale` applies; its default is the grid's spacing. With `normalise` the bumps
    are a partition of unity: they sum to 1, constants are in the span, and the radius is 1. Without, the radius is sqrt(k),
    and `intercept` adds a constant (with `normalise` it would add nothing to the span). States outside the box are not
    clipped: far out, normalised bumps tend to the indicator of the nearest centre, and others fade to zero.
    """
    lows, width = _box(low, high)
    given = np.asarray(centres)
    if given.ndim == 1:
        check_grid(low, high, [int(c) for c in given])
        axes = [np.linspace(0, 1, int(c)) for c in given]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        spacing = 1.0 / (int(given.max()) - 1)
    else:
        if given.shape[1:] != lows.shape or len(given) == 0:
            raise InputError(
                f"`radial(centres=...)` must be points of shape (k, {len(lows)}), got {given.shape}."
            )
        points, spacing = (given - lows) / width, 1.0 / max(1.0, len(given) ** (1 / len(lows)) - 1)
    require_positive("radial", scale=scale)
    k = len(points) + intercept
    radius = math.sqrt(1.0 + intercept) if normalise else math.sqrt(k)
    data = (
        lows,
        width,
        np.ascontiguousarray(points),
        float(scale or spacing),
        bool(normalise),
        bool(intercept),
    )
    return CompiledFeatures(
        radial_into, n_actions, k * n_actions, radius, nonzeros=k, data=data, name="radial",
        state_shape=(len(lows),), state_dtype=np.float64, box=(lows, lows + width), clips=False,
    )  # fmt: skip
