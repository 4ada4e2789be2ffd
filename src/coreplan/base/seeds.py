"""All randomness: two streams of random numbers derived from one seed.

The planner's stream is one PCG64 generator, stored in checkpoints. The simulator's stream is Philox, keyed
by the seed and positioned by the number of the *block* of queries. So the noise of a block does not depend on
who simulates it, nor on retries and resumes. Blocks of different *lanes* share no noise: a run,
sweeps over a core set, pools, and each kind of judge have a lane of their own.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np

from .errors import InputError, shown
from .settings import as_python

_PLANNER = 0x706C616E  # keeps the planner's stream apart from a user's own default_rng(seed)


def check_seed(seed: Any) -> int:
    """The seed as an int in [0, 2^64); raises InputError if it is not one."""
    number = as_python(seed)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**64:
        raise InputError(f"A seed is a whole number from 0 to 2^64 - 1, got {shown(seed)}.")
    return number


def as_generator(rng: Any) -> np.random.Generator:
    """`rng` itself if it is a Generator, otherwise a fresh Generator from the seed `rng`."""
    return rng if isinstance(rng, np.random.Generator) else np.random.default_rng(check_seed(rng))


def planner_stream(seed: int) -> np.random.Generator:
    """The planner's generator."""
    return np.random.Generator(np.random.PCG64([_PLANNER, seed]))


class Lane(IntEnum):
    """What a block of noise is used for. Each lane has two streams: one for transitions, one for initial states."""

    RUN = 0
    SWEEPS = 1
    POOL = 2
    CHECK = 3
    CERTIFICATE = 4
    EVALUATION = 5
    REALITY = 6
    UNIFORM = 7
    AHEAD = 8
    BASELINE = 9
    RACE = 10
    TRAJECTORY = 11


def simulator_stream(
    seed: int, block: int, lane: Lane = Lane.RUN, piece: int = 0, initial: bool = False
) -> np.random.Generator:
    """The simulator's generator for one block of queries, or (`initial`) for the initial states drawn with that block.

    The four 64-bit words of Philox's counter, from the highest: the block's number; its lane; the piece, where a block
    is cut into several; and a word that Philox itself counts up, which leaves 2^64 times four numbers per stream.
    """
    counter = np.array([0, piece, 2 * lane + initial, block], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=seed, counter=counter))


def key_of(seed: Any) -> int:
    """An integer seed: `seed` itself, or one drawn from it if it is a Generator."""
    return int(seed.integers(0, 2**63)) if isinstance(seed, np.random.Generator) else check_seed(seed)


def state_of(rng: np.random.Generator) -> dict[str, Any]:
    """The generator's state as plain JSON types."""
    return _plain(rng.bit_generator.state)


Snapshot: TypeAlias = tuple[bytes, bytes, bytes, int, int, int]


def snapshot(rng: np.random.Generator) -> Snapshot:
    """The state of a simulator's stream, small and quick to take: one is taken before every call of a simulator.

    `state_from` turns it into what `state_of` returns. Thousands of those at once would keep the garbage collector busy.
    """
    s: Any = rng.bit_generator.state
    inner = s["state"]
    return (
        inner["counter"].tobytes(), inner["key"].tobytes(), s["buffer"].tobytes(), s["buffer_pos"], s["has_uint32"],
        s["uinteger"],
    )  # fmt: skip


def state_from(taken: Snapshot) -> dict[str, Any]:
    """The state of a simulator's stream in a snapshot, as plain JSON types."""
    return _plain(_unfolded(taken))


def rewind(rng: np.random.Generator, taken: Snapshot) -> None:
    """Set a simulator's stream to a snapshot that this program has taken of it, here or in a worker."""
    rng.bit_generator.state = _unfolded(taken)


