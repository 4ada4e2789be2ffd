"""The only way to call a simulator: checks, blocks of noise, and THE counter of queries.

Runs, rollouts, pools, `check`, `certify` and `evaluate` all simulate through it. Noise comes in *blocks*, each with a
Philox stream of its own, so that it depends on the seed and on the block's number but never on who simulates. An ask
is cut into blocks of a fixed size; an ask smaller than a block continues the current one. A *sweep* simulates every core
pair once. Asks that consist of whole sweeps number their blocks by the sweep instead; a block holds as many whole sweeps
as fit, and each sweep is one call. So sweep t has the same noise for every planner. The model or the run sets the size
of a block.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ..base import (
    FloatArray,
    InputError,
    IntArray,
    Lane,
    States,
    as_count,
    at_the_door,
    restore,
    simulator_stream,
    state_of,
)
from ..features import BoxWatch, Phi, checked
from ..problem import BLOCK, Problem
from .ask import Answers, Ask
from .guard import Guard


class Pairs(Protocol):
    """State-action pairs, states `[m, ...]` and actions `[m]`, that an ask may name by number: a core set."""

    @property
    def states(self) -> States: ...
    @property
    def actions(self) -> IntArray: ...


class Watch(Protocol):
    """Something that looks at the features that the simulator returns, such as `core.HullWatch`."""

    due: int  # the number of queries at which it wants to look again

    def see(self, queries: int, *batches: Phi | None) -> None: ...
    def mark(self) -> Any: ...
    def return_to(self, mark: Any) -> None: ...


class Simulator:
    """Simulates, checks and counts. `queries` and `initial_draws` are counted here and nowhere else."""

    def __init__(
        self,
        problem: Problem,
        core: Pairs | None = None,
        seed: int = 0,
        block: int | None = None,
        lane: Lane = Lane.RUN,
    ) -> None:
        """`core`: the pairs that asks name by number, and the shape and dtype of states. `block`: by default the model's."""
        self.problem, self.core, self.seed, self.lane = problem, core, seed, lane
        self.block = block_of(problem) if block is None else block
        self.guard = Guard(problem, like=None if core is None else core.states)
        self.box_watch = BoxWatch(problem.features)
        self.watch: Watch | None = None  # set if the planner relies on a core set
        self.queries = 0
        self.initial_draws = 0
        self.lost = 0  # queries that were answered, and undone when their ask could not be completed
        self.blocks = Noise(seed, lane)  # for asks that are not sweeps
        self.sweeps = Noise(seed, Lane.SWEEPS)
        self.next_sweep = 0
        self.noise = self.blocks  # the one of the two that is in use
        self.drew = False  # whether the model has drawn from its stream since the last ask began

    # Called by judges and pools, and by `answer`.

    def initial(self, n: int) -> States:
        """`n` draws from nu0, checked and counted."""
        states = self.guard.initial(self.noise.initial_stream, n)
        self.count(0, n)
        return states

    def step(self, states: States, actions: IntArray) -> tuple[FloatArray, States]:
        """One transition from each pair, checked and counted: rewards in [0, 1] and next states."""
        parts: list[tuple[FloatArray, States]] = []
        with at_the_door():
            self._blocks(states, actions, parts)
        return _joined(parts)

    def _blocks(self, states: States, actions: IntArray, parts: list[tuple[FloatArray, States]]) -> None:
        n = len(actions)
        self.open_block(n)
        for start in range(0, n, self.block):
            if start:
                self.blocks.go_to(self.blocks.number + 1)
            parts.append(self._call(self.blocks.stream, states, actions, start, n))
            self.used_up(len(parts[-1][0]))
        if n > self.block:
            self.blocks.used = self.block  # an ask of several blocks shares none of them with the next ask

    def _sweeps(
        self, states: States, actions: IntArray, first: int, parts: list[tuple[FloatArray, States]]
    ) -> None:
        """Simulate whole sweeps over the core set, starting with sweep number `first`."""
        m = self._m
        for begin in range(0, len(actions), m):
            sweep, pieces = first + begin // m, []
            self.open_sweep(sweep)
            queries, before = self.queries, state_of(self.sweeps.stream)
            try:
                for piece, start in enumerate(range(begin, begin + m, self.block)):
                    stream = self.sweeps.stream
                    if m > self.block:  # a long sweep is cut into pieces, each with its own stream
                        stream = simulator_stream(self.seed, sweep, Lane.SWEEPS, piece)
                    pieces.append(self._call(stream, states, actions, start, begin + m))
            except BaseException:  # only whole sweeps are kept; this one will be simulated again
                self.queries = queries
                restore(self.sweeps.stream, before)
                raise
            parts += pieces
            self.used_up(m)

    def _call(
        self, stream: np.random.Generator, states: States, actions: IntArray, start: int, stop: int
    ) -> tuple[FloatArray, States]:
        """One call of the simulator: the pairs from `start` to `stop`, at most a block of them."""
        where = slice(start, min(start + self.block, stop))
        before = None if self.drew else state_of(stream)
        answer = self.guard.step(stream, states[where], actions[where])
        self.drew = self.drew or state_of(stream) != before
        self.count(len(answer[0]), 0)
        return answer

    def _by(
        self, states: States, actions: IntArray, noise: FloatArray, parts: list[tuple[FloatArray, States]]
    ) -> None:
        """Simulate pairs with the given noise `[n, noise_dimension]`."""
        for start in range(0, len(actions), self.block):
            where, repeated = slice(start, start + self.block), self.guard.repeated
            parts.append(self.guard.step_with(states[where], actions[where], noise[where]))
            self.count(len(parts[-1][0]) + self.guard.repeated - repeated, 0)

    def features(self, states: States) -> Phi:
        """The features of a batch of states, checked."""
        return checked(self.problem.features, states)

    def answer(self, ask: Ask) -> Answers:
        """Simulate one ask, and compute the features of all states that it returns."""
        states, actions = self._pairs(ask)
        if ask.sweep is None:
            self.open_block(len(actions))
        else:
            self.open_sweep(ask.sweep)
        x0 = phi0 = y = phi = None
        rewards, fault = np.empty(0), None
        self.drew = ask.noise is not None and ask.noise.shape[1] > 0
        if ask.n_initial:
            x0 = self.initial(ask.n_initial)
            phi0 = self.features(x0)
            self.box_watch.see(x0)
        if len(actions):
            parts: list[tuple[FloatArray, States]] = []
            try:
                self._simulate(ask, states, actions, parts)
            except BaseException as error:
                if not parts or not ask.divisible or (ask.sweep is None and ask.noise is None):
                    raise
                fault = error
            rewards, y = _joined(parts)
            ask = ask if fault is None else ask.first(len(rewards))
            phi = self.features(y)
            self.box_watch.see(y)
        if self.watch is not None:
            self.watch.see(self.queries, phi0, phi)
        return Answers(
            ask=ask, rewards=rewards, next_states=states if y is None else y, next_features=phi, initial_features=phi0,
            initial_states=x0, fault=fault, drew=self.drew,
        )  # fmt: skip

    def _simulate(
        self, ask: Ask, states: States, actions: IntArray, parts: list[tuple[FloatArray, States]]
    ) -> None:
        """Simulate the pairs of an ask, call by call; the answers of each call are appended to `parts`."""
        if ask.noise is not None:
            self._by(states, actions, ask.noise, parts)
        elif ask.sweep is not None:
            self._sweeps(states, actions, ask.sweep, parts)
        else:
            self._blocks(states, actions, parts)

    @property
    def _m(self) -> int:
        assert self.core is not None, "only an ask about a core set has sweeps"
        return len(self.core.actions)

    def _pairs(self, ask: Ask) -> tuple[States, IntArray]:
        if ask.core_index is not None and self.core is not None:
            return self.core.states[ask.core_index], self.core.actions[ask.core_index]
        if ask.states is None or ask.actions is None:  # an ask for initial states only
            return np.zeros(0), np.zeros(0, dtype=np.int64)
        return ask.states, ask.actions

    # Blocks, and the count.

    def open_block(self, n: int) -> None:
        """Before an ask of `n` queries: go to a fresh block if this one is used up, or if `n` exceeds a block."""
        self.noise = self.blocks
        if self.blocks.used >= self.block or (n > self.block and self.blocks.used > 0):
            self.blocks.go_to(self.blocks.number + 1)

    def open_sweep(self, sweep: int) -> int:
        """Before a sweep: go to a fresh block if the sweep begins one. Returns how many sweeps are left in the block."""
        self.noise = self.sweeps
        per_block = max(1, self.block // self._m)
        number, at = divmod(sweep, per_block)
        going_on = self.next_sweep == sweep and self.sweeps.number == number
        if at == 0 and not (going_on and self.sweeps.used == 0):
            self.sweeps.go_to(number)
        elif not going_on:
            raise InputError(
                f"A planner asked for sweep {sweep} where {self.next_sweep} comes next: sweeps are numbered 0, 1, 2, ... "
                "and asked for in this order."
            )
        self.next_sweep = sweep
        return per_block - at

    def used_up(self, n: int) -> None:
        """Record that `n` queries of the current block were answered."""
        self.noise.used += n
        if self.noise is self.sweeps:
            self.next_sweep += n // self._m

    @property
    def room(self) -> int:
        """The number of queries that the current block still has room for."""
        return self.block - self.noise.used

    def count(self, n: int, n_initial: int) -> None:
        """Count `n` answered queries and `n_initial` draws from nu0."""
        self.queries += n
        self.initial_draws += n_initial

    # Checkpoints.

    def mark(self) -> dict[str, Any]:
        """The simulator's position (counters and streams) as JSON types; `return_to` restores it to the last bit."""
        return {
            "queries": self.queries,
            "initial_draws": self.initial_draws,
            "lost": self.lost,
            "next_sweep": self.next_sweep,
            "blocks": self.blocks.mark(),
            "sweeps": self.sweeps.mark(),
            "repeated": self.guard.repeated,
            "watch": None if self.watch is None else self.watch.mark(),
        }

    def return_to(self, mark: dict[str, Any]) -> None:
        """Go back to a position that `mark` returned; the answers since then are counted as lost."""
        lost = int(mark.get("lost", 0))
        counters = [*(int(mark[name]) for name in ("queries", "initial_draws", "next_sweep")), lost]
        if not all(0 <= n < 2**63 for n in counters):
            raise ValueError(f"counters {counters} out of range")
        self.blocks.return_to(mark["blocks"])
        self.sweeps.return_to(mark["sweeps"])
        self.lost = max(self.lost, lost) + max(self.queries - counters[0], 0)
        self.queries, self.initial_draws, self.next_sweep, _ = counters
        self.guard.repeated = int(mark["repeated"])
        if self.watch is not None:
            self.watch.return_to(mark["watch"])

    def undone(self, queries: int) -> None:
        """Count all answers since the query of this number as lost."""
        self.lost, self.queries = self.lost + max(self.queries - queries, 0), min(self.queries, queries)


class Noise:
    """A position in the blocks of one lane: the block's number, how many of its queries are used, and its two streams."""

    def __init__(self, seed: int, lane: Lane) -> None:
        self.seed, self.lane = seed, lane
        self.go_to(0)

    def go_to(self, block: int) -> None:
        """Go to the start of a block."""
        self.number, self.used = block, 0
        self.stream = simulator_stream(self.seed, block, self.lane)
        self.initial_stream = simulator_stream(self.seed, block, self.lane, initial=True)

    def mark(self) -> dict[str, Any]:
        """This position, as JSON types."""
        return {
            "number": self.number,
            "used": self.used,
            "stream": state_of(self.stream),
            "initial_stream": state_of(self.initial_stream),
        }

    def return_to(self, mark: dict[str, Any]) -> None:
        """Go back to a position that `mark` returned."""
        number, used = int(mark["number"]), int(mark["used"])
        if not (0 <= number < 2**63 and 0 <= used < 2**63):
            raise ValueError(f"block {number} with {used} queries out of range")
        if number != self.number:
            self.go_to(number)
        self.used = used
        restore(self.stream, mark["stream"])
        restore(self.initial_stream, mark["initial_stream"])


def block_of(problem: Problem) -> int:
    """The block size that the problem's model declares, by default 65,536.

    A batched function wants thousands of queries per call, a plain Python function a few, an expensive simulator one.
    """
    block = getattr(problem.model, "block", BLOCK)
    return int(as_count(type(problem.model).__name__, block=block))


def _joined(parts: list[tuple[FloatArray, States]]) -> tuple[FloatArray, States]:
    if len(parts) == 1:
        return parts[0]
    rewards, next_states = zip(*parts, strict=True)
    return np.concatenate(rewards), np.concatenate(next_states)
