"""A slice through the states: two coordinates vary, the others are held. What the states are is read from the features."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import FloatArray, InputError, States, as_array, as_count, as_python, nearest, shown
from ..features import Features, has_terminal
from .spaces import Space, space_of

_MOST = 1_000  # points per axis
_ALL_WHOLE = 400  # so many whole numbers all have a place on an axis


@dataclass(frozen=True)
class Axis:
    """A coordinate that varies: its name, the values `[n]` at which the policy is asked, and its two ends."""

    name: str
    values: FloatArray
    low: float
    high: float
    whole: bool = False

    @property
    def edges(self) -> FloatArray:
        """Of the cells around the values, `[n + 1]`."""
        return np.linspace(self.low, self.high, len(self.values) + 1)


@dataclass(frozen=True)
class Slice:
    """The states of a picture. Row i, column j of the picture is the state with `y.values[i]` and `x.values[j]`."""

    x: Axis
    y: Axis | None  # None: the states have one coordinate
    rows: FloatArray  # [n, D] the coordinates of all states, row by row of the picture
    held: tuple[tuple[str, float], ...]
    downwards: bool  # whether y grows downwards, as rows of a table do
    pack: Callable[[FloatArray], States]

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns of the picture."""
        return (len(self.x.values),) if self.y is None else (len(self.y.values), len(self.x.values))

    def states(self, most: int) -> Iterator[States]:
        """The states in batches of at most `most`."""
        for k in range(0, len(self.rows), most):
            yield self.pack(self.rows[k : k + most])


def _axis(space: Space, i: int, points: int) -> Axis:
    low, high = float(space.low[i]), float(space.high[i])
    if not space.whole[i]:
        edges = np.linspace(low, high, points + 1)
        return Axis(space.names[i], (edges[1:] + edges[:-1]) / 2, low, high)
    n = round(high - low) + 1
    values = np.unique(np.rint(np.linspace(low, high, n if n <= _ALL_WHOLE else points)))
    return Axis(space.names[i], values, low - 0.5, high + 0.5, whole=True)


def _number(who: str, space: Space, name: str, value: Any) -> int:
    """A coordinate, given by its name or its number."""
    word = as_python(value)
    if isinstance(word, str):
        if word not in space.names:
            raise InputError(
                f"`{who}({name}=...)`: no coordinate is called {shown(word)}.{nearest(word, space.names)}"
            )
        return space.names.index(word)
    number = int(as_count(who, least=0, **{name: value}))
    if number >= len(space.names):
        raise InputError(
            f"`{who}({name}=...)`: there are {len(space.names)} coordinates, numbered from 0; got {number}."
        )
    return number


def slice_of(
    who: str,
    features: Features,
    x: Any = None,
    y: Any = None,
    *,
    at: Any = None,
    box: Any = None,
    shape: Any = None,
    names: Any = None,
    known: tuple[str, ...] | None = None,
    points: int = 200,
) -> Slice:
    """A slice of the states of these features: see `SoftmaxPolicy.plot` for the arguments, and `space_of` for `known`."""
    points = as_count(who, least=2, points=points)
    if points > _MOST:
        raise InputError(f"`{who}(points=...)` must be at most {_MOST:,}, got {shown(points)}.")
    space = space_of(who, features, box, shape, names, known)
    D = len(space.names)
    first, second = _pair(who, space, x, y)
    held = _held(who, space, at, has_terminal(features))
    across = _axis(space, first, points)
    if second is None:
        up, columns, rows = None, across.values, np.repeat(held[None], len(across.values), axis=0)
    else:
        up = _axis(space, second, points)
        columns = np.tile(across.values, len(up.values))
        rows = np.repeat(held[None], len(columns), axis=0)
        rows[:, second] = np.repeat(up.values, len(across.values))
    rows[:, first] = columns
    others = tuple((space.names[i], float(held[i])) for i in range(D) if i not in (first, second))
    return Slice(
        x=across, y=up, rows=rows, held=others, downwards=space.table and second is not None, pack=space.pack
    )


def _pair(who: str, space: Space, x: Any, y: Any) -> tuple[int, int | None]:
    """The numbers of both coordinates; in a table columns are drawn to the right by default."""
    D = len(space.names)
    if D == 1:
        for name, value in (("x", x), ("y", y)):
            if value is not None and (_number(who, space, name, value), name) != (0, "x"):
                raise InputError(
                    f"`{who}({name}=...)`: a state has one coordinate, and it is drawn to the right."
                )
        return 0, None
    usual = (D - 1, D - 2) if space.table and D == 2 else (0, 1)
    first = None if x is None else _number(who, space, "x", x)
    second = None if y is None else _number(who, space, "y", y)
    if first is None:
        first = next(i for i in usual if i != second)
    if second is None:
        second = next(i for i in (usual[1], usual[0]) if i != first)
    if first == second:
        raise InputError(
            f"`{who}` needs two different coordinates, and x and y are both {shown(space.names[first])}."
        )
    return first, second


def _held(who: str, space: Space, at: Any, ends: bool) -> FloatArray:
    """The coordinates of the state at which the others are held, `[D]`."""
    if at is None:
        return space.middle.copy()
    D = len(space.names)
    state = as_array(who, f"one state, {D} numbers", at=at).astype(np.float64).ravel()
    if len(state) == D + 1 and ends:
        state = state[:-1]
    if space.table and len(state) == 1 and D > 1:
        sizes = tuple(int(n) for n in space.high + 1)
        inside = 0 <= state[0] < math.prod(sizes)
        state = np.array(np.unravel_index(int(state[0]), sizes), dtype=float) if inside else state
    if len(state) != D or (space.whole & (state != np.rint(state))).any():
        kind = " of whole numbers" if space.whole.all() else ""
        raise InputError(f"`{who}(at=...)` must be one state, {D} numbers{kind}; got {shown(at)}.")
    return state
