"""Ctrl-C, SIGTERM and SIGHUP as requests to stop: a run ends where nothing of what was paid is lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import Any, ClassVar, TypeVar

T = TypeVar("T")

# Ctrl-C; `kill`, containers and batch systems; a terminal that closes. Windows has no SIGHUP.
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_HANGUP = getattr(signal, "SIGHUP", None)


class Interrupt:
    """While active, the first signal requests a stop after the current batch, and the second one abandons the batch.

    The second raises KeyboardInterrupt only while `abandon` is set, that is, inside the user's simulator: coreplan's own
    code, which counts and writes files, is never interrupted. A SIGHUP never abandons a batch, since a terminal that closes
    may send it twice and nobody is left who waits.

    Signals belong to the process, so the active Interrupt is the process's too: `at_the_door` finds it. Handlers are set in
    the main thread only, and not for signals that are ignored (`nohup`, jobs in the background); the old ones are restored.
    """

    _active: ClassVar[Interrupt | None] = None

    def __init__(self, signals: Iterable[int] = _SIGNALS) -> None:
        self.signals = tuple(signals)
        self.asked = False
        self.abandon = False
        self.number = 0  # of the signal that asked first
        self.judging = False  # whether a request stops the rollouts of a judge at its next simulator call
        self._at_once = False  # whether a signal raises wherever it arrives
        self._old: dict[int, Any] = {}
        self._outer: Interrupt | None = None  # of a run whose simulator plans: both are stopped

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in self.signals:
                old = signal.getsignal(number)
                if (
                    old is not None and old is not signal.SIG_IGN
                ):  # None: not set from Python, so not to be restored
                    self._old[number] = old
                    signal.signal(number, self._handle)
            self._outer, Interrupt._active = Interrupt._active, self
            if self._outer is not None and self._outer.asked:
                self.ask(self._outer.number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if Interrupt._active is self:
            Interrupt._active = self._outer
        if self._outer is not None and self.asked:
            self._outer.ask(self.number)
        for number, old in self._old.items():
            signal.signal(number, old)

    def ask(self, number: int = signal.SIGINT) -> None:
        """Request a stop."""
        self.number = self.number or int(number)
        self.asked = True

    def at_once(self, work: Callable[[], T]) -> T:
        """Call a function that leaves nothing behind if it is broken off: a signal raises KeyboardInterrupt inside it."""
        try:
            self._at_once = True
            return work()
        finally:
            self._at_once = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again = self.asked
        self.ask(number)
        if self._at_once or (again and self.abandon and number != _HANGUP):
            self.abandon = False  # whoever undoes the batch is not interrupted again
            raise KeyboardInterrupt


def breakable(work: Callable[[], T]) -> T:
    """Call what has nothing to lose: Ctrl-C raises KeyboardInterrupt inside it.

    Or right after it, since compilers swallow exceptions that arrive while they call back.
    """
    with Interrupt([signal.SIGINT]) as interrupt:
        found = interrupt.at_once(work)
        if interrupt.asked:
            raise KeyboardInterrupt
        return found


class at_the_door:
    """Around a judge's call of the simulator: where a stop was requested, KeyboardInterrupt instead of the call.

    So everything that was simulated before is counted. A second request breaks the call off.
    """

    def __enter__(self) -> None:
        self._active = Interrupt._active
        if self._active is None or not self._active.judging:
            self._active = None
        elif threading.current_thread() is not threading.main_thread():
            self._active = None  # another run's rollouts
        elif self._active.asked:
            raise KeyboardInterrupt
        else:
            self._active.abandon = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._active is not None:
            self._active.abandon = False
