"""The only way to call a simulator: checks, blocks of noise, and THE counter of queries.

Runs, rollouts, pools, `check`, `certify` and `evaluate` all simulate through it. Noise comes in *blocks*, each with a
Philox stream of its own, so that it depends on the seed and on the block's number but never on who simulates. An ask
is cut into blocks of a fixed size; an ask smaller than a block continues the current one. A *sweep* simulates every core
pair once. Asks that consist of whole sweeps number their blocks by the sweep instead; a block holds as many whole sweeps
as fit, and each sweep is one call. So sweep t has the same noise for every planner. The model or the run sets the size
of a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from ..base import (
    FloatArray,
    InputError,
    IntArray,
    Lane,
    SimulatorError,
    States,
    at_the_door,
    simulator_stream,
    snapshot,
    stream_at,
)
from ..features import BoxWatch, Phi, checked, take
from ..problem import Problem
from .ask import Answers, Ask, Pairs, Watch
from .elsewhere import Engine, engine_of
from .elsewhere.desk import Due, at_work
from .first import First
from .following import Following
from .guard import Guard
from .kept import Kept, Part, joined, pairs_of, state_at
from .log import AGAIN, QueryLog, log_of
from .noise import COUNTERS, Noise, block_of, counters

Call: TypeAlias = tuple[int, int, np.random.Generator | None]  # first pair, end, stream


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
        self.box_watch = BoxWatch(problem.features, problem.state_names)
        self.engine: Engine | None = engine_of()  # who simulates; None: this process
        self.log: QueryLog | None = log_of()  # where answers are kept, and taken from
        self.following = Following(self)  # what workers may begin before it is asked
        self.at = 0  # which query of its block the next pair is; plus AGAIN where it is asked a second time on purpose
        self.watch: Watch | None = None  # set if the planner relies on a core set
        self.queries = 0
        self.initial_draws = 0
        self.lost = 0  # queries whose answers were refused, or undone when their ask could not be completed
        self.blocks = Noise(seed, lane)  # for asks that are not sweeps
        self.sweeps = Noise(seed, Lane.SWEEPS)
        self.next_sweep = 0
        self.noise = self.blocks  # the one of the two that is in use
        self.remembers = False  # whether the first answers are to be remembered, for a resume to compare
        self.first: First | None = None  # those answers
        self.rechecked = 0  # queries by which resumes have compared them; not part of `queries`
        self.kept: Kept | None = None  # answers to the first pairs of an ask that failed
        self.here: Any = None  # the stream from which the next pair draws, or a snapshot of it
        self.drew = False  # whether the model has drawn from its stream since the last ask began

    # Called by judges and pools, and by `answer`.

    def initial(self, n: int) -> States:
        """`n` draws from nu0, checked and counted."""
        states = self.guard.initial(self.noise.initial_stream, n)
        self.count(0, n)
        return states

    def step(self, states: States, actions: IntArray) -> tuple[FloatArray, States]:
        """One transition from each pair, checked and counted: rewards in [0, 1] and next states."""
        parts: list[Part] = []
        with at_the_door():
            self._simulate(self._blocks(len(actions)), states, actions, parts)
        return joined(parts)

    # The calls of an ask: (first pair, end, stream). What follows a `yield` is done when these pairs have been answered.

    def _blocks(self, n: int) -> Iterator[Call]:
        """Block by block."""
        self.open_block(n)
        for begin in range(0, n, self.block):
            if begin:
                self.blocks.go_to(self.blocks.number + 1)
            end = min(begin + self.block, n)
            yield begin, end, self.blocks.stream
            self.used_up(end - begin)
        if n > self.block:
            self.blocks.used = self.block  # an ask of several blocks shares none of them with the next ask

    def _sweeps(self, n: int, first: int) -> Iterator[Call]:
        """Whole sweeps over the core set, starting with sweep number `first`."""
        m = self._m
        for begin in range(0, n, m):
            sweep = first + begin // m
            self.open_sweep(sweep)
            for piece, start in enumerate(range(begin, begin + m, self.block)):
                stream = self.sweeps.stream
                if m > self.block:  # a long sweep is cut into pieces, each with its own stream
                    stream = simulator_stream(self.seed, sweep, Lane.SWEEPS, piece)
                yield start, min(start + self.block, begin + m), stream
            self.used_up(m)

    def _by_noise(self, n: int) -> Iterator[Call]:
        """With noise that is given, so that there is no stream."""
        for begin in range(0, n, self.block):
            yield begin, min(begin + self.block, n), None

    def calls(self, ask: Ask) -> Iterator[Call]:
        """The calls of an ask."""
        if ask.noise is not None:
            return self._by_noise(ask.size)
        return self._blocks(ask.size) if ask.sweep is None else self._sweeps(ask.size, ask.sweep)

    def _simulate(
        self, calls: Iterator[Call], states: States, actions: IntArray, parts: list[Part],
        noise: FloatArray | None = None, index: IntArray | None = None,
    ) -> None:  # fmt: skip
        """Make the calls; their answers are appended to `parts`, which may hold those to the first pairs already.

        `index [n]`: the pairs' numbers in the core set, if they are core pairs.
        """
        due = self.due(calls, len(actions), parts)
        with at_work(self, due, states, actions, noise, index) as ready:
            for where, stream, self.at in ready:
                self._call(
                    stream, states[where], actions[where], None if noise is None else noise[where], parts
                )

    def due(self, calls: Iterator[Call], n: int, parts: list[Part]) -> Iterator[Due]:
        """The calls that are still to be made."""
        done, kept = sum(len(part.rewards) for part in parts), self.kept if parts else None
        for begin, end, stream in calls:
            if kept is not None and (end > done or end == n):
                kept.put(stream)
                kept = None
            if end > done:
                at = self.noise.used + max(done - begin, 0) | self.at & AGAIN
                yield slice(max(begin, done), end), stream, at
                done = end

    def _call(
        self, stream: Any, states: States, actions: IntArray, noise: FloatArray | None, parts: list[Part]
    ) -> None:
        """One call of the simulator, at most a block of pairs; if it fails, the answers before the faulty pair are kept."""
        before = None if stream is None or (self.drew and not parts) else snapshot(stream)
        self.here, told, repeated = before, [], self.guard.repeated  # type: ignore[var-annotated]
        self.guard.refused = 0
        try:
            if noise is not None:
                rewards, y = self.guard.step_with(states, actions, noise)
            else:
                rewards, y = self.guard.step(stream, states, actions, told)
        except BaseException:
            rewards, y, after = self.guard.good(told, states, actions)
            self.lost += max(len(told), self.guard.refused) - len(rewards)
            if len(rewards):
                self._count_part(Part(rewards, y, before), parts)
                self.here = after
            raise
        if stream is not None:
            self.drew = self.drew or snapshot(stream) != before
        self.here = stream
        self.count(self.guard.repeated - repeated, 0)
        if self.remembers and not parts:
            self.remember(First.of(states, actions, noise, state_at(before), rewards, y))
        self._count_part(Part(rewards, y, before), parts)

    def _count_part(self, part: Part, parts: list[Part]) -> None:
        parts.append(part)
        self.count(len(part.rewards), 0)

    def features(self, states: States) -> Phi:
        """The features of a batch of states, checked."""
        return checked(self.problem.features, states)

    def answer(self, ask: Ask, following: Ask | None = None) -> Answers:
        """Simulate one ask, and compute the features of all states; `following`: the one that will come next, if known."""
        states, actions = self.pairs(ask)
        self.following.ask = following
        self.open(ask)
        x0 = phi0 = phi = None
        rewards, y = np.empty(0), states
        self.drew = ask.noise is not None and ask.noise.shape[1] > 0
        if ask.n_initial:
            x0 = self.initial(ask.n_initial)
            phi0 = self.features(x0)
            self.box_watch.see(x0)
        if len(actions):
            rewards, y, phi = self._completed(ask, states, actions)
            self.box_watch.see(y)
        if self.watch is not None:
            self.watch.see(self.queries, phi0, phi)
        return Answers(
            ask=ask, rewards=rewards, next_states=y, next_features=phi, initial_features=phi0, initial_states=x0,
            drew=self.drew,
        )  # fmt: skip

    def _completed(self, ask: Ask, states: States, actions: IntArray) -> tuple[FloatArray, States, Phi]:
        """The answers to all pairs of an ask, and the features of the next states; what an error leaves is kept."""
        repeated, parts = self.guard.repeated, self._resumed(ask)
        try:
            self._simulate(self.calls(ask), states, actions, parts, ask.noise, ask.core_index)
            rewards, y = joined(parts)
            phi = self.features(y)
        except BaseException:
            self.following.give_up()
            self._keep(ask, parts, self.guard.repeated - repeated)
            raise
        self.kept = None
        if self.first is not None and not self.first.scores.size:
            self._remember_features(phi)
        return rewards, y, phi

    def remember(self, first: First | None, phi: Phi | None = None) -> None:
        """Remember the first answers of a run, and the features `[n, A, ...]` of the next states if they are known."""
        self.first, self.remembers = first, False
        if phi is not None:
            self._remember_features(phi)

    def _remember_features(self, phi: Phi) -> None:
        if self.first is not None:
            few = take(phi, slice(len(self.first.rewards)))
            self.first = self.first.with_features(few, self.problem.features.dimension)

    def again(self, first: First, n: int) -> tuple[FloatArray, States]:
        """Simulate the first n pairs of an earlier call again, with the noise that they had; `drew` tells if it was used."""
        stream, noise, parts = None, first.noise[:n], []  # type: ignore[var-annotated]
        if first.stream is not None:
            stream, noise = stream_at(first.stream, self.seed), None  # type: ignore[assignment]
        self.drew = False
        self._call(stream, first.states[:n], first.actions[:n], noise, parts)
        return joined(parts)

    # Answers that are kept when an ask fails.

    @property
    def held(self) -> int:
        """Queries whose answers are kept for an ask that failed and will come again; not part of `queries`."""
        return 0 if self.kept is None else self.kept.queries

    def drop(self) -> None:
        """Give up the answers that are kept: the ask has not come again."""
        self.lost += self.held
        self.kept = None

    def _resumed(self, ask: Ask) -> list[Part]:
        """The answers that were kept when this ask failed before, counted; none if it is another ask."""
        kept = self.kept
        if kept is None:
            return []
        try:
            good = kept.fits(ask)
            states = self.guard.as_answered(kept.next_states) if good else kept.next_states
        except SimulatorError:  # of another shape: a file that was tampered with
            good = False
        if not good:
            self.drop()
            return []
        self.drew = self.drew or kept.drew
        self.guard.repeated += kept.repeated
        self.count(kept.queries, 0)
        return [Part(kept.rewards, states, None)]

    def _keep(self, ask: Ask, parts: list[Part], repeated: int) -> None:
        """Keep the answers to an ask that failed, as far as their features are good: else the simulator may be at fault."""
        k = 0
        for part in parts:
            try:
                self.features(part.next_states)
            except Exception:
                break
            k += 1
        self.kept = None
        if k == 0 and self.first is not None and not self.first.scores.size:
            self.first, self.remembers = None, True  # answers that are not kept say nothing about a resume
        if k == 0 or parts[0].next_states.dtype.kind not in "fiub":  # a checkpoint holds numbers only
            return
        rewards, y = joined(parts[:k])
        self.kept = Kept(
            asked=pairs_of(ask, len(rewards)), rewards=rewards, next_states=y, drew=self.drew, repeated=repeated,
            stream=state_at(parts[k].before if k < len(parts) else self.here),
        )  # fmt: skip
        self.queries -= self.kept.queries

    @property
    def _m(self) -> int:
        assert self.core is not None, "only an ask about a core set has sweeps"
        return len(self.core.actions)

    def pairs(self, ask: Ask) -> tuple[States, IntArray]:
        if ask.core_index is not None and self.core is not None:
            return self.core.states[ask.core_index], self.core.actions[ask.core_index]
        if ask.states is None or ask.actions is None:  # an ask for initial states only
            return np.zeros(0), np.zeros(0, dtype=np.int64)
        return ask.states, ask.actions

    # Blocks, and the count.

    def open(self, ask: Ask) -> None:
        """Before an ask."""
        if ask.sweep is None:
            self.open_block(ask.size)
        else:
            self.open_sweep(ask.sweep)

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
            "rechecked": self.rechecked,
            "next_sweep": self.next_sweep,
            "blocks": self.blocks.mark(),
            "sweeps": self.sweeps.mark(),
            "repeated": self.guard.repeated,
            "watch": None if self.watch is None else self.watch.mark(),
        }

    def return_to(self, mark: dict[str, Any]) -> None:
        """Go back to a position that `mark` returned (else ValueError); the answers since then are counted as lost."""
        m = 1 if self.core is None else len(self.core.actions)
        at = counters(mark, m)
        most = max(2 * self.block, m)  # used of a block: an ask ends where it began; a long sweep has its own
        for noise, name in ((self.blocks, "blocks"), (self.sweeps, "sweeps")):
            noise.return_to(mark[name], at["queries"] + at["lost"] + 1, most)
        self.lost = max(self.lost, at["lost"]) + max(self.queries - at["queries"], 0)
        self.rechecked = max(self.rechecked, at["rechecked"])
        self.queries, self.initial_draws, self.next_sweep = (at[name] for name in COUNTERS[:3])
        self.guard.repeated = at["repeated"]
        if self.watch is not None:
            self.watch.return_to(mark["watch"])
            if self.watch.due > 2 * self.queries:  # it looks again before the queries have doubled
                raise ValueError(f"the next look at features is due after {self.watch.due} queries")

    def undone(self, queries: int) -> None:
        """Count all answers since the query of this number as lost."""
        self.lost, self.queries = self.lost + max(self.queries - queries, 0), min(self.queries, queries)
