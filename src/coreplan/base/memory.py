"""How much memory coreplan may use; checked before anything large is stored."""

from __future__ import annotations

import math
import os

SHARE = 0.5  # the part of the available memory that coreplan allows itself


def available_memory() -> float:
    """Bytes of available memory; of physical memory where only that is known; infinity where neither is."""
    try:
        with open("/proc/meminfo") as file:  # MemAvailable rightly counts caches as free
            return next(1024.0 * int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return math.inf
