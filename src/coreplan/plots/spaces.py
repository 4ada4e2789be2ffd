"""What is known of the states that a feature map is for: the coordinates, their bounds, and how states are written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import FloatArray, InputError, States, as_name, as_shape, shown
from ..features import (
    Box,
    CompiledFeatures,
    Features,
    TerminalFeatures,
    TimeFeatures,
    alive,
    bounds_of,
    box_of,
    entries,
    has_terminal,
    tree_of,
)

_LARGEST_TABLE = 2**28


@dataclass(frozen=True)
class Space:
    """The coordinates of a state: names, bounds, which are whole numbers, and how rows `[n, D]` become states."""

    names: tuple[str, ...]
    low: FloatArray
    high: FloatArray
    whole: NDArray[np.bool_]
    middle: FloatArray  # [D], where coordinates are held if nothing else is said
    pack: Callable[[FloatArray], States]
    table: bool = False  # whether the coordinates are those of a table of states


def space_of(
    who: str, features: Features, box: Any, shape: Any, names: Any, known: tuple[str, ...] | None
) -> Space:
    """The space of the states that these features are for; with `shape` the states are numbers, laid out as a table.

    `names` are a user's, and must be right; `known` those of a problem, whose states may have other coordinates than the
    features see.
    """
    if shape is not None:
        if box is not None:
            raise InputError(
                f"`{who}(shape=...)` is for states that are numbers, and `box` for others: give one of them."
            )
        return _table(who, features, as_shape(who, shape=shape), names)
    inner = list(_layers(features))
    if box is None and has_number(inner[-1]):
        return _table(who, features, (_size(inner[-1]),), names or known)
    found = box_of(who, box) if box is not None else _box(who, inner)
    clock = next((layer for layer in inner if isinstance(layer, TimeFeatures)), None)
    low, high, whole = found.low, found.high, found.whole
    dtype = np.dtype(getattr(inner[-1], "state_dtype", float))
    whole = whole | (dtype.kind in "iu")
    middle = (low + high) / 2
    usual = [f"coordinate {i}" for i in range(len(low))]
    if known is not None and len(known) == len(usual):
        usual = list(known)
    if clock is not None:
        low, high = np.append(low, 0.0), np.append(high, clock.steps - 1.0)
        whole, middle = np.append(whole, True), np.append(middle, 0.0)
        usual.append("step")
    middle = np.where(whole, np.floor(middle), middle)
    return Space(
        names=_named(who, names, usual), low=low, high=high, whole=whole, middle=middle,
        pack=_packing(features, inner, dtype),
    )  # fmt: skip


def _table(who: str, features: Features, shape: tuple[int, ...], names: Any) -> Space:
    """The space of states that are numbers, laid out row by row in this shape."""
    inner = list(_layers(features))
    least = min(shape, default=0)
    size = math.prod(shape)
    known = _size(inner[-1]) if has_number(inner[-1]) else size
    if least < 1 or size > known:
        raise InputError(
            f"`{who}(shape=...)` must be the shape in which the {known:,} states are laid out, such as (4, 4) for sixteen; "
            f"got {shown(shape)}."
        )
    D = len(shape)
    usual = ["state"] if D == 1 else ["row", "column"] if D == 2 else [f"coordinate {i}" for i in range(D)]
    ends = has_terminal(features)

    def pack(rows: FloatArray) -> States:
        numbers = np.ravel_multi_index(tuple(rows.astype(np.int64).T), shape)
        return alive(numbers) if ends else numbers

    high = np.array(shape, dtype=float) - 1.0
    zeros = np.zeros(D)
    return Space(
        names=_named(who, names, usual), low=zeros, high=high, whole=zeros == 0.0, middle=np.floor(high / 2), pack=pack,
        table=True,
    )  # fmt: skip


def has_number(features: Any) -> bool:
    """Whether a map's states are whole numbers, as those of tables are."""
    known = isinstance(features, CompiledFeatures) and features.state_shape == ()
    return known and np.dtype(features.state_dtype).kind in "iu"


def _size(features: CompiledFeatures) -> int:
    """How many states a table knows: its features are NaN from there on."""

    def knows(x: int) -> bool:
        return bool(np.isfinite(entries(features(np.array([x])))).all())

    low, high = 0, 1
    while high < _LARGEST_TABLE and knows(high - 1):
        low, high = high, 2 * high
    while low < high - 1:  # it knows `low` states, and not `high`
        middle = (low + high) // 2
        low, high = (middle, high) if knows(middle - 1) else (low, middle)
    return low


def _box(who: str, inner: list[Any]) -> Box:
    """The box that the features declare; edges at infinity, of periodic coordinates, from the core pairs that they carry."""
    tree = tree_of(inner[0])
    found = tree.box if tree is not None else bounds_of(inner[0])
    observed = any(isinstance(layer, TerminalFeatures) and layer.observe is not None for layer in inner)
    if found is None:
        edges = next((layer.box for layer in inner if getattr(layer, "box", None) is not None), None)
        if edges is None or observed:
            raise InputError(
                f"`{who}`: the features do not say where states lie. Give box=(low, high), the bounds of every coordinate "
                "of a state; or shape=(rows, columns), where states are numbers."
            )
        found = Box(*edges)
    if found.finite.all():
        return found
    carried = getattr(inner[-1], "core", None)
    if carried is None:
        raise InputError(
            f"`{who}`: coordinate {int(np.argmin(found.finite))} has no bounds. Give box=(low, high), the bounds of every "
            "coordinate of a state."
        )
    nodes = np.asarray(carried()[0], dtype=np.float64)
    ends = [_ends(np.unique(column)) for column in nodes.T]
    low = np.where(found.finite, found.low, [low for low, _ in ends])
    high = np.where(found.finite, found.high, [high for _, high in ends])
    return Box(low, high, whole=found.whole)


def _ends(nodes: FloatArray) -> tuple[float, float]:
    """Where a period begins and ends whose nodes these are: the last one is not repeated at its end."""
    return float(nodes[0]), float(2 * nodes[-1] - nodes[-2])


def _packing(features: Features, inner: list[Any], dtype: np.dtype) -> Callable[[FloatArray], States]:
    """How rows of coordinates become states."""
    if has_terminal(features):
        return alive
    shape = getattr(inner[-1], "state_shape", None)

    def pack(rows: FloatArray) -> States:
        states = np.rint(rows) if dtype.kind in "iu" else rows
        return states.astype(dtype).reshape(len(rows), *(rows.shape[1:] if shape is None else shape))

    return pack


def _named(who: str, names: Any, usual: list[str]) -> tuple[str, ...]:
    """The names of the coordinates, checked; a clock, which comes last, keeps its own if it is not named."""
    if names is None:
        return tuple(usual)
    form = f"{len(usual)} different names, one per coordinate of a state"
    if isinstance(names, str) or not isinstance(names, (tuple, list)):
        raise InputError(f"`{who}(state_names=...)` must be {form}; got {shown(names)}.")
    given = [as_name(who, state_names=name) for name in names]
    if usual[-1] == "step" and len(given) == len(usual) - 1:
        given.append("step")
    if len(given) != len(usual) or len(set(given)) != len(given):
        raise InputError(f"`{who}(state_names=...)` must be {form}; got {shown(names)}.")
    return tuple(given)


def _layers(features: Any) -> Iterator[Any]:
    """The map and those that it wraps, from the outside in."""
    while features is not None:
        yield features
        features = getattr(features, "features", getattr(features, "base", None))
