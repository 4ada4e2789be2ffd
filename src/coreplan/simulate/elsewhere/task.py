"""What a worker does: it calls the model for chains of calls, and reports the answers as they are.

A *call* is one call of the model, for at most a block of pairs. Calls that draw from one stream, one after the other, are a
*chain*; chains share nothing, so that it does not matter who simulates them, or in which order. Whether an answer is valid
is not decided here but at the door (`simulate/guard.py`), as for a simulator in this process.
"""

from __future__ import annotations

import copy
import faulthandler
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from cloudpickle import dumps
from cloudpickle import loads as unpacked

from ...base import (
    CoreplanError,
    FloatArray,
    IntArray,
    Snapshot,
    States,
    one_thread,
    read_only,
    rewind,
    snapshot,
    text_of,
)
from ..sources import Sources

_MODELS = 4  # that a worker keeps, the last used ones


class Call(NamedTuple):
    """One call of the model: n pairs, by their numbers in the core set or as states and actions, and their noise."""

    pairs: IntArray | None  # [n]
    states: States | None  # [n, ...]
    actions: IntArray | None  # [n]
    noise: FloatArray | None  # [n, noise_dimension]; None: it is drawn from the chain's stream
    at: int = 0  # which query of its block the first pair is

    @property
    def size(self) -> int:
        """n."""
        given = self.actions if self.pairs is None else self.pairs
        assert given is not None
        return len(given)

    def without(self, n: int) -> Call:
        """The call without its first n pairs."""
        rest: list[Any] = [None if part is None else part[n:] for part in self[:4]]
        return Call(*rest)._replace(at=self.at + n)


class Chain(NamedTuple):
    """Calls that draw from one stream, one after the other; None where their noise is given."""

    stream: np.random.Generator | None
    calls: tuple[Call, ...]

    @property
    def size(self) -> int:
        """The number of queries."""
        return sum(call.size for call in self.calls)

    def standing(self, here: Snapshot | None, calls: tuple[Call, ...]) -> Chain:
        """Calls of this chain, from where its stream stands here; the stream itself is not moved."""
        if self.stream is None or here is None:
            return Chain(self.stream, calls)
        stream = copy.deepcopy(self.stream)
        rewind(stream, here)
        return Chain(stream, calls)


class Answer(NamedTuple):
    """What the model returned for one call, or raised."""

    value: Any  # of `step` or `step_with`; for a model that simulates pair by pair, a list of (answer, state of the stream)
    after: Snapshot | None  # the state of the stream after the call
    error: Exception | None
    drawn: tuple[str, ...]  # global sources of randomness that the call has drawn from


def rest(chain: Chain, answers: list[Answer]) -> Chain:
    """What is left of a chain after answers of which the last one is an error."""
    *good, last = answers
    here = good[-1].after if good else None
    begun = last.value if isinstance(last.value, list) else []
    if begun:
        here = begun[-1][1]
    first, *others = chain.calls[len(good) :]
    return chain.standing(here, (first.without(len(begun)), *others))


def joined(begun: list[Answer] | None, answers: list[Answer]) -> list[Answer]:
    """The answers to a chain that was begun, which end with an error, and to what was left of it."""
    if not begun:
        return answers
    *good, last = begun
    first, *others = answers
    if isinstance(last.value, list) and isinstance(first.value, list):
        first = first._replace(value=last.value + first.value)
    return [*good, first, *others]


class CannotTake(Exception):
    """A worker could not unpack the simulator."""


class Done(NamedTuple):
    """The answers to several chains."""

    answers: list[list[Answer]]
    seconds: float  # that the model took


@dataclass
class _Held:
    model: Any
    core_states: States | None
    core_actions: IntArray | None
    sources: Sources
    calls: int = 0  # that were answered


_held: OrderedDict[tuple[str, int], _Held] = OrderedDict()
_lock = threading.Lock()


def work(name: str, parcel: bytes | None, chains: list[Chain], limit: float | None) -> Done | None:
    """Answer chains of calls; None if the model of this name is not here and no `parcel` with it was sent.

    `limit`: seconds per query after which this process ends itself, whatever the model is doing. A model of batches has
    them for a call as a whole.
    """
    held = _unpacked(name, parcel)
    if held is None:
        return None
    begin = time.perf_counter()
    with one_thread:
        answers = [list(_chain(held, chain, limit)) for chain in chains]
    return Done(answers, time.perf_counter() - begin)


