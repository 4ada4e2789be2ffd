"""One row of a comparison: what one run of one planner came to, or why there is none."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ...base import cut, printable

FORMAT = 1  # of the table; one of another format is never mixed with it
REFUSED, FAILED, TIME_UP, INTERRUPTED = "refused", "failed", "time is up", "interrupted"
DEFAULT = "default"  # how a planner was set, if nobody tuned it


@dataclass(frozen=True)
class Row:
    """One run. Numbers that are not known are None; `sub` = (optimum - value) / (optimum - uniform).

    `status` is how the run ended (`Status`), "refused" where the planner cannot work on the problem, or "failed"; `reason`
    is the sentence that says why. `value` is exact where states can be enumerated, and then `low` and `high` are the same.
    """

    problem: str
    planner: str
    tuning: str  # "default", or "best of N": the best of N random configurations
    seed: int
    budget: int
    queries: int | None = None
    seconds: float | None = None  # of planning, without compiling and judging
    memory: float | None = None  # the most of its process, in MB
    value: float | None = None
    low: float | None = None
    high: float | None = None
    gap: float | None = None
    sub: float | None = None
    status: str = ""
    reason: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    version: str = ""  # of coreplan
    format: int = FORMAT

    @property
    def key(self) -> tuple[str, str, str, int, int]:
        """What the row is about."""
        return self.problem, self.planner, self.tuning, self.budget, self.seed

    @property
    def loss(self) -> float | None:
        """`sub`, and 1 where a run gave no policy, since the uniform one is there without planning; None if unknown."""
        if self.sub is None:
            return 1.0 if self.status in (FAILED, TIME_UP) and self.value is None else None
        return max(self.sub, 0.0)

    def ended(self, status: str, reason: str) -> Row:
        """The row of a run that gave no policy, with the reason in one line."""
        return replace(self, status=status, reason=cut(printable(" ".join(reason.split()))))

    def line(self) -> str:
        """The row as a line of a CSV file."""
        return line_of([_text(getattr(self, name)) for name in COLUMNS])

    @classmethod
    def of(cls, cells: Mapping[str, str]) -> Row:
        """The inverse of `line`, from cells by column; ValueError for what is no row."""
        given = {f.name: _value(str(f.type), cells[f.name]) for f in fields(cls)}
        row = cls(**given)
        for name in ("value", "low", "high"):
            number = getattr(row, name)
            if number is not None and not -1e-6 <= number <= 1.0 + 1e-6:
                raise ValueError(f"the {name} {number} is not in [0, 1]")
        if row.budget < 1 or row.seed < 0 or not row.status:
            raise ValueError(
                f"a row with the budget {row.budget}, the seed {row.seed} and the status '{row.status}'"
            )
        return row


COLUMNS = tuple(f.name for f in fields(Row))


def line_of(cells: list[str]) -> str:
    """Cells as one line of a CSV file."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True)
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)


def _value(kind: str, text: str) -> Any:
    if kind.startswith("dict"):
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError("its settings are no settings")
        return found
    if kind.startswith("str"):
        return text
    if not text and kind.endswith("None"):
        return None
    number = int(text) if kind.startswith("int") else float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number
