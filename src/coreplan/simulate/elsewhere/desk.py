"""`Desk`: stands in for the model while workers simulate a share of work; it hands their answers out, call by call."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ...base import FloatArray, IntArray, ReproducibilityWarning, Snapshot, States, rewind, snapshot
from ...problem import Problem
from ..log import Asked, QueryLog, Recorded, asked, asked_with
from ..sources import drawn_warning
from .batch import Batch
from .engine import Engine
from .task import Answer, Call, Chain

Due: TypeAlias = tuple[
    slice, Any, int
]  # the pairs of one call, the stream it draws from, and which query of its block it begins


class Following(Protocol):
    """A `simulate.following.Following`, as far as workers are concerned."""

    early: Early | None

    def share(self) -> Share | None: ...
    def begun(self, share: Share) -> Desk | None: ...


class Office(Protocol):
    """A `Simulator`, as far as workers are concerned."""

    engine: Engine | None
    log: QueryLog | None
    at: int
    problem: Problem
    guard: Any
    core: Any
    lost: int

    @property
    def following(self) -> Following: ...


class Split(NamedTuple):
    """A chain, the answers to its first calls that the log has, and what is left to simulate."""

    chain: Chain
    known: list[Answer]  # to whole calls
    begun: list[Any]  # to the first pairs of the call after them, where a model simulates pair by pair
    left: Chain | None


class Desk:
    """A model whose `step`, `each` and `step_with` give the answers of workers, in the order in which they are due."""

    def __init__(self, office: Office, model: Any, splits: list[Split], pairs: Pairs) -> None:
        """`model`: the model itself, or what stands in for it where there is a log."""
        engine = office.engine
        assert engine is not None
        self.office, self.model, self.splits, self.pairs = office, model, splits, pairs
        left = [split.left for split in splits if split.left is not None]
        numbers = iter(range(len(left)))
        self.numbers = [-1 if split.left is None else next(numbers) for split in splits]  # in the batch
        self.places = [(k, i) for k, split in enumerate(splits) for i in range(len(split.chain.calls))]
        parcel = engine.parcel(office.problem.model, pairs.core)
        came = self._came if office.log is not None else None
        self.batch = Batch(engine, parcel, left, lost=self._lost, name=self._name, came=came)
        self.answers: list[Answer] = []
        self.next = 0
        if hasattr(self.model, "each"):
            self.each = self._each

    @classmethod
    def of(
        cls, office: Office, model: Any, due: list[Due], states: States, actions: IntArray, noise: FloatArray | None,
        index: IntArray | None,
    ) -> Desk | None:  # fmt: skip
        """A desk for these calls; None if workers do not pay. `index [n]`: the pairs' numbers, if they are core pairs."""

        def call(where: slice, at: int) -> Call:
            given = None if noise is None else noise[where]
            if index is not None:
                return Call(pairs=index[where], states=None, actions=None, noise=given, at=at)
            return Call(pairs=None, states=states[where], actions=actions[where], noise=given, at=at)

        engine, pairs = office.engine, Pairs(office.core if index is not None else None)
        assert engine is not None
        chains = [Chain(stream, tuple(call(*part) for part in group)) for stream, group in _chains(due)]
        splits = [_split(model, chain, pairs) for chain in chains]
        left = [split.left for split in splits if split.left is not None]
        queries = sum(chain.size for chain in left)
        if not queries or not engine.pays(queries, len(left)):
            return None
        return cls(office, model, splits, pairs)

    def _name(self, chain: Chain) -> str:
        states, actions = self.pairs.of(chain.calls[0])
        return self.office.problem.names.pair_said(states[0], actions[0])

    def _lost(self, queries: int) -> None:
        self.office.lost += queries

    def _came(self, chain: Chain, answers: list[Answer]) -> None:
        """Write answers down when they have come, whether or not it is their turn."""
        before = None if chain.stream is None else snapshot(chain.stream)
        for call, answer in zip(chain.calls, answers, strict=False):
            states, actions = self.pairs.of(call)
            if isinstance(answer.value, list) and before is not None:
                n = len(answer.value)
                self.model.keep_each(before, call.at, states[:n], actions[:n], answer.value)
            elif answer.error is None:
                after = () if answer.after is None else (answer.after,)
                self.model.keep(_asked(call, before, states, actions), answer.value, after)
            before = answer.after

    # What a model does.

    def step(self, stream: np.random.Generator, states: States, actions: IntArray) -> Any:
        answer = self._answer()
        _set(stream, answer.after)
        return self._value(answer)

    def step_with(self, states: States, actions: IntArray, noise: FloatArray) -> Any:
        return self._value(self._answer())

    def step_again(self, states: States, actions: IntArray, noise: FloatArray) -> Any:
        """A few pairs again, to compare: here, by the model itself."""
        return getattr(self.model, "step_again", self.model.step_with)(states, actions, noise)

    def _each(self, stream: np.random.Generator, states: States, actions: IntArray) -> Iterator[Any]:
        answer = self._answer()
        for one, after in answer.value:
            _set(stream, after)
            yield one
        self._value(answer)

    def close(self) -> None:
        """Take back what nobody will ask for."""
        self.batch.close()

    def _answer(self) -> Answer:
        k, i = self.places[self.next]
        self.next += 1
        known, begun = self.splits[k].known, self.splits[k].begun
        if i <= len(known) and self.office.log is not None:
            self.office.log.known += self.splits[k].chain.calls[i].size if i < len(known) else len(begun)
        if i < len(known):
            return known[i]
        if i == len(known):
            first, *rest = self.batch.take(self.numbers[k])
            self.answers = [
                first._replace(value=begun + first.value) if begun and first.value is not None else first,
                *rest,
            ]
        return self.answers[i - len(known)]

    def _value(self, answer: Answer) -> Any:
        if answer.drawn:
            self.office.guard.sources.stop()
            warnings.warn(drawn_warning("step", answer.drawn), ReproducibilityWarning, stacklevel=2)
        if answer.error is not None:
            raise answer.error
        return answer.value


