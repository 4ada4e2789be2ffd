"""`Recorded`: stands in for the model. What the log has, the model is not asked; what the model answers, the log keeps.

Answers from the log pass the same checks as those of a simulator, and are counted as queries too: a run with a log is the
same run, to the last bit and the last count. `QueryLog.known` says how many were not paid again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from ...base import FloatArray, IntArray, Snapshot, States, rewind, snapshot
from ...problem import Problem, gathered
from .answers import MANY, Answered, Asked, asked, asked_with
from .querylog import QueryLog

_SECONDS = 0.1  # after which answers to single pairs are written down


class Office(Protocol):
    """A `Simulator`, as far as the log is concerned."""

    problem: Problem
    guard: Any
    log: QueryLog | None
    at: int  # which query of its block the next pair is


class Recorded:
    """A model whose answers come from the log where it has them, and go there where it has not."""

    def __init__(self, office: Office) -> None:
        assert office.log is not None
        self.office, self.log, self.model = office, office.log, office.problem.model
        if hasattr(self.model, "each"):
            self.each = self._each

    def step(self, stream: np.random.Generator, states: States, actions: IntArray) -> Any:
        what = asked(snapshot(stream), self.office.at, states, actions)
        found = self._taken(what)
        if found is not None:
            rewind(stream, found.after[0])
            return found.rewards, found.next_states
        value = self.model.step(stream, states, actions)
        self.keep(what, value, (snapshot(stream),))
        return value

    def step_with(self, states: States, actions: IntArray, noise: FloatArray, *, again: bool = False) -> Any:
        what = asked_with(noise, states, actions, again)
        found = self._taken(what)
        if found is not None:
            return found.rewards, found.next_states
        model: Any = self.model
        value = model.step_with(states, actions, noise)
        self.keep(what, value, ())
        return value

    def step_again(self, states: States, actions: IntArray, noise: FloatArray) -> Any:
        """`step_with` of pairs that were asked before, to compare: an answer of its own."""
        return self.step_with(states, actions, noise, again=True)

    def _each(self, stream: np.random.Generator, states: States, actions: IntArray) -> Iterator[Any]:
        i, n = 0, len(actions)
        while i < n:
            one = slice(i, i + 1)
            found = self._taken(asked(snapshot(stream), self.office.at + i, states[one], actions[one]))
            if found is not None:
                rewind(stream, found.after[0])
                yield float(found.rewards[0]), found.next_states[0]
                i += 1
                continue
            for answer in self._asked(stream, self.office.at + i, states[i:], actions[i:]):
                yield answer
                i += 1

    def _asked(
        self, stream: np.random.Generator, at: int, states: States, actions: IntArray
    ) -> Iterator[Any]:
        """The model's own answers, up to a pair that the log has; they are written down every tenth of a second."""
        model: Any = self.model
        told: list[tuple[Any, Snapshot]] = []
        before, start, begin = snapshot(stream), 0, time.monotonic()
        try:
            for n, answer in enumerate(model.each(stream, states, actions), 1):
                after = snapshot(stream)
                told.append((answer, after))
                if len(told) == MANY or time.monotonic() - begin > _SECONDS:
                    self.keep_each(before, at + start, states[start:n], actions[start:n], told)
                    before, start, begin, told = after, n, time.monotonic(), []
                yield answer
                rest = slice(n, n + 1)
                if n < len(actions) and self.log.has(asked(after, at + n, states[rest], actions[rest])):
                    return
        finally:
            rows = slice(start, start + len(told))
            self.keep_each(before, at + start, states[rows], actions[rows], told)

    def _taken(self, what: Asked) -> Answered | None:
        """What the log has, counted."""
        found = self.log.find(what)
        if found is not None:
            self.log.known += len(what.actions)
        return found

    # Also where workers simulate.

    def keep(self, what: Asked, value: Any, after: tuple[Snapshot, ...]) -> None:
        """Write down the answer to a call, if it is valid."""
        answer = self.office.guard.as_given(value, what.states, what.actions)
        if answer is not None and not self.log.has(what):
            rewards, next_states = answer
            self.log.add(what, Answered(rewards, next_states, after))

    def keep_each(
        self, before: Snapshot, at: int, states: States, actions: IntArray, told: list[tuple[Any, Snapshot]],
    ) -> None:  # fmt: skip
        """Write down the first answers to single pairs as far as they are valid, and are not there."""
        begin, places = 0, [before, *(after for _, after in told)]
        for i in range(len(told) + 1):
            one = slice(i, i + 1)
            known = i < len(told) and self.log.has(asked(places[i], at + i, states[one], actions[one]))
            if i == len(told) or known or i - begin == MANY:  # the most that a record holds
                self._keep_valid(places[begin], at + begin, states[begin:i], actions[begin:i], told[begin:i])
                begin = i + known

    def _keep_valid(
        self, before: Snapshot, at: int, states: States, actions: IntArray, told: list[tuple[Any, Snapshot]],
    ) -> None:  # fmt: skip
        good, bad = 0, len(told) + 1
        answer = None
        k = len(told)
        while bad - good > 1:
            found = None
            try:
                found = self.office.guard.as_given(
                    gathered("step", [one for one, _ in told[:k]]), states[:k], actions[:k]
                )
            except Exception:  # states of several shapes
                found = None
            if found is None:
                bad = k
            else:
                good, answer = k, found
            k = (good + bad) // 2
        if answer is not None:
            what = asked(before, at, states[:good], actions[:good])
            rewards, next_states = answer
            self.log.add(what, Answered(rewards, next_states, [after for _, after in told[:good]]), each=True)
