"""Checkpoints with right checksums and wrong numbers: one field changed at a time."""

from __future__ import annotations

import copy
import math

import numpy as np

NUMBERS = {
    "f": [math.nan, math.inf, -math.inf, 1e300, -1.0, 1e16],
    "i": [-1, 2**31, 2**62, -(2**63)],
    "u": [255],
    "b": [],
}


def arrays_with(name, array):
    """The array with a number, its dtype or its shape changed, each with a word on what was done."""
    places = sorted({0, array.size - 1}) if array.size else []
    for number in NUMBERS[array.dtype.kind]:
        for at in places:
            changed = array.copy()
            if np.can_cast(np.min_scalar_type(number), array.dtype, "same_kind"):
                changed.reshape(-1)[at] = (
                    number if array.dtype.kind == "f" else np.clip(number, *limits(array.dtype))
                )
                yield f"{name}[{at}] = {number}", changed
    for dtype in ("f4", "i4", "f8", ">f8", "u1", "?"):
        if array.dtype != np.dtype(dtype):
            with np.errstate(all="ignore"):
                yield f"{name} as {dtype}", array.astype(dtype)
    yield f"{name} with an axis more", array[None]
    if array.ndim:
        yield f"{name} empty", array[:0]
        yield f"{name} too short", array[:-1]
        yield f"{name} too long", np.concatenate([array, array[-1:]])
        yield f"{name} without its last axis", np.ascontiguousarray(array[..., :0])


def limits(dtype):
    info = np.iinfo(dtype)
    return info.min, info.max


def paths(value, path=()):
    """The places of a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*path, key))


def changed(meta, path, value):
    meta = copy.deepcopy(meta)
    inner = meta
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return meta


def mutants(
    arrays, meta, parts=("planner_stream", "simulator", "trace_columns", "sums", "seconds", "budget")
):
    """(what, arrays, meta), one for each change."""
    for name, array in arrays.items():
        for what, other in arrays_with(name, array):
            yield what, {**arrays, name: other}, meta
        yield f"{name} gone", {k: v for k, v in arrays.items() if k != name}, meta
    for path in paths({part: meta[part] for part in parts}):
        for value in (None, -1, 2**64, math.nan, "x", [1]) if path else ():
            yield f"meta {path} = {value!r}", arrays, changed(meta, path, value)
