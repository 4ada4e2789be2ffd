"""Array types, and the checks and hashes of plain arrays that every part needs."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InputError

States = NDArray[Any]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def as_states(states: Any, shape: tuple[int, ...], dtype: Any, who: str) -> States:
    """States as a contiguous array `[n, *shape]` of `dtype`, safe for compiled kernels; else an InputError about `who`."""
    states = np.asarray(states)
    if states.ndim == 0 or states.shape[1:] != shape:
        raise InputError(
            f"{who} needs states of shape {('n', *shape)}, got {states.shape}.".replace("'n'", "n")
        )
    if states.dtype != dtype and not np.can_cast(states.dtype, dtype, "same_kind"):
        raise InputError(f"{who} needs states of dtype {np.dtype(dtype)}, got {states.dtype}.")
    return np.ascontiguousarray(states, dtype=dtype)


def digest(*arrays: Any) -> str:
    """A short hash of arrays and numbers, by value."""
    h = hashlib.sha256()
    for array in arrays:
        if isinstance(array, tuple):
            h.update(digest(*array).encode())
            continue
        array = np.ascontiguousarray(array)
        h.update(f"{array.dtype}{array.shape}".encode())
        h.update(array.tobytes())
    return h.hexdigest()[:16]
