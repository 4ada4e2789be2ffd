"""How much memory coreplan may use; checked before anything large is stored."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

SHARE = 0.5  # the part of the available memory that coreplan allows itself
_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def available_memory() -> float:
    """Bytes that this process may still take: what the machine has, and what limits on it leave; infinity if unknown.

    Containers and batch systems limit a group of processes (a cgroup), and `ulimit -v` limits one. The machine's own numbers
    know of neither: a process that believes them is killed.
    """
    return max(min(_of_the_machine(), *_left_in_groups(), _left_to_the_process()), 0.0)


def _of_the_machine() -> float:
    """Available memory; physical memory where only that is known."""
    try:
        with open(_PROC / "meminfo") as file:  # MemAvailable rightly counts caches as free
            return next(1024.0 * int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        pass
    try:  # installed where there is no /proc: macOS and Windows
        import psutil

        return float(psutil.virtual_memory().available)
    except (ImportError, OSError):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return math.inf


def _left_in_groups() -> Iterator[float]:
    """What each cgroup that this process is in leaves, those that contain it included; of both versions."""
    yield math.inf
    try:
        lines = (_PROC / "self" / "cgroup").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:  # version 2
            mount, names = _CGROUPS, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            mount = _CGROUPS / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = PurePosixPath(path.lstrip("/"))
        for part in (
            group,
            *group.parents,
        ):  # up to the mount; in a container the path may be seen from outside
            if ".." not in part.parts:
                yield _left_in(mount / part, *names)


def _left_in(folder: Path, limit: str, used: str, reclaimable: str) -> float:
    """The limit of a cgroup less what is used, where file caches that the kernel can drop count as free."""
    try:
        most = float((folder / limit).read_text())  # "max" is no number: no limit
        taken = float((folder / used).read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return most - taken + min(float(stat.get(reclaimable, 0)), taken)
    except (OSError, ValueError):
        return math.inf


def _left_to_the_process() -> float:
    """What `ulimit -v` leaves."""
    try:
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        if most == resource.RLIM_INFINITY:
            return math.inf
        pages = int((_PROC / "self" / "statm").read_text().split()[0])
        return float(most - pages * os.sysconf("SC_PAGE_SIZE"))
    except (ImportError, AttributeError, OSError, ValueError, IndexError):
        return math.inf
