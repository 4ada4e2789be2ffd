"""A run: the loop, its folder, trace and progress."""

from .folder import RunFolder, core_of, digest_of
from .loop import CompiledLoop, Loop, PythonLoop, fill, make_loop
from .progress import Interrupt, Progress, make_progress
from .trace import Trace, next_point

__all__ = [
    "CompiledLoop",
    "Interrupt",
    "Loop",
    "Progress",
    "PythonLoop",
    "RunFolder",
    "Trace",
    "core_of",
    "digest_of",
    "fill",
    "make_loop",
    "make_progress",
    "next_point",
]
