"""A problem's own baseline: a simple rule that a plan is compared with, such as "serve the longest queue"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..base import InputError, States, as_function, as_name, shown
from ..features import Rows, ended

FORM = "baseline(states) -> actions [n]"


class Baseline(NamedTuple):
    """A rule by name: `rule(states)` returns one action per state of a batch."""

    name: str
    rule: Callable[[States], Any]


def as_baseline(given: Any) -> Baseline | None:
    """A function of a batch of states, or a pair of a name and such a function; else an InputError."""
    if given is None or isinstance(given, Baseline):
        return given
    name, rule = given if isinstance(given, (tuple, list)) and len(given) == 2 else ("rule", given)
    if not callable(rule) or not isinstance(name, str) or not name:
        raise InputError(
            f"`Problem(baseline=...)` must be a function {FORM}, or a pair (name, function); got {shown(given)}."
        )
    return Baseline(as_name("Problem", baseline=name), as_function("Problem", FORM, baseline=rule))


def without_clock(given: Baseline | None, rows: Rows) -> Baseline | None:
    """The baseline of a problem with a horizon: its rule sees states without the clock, and none that has ended."""
    if given is None:
        return None

    def rule(states: States) -> Any:
        living = ~ended(states)
        actions = np.zeros(len(states), dtype=np.int64)
        if living.any():
            actions[living] = given.rule(rows.read(states[living, :-2]))
        return actions

    return Baseline(given.name, rule)
