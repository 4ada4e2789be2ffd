"""What planners share that sample core pairs in rounds: n samples of each of some pairs, summed, then one update."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ..base import FloatArray, InputError, IntArray, checks
from ..core import Lift
from ..sampled import Beliefs, next_rows
from ..simulate import Answers, Ask
from . import doubts
from .doubts import Verdict
from .protocol import CoreSetup, Planner, ReadOut

BATCH = 4096  # the most pairs per ask
INITIAL = (
    100  # draws from nu0 with the first ask: the watch over the core's hull looks at them, and nobody else
)


def no_round(m: int) -> dict[str, Any]:
    """The fields that every state of a planner in rounds has, before the first answer."""
    return {"round": 0, "filled": 0, "told": 0, "total": np.zeros(m), "squares": np.zeros(m)}


class InRounds(Planner):
    """The base class. A round's targets, such as r + gamma V(y), are summed per core pair, so samples need no memory.

    The state has `theta [d]`, whose greedy policy is read out, and the fields of `no_round`: the round's number, the samples
    in it so far, those in all, and per core pair the sum of the targets and of their squares.
    """

    first_budget: ClassVar[int] = 100_000

    # To be defined.

    def _samples(self, state: Any) -> int | None:
        """The samples per pair of the state's round; None if there is no such round."""
        raise NotImplementedError

    def _targets(self, state: Any, answers: Answers) -> FloatArray:
        """What the update averages, for each answer: `[n]`."""
        raise NotImplementedError

    def _updated(self, state: Any, mean: FloatArray, variance: FloatArray, n: int) -> Any:
        """The state after a round of n samples per pair, from the means and variances of its targets, `[m]` each."""
        raise NotImplementedError

    # To be overridden where not all pairs are sampled.

    def _pairs(self, state: Any) -> IntArray:
        """The core pairs that the round samples."""
        return np.arange(self.setup.m)

    # Provided.

    def resolve(self, setup: CoreSetup) -> Any:
        planner = self.bind(setup)
        planner._lift  # noqa: B018  # raises before the first query if the core set is too large
        require_one_of_each(self.name, setup.budget, setup.m)
        return planner

    @cached_property
    def _lift(self) -> Lift:
        """theta from values at the core pairs."""
        return Lift(self.setup.frame)

    def size(self, state: Any) -> int | None:
        n = self._samples(state)
        p = len(self._pairs(state))
        return None if n is None else next_rows(state.filled, n * p, p, BATCH)

    def ask(self, state: Any, rng: np.random.Generator) -> Ask | None:
        size, m = self.size(state), self.setup.m
        if size is None:
            return None
        pairs = self._pairs(state)
        index = pairs[np.arange(state.filled, state.filled + size) % len(pairs)]
        whole = len(pairs) == m and size % m == 0 and state.told % m == 0
        sweep = state.told // m if whole else None
        return Ask(core_index=index, n_initial=0 if state.told else INITIAL, sweep=sweep)

    def tell(self, state: Any, answers: Answers, rng: np.random.Generator) -> Any:
        index, targets = answers.ask.core_index, self._targets(state, answers)
        assert index is not None
        np.add.at(state.total, index, targets)
        np.add.at(state.squares, index, targets**2)
        k = len(targets)
        state = state._replace(filled=state.filled + k, told=state.told + k)
        n, pairs = self._samples(state), self._pairs(state)
        assert n is not None
        if state.filled < n * len(pairs):
            return state
        mean = state.total / n
        variance = np.maximum(state.squares / n - mean**2, 0.0) * (n / max(n - 1, 1))
        state = self._updated(state, mean, variance, n)
        state.total[:] = state.squares[:] = 0.0
        return state._replace(round=state.round + 1, filled=0)

    @property
    def _most(self) -> float:
        """H = 1 / (1 - gamma), the largest value."""
        return float(1.0 / (1.0 - self.setup.discount))

    # Results.

    def policy(self, state: Any) -> ReadOut:
        return ReadOut(state.theta.copy(), np.inf if state.theta.any() else 1.0)

    def beliefs(self, state: Any) -> Beliefs | None:
        return Beliefs(state.theta) if state.round else None

    def verdict(self, state: Any) -> Verdict | None:
        """Doubtful if there were fewer backups than the horizon, since each carries value by one step only."""
        if not state.round:
            return doubts.NO_SWEEP()
        return few_backups(state.round, self.setup) if state.round < self._most else None

    def numbers(self, state: Any) -> Mapping[str, float]:
        return {"rounds": float(state.round), "theta_norm": float(np.linalg.norm(state.theta))}

    def told(self, state: Any) -> int:
        return int(state.told)

    def check(self, state: Any) -> None:
        n, p = self._samples(state), len(self._pairs(state))
        if not 0 <= state.filled <= state.told <= self.setup.budget or not 0 <= state.round <= state.told:
            raise ValueError(f"'told' is {state.told}, 'filled' {state.filled} and 'round' {state.round}")
        if state.filled and (n is None or state.filled >= n * p):
            raise ValueError(f"a round has {n} samples of each of {p} pairs, and 'filled' is {state.filled}")
        checks.require_finite(state, "theta", "total", "squares")


def few_backups(backups: int, setup: CoreSetup) -> Verdict:
    """The doubt about fewer backups through the core set than the horizon."""
    horizon = 1.0 / (1.0 - setup.discount)
    return doubts.FEW_SWEEPS(sweeps=backups, horizon=horizon, least=int(np.ceil(setup.m * horizon)))


def require_one_of_each(name: str, budget: int, m: int) -> None:
    """Raise InputError unless the budget allows one sample of each of m core pairs."""
    if budget < m:
        raise InputError(
            f"A budget of {budget} queries is below {m}: '{name}' needs a sample of each of the m = {m} core pairs. Raise "
            "the budget."
        )
