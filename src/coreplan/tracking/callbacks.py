"""Callbacks of a run: what they are told, and that one that fails costs nothing but itself."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ..base import CoreplanWarning, InputError, shown, text_of

T = TypeVar("T")
_METHODS = ("on_start", "on_row", "on_end", "on_error")


@dataclass(frozen=True)
class RunInfo:
    """What a callback is told when a run starts, or goes on."""

    run: str  # twelve hexadecimal digits, the same for runs of the same problem, planner, settings and seed
    problem: str  # its name
    planner: str
    settings: Mapping[str, Any]  # of the planner, as JSON types; arrays are replaced by a digest
    seed: int
    budget: int  # in queries, those for rollouts of the policy included
    rows: int = (
        0  # the number of rows that earlier sessions of this run have told: the next one has this number
    )
    stage: int = 0  # 1, 2, ... for the stages of planner="auto"; 0 for any other run
    folder: str | None = None  # where the run keeps its files


class Callbacks:
    """All callbacks of one call of `plan`. One that raises is given up with one warning, and the run goes on without it.

    A callback is any object with one or more of these methods.

    Methods
    -------
    on_start(info): a `RunInfo`, before the first query of a session. With planner="auto" once per stage.
    on_row(row): a dict, with a row of the trace: "row" (its number, from 0), "queries", "seconds" and the planner's own
        numbers; NaN for what is not known. About 200 per run.
    on_end(result): the `Plan` that `plan` returns. Once, when all is done.
    on_error(error): the exception that `plan` raises instead.
    """

    def __init__(self, given: Any = ()) -> None:
        given = () if given is None else given
        if not isinstance(given, (list, tuple)):
            raise InputError(f"`plan(callbacks=...)` must be a list of callbacks, got {shown(given)}.")
        for callback in given:
            known = [name for name in _METHODS if callable(getattr(callback, name, None))]
            if isinstance(callback, type) or not known:
                raise InputError(
                    "`plan(callbacks=...)` must be a list of objects with one or more of the methods on_start(info), "
                    f"on_row(row), on_end(result) and on_error(error); one of them is {shown(callback)}."
                )
        self._told: list[Any] = list(given)
        self._stage, self._whole = 0, self
        self._started = False

    def __len__(self) -> int:
        return len(self._told)

    @classmethod
    def of(cls, given: Any) -> Callbacks:
        """The callbacks of a wish, or those given."""
        return given if isinstance(given, cls) else cls(given)

    def stage(self, number: int) -> Callbacks:
        """The same callbacks for a stage of a longer plan, whose end is told by whoever plans the whole."""
        part = Callbacks()
        part._told, part._stage, part._whole = self._told, number, self
        return part

    def start(self, info: RunInfo) -> None:
        self._whole._started = True
        self._tell("on_start", lambda: replace(info, stage=self._stage, settings=dict(info.settings)))

    def row(self, number: int, row: Mapping[str, float]) -> None:
        self._tell("on_row", lambda: {"row": number, **row})

    def end(self, result: T) -> T:
        """The result, after it was told."""
        if not self._stage:
            self._tell("on_end", lambda: result)
        return result

    @contextmanager
    def errors_told(self) -> Iterator[None]:
        """Around planning: an exception is told and goes on."""
        try:
            yield
        except BaseException as error:
            if self._started and not self._stage:
                told = error
                self._tell("on_error", lambda: told)
            raise

    def _tell(self, method: str, what: Any) -> None:
        """Call a method of every callback, each with a value of its own, which it may change."""
        for callback in list(self._told):
            try:
                call = getattr(callback, method, None)
                if call is not None:
                    call(what())
            except Exception as error:
                self._told.remove(callback)
                warnings.warn(
                    f"The callback {type(callback).__name__} is told no more: its {method} raised {type(error).__name__}: "
                    f"{text_of(error)}. The run goes on.",
                    CoreplanWarning,
                    stacklevel=3,
                )
