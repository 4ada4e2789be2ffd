"""Arrays for compiled code to fill, between two fences that show whether it wrote beyond them.

Numba does not check indices. A kernel that was written for states of three numbers and is declared with two writes past
the end of its array, into memory that belongs to somebody else, and the process dies later in a place that has nothing to
do with it. So the arrays that foreign kernels fill lie inside larger ones, and the margins are compared afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FENCE = 1024  # bytes on each side; a kernel that skips them all goes unnoticed
_MARK = np.uint8(0xA5)


def fenced(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array of zeros between fences."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    whole = np.zeros(FENCE + size + FENCE, dtype=np.uint8)
    whole[:FENCE] = whole[FENCE + size :] = _MARK
    return whole[FENCE : FENCE + size].view(dtype).reshape(shape)


def overrun(*filled: NDArray[Any]) -> bool:
    """Whether something was written beyond one of these arrays, all made by `fenced`."""
    for array in filled:
        whole = array.base
        assert whole is not None
        if (whole[:FENCE] != _MARK).any() or (whole[FENCE + array.nbytes :] != _MARK).any():
            return True
    return False
