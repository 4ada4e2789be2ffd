"""Samples go to the core pairs that vary: those whose answers were all the same so far are asked more rarely.

After the first solve a pair is *steady* if all of its samples were the same. From then on only every fourth sweep over the
core set includes the steady pairs; in the other sweeps their sample is taken to be the one that they always gave. So every
pair keeps as many samples as every other, and the solves need not know. As soon as a steady pair gives another answer it
counts as one that varies, and every sample that was taken for granted is made up for by a query: with noise that a planner
sets itself (`sobol`) the samples are then those of a run that thins nothing, to the last bit.

What it costs: of n samples of a steady pair in n sweeps only about first + (n - first) / 4 were queried. An outcome that is
rarer than 3 in so many queries may have been missed, where all n queries would have missed what is rarer than 3 / n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import IntArray, checks
from ..features import parts_of, stack, take
from ..simulate import Answers
from .samples import ROWS, append, next_features, overwrite

EVERY = 4  # of so many sweeps one includes the steady pairs


def constant_pairs(state: Any, m: int, N: int) -> NDArray[np.bool_]:
    """For each core pair, whether its first N samples are the same; `[m]`."""
    same = np.ones(m, dtype=bool)
    for name in ROWS:
        stored = getattr(state, name)
        if len(stored):
            samples = stored[: N * m].reshape(N, m, -1)
            same &= (samples == samples[0]).all(axis=(0, 2))
    return same


@dataclass(frozen=True)
class Thinning:
    """Which samples are queried. The state has the fields of `Rows`, and `steady [m]`, `owed [k]` and `thinned`."""

    m: int
    first: int  # sweeps that include every pair
    active: bool  # False: so do all

    def begun(self, state: Any) -> Any:
        """The state after the first solve, with its steady pairs; none if all are, since then rare noise is all there is."""
        if not self.active or state.filled != self.first * self.m:
            return state
        steady = constant_pairs(state, self.m, self.first)
        return state._replace(steady=steady & (not steady.all()), thinned=bool(steady.any()))

    def affordable(self, queries: int, steady: int) -> int:
        """The most samples per pair that so many queries pay for, if `steady` of the pairs remain steady."""
        low, high = queries // self.m, max(EVERY * queries // self.m, 1) if steady else queries // self.m
        while low < high:  # the cost grows with the number of samples
            N = (low + high + 1) // 2
            low, high = (N, high) if self.m * N - steady * self._thin_sweeps(N) <= queries else (low, N - 1)
        return low

    def _thin_sweeps(self, N: int) -> int:
        """How many of the first N sweeps leave the steady pairs out; the first whole sweeps are a multiple of `EVERY`."""
        late = max(N - self.first, 0)
        return late - late // EVERY

    def rows(self, state: Any, stop: int) -> IntArray:
        """The rows from the next one to `stop - 1` that are to be queried."""
        rows = np.arange(state.filled, stop)
        return rows[~self._granted(state.steady, rows)] if state.steady.any() else rows

    def _granted(self, steady: NDArray[np.bool_], rows: IntArray) -> NDArray[np.bool_]:
        """Which of the rows are taken for granted."""
        sweep = rows // self.m
        return steady[rows % self.m] & (sweep >= self.first) & (sweep % EVERY != EVERY - 1)

    def told(self, state: Any, answers: Answers, stop: int) -> Any:
        """The state with all rows up to `stop`: those that were queried, and those taken for granted."""
        if not state.steady.any():
            return append(state, answers)
        start, asked = state.filled, self.rows(state, stop)
        every = np.arange(start, stop)
        granted = self._granted(state.steady, every)
        # The first sample of each pair, then the answers.
        known = next_features(state, np.arange(self.m))
        phi = known if answers.next_features is None else stack([known, answers.next_features])
        source = every % self.m
        source[~granted] = self.m + np.arange(len(asked))
        rewards = np.concatenate([state.rewards[: self.m], answers.rewards])
        varies = self._varies(state, asked, answers)
        state = append(state, answers._replace(rewards=rewards[source], next_features=take(phi, source)))
        if not varies.any():
            return state
        rows = np.arange(self.first * self.m, stop)
        owed = rows[self._granted(state.steady, rows) & varies[rows % self.m]]
        return state._replace(steady=state.steady & ~varies, owed=np.concatenate([state.owed, owed]))

    def _varies(self, state: Any, asked: IntArray, answers: Answers) -> NDArray[np.bool_]:
        """The steady pairs that gave another answer than before; `[m]`."""
        varies = np.zeros(self.m, dtype=bool)
        if answers.next_features is None:
            return varies
        pair = asked % self.m
        other = state.rewards[pair] != answers.rewards
        before = parts_of(next_features(state, pair))
        for old, new in zip(before, parts_of(answers.next_features), strict=True):
            if len(old):
                other |= (old != new).reshape(len(old), -1).any(axis=1)
        varies[pair[other]] = True
        return varies & state.steady

    def repaid(self, state: Any, answers: Answers) -> Any:
        """The state with the answers in place of the first of the samples that had been taken for granted."""
        n = len(answers.rewards)
        return overwrite(state, state.owed[:n], answers)._replace(owed=state.owed[n:])

    def check(self, state: Any) -> None:
        """Raise ValueError if what a state read from a file says of steady pairs and of samples that are owed is wrong."""
        owed = state.owed
        if owed.dtype != np.int64 or owed.ndim != 1 or len(np.unique(owed)) != len(owed):
            raise ValueError(f"'owed' has dtype {owed.dtype} and shape {owed.shape}, or names a sample twice")
        checks.require_within(state, self.first * self.m, state.filled - 1, "owed")
        if (len(owed) or state.steady.any() or state.thinned) and not (self.active and state.thinned):
            raise ValueError("it has thinned samples where none are thinned")
