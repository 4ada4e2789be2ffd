"""What every map over a box is made from, checked: the box, the nodes of its grid, and how large the features become."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import FloatArray, InputError, IntArray, as_array, shown

LARGEST = 2**28  # coordinates, 2 GB for one theta: beyond that nothing can be planned


def as_box(owner: str, low: Any, high: Any, finite: bool = True) -> tuple[FloatArray, FloatArray]:
    """The box's edges `[D]` each, with low < high in every coordinate, finite unless said otherwise; else an InputError."""
    form = (
        "one number per coordinate of the state, in a list, even for a single coordinate: such as low=[0.0], high=[1.0], "
        "shape=[5]"
    )
    lows = as_array(owner, form, 1, finite=False, low=low).astype(float)
    highs = as_array(owner, form, 1, finite=False, high=high).astype(float)
    if len(lows) == len(highs) == 0:
        raise InputError(f"`{owner}` has bounds on no coordinate: low and high are empty. Give {form}.")
    if len(lows) != len(highs) or not (lows < highs).all():
        raise InputError(
            f"`{owner}` needs low < high in every coordinate, got low={shown(lows)}, high={shown(highs)}."
        )
    with np.errstate(over="ignore"):
        endless = np.flatnonzero(~np.isfinite(highs - lows))
    if len(endless) and finite:
        i = endless[0]
        raise InputError(
            f"`{owner}`: coordinate {i} goes from {lows[i]:g} to {highs[i]:g}, and a box must be finite. Give the range "
            "that matters, or one period of a periodic coordinate, such as -pi to pi for an angle."
        )
    return lows, highs


def as_nodes(
    owner: str, shape: Any, lows: FloatArray, periodic: NDArray[np.bool_], copies: int = 1, least: int = 2
) -> IntArray:
    """The nodes of a grid `[D]`, at least `least` in every coordinate, and one more for each that is periodic.

    There, the first node comes again at the end, until the two are joined. `copies`: coordinates per node.
    """
    form = f"whole numbers of at least {least}, one per coordinate of the state, here {len(lows)}"
    nodes = as_array(owner, form, 1, kinds="iu", shape=shape)
    if len(nodes) != len(lows) or min(nodes.tolist()) < least or max(nodes.tolist()) >= 2**62:
        raise InputError(f"`{owner}(shape=...)` must be {form}, got {shown(nodes)}.")
    check_size(owner, math.prod(nodes.tolist()) * copies)
    return nodes.astype(np.int64) + periodic


def check_size(owner: str, dimension: int) -> None:
    """Raise InputError if a map has more coordinates than anything can be planned with."""
    if dimension > LARGEST:
        raise InputError(
            f"`{owner}` would have about {shown(dimension)} coordinates, more than {LARGEST:,} = 2^28. Make it coarser."
        )
