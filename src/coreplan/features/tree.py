"""Features on a tree: multilinear interpolation in a box, finer where a planner has split it. They carry their core set.

A cell of the tree is a box, a leaf one that is not split. phi(x, a) holds the convex weights of the corners of x's leaf, in
the copy of action a. Where a leaf has a corner that is no node, the nearest cell above it is taken all of whose corners
are. At a node phi is the node's unit vector, so the nodes with every action are an exact core set: Phi~ is the identity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..base import FloatArray, InputError, IntArray, States, as_count, as_kind
from .box import Box
from .formulas import Formula, copied, describes
from .grids import check_size
from .protocol import CompiledFeatures
from .tree_kernels import corner_keys, fill_boxes, fill_complete, place_all, tree_into

BITS = 62  # a node's number must fit into a whole number of 64 bits
FINEST = 14  # splits of one axis, at most
MOST_AXES = 12  # 2^D corners per cell


class Places(NamedTuple):
    """Where states lie in a tree."""

    node: IntArray  # [n, 2^D]
    weight: FloatArray  # [n, 2^D]
    leaf: IntArray  # [n]


def tick_sizes(box: Box) -> IntArray:
    """The finest resolution of a box, `[D]`: ticks per axis, units for whole coordinates; InputError if it is too large."""
    if not box.finite.all():
        raise InputError("A tree needs a finite box: give bounds for every coordinate.")
    units = np.where(box.whole, box.width, 0.0)
    taken = sum(math.ceil(math.log2(u + 1)) + 1 for u in units if u)
    free = int((~box.whole).sum())
    bits = min(FINEST, (BITS - taken) // free - 1) if free else 0
    if box.dimension > MOST_AXES:
        raise InputError(
            f"A tree cannot hold this box of {box.dimension} coordinates: a cell would have 2^{box.dimension} corners, more "
            f"than 2^{MOST_AXES}. Give features of your own."
        )
    if taken > BITS or (free and bits < 2):
        raise InputError(
            f"A tree cannot hold this box of {box.dimension} coordinates: the numbers of its nodes would have "
            f"{taken + 3 * free} bits, and {BITS} fit. Narrow the bounds of whole coordinates, or give features of your own."
        )
    return np.where(box.whole, units, float(2**bits)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree over a box and its nodes, with all that follows from them; ValueError if they are none.

    Parameters
    ----------
    box: the bounds.
    axis: `[N]`, the axis along which a cell is split; of no meaning for leaves.
    child: `[N]`, the number of the first half; -1 for a leaf.
    keys: `[J]`, the numbers of the nodes; those of the box's own corners must be among them.
    """

    box: Box
    axis: IntArray
    child: IntArray
    keys: IntArray
    data: tuple[Any, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        box, N, D = self.box, len(self.child), self.box.dimension
        sizes = tick_sizes(box)
        axis, child, keys = (
            np.ascontiguousarray(v, dtype=np.int64) for v in (self.axis, self.child, self.keys)
        )
        lo, hi, parent = (
            np.zeros((N, D), dtype=np.int64),
            np.zeros((N, D), dtype=np.int64),
            np.zeros(N, dtype=np.int64),
        )
        if N == 0 or axis.shape != (N,) or child.shape != (N,) or keys.ndim != 1:
            raise ValueError("the tree's arrays do not fit together")
        wrong = fill_boxes(axis, child, sizes, lo, hi, parent, 0)
        if wrong >= 0:
            raise ValueError(f"cell {wrong} of the tree is none")
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        if (
            len(keys) == 0
            or ordered[0] < 0
            or ordered[-1] >= math.prod((sizes + 1).tolist())
            or (np.diff(ordered) == 0).any()
        ):
            raise ValueError("the tree's nodes are none, or come twice")
        corners = np.empty((N, 2**D), dtype=np.int64)
        corner_keys(lo, hi, sizes, box.periodic, np.arange(N), corners)
        at = np.minimum(np.searchsorted(ordered, corners), len(keys) - 1)
        corners = np.where(ordered[at] == corners, order[at], -1)
        complete = np.empty(N, dtype=np.int64)
        fill_complete(parent, corners, complete)
        if complete[0] < 0:
            raise ValueError("a corner of the tree's box is no node")
        data = (
            box.low.copy(), box.width, sizes, box.periodic.copy(), axis, child, lo, hi, corners, complete, ordered, order,
        )  # fmt: skip
        for name, value in {"axis": axis, "child": child, "keys": keys, "data": data}.items():
            object.__setattr__(self, name, value)
        inside = self.ticks()
        if (inside > sizes).any() or (box.periodic & (inside == sizes)).any():
            raise ValueError("a node of the tree lies outside its box")

    @property
    def sizes(self) -> IntArray:
        """Ticks per axis `[D]`."""
        return self.data[2]

    @property
    def edges(self) -> tuple[IntArray, IntArray]:
        """Lower and upper edges of the cells in ticks, `[N, D]` each."""
        return self.data[6], self.data[7]

    def ticks(self) -> IntArray:
        """The places of the nodes in ticks, `[J, D]`."""
        out = np.empty((len(self.keys), self.box.dimension), dtype=np.int64)
        rest = self.keys
        for i in range(self.box.dimension - 1, -1, -1):
            rest, out[:, i] = np.divmod(rest, self.sizes[i] + 1)
        return out

    def nodes(self) -> FloatArray:
        """The nodes as states, `[J, D]`."""
        return self.box.states(self.ticks() / self.sizes)

    def places(self, states: States) -> Places:
        """Nodes, weights and leaves of states `[n, D]`."""
        states = np.ascontiguousarray(states, dtype=np.float64)
        n, C = len(states), 2**self.box.dimension
        found = Places(np.empty((n, C), dtype=np.int64), np.empty((n, C)), np.empty(n, dtype=np.int64))
        place_all(self.data, states, *found)
        return found


@dataclass(frozen=True)
class TreeFeatures(CompiledFeatures):
    """What `tree_features` returns: a compiled map that knows its tree, so that a policy can be saved with it."""

    tree: Tree = field(default=None, repr=False, compare=False)  # type: ignore[assignment]


def tree_of(features: Any) -> Tree | None:
    """The tree of a feature map that is on one, or wraps it (a terminal column); else None."""
    while features is not None and not isinstance(features, TreeFeatures):
        features = getattr(features, "features", getattr(features, "base", None))
    return None if features is None else features.tree


def tree_features(tree: Tree, n_actions: int) -> TreeFeatures:
    """The feature map of a tree: d = nodes x A, 2^D nonzeros, R = 1. States outside the box are clipped to it."""
    as_kind("tree_features", Tree, "a Tree", tree=tree)
    A = as_count("tree_features", n_actions=n_actions)
    check_size("tree_features", len(tree.keys) * A)
    box = tree.box

    def core() -> tuple[States, IntArray]:
        nodes = tree.nodes()
        return np.repeat(nodes, A, axis=0), np.tile(np.arange(A), len(nodes))

    return TreeFeatures(
        tree_into, A, len(tree.keys) * A, 1.0, nonzeros=2**box.dimension, data=tree.data, name="tree",
        state_shape=(box.dimension,), state_dtype=np.float64, core=core, box=box.edges, clips=True,
        tree=tree,
    )  # fmt: skip


@describes(tree_into)
def _tree_formula(data: Any, A: int) -> Formula:
    """Leaves name the cell that is interpolated in, and only such cells have corners.

    Where both edges of a periodic axis are one node, its weight stands twice, in two parts.
    """
    low, width, sizes, periodic, axis, child, lo, hi, corners, complete, keys, order = data
    leaf, at = child < 0, np.maximum(axis, 0)
    cells, cell = np.unique(complete[leaf], return_inverse=True)
    number = np.zeros(len(child), dtype=np.int64)
    number[leaf] = cell
    ticks = np.empty((len(keys), len(sizes)), dtype=np.int64)
    rest = keys
    for i in range(len(sizes) - 1, -1, -1):
        rest, ticks[order, i] = np.divmod(rest, sizes[i] + 1)
    rows, depth = np.arange(len(child)), np.zeros(len(child), dtype=np.int64)
    for k in np.flatnonzero(~leaf):  # a cell comes before its halves
        depth[child[k] : child[k] + 2] = depth[k] + 1
    return copied(
        {
            "kind": "tree", "low": low, "width": width, "sizes": sizes, "periodic": periodic, "depth": int(depth.max()),
            "axis": np.where(leaf, 0, at), "child": np.where(leaf, rows, child),
            "middle": np.where(leaf, sizes.max() + 1, (lo[rows, at] + hi[rows, at]) // 2), "cell": number,
            "lo": lo[cells], "hi": hi[cells], "corners": corners[cells], "ticks": ticks,
        },
        A,
    )  # fmt: skip


def grid_tree(box: Box, levels: Any) -> Tree:
    """The tree whose leaves are a regular grid: `levels` splits of every axis, as far as whole coordinates allow."""
    levels = np.broadcast_to(as_count("grid_tree", least=0, levels=levels), (box.dimension,))
    sizes = tick_sizes(box)
    axis, child, todo = [-1], [-1], [(0, levels.copy())]
    edges = [np.stack([np.zeros(box.dimension, dtype=np.int64), sizes])]
    while todo:
        k, left = todo.pop()
        lo, hi = edges[k]
        able = np.flatnonzero((left > 0) & (hi - lo >= 2))
        if not len(able):
            continue
        i = able[np.argmax(left[able])]
        axis[k], child[k] = int(i), len(axis)
        mid, left = (lo[i] + hi[i]) // 2, left.copy()
        left[i] -= 1
        for half in range(2):
            box_of = np.stack([lo, hi])
            box_of[1 - half, i] = mid
            edges.append(box_of)
            axis.append(-1)
            child.append(-1)
            todo.append((len(axis) - 1, left))
    lows, highs = np.stack([e[0] for e in edges]), np.stack([e[1] for e in edges])
    keys = np.empty((len(axis), 2**box.dimension), dtype=np.int64)
    corner_keys(lows, highs, sizes, box.periodic, np.arange(len(axis)), keys)
    return Tree(box, np.array(axis), np.array(child), np.unique(keys))