def _unpacked(name: str, parcel: bytes | None) -> _Held | None:
    """The model of this name, one for each thread, since it may keep something between calls."""
    key = (name, threading.get_ident())
    with _lock:
        held = _held.get(key)
        if held is not None:
            _held.move_to_end(key)
            return held
    if parcel is None:
        return None
    try:
        model, states, actions = unpacked(parcel)  # what this run's own process has sent, never a file
    except Exception as error:
        raise CannotTake(f"{type(error).__name__}: {text_of(error)}") from None
    held = _Held(model, states, actions, Sources())
    with _lock:
        _held[key] = held
        while len(_held) > _MODELS * max(threading.active_count(), 1):
            _held.popitem(last=False)
    return held


def _chain(held: _Held, chain: Chain, limit: float | None) -> Iterator[Answer]:
    """The answers to the calls of a chain, up to the first that raises."""
    stream = copy.deepcopy(chain.stream)  # a worker that is a thread has the main process's own
    for call in chain.calls:
        states, actions = call.states, call.actions
        if call.pairs is not None:
            assert held.core_states is not None and held.core_actions is not None
            states, actions = held.core_states[call.pairs], held.core_actions[call.pairs]
        assert states is not None and actions is not None
        with limited(None if limit is None else limit * len(actions)) as restart:
            if not held.calls:  # the first call may have to load and to compile: it has its time as a whole
                restart = _nothing
            answer = _answer(held, stream, read_only(states), read_only(actions), call.noise, restart, limit)
        held.calls += 1
        yield answer
        if answer.error is not None:
            return


def _answer(
    held: _Held, stream: Any, states: States, actions: IntArray, noise: FloatArray | None,
    restart: Callable[[float], None], limit: float | None,
) -> Answer:  # fmt: skip
    """The answer to one call. Where a model simulates pair by pair, each pair has its own `limit`."""
    model, before, value = held.model, held.sources.look("step"), None
    try:
        if noise is not None:
            value = model.step_with(states, actions, read_only(noise))
        elif hasattr(model, "each"):
            value = []
            restart(limit or 0.0)
            for one in model.each(stream, states, actions):
                value.append((one, snapshot(stream)))
                restart(limit or 0.0)
        else:
            value = model.step(stream, states, actions)
        error = None
    except (Exception, SystemExit) as raised:
        error = _portable(raised)
    drawn = held.sources.drawn(before)
    return Answer(value, None if stream is None else snapshot(stream), error, tuple(drawn))


def _portable(error: BaseException) -> Exception:
    """The exception, or one of the same name and text if it cannot be sent."""
    if isinstance(error, Exception):
        try:
            unpacked(dumps(error))  # some can be written and not read, which would break the executor
            return error
        except Exception:
            pass
    return type(type(error).__name__, (_Foreign,), {})(text_of(error))


class _Foreign(Exception):
    """An exception that could not be sent: only its name and its text came."""

    def __reduce__(self) -> Any:
        return _rebuilt, (type(self).__name__, str(self))


def _rebuilt(name: str, text: str) -> Exception:
    return type(name, (_Foreign,), {})(text)


@contextmanager
def limited(seconds: float | None) -> Iterator[Callable[[float], None]]:
    """End this process if the body takes longer; a timer in C, so that code which holds Python's lock is ended too.

    The body may call `restart(seconds)`: from then on it has so many seconds, or up to a quarter more, since starting the
    timer takes longer than many a query.
    """
    if seconds is None:
        yield _nothing
        return
    with open(os.devnull, "w") as nowhere:

        def start(seconds: float) -> None:
            faulthandler.dump_traceback_later(max(seconds, 0.05), exit=True, file=nowhere)

        due = float("-inf")

        def restart(seconds: float) -> None:
            nonlocal due
            now = time.monotonic()
            if now >= due:
                start(1.25 * seconds)
                due = now + 0.25 * seconds

        start(seconds)
        try:
            yield restart
        finally:
            faulthandler.cancel_dump_traceback_later()


def _nothing(seconds: float) -> None:
    pass


def is_transient(error: Exception | None) -> bool:
    """Whether the same call may succeed elsewhere: what is wrong with an answer is wrong everywhere."""
    return error is not None and not isinstance(error, CoreplanError)