def _unfolded(taken: Snapshot) -> dict[str, Any]:
    """A snapshot as NumPy writes the state."""
    counter, key, buffer = (np.frombuffer(part, dtype=np.uint64) for part in taken[:3])
    position, has_uint32, uinteger = taken[3:]
    return {
        "bit_generator": "Philox", "state": {"counter": counter, "key": key}, "buffer": buffer, "buffer_pos": position,
        "has_uint32": has_uint32, "uinteger": uinteger,
    }  # fmt: skip


def restore(rng: np.random.Generator, state: dict[str, Any]) -> None:
    """Set the generator to a state that `state_of` returned for the same stream; ValueError for anything else.

    A state may come from a file. NumPy takes most of it as it is: a wrong position in the buffer reads foreign memory.
    """
    state = _lists(state)
    _require_like(state_of(rng), state)
    _require_buffer(state)
    rng.bit_generator.state = _arrays(state)


def require_stream(state: Any, seed: int) -> None:
    """Raise ValueError unless `state` is that of a simulator's stream with this seed, in whatever block."""
    here = state_of(simulator_stream(seed, 0))
    if isinstance(state, dict) and isinstance(state.get("state"), dict):
        words = state["state"].get("counter")
        here["state"]["counter"] = words if isinstance(words, list) and len(words) == 4 else [0] * 4
    _require_like(here, state)
    _require_buffer(state)


def stream_at(state: Any, seed: int) -> np.random.Generator:
    """A simulator's stream with this seed, at a state that `state_of` returned for one, in whatever block."""
    require_stream(state, seed)
    stream = simulator_stream(seed, 0)
    stream.bit_generator.state = _arrays(state)
    return stream


_FIXED = ("bit_generator", "key", "inc")  # what tells one stream from another
_WORD = 2**64 - 1
_LARGEST = {"state": 2**128 - 1, "buffer_pos": 4, "has_uint32": 1, "uinteger": 2**32 - 1}


def _require_like(here: Any, state: Any, name: str = "") -> None:
    """Raise ValueError unless `state` can be a later or earlier position of the stream that is `here`."""
    if isinstance(here, dict):
        if not isinstance(state, dict) or state.keys() != here.keys():
            raise ValueError(f"the state of a random stream has other parts than {', '.join(here)}")
        for part in here:
            _require_like(here[part], state[part], part)
    elif name in _FIXED:
        if state != here or type(state) is not type(here):
            raise ValueError(f"a random stream is not that of this run: its {name} is another one")
    elif isinstance(here, list):
        if not isinstance(state, list) or len(state) != len(here):
            raise ValueError(f"the {name} of a random stream is not {len(here)} whole numbers")
        for word in state:
            _require_like(0, word, name)
        if name == "counter" and state[1:] != here[1:]:  # lane, piece and block
            raise ValueError("a random stream is not that of its block")
    elif type(state) is not int or not 0 <= state <= _LARGEST.get(name, _WORD):
        raise ValueError(f"the {name} of a random stream is out of range")


def _require_buffer(state: dict[str, Any]) -> None:
    """Raise ValueError unless what a Philox stream holds ready is what its counter gives."""
    if state["bit_generator"] == "Philox" and state["buffer_pos"] < 4:
        first, *rest = state["state"]["counter"]
        before = np.array([(first - 1) % 2**64, *rest], dtype=np.uint64)
        stream = np.random.Philox(key=np.array(state["state"]["key"], dtype=np.uint64), counter=before)
        stream.random_raw()
        if stream.state["buffer"].tolist() != state["buffer"]:
            raise ValueError("the buffer of a random stream does not belong to its counter")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return [int(v) for v in value]
    return value if isinstance(value, str) else int(value)


def _lists(value: Any) -> Any:
    """A state with lists for arrays: NumPy's own has arrays, one from a file has lists."""
    if isinstance(value, dict):
        return {k: _lists(v) for k, v in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def _arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _arrays(v) for k, v in value.items()}
    return np.array(value, dtype=np.uint64) if isinstance(value, list) else value
