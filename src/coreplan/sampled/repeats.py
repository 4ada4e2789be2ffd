"""Is a simulator deterministic? Queries are repeated, and compared with the first answer of the same core pair.

If k repeats at pairs chosen at random all agree, the share of answers that would differ is below 3 / k with a confidence of
95%, since (1 - 3/k)^k < .05. How many repeats are asked for depends on whether the simulator has drawn from its stream:

- It has drawn nothing: most likely it is deterministic, and a few repeats guard against a source of randomness of its own.
  They are 5% of the core pairs, or 100 if that is more: a share of 3% is noticed with a probability of 95%.
- It has drawn random numbers: it may be random at a few pairs only, or rarely. Every core pair is repeated as often as
  every other, and there are 1,000 repeats at least.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import IntArray, checks
from ..features import parts_of
from ..simulate import Answers
from .samples import all_same, next_features

SHARE = 20  # one of so many core pairs is repeated, if the simulator has drawn nothing
LEAST = 100  # repeats, if the simulator has drawn nothing
LEAST_DRAWN = 1000  # repeats, if it has drawn random numbers


def repeats_needed(m: int, drew: bool) -> int:
    """The number of repeats after which a simulator of m core pairs counts as deterministic."""
    return max(m, LEAST_DRAWN) if drew else max(m // SHARE, LEAST)


def share_below(repeats: int) -> float:
    """If all repeats agreed, the share of answers that differ is below this, with a confidence of 95%."""
    return float(1.0 - 0.05 ** (1.0 / repeats))


def repeated_pairs(seed: int, m: int, start: int, stop: int) -> IntArray:
    """The core pairs of the repeats `start` to `stop - 1`: random orders of all m pairs, one after the other."""
    rng = np.random.default_rng([seed, m])
    orders = [rng.permutation(m) for _ in range(-(-stop // m))]
    return np.concatenate(orders)[start:stop]


def agree(state: Any, answers: Answers) -> bool:
    """Whether rewards and next features of the answers are those of the first sample of the same core pairs."""
    assert answers.next_features is not None and answers.ask.core_index is not None
    first = answers.ask.core_index
    pairs = zip(parts_of(next_features(state, first)), parts_of(answers.next_features), strict=True)
    same = np.array_equal(state.rewards[first], answers.rewards)
    return same and all(np.array_equal(old, new) for old, new in pairs)


@dataclass(frozen=True)
class Trial:
    """How a planner that samples all core pairs equally often finds out whether its simulator is deterministic.

    After the first sweep over the core pairs it either *probes*: it repeats a few queries, only to compare; or it *looks*:
    it compares the next whole sweeps, which are samples like others. The planner's state has the fields of `Rows`, and
    `drew`, `random`, `certain`, `repeats` and `probed`.
    """

    m: int
    active: bool  # False: nothing is tried
    declared: bool  # the simulator declares that it has no noise
    first: int  # samples per core pair that the planner takes at least, if the simulator is random
    budget: int  # queries
    to_accuracy: bool  # whether the planner stops at an accuracy; otherwise its budget is to be used

    def _open(self, state: Any) -> bool:
        return self.active and not (state.random or state.certain)

    def undecided(self, state: Any) -> bool:
        """Whether the next answers may decide that the simulator is deterministic, so that less is asked."""
        return self._open(state) and not state.drew

    def needed(self, state: Any) -> int:
        """The number of repeats that have to agree; if it drew nothing, no more than a random simulator would be asked."""
        needed = repeats_needed(self.m, state.drew)
        return needed if state.drew else min(needed, (self.first - 1) * self.m)

    def probing(self, state: Any) -> bool:
        """Whether to probe now. This never costs a budget one of the samples per core pair that it pays for."""
        if not self._open(state) or state.drew or state.filled < self.m:
            return False
        needed = self.needed(state)
        enough = self.to_accuracy and self.budget >= self.first * self.m + needed
        return enough or self.budget % self.m >= needed

    def look(self, state: Any) -> int | None:
        """The number of sweeps after which to look next; None if not at all."""
        if not self._open(state):
            return None
        if state.filled < self.m:
            return 1
        if (
            state.drew and not self.to_accuracy
        ):  # it may be random rarely: all of its budget is used to find out
            return None
        N = 1 + -(-self.needed(state) // self.m)
        return N if state.filled < N * self.m and self.first >= N else None

    def looked(self, state: Any, N: int) -> Any:
        """The state after a look at the first N sweeps."""
        if N == 1:
            return state._replace(certain=self.declared)
        same = all_same(state, self.m, N)
        # What draws random numbers may use them rarely, or at a few pairs.
        certain = same and not state.drew
        return state._replace(random=not same, certain=certain, repeats=(N - 1) * self.m if same else 0)

    def compared(self, state: Any, answers: Answers) -> Any:
        """The state after repeated queries were compared with the first sample of the same core pairs."""
        same, n = agree(state, answers), len(answers.rewards)
        repeats = state.repeats + n if same else 0
        certain = same and repeats == self.needed(state)
        return state._replace(random=not same, certain=certain, repeats=repeats, probed=state.probed + n)


def check_solved(state: Any) -> None:
    """Raise ValueError if what a state read from a file says of its solves and of its trial contradicts itself."""
    checks.require_finite(state, "theta", "before")
    checks.require_within(state, 0, 2**62 - 1, "seed", "repeats", "probed")
    if (state.certain and state.random) or (state.random and state.repeats):
        raise ValueError("the simulator is said to be random and not")
    unsolved = state.settled or state.reached or state.theta.any() or not math.isnan(state.residual)
    if state.solved == 0 and unsolved:
        raise ValueError("it has a solution and no solve")
    if state.filled == 0 and (state.certain or state.random or state.drew or state.probed or state.repeats):
        raise ValueError("it knows of a simulator that was not asked")
