"""A progress bar for a person at a terminal, and a Ctrl-C that stops cleanly."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Protocol


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
    """A rich progress bar on stderr: queries, queries/s, time left."""

    def __init__(self, total: int, start: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("[bold]planning"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} queries"),
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


def make_progress(wish: Any, total: int, start: int) -> Progress:
    """The progress bar for `wish`: True, False, None (a bar if stderr is a terminal) or an object with update and close."""
    if wish is None:
        wish = sys.stderr.isatty()
    if isinstance(wish, bool):
        return Bar(total, start) if wish else Silent()
    return wish


class Interrupt:
    """While active, the first Ctrl-C requests a stop after the current batch, and the second one abandons the batch.

    The second raises KeyboardInterrupt only while `abandon` is set, that is, inside the user's simulator: coreplan's own
    code is never interrupted.
    """

    def __init__(self) -> None:
        self.asked = False
        self.abandon = False
        self._old: Any = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._old = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._old is not None:
            signal.signal(signal.SIGINT, self._old)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked and self.abandon:
            raise KeyboardInterrupt
        self.asked = True
