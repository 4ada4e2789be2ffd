"""What every other part builds on: errors, seeds, files, memory, array types. Imports no other part of coreplan."""

from .errors import (
    CoreplanError,
    CoreplanWarning,
    CoverageWarning,
    FeatureError,
    FileError,
    InputError,
    ReproducibilityWarning,
    RunError,
    SimulatorError,
    nearest,
    require_choice,
    require_count,
    require_positive,
)
from .interrupt import Interrupt, at_the_door
from .lock import FolderLock
from .memory import SHARE, available_memory
from .seeds import (
    Lane,
    as_generator,
    check_seed,
    key_of,
    planner_stream,
    restore,
    simulator_stream,
    state_of,
)
from .types import FloatArray, IntArray, States, as_states, digest

__all__ = [
    "SHARE",
    "CoreplanError",
    "CoreplanWarning",
    "CoverageWarning",
    "FeatureError",
    "FileError",
    "FloatArray",
    "FolderLock",
    "InputError",
    "IntArray",
    "Interrupt",
    "Lane",
    "ReproducibilityWarning",
    "RunError",
    "SimulatorError",
    "States",
    "as_generator",
    "as_states",
    "at_the_door",
    "available_memory",
    "check_seed",
    "digest",
    "key_of",
    "nearest",
    "planner_stream",
    "require_choice",
    "require_count",
    "require_positive",
    "restore",
    "simulator_stream",
    "state_of",
]
