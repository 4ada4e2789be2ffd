"""The limit in seconds that a plan may have beside its budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from ..base import as_positive


class TimeLimit:
    """Seconds that may go by while a planner asks, in all stages of a plan together; None: no limit.

    Compiling is not counted, nor what comes after the last ask. A clock changes no numbers: it only says after which ask to
    stop, and a resumed run goes on from there. It may also count the processor time of this process (`time.process_time`),
    which other programs on the machine do not prolong.
    """

    def __init__(self, seconds: Any, clock: Callable[[], float] | None = None) -> None:
        seconds = as_positive("plan", optional=True, seconds=seconds)
        self.left = math.inf if seconds is None else seconds
        self._since, self._clock = 0.0, clock or time.perf_counter

    @classmethod
    def of(cls, given: Any) -> TimeLimit:
        """The limit for a wish, or the one given, which the stages of a plan share."""
        return given if isinstance(given, cls) else cls(given)

    def start(self) -> None:
        """From here on time is counted."""
        self._since = self._clock()

    def up(self) -> bool:
        """Whether no time is left."""
        now = self._clock()
        self.left, self._since = self.left - (now - self._since), now
        return self.left <= 0.0
