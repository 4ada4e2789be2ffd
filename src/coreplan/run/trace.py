"""The trace of a run: a table of about 200 rows, for any budget, and a few more where a run may end long before it."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping

import numpy as np

from ..base import FloatArray

ROWS = 200
FIRST = 64  # queries of the first row after the start, at most


class Trace:
    """A table of numbers with one row per recorded moment; `trace["queries"]` is a column."""

    def __init__(self) -> None:
        self.columns: tuple[str, ...] = ()
        self._rows: list[list[float]] = []

    def append(self, row: Mapping[str, float]) -> None:
        """Add a row; all rows must have the same columns."""
        if not self.columns:
            self.columns = tuple(row)
        self._rows.append([float(row[name]) for name in self.columns])

    @property
    def last(self) -> dict[str, float]:
        """The last row."""
        return dict(zip(self.columns, self._rows[-1], strict=True))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, column: str) -> FloatArray:
        return self.rows[:, self.columns.index(column)]

    @property
    def rows(self) -> FloatArray:
        """All numbers, `[rows, columns]`."""
        return np.array(self._rows, dtype=np.float64).reshape(len(self._rows), len(self.columns))

    @classmethod
    def of(cls, columns: list[str], rows: FloatArray) -> Trace:
        """A trace from the names of its columns and its rows `[rows, columns]`; ValueError for what is no trace of a run."""
        names = [name for name in columns if isinstance(name, str) and name.replace("_", "").isalnum()]
        if not isinstance(columns, list) or len(set(names)) != len(columns):
            raise ValueError("the trace has columns that are no names, or two of one name")
        if rows.dtype != np.float64 or rows.ndim != 2 or rows.shape[1] != len(columns):
            raise ValueError(f"the trace has {len(columns)} columns and rows of shape {rows.shape}")
        for name in ("queries", "seconds") if len(rows) else ():
            if name not in columns:
                raise ValueError(f"the trace has no column '{name}'")
            values = rows[:, columns.index(name)]
            if not (np.isfinite(values).all() and values[0] >= 0.0 and (np.diff(values) >= 0.0).all()):
                raise ValueError(f"the {name} of the trace are not numbers that grow from row to row")
        if len(rows) and (rows[:, columns.index("queries")] % 1.0).any():
            raise ValueError("the queries of the trace are not whole numbers")
        trace = cls()
        trace.columns, trace._rows = tuple(columns), rows.tolist()
        return trace

    def csv(self) -> str:
        """Comma-separated text with numbers in full precision; unknown (NaN) entries are empty."""
        out = io.StringIO()
        out.write(",".join(self.columns) + "\n")
        for row in self._rows:
            out.write(",".join(map(cell, row)) + "\n")
        return out.getvalue()

    @classmethod
    def from_csv(cls, text: str) -> Trace:
        """Read what `csv` wrote; any other text raises ValueError."""
        head, *lines = text.splitlines() or [""]
        columns = head.split(",")
        rows = [[float(v) if v else math.nan for v in line.split(",")] for line in lines]
        if any(len(row) != len(columns) for row in rows):
            raise ValueError("its rows have other lengths than its header")
        return cls.of(columns, np.array(rows, dtype=np.float64).reshape(len(rows), len(columns)))

    def __repr__(self) -> str:
        return f"Trace({len(self)} rows: {', '.join(self.columns)})"


def cell(value: float) -> str:
    """A number of a table in full precision; empty if it is not known."""
    value = float(value)
    return "" if value != value else f"{int(value)}" if value.is_integer() else repr(value)


def next_point(queries: int, budget: int) -> int:
    """The number of queries at which the next row is due: the smallest multiple of budget / ROWS above `queries`.

    Before the first multiple rows are due at powers of two, so that a run has rows that stops at an accuracy long before
    its budget is spent. It depends on the number of queries only, so that a resumed run has the same rows.
    """
    k = queries * ROWS // budget + 1
    even = min(budget, -(-k * budget // ROWS))
    return min(even, max(FIRST, 1 << queries.bit_length())) if k == 1 else even
