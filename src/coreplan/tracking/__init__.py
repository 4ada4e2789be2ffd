"""What is told of a run while it goes on: callbacks, and trackers that keep it in files, TensorBoard or MLflow."""

from .callbacks import Callbacks, RunInfo
from .elsewhere import MLflowTracker, TensorBoardTracker
from .files import CsvTracker, JsonlTracker
from .named import tracker_by_name

__all__ = [
    "Callbacks",
    "CsvTracker",
    "JsonlTracker",
    "MLflowTracker",
    "RunInfo",
    "TensorBoardTracker",
    "tracker_by_name",
]
