"""Trackers by name, as on the command line: FILE.jsonl, FILE.csv, tensorboard:FOLDER, mlflow or mlflow:EXPERIMENT."""

from __future__ import annotations

from typing import Any

from ..base import InputError, as_text, shown
from .elsewhere import MLflowTracker, TensorBoardTracker
from .files import CsvTracker, JsonlTracker


def tracker_by_name(spec: str) -> Any:
    """The tracker for a text: the end of a file's name says which one, or a word before a colon."""
    spec = as_text("tracker_by_name", spec=spec)
    kind, colon, rest = spec.partition(":")
    if kind == "tensorboard" and rest:
        return TensorBoardTracker(rest)
    if kind == "mlflow" and (rest or not colon):
        return MLflowTracker(rest) if rest else MLflowTracker()
    if spec.endswith(".jsonl"):
        return JsonlTracker(spec)
    if spec.endswith(".csv"):
        return CsvTracker(spec)
    raise InputError(
        f"There is no tracker for {shown(spec)}. Give a file that ends with .jsonl or .csv, tensorboard:FOLDER, mlflow or "
        "mlflow:EXPERIMENT."
    )
