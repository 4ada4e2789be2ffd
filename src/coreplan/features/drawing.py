"""A picture of a tree in two of its coordinates, as plain SVG: the leaves that a slice of the box meets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base import FloatArray, InputError, IntArray, as_array, as_count
from .tree import Tree

WIDE, HIGH = 480.0, 320.0  # the picture in points
COLOURS = ("#cfe3f5", "#f7dcc0", "#d3ecd0", "#efd0e0", "#e3ddf3", "#f5efbf", "#d0eeec", "#e4e4e4", "#f4cfcb")


def tree_svg(
    tree: Tree,
    x: int = 0,
    y: int = 1,
    *,
    at: Any = None,
    actions: Callable[[FloatArray], IntArray] | None = None,
    path: Any = None,
) -> str:
    """The leaves of a tree in coordinates x (to the right) and y (upwards), the others held at the state `at [D]`.

    `at` is the middle of the box by default. `actions` gives an action for each of some states `[n, D]`: a leaf is then
    coloured by the action in its middle (nine colours, in turn). `path [k, D]` is drawn as a line through those states.
    """
    D, box = tree.box.dimension, tree.box
    x, y = as_count("tree_svg", least=0, x=x), as_count("tree_svg", least=0, y=y)
    if x == y or max(x, y) >= D:
        raise InputError(
            f"A picture needs two different coordinates of the {D}, numbered from 0; got {x} and {y}."
        )
    middle = (box.low + box.high) / 2 if at is None else _states("at", [at], D)[0]
    low, high, places = _slice(tree, middle, x, y)
    fills = _fills(actions, places, len(low))
    lower, upper = (edges[:, [x, y]] * (WIDE, HIGH) / tree.sizes[[x, y]] for edges in (low, high))
    boxes: dict[str, list[str]] = {}  # by colour
    for (a, b), (u, v), fill in zip(lower, upper, fills, strict=True):
        boxes.setdefault(fill, []).append(f"M{a:.4g} {HIGH - b:.4g}H{u:.4g}V{HIGH - v:.4g}H{a:.4g}z")
    leaves = "".join(f'<path fill="{fill}" d="{"".join(parts)}"/>' for fill, parts in boxes.items())
    line = "" if path is None else _line(box.unit(_states("path", path, D))[:, [x, y]])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1 -1 {WIDE + 2:g} {HIGH + 2:g}" width="{WIDE:g}">'
        f'<g stroke="#999" stroke-width=".5">{leaves}</g>{line}</svg>\n'
    )


def _states(name: str, value: Any, D: int) -> FloatArray:
    states = np.asarray(
        as_array("tree_svg", "states of finite numbers", 2, **{name: value}), dtype=np.float64
    )
    if states.shape[1] != D:
        raise InputError(f"`tree_svg({name}=...)`: the box has {D} coordinates, got {states.shape[1]}.")
    return states


def _slice(tree: Tree, at: FloatArray, x: int, y: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Edges in ticks of the leaves that the slice through `at` meets, and the middles of their parts in it as states."""
    low, high = tree.edges
    ticks = tree.box.unit(at[None])[0] * tree.sizes
    others = np.delete(np.arange(tree.box.dimension), [x, y])
    last = high == tree.sizes  # the upper edge of the box belongs to its last cells
    inside = (low <= ticks) & ((ticks < high) | (last & (ticks == high)))
    met = np.flatnonzero((tree.child < 0) & inside[:, others].all(axis=1))
    middle = np.repeat(at[None], len(met), axis=0)
    half = tree.box.states((low[met] + high[met]) / 2 / tree.sizes)
    middle[:, [x, y]] = half[:, [x, y]]
    return low[met], high[met], middle


def _fills(actions: Callable[[FloatArray], IntArray] | None, places: FloatArray, n: int) -> list[str]:
    if actions is None:
        return ["white"] * n
    return [COLOURS[int(a) % len(COLOURS)] for a in actions(places)]


def _line(points: FloatArray) -> str:
    text = " ".join(f"{a:.4g},{b:.4g}" for a, b in points * (WIDE, -HIGH) + (0.0, HIGH))
    return f'<polyline points="{text}" fill="none" stroke="#e66100" stroke-width="2"/>'
