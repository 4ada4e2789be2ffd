"""Checks of what a `Problem` is given: its core pairs, its reward range, its exact table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..base import CoreplanError, InputError, SimulatorError, as_array, as_kind, plain, shown, text_of
from ..features import MaskedFeatures
from .tables import Tabular


def check_pairs(pairs: Any) -> None:
    """Raise InputError unless these can be core pairs; what they hold is checked where they are used (`CoreSet`)."""
    form = "(states [m, ...], actions [m])"
    if isinstance(pairs, (tuple, list)) and len(pairs) == 2:
        parts = [plain(f"`Problem(core_pairs=...)` must be {form}, and", part, InputError) for part in pairs]
        if all(part.ndim > 0 for part in parts) and len(parts[0]) == len(parts[1]):
            return
    raise InputError(f"`Problem(core_pairs=...)` must be {form}, got {shown(pairs)}.")


def as_range(owner: str, reward_range: Any) -> tuple[float, float]:
    """(lowest, highest) as floats: finite, and so far apart that rewards can be told from each other; else an InputError."""
    form = "(lowest, highest), two finite numbers"
    pair = as_array(owner, form, 1, reward_range=reward_range).astype(float)
    if pair.shape != (2,) or not pair[0] < pair[1]:
        raise InputError(f"`{owner}(reward_range=...)` must be {form}, got {shown(reward_range)}.")
    low, high = pair.tolist()
    if not 1e-300 < high - low < 1e300 or (high - low) < 1e-12 * max(abs(low), abs(high)):
        raise InputError(
            f"`{owner}(reward_range=...)` is {shown(reward_range)}, whose width is lost in rounding: rewards are mapped to "
            "[0, 1] by it. Give a range of ordinary numbers; scale the rewards if they are not."
        )
    return low, high


@dataclass(frozen=True)
class CheckedTable:
    """A user's function `tabular`; whatever it raises, or returns that is no table, becomes an error of ours."""

    function: Callable[[], Any]

    def __call__(self) -> Tabular:
        try:
            table = self.function()
        except CoreplanError:
            raise
        except MemoryError:  # for whoever can do without a table
            raise
        except Exception as error:
            raise SimulatorError(
                f"`Problem(tabular=...)` raised {type(error).__name__}: {text_of(error)}"
            ) from error
        return as_kind("Problem", Tabular, "a function that returns a Tabular", tabular=table)


def masked_table(table: Tabular, features: MaskedFeatures) -> Tabular:
    """The table with the features' mask added, so that optima and exact values respect it."""
    allowed = features.allowed(table.states)
    return replace(table, available=allowed if table.available is None else allowed & table.available)
