"""What the adapters share: packing states into rows, lists of actions, reward ranges, and building the problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base import (
    FloatArray,
    InputError,
    IntArray,
    SimulatorError,
    States,
    as_array,
    shown,
    text_of,
)
from ...features import Box, Coordinates, Features, Mask, Spoken, terminal_pairs, widened, with_terminal
from ..model import Model
from ..problem import Problem

_EXACT = 2.0**53  # whole numbers up to here are exact in float64


def said(error: BaseException) -> str:
    """An error of another library as one line without a final full stop."""
    lines = text_of(error).splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__


@dataclass(frozen=True)
class Packing:
    """Converts states made of several arrays (*leaves*) to flat rows of float64 and back; whole numbers stay exact."""

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype, ...]

    @classmethod
    def of(cls, leaves: Sequence[Any]) -> Packing:
        """The packing for states like this one, given by its leaves: any objects with a shape and a dtype."""
        for leaf in leaves:
            dtype = getattr(leaf, "dtype", None)
            if not isinstance(dtype, np.dtype) or dtype.kind not in "fiub":
                raise InputError(f"A state must be made of real numbers; one part of it has dtype {dtype}.")
        return cls(tuple(tuple(leaf.shape) for leaf in leaves), tuple(leaf.dtype for leaf in leaves))

    @property
    def sizes(self) -> list[int]:
        return [int(np.prod(shape)) for shape in self.shapes]

    @property
    def columns(self) -> int:
        """D, the length of a row."""
        return sum(self.sizes)

    def pack(self, leaves: Sequence[Any], n: int) -> FloatArray:
        """Turn leaves `[n, *shape]` into rows `[n, D]`."""
        parts = [np.asarray(leaf).reshape(n, -1) for leaf in leaves]
        for part in parts:
            if part.dtype.itemsize == 8 and part.dtype.kind in "iu" and part.size:
                largest = max(abs(int(part.min())), abs(int(part.max())))
                if largest > _EXACT:
                    raise SimulatorError(
                        f"The state holds the whole number {largest}, beyond 2^53: a float64 row would round it."
                    )
        return np.concatenate([*parts, np.empty((n, 0))], axis=1).astype(np.float64)

    def unpack(self, rows: FloatArray) -> list[Any]:
        """Turn rows `[n, D]` into leaves `[n, *shape]`, each of its original dtype."""
        cuts = np.cumsum(self.sizes)[:-1]
        return [
            (np.rint(part) if dtype.kind in "iu" else part).astype(dtype).reshape(len(rows), *shape)
            for part, shape, dtype in zip(np.split(rows, cuts, axis=1), self.shapes, self.dtypes, strict=True)
        ]


def action_values(space: Any, actions: Sequence[Any] | None, name: str) -> list[Any]:
    """The environment's values for actions 0, 1, ...: the caller's list, or by default those of a Discrete space."""
    kind = type(space).__name__
    if actions is None:
        if kind == "Discrete":
            start = int(getattr(space, "start", 0))
            return list(range(start, start + int(space.n)))
        raise InputError(
            f"{name} has the action space {space}, which is not discrete. Say which values the actions stand "
            "for: actions=[...], such as actions=[-2.0, 0.0, 2.0]."
        )
    if not isinstance(actions, (list, tuple, np.ndarray)):
        raise InputError(
            f"`actions=[...]` must be a list of the values that actions stand for, got {shown(actions)}."
        )
    if len(actions) == 0:
        raise InputError("`actions=[...]` must name at least one action.")
    if kind != "Box":
        return list(actions)
    values = [np.asarray(action, dtype=space.dtype) for action in actions]
    shape = tuple(space.shape)
    for value in values:
        if value.size != int(np.prod(shape)):
            raise InputError(f"`actions=[...]`: {shown(value)} does not fit the action space {space}.")
    return [value.reshape(shape) for value in values]


def reward_bounds(given: Any, known: tuple[float, float] | None, name: str) -> tuple[float, float]:
    """The declared reward range, or by default the known one of this environment, widened to contain 0.

    Raises InputError if there is neither.
    """
    bounds = known if given is None else given
    if bounds is None:
        raise InputError(
            f"The rewards of {name} are not known to coreplan. Give reward_range=(lowest, highest): "
            "every reward must lie within, and 0 is added for the time after the end."
        )
    form = "(lowest, highest), two finite numbers"
    pair = as_array("from_gymnasium", form, 1, reward_range=bounds).astype(float).tolist()
    if len(pair) != 2 or pair[0] > pair[1]:
        raise InputError(f"`reward_range` must be {form}, got {shown(bounds)}.")
    return widened((pair[0], pair[1]))


def terminal_problem(
    model: Model,
    columns: int,
    features: Features | None,
    discount: float,
    reward_range: tuple[float, float],
    core_pairs: tuple[States, IntArray] | None,
    observe: Callable[[States], Any] | None,
    name: str,
    hidden: int = 0,
    box: Box | None = None,
    state_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    spoken: Spoken | None = None,
    mask: Mask | None = None,
) -> Problem:
    """The problem whose states are rows of `columns` numbers, the first `hidden` of no concern, and the terminal column."""
    if features is None and box is not None:
        if box.dimension != columns:
            raise InputError(
                f"The box has {box.dimension} coordinates, and states of {name} have {columns} numbers."
            )
        features = Coordinates(box, model.n_actions)
    if features is None:
        raise InputError(
            f"{name} needs features over its states of {columns} numbers: a map of coreplan.problem "
            "(interpolation, tile_coding, ...) or FunctionFeatures; or bounds, box=(low, high), for the planner Refine."
        )
    wrapped = with_terminal(features, observe, columns, hidden, spoken)
    shape = getattr(features, "state_shape", None)
    if observe is None and shape is not None and int(np.prod(shape)) != columns:
        raise InputError(
            f"The features are for states of {int(np.prod(shape))} numbers; those of {name} have {columns}."
        )
    if core_pairs is not None:
        core_pairs = _completed(core_pairs, columns)
    return Problem(
        model, wrapped, discount, reward_range=reward_range, core_pairs=core_pairs, name=name,
        state_names=state_names, action_names=action_names, mask=mask,
    )  # fmt: skip


def _completed(pairs: tuple[States, IntArray], columns: int) -> tuple[States, IntArray]:
    """Core pairs with D columns get the terminal column and the terminal pair; those with D + 1 are left as they are."""
    try:
        states, actions = np.asarray(pairs[0], dtype=np.float64), np.asarray(pairs[1])
    except (TypeError, ValueError, IndexError):
        raise InputError(
            f"`core_pairs` must be (states, actions), two arrays of numbers, got {shown(pairs)}."
        ) from None
    if states.ndim != 2 or states.shape[1] not in (columns, columns + 1):
        raise InputError(
            f"`core_pairs=(states, actions)` needs states of shape (m, {columns}), to which the terminal pair is "
            f"added, or (m, {columns + 1}) with the terminal column; got {states.shape}."
        )
    return terminal_pairs(states, actions) if states.shape[1] == columns else (states, actions)
