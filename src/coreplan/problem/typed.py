"""A state that a person typed: numbers in their order, or with the names of the coordinates."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from ..base import InputError, States, as_count, as_kind, as_text, nearest, shown
from ..features import at_time, clock_of
from .horizon import rows_of
from .names import Names
from .problem import Problem

_MOST = 100_000  # numbers of a state that anybody types


def typed_state(
    text: str, problem: Problem | None = None, step: int = 0, names: Names | None = None
) -> States:
    """The state that `text` stands for, as a batch of one: "-0.5, 0.01" or "position=-0.5, velocity=0.01".

    `problem` says how its states look; columns that coreplan appends are not typed: the clock of a horizon is `step`, and
    the state has not ended. Without a problem the numbers are the state; `names` are then those of its coordinates.
    """
    text, step = as_text("typed_state", text=text), as_count("typed_state", least=0, step=step)
    as_kind("typed_state", Problem, "a Problem", optional=True, problem=problem)
    as_kind("typed_state", Names, "the names of a problem", optional=True, names=names)
    names = names or (Names() if problem is None else problem.names)
    row = np.array([_numbers(text, names)])
    if problem is None:
        return row
    clock = clock_of(problem.features)
    rows = rows_of(problem.model, problem.features) if clock is None else clock.rows
    if row.shape[1] == rows.columns + 1 and rows.terminal and clock is None and row[0, -1] in (0.0, 1.0):
        row = row[:, :-1]  # typed with the column that says "not ended"
    if row.shape[1] != rows.columns:
        called = f" ({', '.join(names.columns(rows.columns))})" if names.state and rows.columns <= 12 else ""
        raise InputError(
            f"A state of {problem.name} is {rows.columns} number{'s' * (rows.columns != 1)}{called}; got {row.shape[1]}, in "
            f"{shown(text)}. Write them in their order, separated by commas."
        )
    if clock is not None:
        if step >= clock.steps:
            raise InputError(
                f"The problem ends after {clock.steps} steps: steps are 0 to {clock.steps - 1}, got {step}."
            )
        return at_time(row, step)
    if np.dtype(rows.dtype).kind in "iub" and not (row == np.rint(row)).all():
        raise InputError(f"States of {problem.name} are whole numbers; got {shown(text)}.")
    return rows.read(row)


def _numbers(text: str, names: Names) -> list[float]:
    parts = [part.strip() for part in re.split(r"[,;]", text.strip().strip("[]()"))]
    if len(parts) == 1 and "=" not in text:
        parts = parts[0].split()
    if not any(parts) or len(parts) > _MOST:
        raise InputError(f"A state is at least one number, such as '-0.5, 0.01'; got {shown(text)}.")
    if not any("=" in part for part in parts):
        return [_number(part, text) for part in parts]
    if not names.state:
        raise InputError(
            f"The coordinates of this state have no names: write its numbers in their order; got {shown(text)}."
        )
    found: dict[str, float] = {}
    for part in parts:
        name, equals, value = (word.strip() for word in part.rpartition("="))
        if not equals or name not in names.state:
            raise InputError(
                f"There is no coordinate {shown(name or part)}.{nearest(name or part, names.state)}"
            )
        if name in found:
            raise InputError(f"The coordinate {shown(name)} is given twice in {shown(text)}.")
        found[name] = _number(value, text)
    missing = [name for name in names.state if name not in found]
    if missing:
        raise InputError(f"The state lacks {shown(missing[0])}: give all of {', '.join(names.state)}.")
    return [found[name] for name in names.state]


def _number(word: str, text: Any) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(
            f"{shown(word)} in the state {shown(text)} is no finite number. Write it as '-0.5, 0.01'."
        )
    return value
