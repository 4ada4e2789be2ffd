"""Checks of values that were read from a file: fields of JSON records, and of planners' states in checkpoints.

JSON has no types, and a right checksum says nothing of sense, so each value is looked at before it is used. What is wrong
raises a ValueError, and what is missing a KeyError; whoever reads the file reports it as damaged.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

LARGEST = 1e150  # beyond this, products overflow
MOST = 2**62  # counters


def whole(record: Mapping[str, Any], name: str, low: int = 0, high: int = MOST) -> int:
    """The whole number `record[name]`, from `low` to `high`."""
    value = record[name]
    right = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not right or not low <= value <= high:
        raise ValueError(f"'{name}' is {_short(value)}, not a whole number from {low} to {high}")
    return int(value)


def number(record: Mapping[str, Any], name: str, low: float = -LARGEST, high: float = LARGEST) -> float:
    """The number `record[name]`, from `low` to `high`."""
    value = record[name]
    if type(value) not in (int, float) or not low <= value <= high:
        raise ValueError(f"'{name}' is {_short(value)}, not a number from {low:g} to {high:g}")
    return float(value)


def text(record: Mapping[str, Any], name: str) -> str:
    """The text `record[name]`."""
    value = record[name]
    if not isinstance(value, str):
        raise ValueError(f"'{name}' is {_short(value)}, not text")
    return value


def texts(record: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The list of texts `record[name]`."""
    value = record[name]
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise ValueError(f"'{name}' is {_short(value)}, not a list of texts")
    return tuple(value)


def plain(kind: Any, record: Any, finite: bool = True) -> dict[str, Any]:
    """The fields of the dataclass `kind` in a record, those of plain types checked against what the class declares."""
    if not isinstance(record, dict):
        raise ValueError(f"it holds {_short(record)} in place of {kind.__name__}")
    hints = typing.get_type_hints(kind)
    known = {f.name: record[f.name] for f in fields(kind) if f.name in record}
    for name, value in known.items():
        _require(name, value, hints[name], finite)
    return known


def _require(name: str, value: Any, hint: Any, finite: bool) -> None:
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if not set(kinds) <= {int, float, bool, str, type(None)}:
        return  # whoever makes the value looks at it
    right = type(value) in kinds or (type(value) is int and float in kinds)
    if right and type(value) in (int, float):
        right = abs(value) <= LARGEST if finite or type(value) is int else True
    if not right:
        raise ValueError(f"'{name}' is {_short(value)}")


# Fields of a planner's state.


def require_finite(state: Any, *names: str) -> None:
    """Raise ValueError unless every number in these fields is finite, and not so large that products overflow."""
    require_within(state, -LARGEST, LARGEST, *names)


def require_within(state: Any, low: float, high: float, *names: str) -> None:
    """Raise ValueError unless every number in these fields lies in [low, high]; NaN does not. For indices above all.

    Compiled code looks up arrays without asking whether an index exists.
    """
    for name in names:
        values = np.asarray(getattr(state, name))
        if values.size and not (low <= values.min() and values.max() <= high):  # both are NaN if one value is
            raise ValueError(f"'{name}' has numbers outside [{low:g}, {high:g}]")


def require_distribution(state: Any, *names: str) -> None:
    """Raise ValueError unless each of these fields is a distribution."""
    require_within(state, 0.0, 1.0 + 1e-6, *names)
    for name in names:
        if not math.isclose(float(getattr(state, name).sum()), 1.0, abs_tol=1e-6):
            raise ValueError(f"'{name}' does not add up to 1")


def _short(value: Any) -> str:
    shown = repr(value) if not isinstance(value, int) or abs(value) < 10**40 else "a huge number"
    return shown if len(shown) <= 60 else shown[:60] + "..."
