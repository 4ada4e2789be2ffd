"""All randomness: two streams of random numbers derived from one seed.

The planner's stream is one PCG64 generator, stored in checkpoints. The simulator's stream is Philox, keyed
by the seed and positioned by the number of the *block* of queries. So the noise of a block does not depend on
who simulates it, nor on retries and resumes. Blocks of different *lanes* share no noise: a run,
sweeps over a core set, pools, and each kind of judge have a lane of their own.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

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


def restore(rng: np.random.Generator, state: dict[str, Any]) -> None:
    """Set the generator to a state that `state_of` returned."""
    rng.bit_generator.state = _arrays(state)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return [int(v) for v in value]
    return value if isinstance(value, str) else int(value)


def _arrays(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _arrays(v) for k, v in value.items()}
    return np.array(value, dtype=np.uint64) if isinstance(value, list) else value
