"""What planners share that sample core pairs in rounds: n samples of each of some pairs, summed, then one update."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
    return {"round": 0, "each": 0, "filled": 0, "told": 0, "total": np.zeros(m), "squares": np.zeros(m)}


class InRounds(Planner, ABC):
    """The base class. A round's targets, such as r + gamma V(y), are summed per core pair, so samples need no memory.

    The state has `theta [d]`, whose greedy policy is read out, and the fields of `no_round`: the round's number, its samples
    per pair, how many of all it has, how many all rounds had, and per core pair the sum of the targets and of their squares.
    """

    first_budget: ClassVar[int] = 100_000
    sweeps: ClassVar[bool] = True  # whether every round samples all core pairs

    # To be defined.

    @abstractmethod
    def _samples(self, state: Any) -> int | None:
        """The samples per pair of the round that the state begins, if the budget allows so many; None if it has none."""

    @abstractmethod
    def _targets(self, state: Any, answers: Answers) -> FloatArray:
        """What the update averages, for each answer: `[n]`."""

    @abstractmethod
    def _updated(self, state: Any, mean: FloatArray, variance: FloatArray, n: int) -> Any:
        """The state after a round of n samples per pair, from the means and variances of its targets, `[m]` each."""

    # To be overridden where not all pairs are sampled.

    def _pairs(self, state: Any) -> IntArray:
        """The core pairs that the round samples."""
        return np.arange(self.setup.m)

    # Provided.

    def resolve(self, setup: CoreSetup) -> Any:
        planner = self.bind(setup)
        planner._lift  # noqa: B018  # raises before the first query if the core set is too large
        require_samples(self.name, setup.budget, 1, setup.m, "core pairs")
        return planner

    @cached_property
    def _lift(self) -> Lift:
        """theta from values at the core pairs."""
        return Lift(self.setup.frame)

    def _each(self, state: Any) -> int:
        """The samples per pair of the state's round. It keeps them when a run is resumed with a larger budget."""
        if state.filled:
            return int(state.each)
        left = (self.setup.budget - state.told) // len(self._pairs(state))
        return min(self._samples(state) or 0, left)

    def size(self, state: Any) -> int | None:
        p = len(self._pairs(state))
        return next_rows(state.filled, self._each(state) * p, p, BATCH)

    def ask(self, state: Any, rng: np.random.Generator) -> Ask | None:
        size, m = self.size(state), self.setup.m
        if size is None:
            return None
        pairs = self._pairs(state)
        index = pairs[np.arange(state.filled, state.filled + size) % len(pairs)]
        sweep = state.told // m if self.sweeps and size % m == 0 else None
        return Ask(core_index=index, n_initial=0 if state.told else INITIAL, sweep=sweep)

    def tell(self, state: Any, answers: Answers, rng: np.random.Generator) -> Any:
        index, targets = answers.ask.core_index, self._targets(state, answers)
        assert index is not None
        np.add.at(state.total, index, targets)
        np.add.at(state.squares, index, targets**2)
        n, k, pairs = self._each(state), len(targets), self._pairs(state)
        state = state._replace(each=n, filled=state.filled + k, told=state.told + k)
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
        n, p = state.each, len(self._pairs(state))
        if not 0 <= state.filled <= state.told <= self.setup.budget or not 0 <= state.round <= state.told:
            raise ValueError(f"'told' is {state.told}, 'filled' {state.filled} and 'round' {state.round}")
        if state.filled and not state.filled < n * p <= self.setup.budget:
            raise ValueError(f"a round has {n} samples of each of {p} pairs, and 'filled' is {state.filled}")
        checks.require_finite(state, "theta", "total", "squares")


def few_backups(backups: int, setup: CoreSetup) -> Verdict:
    """The doubt about fewer backups through the core set than the horizon."""
    horizon = 1.0 / (1.0 - setup.discount)
    return doubts.FEW_SWEEPS(sweeps=backups, horizon=horizon, least=int(np.ceil(setup.m * horizon)))


def require_samples(name: str, budget: int, n: int, m: int, what: str) -> None:
    """Raise InputError unless the budget allows n samples of each of m pairs, which `what` says in words."""
    if budget < n * m:
        samples = "a sample" if n == 1 else f"{n} samples"
        raise InputError(
            f"A budget of {budget} queries is below {n * m}: '{name}' needs {samples} of each of the {m} {what}. Raise the "
            "budget."
        )
