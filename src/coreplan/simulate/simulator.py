"""The simulator's side of a run: blocks of noise and the one counter of queries.

A *block* is opened at the start of an ask; an ask larger than a block is cut into several, smaller asks
share one until it has served `block` queries. Each block has its own Philox stream, so noise depends
on the seed and the position in the sequence of queries, never on who simulates.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ..base import FloatArray, IntArray, States, restore, simulator_stream, state_of
from ..features import Lookout, Phi, checked
from ..problem import Problem
from .ask import Answers, Ask
from .guard import Guard

BLOCK = 65_536


class Pairs(Protocol):
    """State-action pairs that an ask may name by number: a core set."""

    @property
    def states(self) -> States: ...
    @property
    def actions(self) -> IntArray: ...


class Watch(Protocol):
    """Looks at the features that come, after the queries that brought them."""

    due: int

    def see(self, queries: int, *batches: Phi | None) -> None: ...
    def mark(self) -> Any: ...
    def return_to(self, mark: Any) -> None: ...


class Simulator:
    """Answers what planners ask; counts `queries` and `initial_draws`, and nothing else counts them."""

    def __init__(self, problem: Problem, core: Pairs | None, seed: int, block: int = BLOCK) -> None:
        self.problem, self.core, self.seed, self.block = problem, core, seed, block
        self.guard = Guard(problem, like=None if core is None else core.states)
        self.lookout = Lookout(problem.features)
        self.cover: Watch | None = (
            None  # watches the features that come, where a planner relies on a core set
        )
        self.queries = 0
        self.initial_draws = 0
        self.block_number = 0
        self.used = 0  # queries served by the current block
        self.stream = simulator_stream(seed, 0)

    def open_block(self, n: int) -> None:
        """Before an ask of `n` queries: a fresh block if this one is used up, or if `n` needs its own."""
        if self.used >= self.block or (n > self.block and self.used > 0):
            self._next_block()

    def _next_block(self) -> None:
        self.block_number += 1
        self.used = 0
        self.stream = simulator_stream(self.seed, self.block_number)

    def served(self, n: int, n_initial: int) -> None:
        """Count `n` answered queries, all of the current block, and `n_initial` draws from nu0."""
        self.queries += n
        self.used += n
        self.initial_draws += n_initial

    def mark(self) -> dict[str, Any]:
        """Where the simulator stands, as JSON types; `return_to` goes back there to the last bit."""
        return {
            "queries": self.queries,
            "initial_draws": self.initial_draws,
            "block_number": self.block_number,
            "used": self.used,
            "repeated": self.guard.repeated,
            "cover": None if self.cover is None else self.cover.mark(),
            "stream": state_of(self.stream),
        }

    def return_to(self, mark: dict[str, Any]) -> None:
        """Put back what `mark` returned."""
        counters = [int(mark[name]) for name in ("queries", "initial_draws", "block_number", "used")]
        if not all(0 <= n < 2**63 for n in counters):
            raise ValueError(f"counters {counters} out of range")
        self.queries, self.initial_draws, self.block_number, self.used = counters
        self.guard.repeated = int(mark["repeated"])
        if self.cover is not None:
            self.cover.return_to(mark["cover"])
        self.stream = simulator_stream(self.seed, self.block_number)
        restore(self.stream, mark["stream"])

    def answer(self, ask: Ask) -> Answers:
        """Simulate one ask, check all that comes back, count it."""
        states, actions = self._pairs(ask)
        features = self.problem.features
        self.open_block(len(actions))
        initial_states = initial_phi = None
        if ask.n_initial:
            initial_states = self.guard.initial(self.stream, ask.n_initial)
            initial_phi = checked(features, initial_states)
            self.lookout.see(initial_states)
        self.served(0, ask.n_initial)
        if len(actions) == 0:  # only initial states were asked for
            self._watch(initial_phi)
            return Answers(ask, np.empty(0), states, None, initial_phi, initial_states)
        rewards, next_states = self._step(states, actions, ask.noise)
        next_phi = checked(features, next_states)
        self.lookout.see(next_states)
        self._watch(initial_phi, next_phi)
        return Answers(ask, rewards, next_states, next_phi, initial_phi, initial_states)

    def _watch(self, *batches: Phi | None) -> None:
        if self.cover is not None:
            self.cover.see(self.queries, *batches)

    def _pairs(self, ask: Ask) -> tuple[States, IntArray]:
        if ask.core_index is not None:
            assert self.core is not None
            return self.core.states[ask.core_index], self.core.actions[ask.core_index]
        assert ask.states is not None and ask.actions is not None
        return ask.states, ask.actions

    def _step(self, states: States, actions: IntArray, noise: FloatArray | None) -> tuple[FloatArray, States]:
        parts = []
        for start in range(0, len(actions), self.block):
            if start:
                self._next_block()
            piece = slice(start, start + self.block)
            if noise is None:
                parts.append(self.guard.step(self.stream, states[piece], actions[piece]))
            else:
                repeated = self.guard.repeated
                parts.append(self.guard.step_with(states[piece], actions[piece], noise[piece]))
                self.served(self.guard.repeated - repeated, 0)
            self.served(len(parts[-1][0]), 0)
        if len(parts) == 1:
            return parts[0]
        rewards, next_states = zip(*parts, strict=True)
        return np.concatenate(rewards), np.concatenate(next_states)
