"""A progress bar for a person at a terminal."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Protocol

from ..base import (
    CoreplanWarning,
    InputError,
    text_of,
)


class Progress(Protocol):
    """Something that is updated with the number of queries so far, a few times per second."""

    def update(self, queries: int) -> None: ...
    def close(self) -> None: ...


class Silent:
    def update(self, queries: int) -> None:
        pass

    def close(self) -> None:
        pass


class Bar:
    """A rich progress bar on stderr: how many queries (or other units) are done, how many per second, time left."""

    def __init__(self, total: int, start: int, doing: str = "planning", unit: str = "queries") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn(f"[bold]{doing}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + unit),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("", total=total, completed=start, rate="")
        self._bar.start()

    def update(self, queries: int) -> None:
        speed = self._bar.tasks[0].speed
        self._bar.update(self._task, completed=queries, rate=f"{speed:,.0f}/s" if speed else "")

    def close(self) -> None:
        self._bar.stop()


class Careful:
    """Another progress object, until it raises: then one warning, and silence. What is paid for goes on without it."""

    def __init__(self, inner: Progress) -> None:
        self._inner: Progress | None = inner

    def update(self, queries: int) -> None:
        if self._inner is not None:
            try:
                self._inner.update(queries)
            except Exception as error:
                self._give_up(error)

    def close(self) -> None:
        if self._inner is not None:
            try:
                self._inner.close()
            except Exception as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._inner = None
        _warn(error)


def make_progress(
    wish: Any, total: int, start: int, who: str = "plan", doing: str = "planning", unit: str = "queries"
) -> Progress:
    """The progress bar for `wish`: True, False, None (a bar if stderr is a terminal) or an object with update and close."""
    if wish is None:
        wish = sys.stderr is not None and sys.stderr.isatty()
    if isinstance(wish, bool):
        try:
            return Careful(Bar(total, start, doing, unit)) if wish else Silent()
        except Exception as error:  # for example, the caller has a bar of Rich's own on the screen
            _warn(error)
            return Silent()
    if not all(callable(getattr(wish, name, None)) for name in ("update", "close")):
        raise InputError(
            f"`{who}(progress=...)` must be True, False, None (a bar if stderr is a terminal) or an object with the methods "
            f"update({unit}) and close(); got {type(wish).__name__}."
        )
    return Careful(wish)


def _warn(error: Exception) -> None:
    warnings.warn(
        f"Progress is shown no more: {type(error).__name__}: {text_of(error)}. The run goes on.",
        CoreplanWarning,
        stacklevel=2,
    )
