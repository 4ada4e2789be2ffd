"""Samples that a planner keeps in its state: rows that grow, survive a checkpoint, and can be handed on.

Such a state has `counts` (rows filled, samples a core pair at the last solve, ...), `rewards [room]`, `next_index` and
`next_weight [room, A, k or d]`, `initial_index` and `initial_weight [n0, A, k or d]`. Rows are sample-major, row n is of
core pair n mod m, so that more samples extend the arrays; of dense features the index is empty.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..problem import Phi, Sparse
from ..problem.guard import REPEATED
from ..problem.model import FloatArray
from ..status import Status
from .base import Answers, Setup, Stored, Verdict

FEW = 8  # samples a core pair: with fewer that differ a result is doubtful
GROWING = frozenset({"rewards", "next_index", "next_weight", "initial_index", "initial_weight"})


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
        index, weight = _parts(answers.initial_features)
        state = state._replace(initial_index=index, initial_weight=weight)
    index, weight = _parts(answers.next_features)
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
    return _joined(state.next_index[:n], state.next_weight[:n])


def initial(state: Any) -> Phi:
    """Features at the initial states."""
    return _joined(state.initial_index, state.initial_weight)


def stored(state: Any, setup: Setup) -> Stored | None:
    """What the last solve had, pair by pair; None before the first."""
    N, m = int(state.counts[1]), setup.m
    if N == 0:
        return None
    assert setup.core_features is not None
    order = np.arange(N * m).reshape(N, m).T.ravel()  # pair-major
    index = state.next_index[order] if len(state.next_index) else state.next_index
    return Stored(
        setup.core_features, state.rewards[: N * m].reshape(N, m).mean(axis=0),
        _joined(index, state.next_weight[order]), initial(state), setup.discount, setup.dimension,
    )  # fmt: skip


def few(state: Any, setup: Setup) -> Verdict | None:
    """Doubtful where the samples of a core pair are few, and not seen to be the same each time."""
    N, m = int(state.counts[1]), setup.m
    drawn = (state.rewards, state.next_weight, state.next_index)
    samples = [a[: N * m].reshape(N, -1) for a in drawn if len(a)]
    if N >= FEW or (N > 1 and all((a == a[0]).all() for a in samples)):
        return None
    return Verdict(
        Status.DOUBTFUL,
        f"The policy rests on few next states of each core pair ({N}), and chance decides which. Give at least "
        f"{FEW * m + REPEATED:,} queries; for a simulator without chance set `samples`.",
    )


def check(state: Any, like: Any, setup: Setup) -> None:
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


def _parts(phi: Phi) -> tuple[Any, FloatArray]:
    """Index and weight, as a state keeps them."""
    if isinstance(phi, Sparse):
        return phi.index.astype(np.int32), phi.weight
    return np.zeros((0, phi.shape[1], 0), dtype=np.int32), phi


def _joined(index: Any, weight: FloatArray) -> Phi:
    return Sparse(index, weight) if len(index) else weight
