"""Benchmarks as programs: planners side by side (`compare`), and speed as ratios within one run."""

from .comparing import (
    CONDITIONS_FILE,
    PICTURES,
    RESULTS_FILE,
    TRIALS_FILE,
    Cell,
    Estimate,
    Results,
    Row,
    compare,
    planners_of,
)
from .speed import throughput

__all__ = [
    "CONDITIONS_FILE",
    "PICTURES",
    "RESULTS_FILE",
    "TRIALS_FILE",
    "Cell",
    "Estimate",
    "Results",
    "Row",
    "compare",
    "planners_of",
    "throughput",
]
