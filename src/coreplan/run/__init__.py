"""A run of a planner: its steps, the loop, its folder, its trace and its progress bar."""

from ..base import Interrupt
from .folder import (
    CERTIFICATE_FILE,
    CHECK_FILE,
    CHECKPOINT_FILE,
    EVALUATION_FILE,
    REALITY_FILE,
    REPORT_FILE,
    RUN_FILE,
    SAMPLE_FILE,
    TRACE_FILE,
    RunFolder,
    Started,
    core_of,
    read_record,
)
from .loop import CompiledLoop, Loop, PythonLoop, fill, make_loop
from .progress import Progress, make_progress
from .stepping import NO_LIMIT, Moment, Run, Step, resolved, setup_for, steps
from .trace import Trace, cell

__all__ = [
    "CERTIFICATE_FILE",
    "CHECKPOINT_FILE",
    "CHECK_FILE",
    "EVALUATION_FILE",
    "NO_LIMIT",
    "REALITY_FILE",
    "REPORT_FILE",
    "RUN_FILE",
    "SAMPLE_FILE",
    "TRACE_FILE",
    "CompiledLoop",
    "Interrupt",
    "Loop",
    "Moment",
    "Progress",
    "PythonLoop",
    "Run",
    "RunFolder",
    "Started",
    "Step",
    "Trace",
    "cell",
    "core_of",
    "fill",
    "make_loop",
    "make_progress",
    "read_record",
    "resolved",
    "setup_for",
    "steps",
]
