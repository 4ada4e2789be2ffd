"""Trackers that append lines to a file: JSON lines, and comma-separated values.

Lines are written whole and at once, so the file can be read while the run goes on, and a run that is killed leaves every
line but, at worst, half of the last one; the next session drops that half. Nothing that is no file of a tracker is changed.
"""

from __future__ import annotations

import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._version import __version__
from ..base import FileError, as_path, files
from ..run import cell
from .callbacks import RunInfo

_LONGEST_LINE = 1 << 20  # characters


class _Lines(ABC):
    """A file to which lines are added."""

    def __init__(self, path: Any) -> None:
        self.path: Path = as_path(type(self).__name__, path=path)
        self.run = ""
        first = files.first_line(self.path, _LONGEST_LINE) if os.path.exists(self.path) else ""
        if first and not self.own(first):
            raise FileError(
                f"{self.path} holds something else than what {type(self).__name__} writes, and is left as it is. "
                "Give another file."
            )
        files.append_lines(
            self.path, ""
        )  # a place that cannot be written is an error now, not a warning later

    @abstractmethod
    def own(self, line: str) -> bool:
        """Whether this can be the first line of such a file."""


class JsonlTracker(_Lines):
    """One JSON object per line: {"event": "start", ...}, then one "row" for each row, then "end" or "error".

    Every line has the run's `run` (see `RunInfo`), so that one file may hold several runs. Numbers that are not known
    are null.
    """

    def own(self, line: str) -> bool:
        try:
            first = json.loads(line)
        except (ValueError, RecursionError):
            return False
        return isinstance(first, dict) and {"event", "run"} <= first.keys()

    def on_start(self, info: RunInfo) -> None:
        self.run = info.run
        self._write("start", vars(info) | {"coreplan": __version__})

    def on_row(self, row: Mapping[str, float]) -> None:
        self._write("row", row)

    def on_end(self, result: Any) -> None:
        self._write("end", summary(result))

    def on_error(self, error: BaseException) -> None:
        self._write("error", {"error": f"{type(error).__name__}: {error}"})

    def _write(self, event: str, values: Mapping[str, Any]) -> None:
        line = {"event": event, "run": self.run} | {key: _plain(value) for key, value in values.items()}
        files.append_lines(self.path, json.dumps(line, allow_nan=False) + "\n")


class CsvTracker(_Lines):
    """A table with one line per row: the run, the row's number, the queries, and the planner's own numbers.

    Where a run has numbers that the table has no column for, the table is written again with another column. Numbers that
    are not known are empty.
    """

    def own(self, line: str) -> bool:
        return line.split(",")[:2] == ["run", "row"]

    def on_start(self, info: RunInfo) -> None:
        self.run = info.run

    def on_row(self, row: Mapping[str, float]) -> None:
        columns = files.first_line(self.path, _LONGEST_LINE).split(",")
        missing = [name for name in row if name not in columns]
        if missing:
            columns = self._widened(missing)
        cells = {"run": self.run} | {name: cell(value) for name, value in row.items()}
        files.append_lines(self.path, ",".join(cells.get(name, "") for name in columns) + "\n")

    def _widened(self, missing: list[str]) -> list[str]:
        """Write the table again with these columns more; all columns."""
        head, *lines = files.read_text(self.path).splitlines() or ["run"]
        columns = [*head.split(","), *missing]
        wider = [",".join(columns), *(line + "," * len(missing) for line in lines)]
        files.write_atomic(self.path, ("\n".join(wider) + "\n").encode())
        return columns


def summary(result: Any) -> dict[str, Any]:
    """What a plan comes to, as JSON types: for a tracker's last word."""
    found: dict[str, Any] = {
        "status": result.status.value,
        "sentence": result.sentence,
        "queries": result.queries,
        "reality_queries": result.reality_queries,
        "seconds": result.seconds,
    }
    if result.earned is not None:
        found |= {
            "earned": result.earned.value,
            "earned_low": result.earned.low,
            "earned_high": result.earned.high,
        }
    if result.believed is not None:
        found["believed"] = result.believed
    if result.evaluation is not None:
        found |= {
            "value": result.evaluation.value,
            "value_low": result.evaluation.low,
            "value_high": result.evaluation.high,
        }
    if result.certificate is not None:
        found |= {"lower": result.certificate.lower, "upper": result.certificate.upper}
    return found


def _plain(value: Any) -> Any:
    """The value as JSON has it: what is not finite is null, whole numbers have no point."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return (
            None
            if not math.isfinite(value)
            else int(value)
            if value.is_integer() and abs(value) < 2**53
            else value
        )
    return value if value is None or isinstance(value, (str, int)) else str(value)
