"""Samples of pairs that a planner found by itself: the fields of a state that store their features, and the checks of these.

Features are sparse, with the constant 1 as their last coordinate, number d (`features.with_constant`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import IntArray
from ..features import Sparse, first_fault

HUGE = 1e15  # the square of a number of single precision below it is one too, with room to spare


def stored_pairs(state: Any, n: int) -> tuple[Sparse, Sparse]:
    """Features of the first n pairs, `[n, K]`, and of their next states, `[n, A, K]`."""
    pair, A = Sparse(state.pair_index[:n], state.pair_weight[:n]), state.next_index.shape[1]
    shape = (n, A, state.next_weight.shape[2])
    index = np.broadcast_to(state.next_index[:n], shape)  # views that take no memory
    return pair, Sparse(index, np.broadcast_to(state.next_weight[:n], shape))


def with_next(state: Any, next_phi: Sparse) -> tuple[Any, dict[str, Any]]:
    """The state, ready for features of next states; and the rows of them that are to be appended.

    Dense features, and bases with a copy per action, name the same coordinates at every state: they are stored once. So are
    weights that all actions share. The first features that differ have all written out.
    """
    n, (index, weight) = state.filled, next_phi
    rows: dict[str, Any] = {"next_index": index, "next_weight": weight}
    if n == 0:
        state = state._replace(next_index=index[:1], next_weight=weight[:0, :1])
    if len(state.next_index) == 1:
        if (index == state.next_index).all():
            del rows["next_index"]
        else:
            room = (len(state.rewards), *index.shape[1:])
            state = state._replace(next_index=np.broadcast_to(state.next_index, room).copy())
    if state.next_weight.shape[1] < weight.shape[1]:
        if (weight == weight[:, :1]).all():
            rows["next_weight"] = weight[:, :1]
        else:
            state = state._replace(next_weight=np.repeat(state.next_weight, weight.shape[1], axis=1))
    return state, rows


def rounded(phi: Sparse) -> Sparse:
    """The features in single precision, which takes half of the memory; a fit's ridge is far above what is rounded off.

    The mark of actions that a mask forbids, and other huge numbers, do not fit into single precision: then they stay double.
    """
    return (
        phi
        if np.abs(phi.weight).max(initial=0.0) > HUGE
        else Sparse(phi.index, phi.weight.astype(np.float32))
    )


def random_action(available: Any, u: Any) -> IntArray:
    """A uniformly chosen available action for each row of `available [c, A]`, by `u [c]` in [0, 1)."""
    rank = (u * available.sum(axis=1)).astype(np.int64)
    return (available.cumsum(axis=1) > rank[:, None]).argmax(axis=1)


def check_features(state: Any, name: str, shape: tuple[int, ...], dimension: int, radius: float) -> None:
    """Raise ValueError unless `name`_index and `name`_weight hold features of pairs `[n, K]` or of states `[n, A, K]`."""
    index, weight = getattr(state, f"{name}_index"), getattr(state, f"{name}_weight")
    if name == "next" and index.ndim == weight.ndim == 3 and weight.shape[1] in (1, shape[0]):
        index = np.broadcast_to(index, (len(weight), *index.shape[1:])) if len(index) == 1 else index
        weight = np.broadcast_to(weight, (len(weight), shape[0], weight.shape[2]))
    if index.shape[1:] != shape or weight.shape != index.shape or shape[-1] == 0:
        raise ValueError(f"'{name}_index' has shape {index.shape} and '{name}_weight' {weight.shape}")
    n, K = len(index), shape[-1]
    phi = Sparse(index.reshape(n, -1, K), weight.reshape(n, -1, K))
    slack = 1.0 + np.finfo(weight.dtype).eps * K
    if first_fault(phi, dimension + 1, slack * math.hypot(radius, 1.0)) >= 0:
        raise ValueError(f"'{name}_index' and '{name}_weight' hold what no features are")
