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
from collections.abc import Iterator
from contextlib import contextmanager
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


class Chain(NamedTuple):
    """Calls that draw from one stream, one after the other; None where their noise is given."""

    stream: np.random.Generator | None
    calls: tuple[Call, ...]

    @property
    def size(self) -> int:
        """The number of queries."""
        return sum(call.size for call in self.calls)


class Answer(NamedTuple):
    """What the model returned for one call, or raised."""

    value: Any  # of `step` or `step_with`; for a model that simulates pair by pair, a list of (answer, state of the stream)
    after: Snapshot | None  # the state of the stream after the call
    error: Exception | None
    drawn: tuple[str, ...]  # global sources of randomness that the call has drawn from

    @property
    def answered(self) -> int:
        """The pairs that were answered before an error, as far as that is known."""
        return len(self.value) if isinstance(self.value, list) else 0


class Done(NamedTuple):
    """The answers to several chains."""

    answers: list[list[Answer]]
    seconds: float  # that the model took


class _Held(NamedTuple):
    model: Any
    core_states: States | None
    core_actions: IntArray | None
    sources: Sources


_held: OrderedDict[tuple[str, int], _Held] = OrderedDict()
_lock = threading.Lock()


def work(name: str, parcel: bytes | None, chains: list[Chain], limit: float | None) -> Done | None:
    """Answer chains of calls; None if the model of this name is not here and no `parcel` with it was sent.

    `limit`: seconds per query after which this process ends itself, whatever the model is doing.
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
    model, states, actions = unpacked(parcel)  # what this run's own process has sent, never a file
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
        with limited(None if limit is None else limit * len(actions)):
            answer = _answer(held, stream, read_only(states), read_only(actions), call.noise)
        yield answer
        if answer.error is not None:
            return


def _answer(held: _Held, stream: Any, states: States, actions: IntArray, noise: FloatArray | None) -> Answer:
    model, before, value = held.model, held.sources.look("step"), None
    try:
        if noise is not None:
            value = model.step_with(states, actions, read_only(noise))
        elif hasattr(model, "each"):
            value = []
            for one in model.each(stream, states, actions):
                value.append((one, snapshot(stream)))
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
def limited(seconds: float | None) -> Iterator[None]:
    """End this process if the body takes longer; a timer in C, so that code which holds Python's lock is ended too."""
    if seconds is None:
        yield
        return
    with open(os.devnull, "w") as nowhere:
        faulthandler.dump_traceback_later(max(seconds, 0.05), exit=True, file=nowhere)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


def is_transient(error: Exception | None) -> bool:
    """Whether the same call may succeed elsewhere: what is wrong with an answer is wrong everywhere."""
    return error is not None and not isinstance(error, CoreplanError)
