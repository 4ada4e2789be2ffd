"""Planners side by side: a grid of runs, one tidy table, and the statistics of the field."""

from .comparison import compare
from .grid import planners_of
from .results import PICTURES, Cell, Overall, Results
from .row import FORMAT, Row
from .statistics import Estimate
from .table import CONDITIONS_FILE, RESULTS_FILE, TRIALS_FILE

__all__ = [
    "CONDITIONS_FILE",
    "FORMAT",
    "PICTURES",
    "RESULTS_FILE",
    "TRIALS_FILE",
    "Cell",
    "Estimate",
    "Overall",
    "Results",
    "Row",
    "compare",
    "planners_of",
]
