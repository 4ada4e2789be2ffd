"""The one door to a simulator: checks, blocks of noise, and THE counter of queries.

Runs, rollouts, pools, `check`, `certify` and `evaluate` all simulate through it. A *block* is opened at the start of an ask;
an ask larger than a block is cut into several, smaller asks share one until it has served `block` queries. Each block
has its own Philox stream, so noise depends on the seed and the position in the sequence of queries, never on who simulates.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ..base import FloatArray, IntArray, States, restore, simulator_stream, state_of
from ..features import BoxWatch, Phi, checked
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
    """Simulates, checks and counts: `queries` and `initial_draws` are counted here and nowhere else."""

    def __init__(
        self, problem: Problem, core: Pairs | None = None, seed: int = 0, block: int = BLOCK,
        stream: np.random.Generator | None = None,
    ) -> None:  # fmt: skip
        """`core` names pairs by number and says what states look like. With `stream` all noise comes from there."""
        self.problem, self.core, self.seed, self.block = problem, core, seed, block
        self.guard = Guard(problem, like=None if core is None else core.states)
        self.box_watch = BoxWatch(problem.features)
        self.watch: Watch | None = None  # where a planner relies on a core set
        self.queries = 0
        self.initial_draws = 0
        self.block_number = 0
        self.used = 0  # queries served by the current block
        self.one_stream = stream is not None
        self.stream = simulator_stream(seed, 0) if stream is None else stream

    # What judges and pools call, and `answer` too.

    def initial(self, n: int) -> States:
        """`n` draws from nu0, checked and counted."""
        states = self.guard.initial(self.stream, n)
        self.count(0, n)
        return states

    def step(
        self, states: States, actions: IntArray, noise: FloatArray | None = None
    ) -> tuple[FloatArray, States]:
        """One transition from each pair, checked and counted: rewards in [0, 1] and next states."""
        self.open_block(len(actions))
        size = len(actions) if self.one_stream else self.block
        parts = []
        for start in range(0, len(actions), size):
            if start:
                self._next_block()
            piece = slice(start, start + size)
            if noise is None:
                parts.append(self.guard.step(self.stream, states[piece], actions[piece]))
            else:
                repeated = self.guard.repeated
                parts.append(self.guard.step_with(states[piece], actions[piece], noise[piece]))
                self.count(self.guard.repeated - repeated, 0)
            self.count(len(parts[-1][0]), 0)
        if len(parts) == 1:
            return parts[0]
        rewards, next_states = zip(*parts, strict=True)
        return np.concatenate(rewards), np.concatenate(next_states)

    def features(self, states: States) -> Phi:
        """phi of a batch of states, checked."""
        return checked(self.problem.features, states)

    def answer(self, ask: Ask) -> Answers:
        """Simulate one ask, with the features of all that comes back."""
        states, actions = self._pairs(ask)
        self.open_block(len(actions))
        x0 = phi0 = y = phi = None
        rewards = np.empty(0)
        if ask.n_initial:
            x0 = self.initial(ask.n_initial)
            phi0 = self.features(x0)
            self.box_watch.see(x0)
        if len(actions):
            rewards, y = self.step(states, actions, ask.noise)
            phi = self.features(y)
            self.box_watch.see(y)
        if self.watch is not None:
            self.watch.see(self.queries, phi0, phi)
        return Answers(
            ask=ask, rewards=rewards, next_states=states if y is None else y, next_features=phi, initial_features=phi0,
            initial_states=x0,
        )  # fmt: skip

    def _pairs(self, ask: Ask) -> tuple[States, IntArray]:
        if ask.core_index is not None:
            assert self.core is not None
            return self.core.states[ask.core_index], self.core.actions[ask.core_index]
        assert ask.states is not None and ask.actions is not None
        return ask.states, ask.actions

    # Blocks, and the count.

    def open_block(self, n: int) -> None:
        """Before an ask of `n` queries: a fresh block if this one is used up, or if `n` needs its own."""
        if self.one_stream:
            return
        if self.used >= self.block or (n > self.block and self.used > 0):
            self._next_block()

    def _next_block(self) -> None:
        self.block_number += 1
        self.used = 0
        self.stream = simulator_stream(self.seed, self.block_number)

    def count(self, n: int, n_initial: int) -> None:
        """Count `n` answered queries, all of the current block, and `n_initial` draws from nu0."""
        self.queries += n
        self.used += n
        self.initial_draws += n_initial

    # Where it stands.

    def mark(self) -> dict[str, Any]:
        """Where the simulator stands, as JSON types; `return_to` goes back there to the last bit."""
        return {
            "queries": self.queries,
            "initial_draws": self.initial_draws,
            "block_number": self.block_number,
            "used": self.used,
            "repeated": self.guard.repeated,
            "watch": None if self.watch is None else self.watch.mark(),
            "stream": state_of(self.stream),
        }

    def return_to(self, mark: dict[str, Any]) -> None:
        """Put back what `mark` returned."""
        counters = [int(mark[name]) for name in ("queries", "initial_draws", "block_number", "used")]
        if not all(0 <= n < 2**63 for n in counters):
            raise ValueError(f"counters {counters} out of range")
        self.queries, self.initial_draws, self.block_number, self.used = counters
        self.guard.repeated = int(mark["repeated"])
        if self.watch is not None:
            self.watch.return_to(mark["watch"])
        self.stream = simulator_stream(self.seed, self.block_number)
        restore(self.stream, mark["stream"])
