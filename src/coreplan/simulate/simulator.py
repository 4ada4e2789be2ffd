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

from ..base import FloatArray, InputError, IntArray, Lane, States, restore, simulator_stream, state_of
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
        self.block_number = 0
        self.used = 0  # queries answered from the current block
        self.next_sweep = 0
        self._go_to(0)

    # Called by judges and pools, and by `answer`.

    def initial(self, n: int) -> States:
        """`n` draws from nu0, checked and counted."""
        states = self.guard.initial(self.initial_stream, n)
        self.count(0, n)
        return states

    def step(self, states: States, actions: IntArray) -> tuple[FloatArray, States]:
        """One transition from each pair, checked and counted: rewards in [0, 1] and next states."""
        parts: list[tuple[FloatArray, States]] = []
        self._blocks(states, actions, parts)
        return _joined(parts)

    def _blocks(self, states: States, actions: IntArray, parts: list[tuple[FloatArray, States]]) -> None:
        n = len(actions)
        self.open_block(n)
        for start in range(0, n, self.block):
            if start:
                self._next_block()
            parts.append(self._call(self.stream, states, actions, start, n))
            self.used_up(len(parts[-1][0]))
        if n > self.block:
            self.used = self.block  # an ask of several blocks shares none of them with the next ask

    def _sweeps(
        self, states: States, actions: IntArray, first: int, parts: list[tuple[FloatArray, States]]
    ) -> None:
        """Simulate whole sweeps over the core set, starting with sweep number `first`."""
        m = self._m
        for begin in range(0, len(actions), m):
            sweep, pieces = first + begin // m, []
            self.open_sweep(sweep)
            queries, before = self.queries, state_of(self.stream)
            try:
                for piece, start in enumerate(range(begin, begin + m, self.block)):
                    stream = self.stream
                    if m > self.block:  # a long sweep is cut into pieces, each with its own stream
                        stream = simulator_stream(self.seed, sweep, Lane.SWEEPS, piece)
                    pieces.append(self._call(stream, states, actions, start, begin + m))
            except BaseException:  # only whole sweeps are kept; this one will be simulated again
                self.queries = queries
                restore(self.stream, before)
                raise
            parts += pieces
            self.used_up(m)

    def _call(
        self, stream: np.random.Generator, states: States, actions: IntArray, start: int, stop: int
    ) -> tuple[FloatArray, States]:
        """One call of the simulator: the pairs from `start` to `stop`, at most a block of them."""
        where = slice(start, min(start + self.block, stop))
        answer = self.guard.step(stream, states[where], actions[where])
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
        if ask.n_initial:
            x0 = self.initial(ask.n_initial)
            phi0 = self.features(x0)
            self.box_watch.see(x0)
        if len(actions):
            parts: list[tuple[FloatArray, States]] = []
            try:
                self._simulate(ask, states, actions, parts)
            except BaseException as error:
                if not ask.divisible or not parts:
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
            initial_states=x0, fault=fault,
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
        if ask.core_index is not None:
            assert self.core is not None
            return self.core.states[ask.core_index], self.core.actions[ask.core_index]
        assert ask.states is not None and ask.actions is not None
        return ask.states, ask.actions

    # Blocks, and the count.

    def open_block(self, n: int) -> None:
        """Before an ask of `n` queries: go to a fresh block if this one is used up, or if `n` exceeds a block."""
        if self.used >= self.block or (n > self.block and self.used > 0):
            self._next_block()

    def open_sweep(self, sweep: int) -> int:
        """Before a sweep: go to a fresh block if the sweep begins one. Returns how many sweeps are left in the block."""
        per_block = max(1, self.block // self._m)
        begun = self.sweeping and self.next_sweep == sweep
        if sweep % per_block == 0 and not (begun and self.used == 0):
            self._go_to(sweep // per_block, Lane.SWEEPS)
        elif not begun:
            raise InputError(
                f"The planner asked for sweep {sweep}, but {self.next_sweep} comes next: sweeps are numbered 0, 1, 2, ... "
                "and must be asked for in this order."
            )
        self.next_sweep = sweep
        return per_block - sweep % per_block

    def used_up(self, n: int) -> None:
        """Record that `n` queries of the current block were answered."""
        self.used += n
        if self.sweeping:
            self.next_sweep += n // self._m

    def _next_block(self) -> None:
        self._go_to(self.block_number + 1)

    def _go_to(self, block: int, lane: Lane | None = None) -> None:
        """Go to the start of a block, of this simulator's own lane or of the lane of sweeps."""
        self.sweeping, self.block_number, self.used = lane is Lane.SWEEPS, block, 0
        lane = self.lane if lane is None else lane
        self.stream = simulator_stream(self.seed, block, lane)
        self.initial_stream = simulator_stream(self.seed, block, lane, initial=True)

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
            "block_number": self.block_number,
            "used": self.used,
            "next_sweep": self.next_sweep,
            "sweeping": self.sweeping,
            "repeated": self.guard.repeated,
            "watch": None if self.watch is None else self.watch.mark(),
            "stream": state_of(self.stream),
            "initial_stream": state_of(self.initial_stream),
        }

    def return_to(self, mark: dict[str, Any]) -> None:
        """Go back to a position that `mark` returned."""
        names = ("queries", "initial_draws", "block_number", "used", "next_sweep")
        counters = [int(mark[name]) for name in names]
        if not all(0 <= n < 2**63 for n in counters):
            raise ValueError(f"counters {counters} out of range")
        self._go_to(counters[2], Lane.SWEEPS if mark["sweeping"] else None)
        self.queries, self.initial_draws, self.block_number, self.used, self.next_sweep = counters
        self.guard.repeated = int(mark["repeated"])
        if self.watch is not None:
            self.watch.return_to(mark["watch"])
        restore(self.stream, mark["stream"])
        restore(self.initial_stream, mark["initial_stream"])


def block_of(problem: Problem) -> int:
    """The block size that the problem's model declares, by default 16,384.

    A batched function wants thousands of queries per call, a plain Python function a few, an expensive simulator one.
    """
    return int(getattr(problem.model, "block", BLOCK))


def _joined(parts: list[tuple[FloatArray, States]]) -> tuple[FloatArray, States]:
    if len(parts) == 1:
        return parts[0]
    rewards, next_states = zip(*parts, strict=True)
    return np.concatenate(rewards), np.concatenate(next_states)
