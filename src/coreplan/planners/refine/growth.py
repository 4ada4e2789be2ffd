"""The tree of `Refine` while it grows: cells where states go, the nodes they need, and which leaves to split."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...base import FloatArray, IntArray
from ...features import Box, Tree, corner_keys, fill_boxes, tick_sizes
from .kernels import halve, touch

TABLES = (8, 4, 2)  # a whole coordinate of so few steps is a table from the start: the most that can be paid
FINEST_BASE = 10  # splits per axis
UNEVEN = 3  # no axis of a cell is split this many times more than another


class Cells(NamedTuple):
    """The cells of a tree: how they are split, and whether states have been in them."""

    axis: IntArray  # [N]
    child: IntArray  # [N]
    wanted: NDArray[np.bool_]  # [N]


def fresh_cells() -> Cells:
    """A box that is not split."""
    return Cells(np.array([-1]), np.array([-1]), np.array([True]))


class Base(NamedTuple):
    """How finely the box is cut where states go, before anything is known of values."""

    level: int  # splits per axis
    table: int  # a whole coordinate of at most this many steps is cut into units at once


COARSEST = Base(0, 1)


def widest_cells(box: Box, base: Base) -> FloatArray:
    """The widest that a leaf may be in each coordinate, in ticks."""
    sizes = tick_sizes(box)
    table = box.whole & (sizes <= base.table)
    return np.where(table, 1.0, np.maximum(sizes / 2.0**base.level, 1.0))


def base_nodes(box: Box, base: Base) -> float:
    """The number of nodes of the regular grid of that base."""
    sizes = tick_sizes(box)
    cells = np.ceil(sizes / widest_cells(box, base))
    return float(np.prod(cells + ~box.periodic))


def finest_base(box: Box, nodes: float) -> Base:
    """The finest base whose regular grid has at most that many nodes, tables first; the box itself if there is none."""
    table = next((t for t in TABLES if base_nodes(box, Base(0, t)) <= nodes), COARSEST.table)
    base = Base(0, table)
    while base.level < FINEST_BASE and base_nodes(box, Base(base.level + 1, table)) <= nodes:
        base = Base(base.level + 1, table)
    return base


def ticks_of(box: Box, x: FloatArray) -> FloatArray:
    """Places `[n, D]` in ticks."""
    sizes = tick_sizes(box)
    t = box.unit(x) * sizes
    near = np.rint(t)
    t = np.where(np.abs(t - near) < 1e-6, near, t)
    return np.where(box.periodic & (t == sizes), 0.0, t)


def _edges(box: Box, cells: Cells, room: int) -> tuple[Any, ...]:
    """The arrays of the cells with room for more, and the edges of the cells."""
    N, D = len(cells.child), box.dimension
    lo, hi = np.zeros((N, D), dtype=np.int64), np.zeros((N, D), dtype=np.int64)
    fill_boxes(cells.axis, cells.child, tick_sizes(box), lo, hi, np.zeros(N, dtype=np.int64), 0)
    more = [np.concatenate([a, np.zeros((room, *a.shape[1:]), dtype=a.dtype)]) for a in (*cells, lo, hi)]
    return tuple(more)


def grown_to(box: Box, cells: Cells, x: FloatArray, base: Base) -> Cells:
    """The cells with those that states `[n, D]` need at this base; the leaves of the states are wanted."""
    ticks, widest = ticks_of(box, x), widest_cells(box, base)
    start, room = 0, 256
    while start < len(ticks):
        axis, child, wanted, lo, hi = _edges(box, cells, room)
        count, start = touch(ticks, axis, child, lo, hi, wanted, len(cells.child), widest, start)
        cells, room = Cells(axis[:count], child[:count], wanted[:count]), 2 * room
    return cells


def needed_nodes(box: Box, cells: Cells, known: IntArray) -> IntArray:
    """The keys of the corners of wanted leaves that are not among `known`, cell by cell, each once."""
    leaves = np.flatnonzero(cells.wanted & (cells.child < 0))
    _, _, _, lo, hi = _edges(box, cells, 0)
    keys = np.empty((len(leaves), 2**box.dimension), dtype=np.int64)
    corner_keys(lo, hi, tick_sizes(box), box.periodic, leaves, keys)
    flat = keys.ravel()
    fresh = flat[~np.isin(flat, known)]
    _, first = np.unique(fresh, return_index=True)
    return fresh[np.sort(first)]


def split_leaves(box: Box, cells: Cells, leaves: IntArray, curvature: FloatArray) -> Cells:
    """The cells with these leaves split, each along the axis of largest curvature `[k, D]` that may be split."""
    axis, child, wanted, lo, hi = _edges(box, cells, 2 * len(leaves))
    count, sizes = len(cells.child), tick_sizes(box)
    for k, curved in zip(leaves, curvature, strict=True):
        width = hi[k] - lo[k]
        splits = np.log2(sizes / width)
        able = (width >= 2) & (splits < splits[width >= 2].min(initial=math.inf) + UNEVEN)
        if able.any():
            # Ties, as where all values are still the same, go to the widest axis.
            score = np.where(able, curved * (1 + 1e-9 * width / sizes) + 1e-12 * width / sizes, -1.0)
            count = halve(k, int(np.argmax(score)), axis, child, lo, hi, wanted, count)
            wanted[count - 2 : count] = True
    return Cells(axis[:count], child[:count], wanted[:count])


class Steps(NamedTuple):
    """Steps of rollouts, for the choice of leaves to split."""

    x: FloatArray  # [k, D]
    action: IntArray  # [k]
    reward: FloatArray  # [k]
    y: FloatArray  # [k, D]
    end: NDArray[np.bool_]  # [k]
    weight: FloatArray  # [k], gamma^t


def q_values(tree: Tree, theta: FloatArray, x: FloatArray) -> FloatArray:
    """Q `[n, A]` at states."""
    node, weight, _ = tree.places(x)
    return np.einsum("nc,nca->na", weight, theta.reshape(len(tree.keys), -1)[node])


def split_scores(
    tree: Tree, theta: FloatArray, steps: Steps, discount: float, end_value: float
) -> tuple[IntArray, FloatArray, FloatArray, float]:
    """Visited leaves, best to split first, scores, the curvature of V along each axis, `[k, D]`, and the sum of errors.

    A leaf's score adds three parts, each scaled to sum 1: the Bellman error of real steps, the spread of corner values, and
    what corners would lose by the action that is taken inside.
    """
    Q = theta.reshape(len(tree.keys), -1)
    node, weight, leaf = tree.places(steps.x)
    q = np.einsum("nc,nca->na", weight, Q[node])
    V = q.max(axis=1)
    after = np.where(steps.end, end_value, q_values(tree, theta, steps.y).max(axis=1))
    error = steps.reward + discount * after - q[np.arange(len(q)), steps.action]
    corner = Q[node].max(axis=2)  # [k, C]
    shown = np.where(weight > 0, corner, V[:, None])
    greedy = q.argmax(axis=1)
    lost = (weight * (corner - np.take_along_axis(Q[node], greedy[:, None, None], axis=2)[:, :, 0])).sum(
        axis=1
    )
    leaves, at = np.unique(leaf, return_inverse=True)

    def summed(values: FloatArray) -> Any:
        return np.bincount(at, weights=steps.weight * values, minlength=len(leaves))

    score = np.zeros(len(leaves))
    errors = np.abs(summed(error))
    for part in (errors, summed(shown.max(axis=1) - shown.min(axis=1)), summed(lost)):
        score += part / max(part.sum(), 1e-300)
    curvature = np.zeros((len(leaves), tree.box.dimension))
    lo, hi = tree.edges
    half = (hi - lo)[leaf] / tree.sizes * tree.box.width / 2
    for i in range(tree.box.dimension):
        step = np.zeros_like(steps.x)
        step[:, i] = half[:, i]
        up, down = (q_values(tree, theta, steps.x + s * step).max(axis=1) for s in (1, -1))
        curvature[:, i] = summed(np.abs(up + down - 2 * V)) / summed(np.ones(len(V)))
    order = np.argsort(-score, kind="stable")
    return leaves[order], score[order], curvature[order], float(errors.sum())
