"""The one place for seeds: two streams from one seed, and nothing else is random.

The planner's stream is one PCG64 generator, stored in checkpoints. The simulator's is Philox, keyed
by the seed and positioned by the number of the *block* of queries, so that the noise of a block does
not depend on who simulates it, nor on retries and resumes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import InputError

_PLANNER = 0x706C616E  # keeps the planner's stream apart from a user's own default_rng(seed)


def check_seed(seed: Any) -> int:
    """The seed as an int in [0, 2^64), or an error."""
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or not 0 <= int(seed) < 2**64:
        raise InputError(f"A seed is a whole number from 0 to 2^64 - 1, got {seed!r}.")
    return int(seed)


def as_generator(rng: Any) -> np.random.Generator:
    """A Generator as it is, or a fresh one from a seed."""
    return rng if isinstance(rng, np.random.Generator) else np.random.default_rng(check_seed(rng))


def planner_stream(seed: int) -> np.random.Generator:
    """The planner's generator."""
    return np.random.Generator(np.random.PCG64([_PLANNER, seed]))


def simulator_stream(seed: int, block: int) -> np.random.Generator:
    """The simulator's generator for one block of queries.

    The block's number fills the highest of the counter's four words: 2^192 draws separate two blocks.
    """
    counter = np.array([0, 0, 0, block], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=seed, counter=counter))


def state_of(rng: np.random.Generator) -> dict[str, Any]:
    """The generator's state as plain JSON types."""
    return _plain(rng.bit_generator.state)


def restore(rng: np.random.Generator, state: dict[str, Any]) -> None:
    """Put back what `state_of` returned."""
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
