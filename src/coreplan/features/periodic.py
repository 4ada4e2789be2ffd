"""Periodic coordinates, angles first: the two edges of the box are one place, and values count modulo the period.

A grid map that is periodic is the same map on one more node per periodic axis, in three steps: the states are wrapped
into the box, the map is computed as ever, and the coordinates of the last node are added to those of the first. So it
equals the other map inside the box, and has n nodes per period and no core pair twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..base import FloatArray, InputError, IntArray, States, shown
from .formulas import Formula
from .protocol import CompiledFeatures

Flags = NDArray[np.bool_]


@njit(cache=True, nogil=True)
def wrapped(states, low, high, periodic):
    """A copy of states `[n, D]`, periodic coordinates taken into [low, high); NaN stays NaN, infinity becomes it."""
    out = states.copy()
    for i in range(states.shape[1]):
        if periodic[i]:
            for n in range(states.shape[0]):
                if not low[i] <= states[n, i] < high[i]:  # inside, not one bit changes
                    out[n, i] = low[i] + (states[n, i] - low[i]) % (high[i] - low[i])
    return out


@njit(cache=True, nogil=True)
def fold_into(fold, out):
    """Rename the coordinates of sparse features, in place: i becomes `fold[i]`."""
    index = out.index
    for n in range(index.shape[0]):
        for a in range(index.shape[1]):
            for l in range(index.shape[2]):
                index[n, a, l] = fold[index[n, a, l]]


def as_flags(owner: str, periodic: Sequence[bool] | Flags | None, D: int, name: str = "periodic") -> Flags:
    """`periodic`, or what has another name, as bool `[D]`, checked: one True or False per coordinate."""
    if periodic is None:
        return np.zeros(D, dtype=bool)
    several = isinstance(periodic, (tuple, list)) or (isinstance(periodic, np.ndarray) and periodic.ndim == 1)
    flags = list(periodic) if several else []
    if len(flags) != D or not all(isinstance(flag, (bool, np.bool_)) for flag in flags):
        raise InputError(
            f"`{owner}({name}=...)` must be one True or False per coordinate, here {D}, such as "
            f"{(True, *[False] * (D - 1))}; got {shown(periodic)}."
        )
    return np.array(flags, dtype=bool)


def open_box(low: FloatArray, high: FloatArray, periodic: Flags) -> tuple[FloatArray, FloatArray]:
    """The box for the watch over states outside: a periodic coordinate is never outside."""
    return np.where(periodic, -np.inf, low), np.where(periodic, np.inf, high)


def named(name: str, periodic: Flags) -> str:
    """The map's name, which is a part of its description, with the periodic coordinates."""
    return f"{name}, periodic in {', '.join(map(str, np.flatnonzero(periodic)))}" if periodic.any() else name


def joined(
    base: CompiledFeatures, kernel: Callable[..., None], cells: IntArray, periodic: Flags
) -> CompiledFeatures:
    """The grid map `base` with the first and the last of its `cells [D]` (nodes or tiles) joined on every periodic axis.

    `kernel` wraps the states, calls the base's kernel and folds the coordinates; without periodic axes it is the base.
    """
    if not periodic.any():
        return base
    low, high = (np.asarray(edge, dtype=float) for edge in base.box)  # type: ignore[union-attr]
    copies = base.dimension // (int(cells.prod()) * base.n_actions)
    fold = _fold(cells, periodic, copies, base.n_actions)
    _, first = np.unique(fold, return_index=True)  # [d], one coordinate of the base for each that remains
    carried = base.core

    def core() -> tuple[States, IntArray]:
        states, actions = carried()  # type: ignore[misc]  # in the order of the base's coordinates
        return states[first], actions[first]

    return replace(
        base, kernel=kernel, dimension=len(first), data=(base.data, low, high, periodic, fold),
        name=named(base.name, periodic), core=core if carried else None, box=open_box(low, high, periodic),
    )  # fmt: skip


def _fold(cells: IntArray, periodic: Flags, copies: int, n_actions: int) -> IntArray:
    """For each of the base's coordinates, which number (copy, cell, action), the coordinate that it becomes.

    The copies are the tilings of a tile coding; other maps have one.
    """
    kept = cells - periodic
    places = np.unravel_index(np.arange(int(cells.prod())), tuple(cells))
    cell = np.ravel_multi_index([at % n for at, n in zip(places, kept, strict=True)], tuple(kept))
    rows = np.arange(copies)[:, None] * int(kept.prod()) + cell  # [copies, cells]
    return (rows[:, :, None] * n_actions + np.arange(n_actions)).ravel()


def wrapped_formula(low: FloatArray, high: FloatArray, periodic: Flags, base: Formula) -> Formula:
    """The description of `base` at wrapped states."""
    return {"kind": "wrapped", "low": low, "high": high, "periodic": periodic, "base": base}


def periodic_formula(data: Any, A: int, base: Formula) -> Formula:
    """The description of base functions on a grid whose ends are joined, from the data of a kernel of `joined`."""
    _, low, high, periodic, fold = data
    return {"kind": "folded", "fold": fold[::A] // A, "base": wrapped_formula(low, high, periodic, base)}