def _set(stream: np.random.Generator, after: Snapshot | None) -> None:
    if after is not None:
        rewind(stream, after)


class Pairs:
    """The pairs of calls, which name core pairs by number."""

    def __init__(self, core: Any) -> None:
        self.core = core

    def of(self, call: Call) -> tuple[States, IntArray]:
        """States and actions of a call."""
        if call.pairs is not None:
            return self.core.states[call.pairs], self.core.actions[call.pairs]
        assert call.states is not None and call.actions is not None
        return call.states, call.actions


def _split(model: Any, chain: Chain, pairs: Pairs) -> Split:
    """What the log has of a chain; all of it is left where there is no log."""
    if not isinstance(model, Recorded):
        return Split(chain, [], [], chain)
    known: list[Answer] = []
    before = None if chain.stream is None else snapshot(chain.stream)
    for n, call in enumerate(chain.calls):
        answer, begun, before = _known(model, call, before, pairs)
        if answer is None:
            calls = (call.without(len(begun)), *chain.calls[n + 1 :])
            return Split(chain, known, begun, chain.standing(before, calls))
        known.append(answer)
    return Split(chain, known, [], None)


def _known(
    model: Recorded, call: Call, before: Snapshot | None, pairs: Pairs
) -> tuple[Answer | None, list[Any], Snapshot | None]:
    """The answer to a call, if the log has it, or to its first pairs; and where the stream stands then."""
    states, actions = pairs.of(call)
    if before is None or not hasattr(model, "each"):
        found = model.log.find(_asked(call, before, states, actions))
        if found is None:
            return None, [], before
        after = found.after[0] if found.after else None
        return Answer((found.rewards, found.next_states), after, None, ()), [], after
    begun: list[Any] = []
    for i in range(len(actions)):
        found = model.log.find(asked(before, call.at + i, states[i : i + 1], actions[i : i + 1]))
        if found is None:
            return None, begun, before
        before = found.after[0]
        begun.append(((float(found.rewards[0]), found.next_states[0]), before))
    return Answer(begun, before, None, ()), begun, before


def _asked(call: Call, before: Snapshot | None, states: States, actions: IntArray) -> Asked:
    """What the answer to a call of these pairs is a function of."""
    if before is not None:
        return asked(before, call.at, states, actions)
    assert call.noise is not None
    return asked_with(call.noise, states, actions)


def _chains(due: list[Due]) -> Iterator[tuple[Any, list[tuple[slice, int]]]]:
    """The calls that draw from one stream, one after the other; each call by itself where noise is given."""
    group: list[tuple[slice, int]] = []
    stream = None
    for where, own, at in due:
        if group and (own is None or own is not stream):
            yield stream, group
            group = []
        group.append((where, at))
        stream = own
    if group:
        yield stream, group


class Share(NamedTuple):
    """A share of work: pairs, how they are cut into calls, and their noise or the streams that they draw from."""

    due: list[Due]
    states: States
    actions: IntArray
    noise: FloatArray | None
    numbers: IntArray | None  # of the pairs, if they are core pairs

    def same(self, other: Share) -> bool:
        """Whether the answers to both are the same: those of a simulator are a function of all this."""
        return (
            [(where, at, _stand(stream)) for where, stream, at in self.due]
            == [(where, at, _stand(stream)) for where, stream, at in other.due]
            and np.array_equal(self.actions, other.actions)
            and np.array_equal(self.states, other.states)
            and (self.noise is None) == (other.noise is None)
            and (self.noise is None or other.noise is None or np.array_equal(self.noise, other.noise))
        )


def _stand(stream: Any) -> Snapshot | None:
    return None if stream is None else snapshot(stream)


class Early(NamedTuple):
    """What workers were sent before it was asked."""

    share: Share
    desk: Desk


@contextmanager
def at_work(
    office: Office, due: Iterator[Due], states: States, actions: IntArray, noise: FloatArray | None,
    index: IntArray | None,
) -> Iterator[Iterable[Due]]:  # fmt: skip
    """These calls, while workers stand in for the model, if there are any and the work is worth sending.

    What follows, if that is known, is sent where workers would have nothing to do.
    """
    model: Any = office.problem.model
    if office.log is not None:
        model = Recorded(office)
    desk, calls = None, due
    if office.engine is not None:
        share = Share(due=list(due), states=states, actions=actions, noise=noise, numbers=index)
        desk, calls = office.following.begun(share) or Desk.of(office, model, *share), iter(share.due)
        after = office.following.share()
        ahead = None if desk is None or after is None else Desk.of(office, model, *after)
        if desk is not None and after is not None and ahead is not None:
            desk.batch.precede(ahead.batch)
            office.following.early = Early(after, ahead)
    office.guard.model = desk or model
    try:
        yield calls
    finally:
        office.guard.model = office.problem.model
        if desk is not None:
            desk.close()


def _desk(office: Office, model: Any, share: Share) -> Desk | None:
    return Desk.of(office, model, *share)
