"""How much memory may be used; asked before anything large is stored."""

from __future__ import annotations

import math
import os

SHARE = 0.5  # of the memory that is available


def available_memory() -> float:
    """Bytes that may be used, as far as the system says; else infinity."""
    try:
        with open("/proc/meminfo") as file:  # caches count as free here, as they should
            return next(1024.0 * int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return math.inf
