"""What the log holds of an answer, as bytes; and its key: all that it is a function of.

An answer is a function of the simulator, the pairs, and where the stream of noise stood (or the noise itself, if it was
given). A model of batches answers a call as a whole. One that simulates pair by pair answers each pair from where the
stream stands, so each has a key of its own.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from ...base import FileError, FloatArray, InputError, IntArray, Lane, Snapshot, States

# Flags, n, where the pairs are (0: here), their digest, the place, and the kinds of both states.
_BODY = struct.Struct("<BxxxIQ16s64s40s40s")
# Added to the number of a query that is asked a second time, to see if the simulator repeats itself.
AGAIN = 1 << 62
_EACH, _GIVEN = 1, 2  # flags: one key for each pair; the noise was given
_STAND = struct.Struct(
    "<BBxxI"
)  # of a stream: position in its buffer, whether it holds half a word, and which
_AT = struct.Struct("<Q")
_KIND = struct.Struct("<4sI8I")  # dtype, number of axes of a state, their lengths
_AFTER = 48  # bytes that say where a stream stands after an answer
FIRST = _BODY.size + 8  # bytes by which a record is indexed; more of them if it has a key for each pair
MANY = 1 << 16  # keys in a record


class Asked(NamedTuple):
    """What an answer, or the first of several, is a function of, besides the simulator."""

    place: bytes  # 64 bytes, of `place_of`, or a digest of noise that is given
    pairs: bytes  # 16 bytes, a digest
    key: int  # 64 bits of a digest of both
    states: States  # [n, ...]
    actions: IntArray  # [n]
    given: bool = False  # whether the noise was given

    @classmethod
    def of(cls, place: bytes, states: States, actions: IntArray, given: bool = False) -> Asked:
        """With its digests."""
        h = blake2b(_kind_of(states), digest_size=16)
        h.update(_data(actions.astype(np.int64, copy=False)))
        h.update(_data(states))
        pairs = h.digest()
        key = int.from_bytes(blake2b(place + pairs, digest_size=8).digest(), "little")
        return cls(place, pairs, key, states, actions, given)


def asked(before: Snapshot, at: int, states: States, actions: IntArray) -> Asked:
    """Pairs that are simulated with a stream that stands here, the first as query `at` of the block."""
    return Asked.of(place_of(before, at), states, actions)


def asked_with(noise: FloatArray, states: States, actions: IntArray, again: bool = False) -> Asked:
    """Pairs that are simulated with noise that is given."""
    person = b"again" if again else b"noise"
    return Asked.of(blake2b(_data(noise), person=person).digest(), states, actions, given=True)


def place_of(stream: Snapshot, at: int) -> bytes:
    """Where a stream stands: its seed; block, lane and piece; how far it is in it; and which query of the block comes next.

    The last is for simulators that draw nothing, and leave the stream where it is.
    """
    counter, key, _, position, half, word = stream
    return key + counter + _STAND.pack(position, half, word if half else 0) + _AT.pack(at)


def query_of(place: bytes) -> int:
    """Which query of its block a place is."""
    return int(_AT.unpack(place[56:])[0])


def lane_of(place: bytes) -> tuple[str, int, int]:
    """The name of the lane, the block and the piece of a place."""
    _, piece, lane, block = np.frombuffer(place[16:48], dtype="<u8").tolist()
    names = {int(known): known.name.lower() for known in Lane}
    return names.get(lane // 2, "unknown"), block, piece


def _data(array: Any) -> memoryview:
    """The bytes of an array, the lowest byte of each number first."""
    if sys.byteorder == "big":
        array = array.astype(array.dtype.newbyteorder("<"))
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _kind_of(states: States) -> bytes:
    return _kind(states.dtype, states.shape[1:])


@lru_cache(maxsize=64)
def _kind(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    if dtype.kind not in "fiub" or dtype.itemsize > 8 or len(shape) > 8:
        raise InputError(
            f"The log holds states that are arrays of numbers, of at most 8 axes and 8 bytes each; these have dtype {dtype} "
            f"and shape {shape}. Plan without a log, or number the states."
        )
    return _KIND.pack(dtype.newbyteorder("<").str.encode(), len(shape), *shape, *(0,) * (8 - len(shape)))


class Answered(NamedTuple):
    """Answers as the simulator gave them, valid ones."""

    rewards: FloatArray  # [n], in its own units
    next_states: States  # [n, ...]
    after: Sequence[
        Snapshot
    ]  # where the stream stood after the call, or after each pair; empty if the noise was given


def written(
    what: Asked, answer: Answered, *, each: bool, pairs_at: int = 0
) -> tuple[list[int], list[Any]] | None:
    """The keys and the parts of a body; `pairs_at`: the record that has the same pairs, if there is one.

    None if the simulator moved the stream in a way that the log cannot hold.
    """
    befores, at = [what.place], query_of(what.place)
    for state in answer.after:
        if state[0][8:] != what.place[24:48] or state[1] != what.place[:16]:
            return None
        befores.append(place_of(state, at + len(befores)))
    keys = [what.key]
    if each:
        keys = [
            Asked.of(before, what.states[i : i + 1], what.actions[i : i + 1]).key
            for i, before in enumerate(befores[: len(what.actions)])
        ]
    head = _BODY.pack(
        each * _EACH + what.given * _GIVEN, len(what.actions), pairs_at, what.pairs, what.place,
        _kind_of(what.states), _kind_of(answer.next_states),
    )  # fmt: skip
    pairs = () if pairs_at else (_data(what.actions.astype(np.int64, copy=False)), _data(what.states))
    after = b"".join(c[:8] + buffer + _STAND.pack(*stand) for c, _, buffer, *stand in answer.after)
    data = (_data(answer.rewards), _data(answer.next_states), after)
    return keys, [head, np.array(keys, dtype="<u8").tobytes(), *pairs, *data]


class Body:
    """A record's body, taken apart; ValueError if it makes no sense."""

    def __init__(self, data: bytes) -> None:
        if len(data) < _BODY.size:
            raise ValueError("it is too short")
        flags, self.n, self.pairs_at, self.pairs, self.place, kind_x, kind_y = _BODY.unpack_from(data)
        self.each, self.given = bool(flags & _EACH), bool(flags & _GIVEN)
        k = self.n if self.each else 1
        afters = 0 if self.given else k
        x, y = _states_of(kind_x), _states_of(kind_y)
        own = not self.pairs_at
        parts = [
            ("keys", k, np.dtype("<u8"), ()), ("actions", own * self.n, np.dtype("<i8"), ()), ("states", own * self.n, *x),
            ("rewards", self.n, np.dtype("<f8"), ()), ("next_states", self.n, *y),
            ("afters", afters, np.dtype(np.uint8), (_AFTER,)),
        ]  # fmt: skip
        at, self.parts = _BODY.size, {}
        for name, count, dtype, shape in parts:
            size = count * dtype.itemsize * _product(shape)
            if at + size > len(data):
                raise ValueError("it is too short")
            part = np.frombuffer(data, dtype=dtype, count=size // dtype.itemsize, offset=at)
            if dtype.kind == "b" and part.view(np.uint8).max(initial=0) > 1:
                raise ValueError("it has truth values that are neither")
            self.parts[name] = part.reshape(count, *shape)
            at += size
        if at != len(data) or not self.n:
            raise ValueError("it has another length than it says")

    def after(self, i: int) -> Snapshot:
        """Where the stream stood after call or pair i."""
        raw = self.parts["afters"][i].tobytes()
        position, half, word = _STAND.unpack(raw[40:])
        if position > 4 or half > 1:
            raise ValueError("a stream stands nowhere")
        return raw[:8] + self.place[24:48], self.place[:16], raw[8:40], position, half, word

    def place_at(self, i: int) -> bytes:
        """The place of pair i, where each has one."""
        return self.place if i == 0 else place_of(self.after(i - 1), query_of(self.place) + i)

    def answer(self, what: Asked, i: int) -> Answered | None:
        """The answer to what is asked, found under key i; None if it is that to another question with the same key."""
        if self.given != what.given:
            return None
        if self.each:
            own: Asked | Body = Asked.of(
                self.place_at(i), self.parts["states"][i : i + 1], self.parts["actions"][i : i + 1]
            )
            rows = slice(i, i + 1)
        else:
            own, rows = self, slice(None)
        if (
            own.place != what.place
            or own.pairs != what.pairs
            or (not self.each and self.n != len(what.actions))
        ):
            return None
        after = () if self.given else (self.after(i),)
        return Answered(self.parts["rewards"][rows].copy(), self.parts["next_states"][rows].copy(), after)


def keys_in(first: bytes) -> tuple[int, int]:
    """How many keys a record has, and how many of its first bytes hold them."""
    if len(first) < _BODY.size:
        raise FileError("A record of the log is too short.")
    flags, n = struct.unpack_from("<BxxxI", first)
    k = n if flags & _EACH else 1
    return k, _BODY.size + 8 * k


def _states_of(kind: bytes) -> tuple[np.dtype[Any], tuple[int, ...]]:
    name, axes, *lengths = _KIND.unpack(kind)
    dtype = np.dtype(name.rstrip(b"\0").decode("ascii"))
    if dtype.kind not in "fiub" or dtype.itemsize > 8 or axes > 8:
        raise ValueError("its states are no numbers")
    return dtype, tuple(lengths[:axes])


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for n in shape:
        product *= n
    return product
