"""Samples that a planner keeps in its state: rows that grow, survive a checkpoint, and can be handed on.

Such a state has `counts` (rows filled, samples a core pair at the last solve, ...), `rewards [room]`, `next_index` and
`next_weight [room, A, k or d]`, `initial_index` and `initial_weight [n0, A, k or d]`. Rows are sample-major, row n is of
core pair n mod m, so that more samples extend the arrays; of dense features the index is empty.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..base import FloatArray
from ..features import Phi, from_parts, parts_of
from ..simulate import Answers

GROWING = frozenset({"rewards", "next_index", "next_weight", "initial_index", "initial_weight"})


class Stored(NamedTuple):
    """n transitions of each core pair, kept: what sample-once planners solve on."""

    core_features: Phi  # Phi~, [m, d] or Sparse [m, k]
    rewards: FloatArray  # [m], means of the n samples
    next_features: (
        Phi  # [m * n, A, d] or Sparse [m * n, A, k]; rows j n to (j + 1) n - 1 are those of core pair j
    )
    initial_features: Phi  # [n0, A, ...]
    discount: float
    dimension: int  # d: sparse features do not say it

    @property
    def m(self) -> int:
        return len(self.rewards)


def empty(n_actions: int) -> dict[str, Any]:
    """The fields before the first answer."""
    index, weight = np.zeros((0, n_actions, 0), dtype=np.int32), np.zeros((0, 0, 0))
    return {
        "rewards": np.zeros(0), "next_index": index, "next_weight": weight, "initial_index": index,
        "initial_weight": weight,
    }  # fmt: skip


def appended(state: Any, answers: Answers) -> Any:
    """The state with the rows of the answers appended; arrays double when they are full."""
    assert answers.next_features is not None
    if answers.initial_features is not None:
        index, weight = parts_of(answers.initial_features)
        state = state._replace(initial_index=index, initial_weight=weight)
    index, weight = parts_of(answers.next_features)
    new = {"rewards": answers.rewards, "next_index": index, "next_weight": weight}
    n, more = int(state.counts[0]), len(answers.rewards)
    if n + more > len(state.rewards):
        room = max(2 * n, n + more)
        for name, rows in new.items():
            grown = np.zeros((room if len(rows) else 0, *rows.shape[1:]), dtype=rows.dtype)
            if len(rows):
                grown[:n] = getattr(state, name)[:n] if n else 0
            state = state._replace(**{name: grown})
    for name, rows in new.items():
        if len(rows):
            getattr(state, name)[n : n + more] = rows
    counts = state.counts.copy()
    counts[0] += more
    return state._replace(counts=counts)


def following(state: Any, n: int) -> Phi:
    """Features at the first n next states."""
    return from_parts(state.next_index[:n], state.next_weight[:n])


def initial(state: Any) -> Phi:
    """Features at the initial states."""
    return from_parts(state.initial_index, state.initial_weight)


def stored(state: Any, setup: Any) -> Stored | None:
    """What the last solve had, pair by pair; None before the first."""
    N, m = int(state.counts[1]), setup.m
    if N == 0:
        return None
    assert setup.core_features is not None
    order = np.arange(N * m).reshape(N, m).T.ravel()  # pair-major
    index = state.next_index[order] if len(state.next_index) else state.next_index
    return Stored(
        setup.core_features, state.rewards[: N * m].reshape(N, m).mean(axis=0),
        from_parts(index, state.next_weight[order]), initial(state), setup.discount, setup.dimension,
    )  # fmt: skip


def all_same(state: Any, m: int) -> bool:
    """Whether every sample of a core pair, of those of the last solve, was the same as its first."""
    N = int(state.counts[1])
    drawn = (state.rewards, state.next_weight, state.next_index)
    samples = [a[: N * m].reshape(N, -1) for a in drawn if len(a)]
    return all(bool((a == a[0]).all()) for a in samples)


def check(state: Any, like: Any, setup: Any) -> None:
    """Raise a ValueError if rows that were read from a file do not fit together; `like` is a state before the first."""
    rows, room = int(state.counts[0]), len(state.rewards)
    if not (0 <= rows <= room == len(state.next_weight)) or not 0 <= state.counts[1] * setup.m <= rows:
        raise ValueError("its samples do not fit together")
    for name, old, new in zip(like._fields, like, state, strict=True):
        if old.dtype != new.dtype:
            raise ValueError(f"'{name}' has dtype {new.dtype}")
    for name in ("next", "initial"):
        index, weight = getattr(state, f"{name}_index"), getattr(state, f"{name}_weight")
        if rows and (weight.ndim != 3 or weight.shape[1] != setup.n_actions or len(weight) == 0):
            raise ValueError(f"'{name}_weight' has shape {weight.shape}")
        if len(index) and (
            index.shape != weight.shape or not 0 <= index.min() <= index.max() < setup.dimension
        ):
            raise ValueError(f"'{name}_index' names coordinates that do not exist")
        if rows and not len(index) and weight.shape[2] != setup.dimension:
            raise ValueError(f"'{name}_weight' has shape {weight.shape}")
