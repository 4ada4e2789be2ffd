"""The part of `Search` that compares what it found with its start, by paired rollouts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from scipy.special import stdtrit

from ...base import FloatArray
from ..protocol import Planner
from .state import COMPARE, DONE, State

RESERVED = 0.25  # share of the budget for the comparison
PAIRS = 16  # of the pilot, which tells how many pairs are needed
CONFIDENCE = 0.975  # of the gain's lower bound: one-sided


def bound(gains: FloatArray) -> float:
    """The lower end of Student's interval for the mean gain, of `gains [n]`; minus infinity for fewer than two."""
    n = len(gains)
    if n < 2:
        return -math.inf
    return float(gains.mean() - stdtrit(n - 1, CONFIDENCE) * gains.std(ddof=1) / math.sqrt(n))


def needed_pairs(gains: FloatArray) -> float:
    """About how many pairs resolve the mean gain that a pilot `[n]` shows; infinite if it shows none."""
    mean = float(gains.mean())
    if mean <= 0.0:
        return math.inf
    return max(4.0 * float(gains.var(ddof=1)) / mean**2, float(PAIRS))


class Comparing(Planner, ABC):
    """Start and found policy, side by side from common initial states; fresh pairs decide, the pilot only counts them."""

    start: FloatArray | None

    @property
    def _reserved(self) -> int:
        return 0 if self.start is None else int(RESERVED * self.setup.budget)

    @abstractmethod
    def _cut(self, state: State) -> int: ...

    @abstractmethod
    def _left(self, state: State) -> int: ...

    def _pairs(self, state: State) -> int:
        """How many pairs of rollouts come next: the pilot's, or those it asks for."""
        most = self._left(state) // (2 * self._cut(state))
        return int(max(1, min(most, PAIRS if state.wanted < 0 else state.wanted)))

    def _piloted(self, state: State) -> State:
        """Go on to the comparison if its rollouts can resolve the gain that the pilot shows; else the start stays."""
        gains = state.score[1] - state.score[0]
        most = self._left(state) // (2 * self._cut(state))
        needed = (
            needed_pairs(gains) if len(gains) > 1 and not state.chain.size > self._left(state) else math.inf
        )
        if needed > most:
            return state._replace(stage=DONE, chosen=0)
        return state._replace(stage=COMPARE, wanted=min(math.ceil(2.0 * needed), most))

    def _compared(self, state: State) -> State:
        """What was found takes the start's place if it gains, and is not shown to lose at the true discount."""
        gains, true = (s[1] - s[0] for s in (state.score, state.true_score))
        better = bound(gains) > 0.0 and not bound(-true) > 0.0
        return state._replace(stage=DONE, chosen=int(better), gains=gains, true_gains=true)
