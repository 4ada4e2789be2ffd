"""Long lists of numbers as base64 of their bytes: half the room of text, and exact. `scores.js` unpacks them."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LONG = 500  # entries of a list that is worth it
_WHOLE = ("u1", "u2", "i4")  # types of whole numbers, the smallest first


def packed(value: Any) -> Any:
    """The same JSON, in which every long list of numbers, or of rows of numbers, is an object with its bytes."""
    if isinstance(value, dict):
        return {name: packed(part) for name, part in value.items()}
    if not isinstance(value, list):
        return value
    array = _array(value) if len(value) >= _LONG else None
    return [packed(part) for part in value] if array is None else _bytes(array)


def _array(value: list[Any]) -> NDArray[Any] | None:
    """The list as an array `[n]` or `[n, width]` of numbers; None if it is none."""
    try:
        array = np.array(value)
    except ValueError:  # rows of several lengths
        return None
    fits = array.dtype.kind in "if" and array.ndim in (1, 2) and array.size > 0
    return array if fits and (array.dtype.kind == "f" or np.abs(array).max() < 2**31) else None


def _bytes(array: NDArray[Any]) -> dict[str, Any]:
    least, most = (int(array.min()), int(array.max())) if array.dtype.kind == "i" else (0, 0)
    fitting = [t for t in _WHOLE if np.iinfo(t).min <= least and most <= np.iinfo(t).max]
    kind = fitting[0] if array.dtype.kind == "i" else "f8"
    text = base64.b64encode(array.astype(f"<{kind}").tobytes()).decode()
    return {"packed": text, "type": kind, "width": array.shape[1] if array.ndim == 2 else 0}
