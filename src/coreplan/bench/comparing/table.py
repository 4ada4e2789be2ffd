"""The files of a comparison: `results.csv`, one line per run, and `compare.json`, what all of them have in common.

Lines are added whole, as runs end, so that a comparison that is stopped or killed keeps every run that had ended; the next
one goes on with the others. Rows of another format, of another version of coreplan, or made under other conditions are
never mixed with new ones.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from ..._version import __version__
from ...base import FileError, files
from .row import COLUMNS, FORMAT, Row, line_of

RESULTS_FILE, TRIALS_FILE, CONDITIONS_FILE = "results.csv", "trials.csv", "compare.json"
_HEAD = line_of(list(COLUMNS))


def read_rows(path: Path) -> list[Row]:
    """The rows of a table; FileError for what is none, or of another format. Half a line at its end is ignored."""
    text = files.read_text(path)
    whole = text[: text.rfind("\n") + 1]
    try:
        lines = list(csv.reader(io.StringIO(whole)))
    except csv.Error as error:
        raise FileError(f"{path} is damaged: {error}. Give another folder.") from None
    if not lines and _HEAD.startswith(text):  # killed in the first write
        return []
    if not lines or tuple(lines[0]) != COLUMNS:
        raise FileError(
            f"{path} is not a table of format {FORMAT}, which this coreplan writes: its first line names other columns. "
            "Give another folder."
        )
    try:
        return [_row(path, line) for line in lines[1:]]
    except (ValueError, KeyError, RecursionError) as error:
        raise FileError(f"{path} is damaged: {error}. Delete the line, or give another folder.") from None


def _row(path: Path, cells: list[str]) -> Row:
    if len(cells) != len(COLUMNS):
        raise ValueError(f"a line has {len(cells)} cells, where {len(COLUMNS)} are columns")
    named = dict(zip(COLUMNS, cells, strict=True))
    if named["format"] != str(FORMAT):
        raise FileError(
            f"{path} has rows of format {named['format'][:20]}, and this coreplan writes format {FORMAT}. They are not "
            "mixed: give another folder."
        )
    return Row.of(named)


class Kept:
    """A folder with the rows so far, to which rows are added; without a folder, only the rows."""

    def __init__(self, folder: Path | None, name: str) -> None:
        self.path = None if folder is None else folder / name
        self.rows: dict[tuple[Any, ...], Row] = {}
        if self.path is not None and self.path.exists():
            self.rows = {row.key: row for row in read_rows(self.path)}
            others = {row.version for row in self.rows.values()} - {__version__}
            if others:
                raise FileError(
                    f"{self.path} has rows of coreplan {', '.join(sorted(others))[:40]}, and this is {__version__}. They "
                    "are not mixed: give another folder."
                )

    def add(self, row: Row) -> None:
        """Keep a row, on disk if there is a folder."""
        if self.path is not None:
            files.append_lines(self.path, ("" if self.rows or self._headed() else _HEAD) + row.line())
        self.rows[row.key] = row

    def _headed(self) -> bool:
        assert self.path is not None
        return self.path.exists() and files.first_line(self.path, len(_HEAD)) + "\n" == _HEAD


def require_same(folder: Path, conditions: dict[str, Any]) -> None:
    """Write down under which conditions the rows of a folder are made; FileError if those in it were made under others."""
    path = folder / CONDITIONS_FILE
    conditions = {"format": FORMAT, "coreplan": __version__, **conditions}
    if path.exists():
        before = files.read_json(path)
        for name, now in conditions.items():
            was = before.get(name) if isinstance(before, dict) else None
            if was != now:
                raise FileError(
                    f"The rows in {folder} were made with {name} = {str(was)[:40]}, and not {now}. They are not mixed: give "
                    "the same, or another folder."
                )
        return
    if (folder / RESULTS_FILE).exists():
        raise FileError(
            f"{folder} has a {RESULTS_FILE} and no {CONDITIONS_FILE}, which says how they were made. Give another folder."
        )
    files.write_json(path, conditions)
