"""Array types, and the checks and hashes of plain arrays that every part needs."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import CoreplanError, InputError, shown, text_of

States = NDArray[Any]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def plain(what: str, value: Any, error: type[CoreplanError]) -> NDArray[Any]:
    """`value` as a plain array; raises `error` about `what` if it is none, or if its mask would be dropped silently."""
    if type(value) is np.ndarray:
        return value
    several = value if isinstance(value, (list, tuple)) else ()
    if isinstance(value, np.ma.MaskedArray) or any(isinstance(v, np.ma.MaskedArray) for v in several):
        raise error(
            f"{what} came as a masked array, and masked entries have no value here. Give an array in which every entry "
            "counts: array.filled(value) puts a value in the place of the masked ones."
        )
    try:
        return np.asarray(value)
    except (Exception, SystemExit) as fault:
        text = text_of(fault).splitlines()
        said = f": {text[0][:200]}" if text else ""
        raise error(f"{what} cannot be read as one array: {type(fault).__name__}{said}.") from fault


def native(what: str, array: NDArray[Any], error: type[CoreplanError]) -> NDArray[Any]:
    """The same numbers in a dtype that compiled code knows: in this machine's byte order, floats of 32 or 64 bits.

    Half precision becomes float64. So does extended precision, if float64 holds these very numbers; else `error` is raised.
    """
    dtype = array.dtype
    known = dtype.kind != "f" or dtype.itemsize in (4, 8)
    if (known and dtype.isnative) or dtype.kind not in "fiub":
        return array
    with np.errstate(over="ignore"):
        converted = array.astype(dtype.newbyteorder("=") if known else np.float64)
    if dtype.itemsize > 8 and not np.array_equal(converted, array, equal_nan=True):
        raise error(
            f"{what} have dtype {dtype} and hold numbers that float64 cannot. Give float64: array.astype(np.float64)."
        )
    return converted


def read_only(array: Any) -> Any:
    """A view of an array that cannot be written to, for a user's function: what it is given is used elsewhere too."""
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def as_states(states: Any, shape: tuple[int, ...], dtype: Any, who: str) -> States:
    """States as a contiguous array `[n, *shape]` of `dtype`, safe for compiled kernels; else an InputError about `who`.

    Always a copy, since nothing keeps a compiled kernel from writing into its input. (A read-only array would do so, but
    Numba compiles everything once more for those.)
    """
    states = native(f"{who}'s states", plain(f"{who}'s states", states, InputError), InputError)
    if states.ndim == 0 or states.shape[1:] != shape:
        raise InputError(
            f"{who} needs states of shape {('n', *shape)}, got {states.shape}.".replace("'n'", "n")
        )
    if states.dtype != dtype and not np.can_cast(states.dtype, dtype, "same_kind"):
        raise InputError(f"{who} needs states of dtype {np.dtype(dtype)}, got {states.dtype}.")
    converted = np.array(states, dtype=dtype, order="C")
    if converted.dtype.kind in "iu" and converted.dtype != states.dtype and (converted != states).any():
        wrong = states[(converted != states).reshape(len(states), -1).any(axis=1)][0]
        raise InputError(
            f"{who} needs states of dtype {np.dtype(dtype)}, which does not hold the state {shown(wrong)}."
        )
    return converted


def as_whole(what: str, value: Any, error: type[CoreplanError]) -> IntArray:
    """Whole numbers as int64, a copy; raises `error` about `what` if they are of another kind or do not fit."""
    array = plain(what, value, error)
    if array.dtype.kind not in "iu" and array.size:
        raise error(f"{what} must be whole numbers, got dtype {array.dtype}.")
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise error(f"{what} must be whole numbers below 2^63, got {array.max()}.")
    return array.astype(np.int64)


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
