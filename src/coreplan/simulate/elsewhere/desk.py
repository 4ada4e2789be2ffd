"""`Desk`: stands in for the model while workers simulate a share of work; it hands their answers out, call by call."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

import numpy as np

from ...base import FloatArray, IntArray, ReproducibilityWarning, Snapshot, States, rewind
from ...problem import Problem
from ..sources import drawn_warning
from .batch import Batch
from .engine import Engine
from .task import Answer, Call, Chain

Due: TypeAlias = tuple[slice, Any]  # the pairs of one call, and the stream that it draws from


class Office(Protocol):
    """A `Simulator`, as far as workers are concerned."""

    engine: Engine | None
    problem: Problem
    guard: Any
    core: Any
    lost: int


class Desk:
    """A model whose `step`, `each` and `step_with` give the answers of workers, in the order in which they are due."""

    def __init__(self, office: Office, chains: list[Chain], index: IntArray | None) -> None:
        engine = office.engine
        assert engine is not None
        self.office = office
        self.model: Any = office.problem.model
        core = office.core if index is not None else None
        self.places = [(k, i) for k, chain in enumerate(chains) for i in range(len(chain.calls))]
        self.batch = Batch(engine, engine.parcel(self.model, core), chains, lost=self._lost, name=self._name)
        self.answers: list[Answer] = []
        self.next = 0
        if hasattr(self.model, "each"):
            self.each = self._each

    @classmethod
    def of(
        cls, office: Office, due: list[Due], states: States, actions: IntArray, noise: FloatArray | None,
        index: IntArray | None,
    ) -> Desk | None:  # fmt: skip
        """A desk for these calls; None if workers do not pay. `index [n]`: the pairs' numbers, if they are core pairs."""

        def call(where: slice) -> Call:
            given = None if noise is None else noise[where]
            if index is not None:
                return Call(index[where], None, None, given)
            return Call(None, states[where], actions[where], given)

        engine = office.engine
        assert engine is not None
        chains = [Chain(stream, tuple(call(where) for where in group)) for stream, group in _chains(due)]
        queries = sum(chain.size for chain in chains)
        if not queries or not engine.pays(queries, len(chains)):
            return None
        return cls(office, chains, index)

    def _name(self, chain: Chain) -> str:
        call = chain.calls[0]
        if call.pairs is not None:
            core = self.office.core
            states, actions = core.states[call.pairs], core.actions[call.pairs]
        else:
            states, actions = call.states, call.actions
        return self.office.problem.names.pair_said(states[0], actions[0])

    def _lost(self, queries: int) -> None:
        self.office.lost += queries

    # What a model does.

    def step(self, stream: np.random.Generator, states: States, actions: IntArray) -> Any:
        answer = self._answer()
        _set(stream, answer.after)
        return self._value(answer)

    def step_with(self, states: States, actions: IntArray, noise: FloatArray) -> Any:
        if self.next >= len(self.places) or len(actions) != self._due_size():
            return self.model.step_with(states, actions, noise)  # a few pairs again, to compare
        return self._value(self._answer())

    def _each(self, stream: np.random.Generator, states: States, actions: IntArray) -> Iterator[Any]:
        answer = self._answer()
        for one, after in answer.value:
            _set(stream, after)
            yield one
        self._value(answer)

    def close(self) -> None:
        """Take back what nobody will ask for."""
        self.batch.close()

    def _due_size(self) -> int:
        k, i = self.places[self.next]
        return self.batch.chains[k].calls[i].size

    def _answer(self) -> Answer:
        k, i = self.places[self.next]
        self.next += 1
        if i == 0:
            self.answers = self.batch.take(k)
        return self.answers[i]

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


def _chains(due: list[Due]) -> Iterator[tuple[Any, list[slice]]]:
    """The calls that draw from one stream, one after the other; each call by itself where noise is given."""
    group: list[slice] = []
    stream = None
    for where, own in due:
        if group and (own is None or own is not stream):
            yield stream, group
            group = []
        group.append(where)
        stream = own
    if group:
        yield stream, group


@contextmanager
def at_work(
    office: Office, due: Iterator[Due], states: States, actions: IntArray, noise: FloatArray | None,
    index: IntArray | None,
) -> Iterator[Iterable[Due]]:  # fmt: skip
    """These calls, while workers stand in for the model, if there are any and the work is worth sending."""
    desk, calls = None, due
    if office.engine is not None:
        listed = list(due)
        desk, calls = Desk.of(office, listed, states, actions, noise, index), iter(listed)
    if desk is None:
        yield calls
        return
    office.guard.model = desk
    try:
        yield calls
    finally:
        office.guard.model = office.problem.model
        desk.close()
