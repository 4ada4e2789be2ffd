"""The state of `PlugIn`: the result of the last solve, and the samples."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...base import FloatArray, IntArray, checks
from ...sampled import by_pair


class State(NamedTuple):
    """The result of the last solve, and the samples (`sampled/samples.py`).

    The first rows are whole sweeps over the core pairs. Those after them are of the pairs `extra`.
    """

    seed: int  # of the quasi-random noise
    theta: FloatArray  # [d]
    before: FloatArray  # [d], theta of the solve before the last one; zero if there is none
    residual: float  # of the last solve, as a fraction of the value range
    settled: bool  # whether the last solve found a solution
    error: float  # estimated loss of sampling; NaN if no accuracy was requested
    scale: float  # optimum minus uniform value in the sampled model
    reached: bool  # whether the requested accuracy is reached
    drew: bool  # whether the simulator has drawn random numbers
    random: bool  # whether it counts as random
    certain: bool  # whether it counts as deterministic
    repeats: int  # queries that were repeated and gave the same answer
    probed: int  # queries that were repeated only to compare, and are not stored
    extra: IntArray  # [rows after the whole sweeps], their pairs
    ahead: IntArray  # [k], the pairs to ask next, in this order, before the next solve
    at: int  # rows at the last solve
    ended: int  # rows at the last solve that no budget cut short
    fewer: int  # rows at the one before that
    met: int  # the fewest samples of a pair that the policy meets; 0 if that is not known
    filled: int  # the fields of `Rows`; `solved` is the fewest samples of a pair
    solved: int
    rewards: FloatArray
    next_index: IntArray
    next_weight: FloatArray
    next_step: IntArray
    initial_index: IntArray
    initial_weight: FloatArray


def pairs_of(state: State, m: int) -> IntArray:
    """The core pair of every row, `[filled]`."""
    return np.concatenate([np.arange(state.filled - len(state.extra)) % m, state.extra])


def taken(state: State, n: int) -> State:
    """The state with the next n of the pairs `ahead` among those that were asked; itself if there are none."""
    if not len(state.ahead):
        return state
    return state._replace(extra=np.concatenate([state.extra, state.ahead[:n]]), ahead=state.ahead[n:])


def numbered(pairs: IntArray, more: IntArray, m: int) -> IntArray:
    """Which sample of its pair each of the rows `more` is, if they come after the rows of `pairs`: `[k]`."""
    order, first = by_pair(more, m)
    number = np.empty(len(more), dtype=np.int64)
    number[order] = np.arange(len(more)) - np.repeat(first[:-1], np.diff(first))
    return np.bincount(pairs, minlength=m)[more] + number


def check_rounds(state: Any, m: int) -> None:
    """Raise ValueError if what a state read from a file says of pairs asked unequally often contradicts itself."""
    for name in ("extra", "ahead"):
        pairs = getattr(state, name)
        if pairs.dtype != np.int64 or pairs.ndim != 1:
            raise ValueError(f"'{name}' has dtype {pairs.dtype} and shape {pairs.shape}")
        checks.require_within(state, 0, m - 1, name)
    whole = state.filled - len(state.extra)
    if whole < 0 or ((len(state.extra) or len(state.ahead)) and (whole % m or whole == 0)):
        raise ValueError("pairs are asked unequally often before every one was asked equally often")
    if not 0 <= state.fewer <= state.ended <= state.at <= state.filled or state.met < 0:
        raise ValueError("it was solved on more samples than there are")
