"""Round numbers for axes, and numbers as a page writes them."""

from __future__ import annotations

import math
from collections.abc import Sequence

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most `most` round numbers from `low` to `high`."""
    width = high - low
    if not (math.isfinite(width) and width > 0.0):
        return [low]
    rough = width / (most - 1 if most > 1 else 1)
    power = 10.0 ** math.floor(math.log10(rough))
    for step in (s * power for s in (*_STEPS, 20.0)):
        first = math.ceil(low / step - 1e-9)
        last = math.floor(high / step + 1e-9)
        if last - first + 1 <= most:
            return [k * step for k in range(first, last + 1)]
    return [low]


def compact(value: float) -> str:
    """A number for an axis: 12k for 12,000, and at most four digits."""
    for size, letter in _UNITS:
        if abs(value) >= size * 10 or (abs(value) >= size and value % size == 0):
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}"


def labels(marks: Sequence[float]) -> list[str]:
    """The numbers of an axis, with as many digits as tell neighbours apart."""
    texts = [compact(mark) for mark in marks]
    digits = 5
    while len(set(texts)) < len(marks) and digits < 17:
        texts, digits = [f"{mark:.{digits}g}" for mark in marks], digits + 1
    return texts


def said(value: float | None, digits: int = 4) -> str:
    """A normalised value with so many decimals; a dash where it is not known."""
    return "\u2013" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def amount(value: float | None) -> str:
    """A number in the user's own units, with five digits, zeros too, so that numbers below each other line up."""
    if value is None or math.isnan(value):
        return "\u2013"
    text = f"{value:,.5g}"
    return text if "e" in text else f"{value:#,.5g}".rstrip(".")


def padded(values: list[float], share: float = 0.05) -> tuple[float, float]:
    """The range of finite numbers with a margin at both ends; (0, 1) if there are none."""
    finite = [v for v in values if math.isfinite(v)]
    if not finite:
        return 0.0, 1.0
    low, high = min(finite), max(finite)
    room = share * (high - low) or max(abs(high) * 0.05, 1e-9)
    return low - room, high + room


def brief(value: float | None) -> str:
    """A number with four digits; "unknown" where it is not known."""
    if value is None or value != value:
        return "unknown"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def plain(value: object) -> str:
    """A setting as people write it."""
    if isinstance(value, dict) and "array" in value:
        return f"an array, {value['array']}"  # its digest
    if isinstance(value, (list, tuple)):
        return ", ".join(map(plain, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else "none" if value is None else str(value)
