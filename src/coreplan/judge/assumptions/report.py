"""What `check` returns: rows, each with a light."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...base import checks, html, known

GREEN, AMBER, RED, GREY = "green", "amber", "red", "grey"
RULE_OF_THREE = 3.0  # what n draws without an event leave open, at 95%: a probability of three in n
RARE = 0.01  # a share of visits that a green light about visits must have been able to see


@dataclass(frozen=True)
class Measurement:
    """One measurement. Its light is green (holds), amber (be careful), red (does not hold) or grey (not resolved).

    Green also means that the measurement could have found what it rules out. Grey means that it could not, or was not made;
    `needed` is then the number of queries that would resolve it, if that is known.
    """

    name: str
    value: float
    light: str
    verdict: str
    interval: tuple[float, float] | None = None  # of the value
    needed: int | None = None


@dataclass(frozen=True)
class Report:
    """The measurements, one row each, and the number of simulator queries that they took."""

    rows: tuple[Measurement, ...]
    queries: int

    def __getitem__(self, name: str) -> Measurement:
        return next(row for row in self.rows if row.name == name)

    @property
    def worst(self) -> str:
        """The worst light of all rows. Grey is worse than green: something is not known."""
        return max((row.light for row in self.rows), key=[GREEN, GREY, AMBER, RED].index)

    def _repr_html_(self) -> str:
        """How a notebook shows it: the table of `coreplan check`."""
        rows = [(html.light(r.light), r.name, known(r.value), r.verdict) for r in self.rows]
        head = ("light", "what", "value", "verdict")
        return html.table(rows, head, f"assumptions, {self.queries:,} queries")

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON types; values that were not measured are null."""
        rows = [
            {
                **vars(r),
                "value": r.value if math.isfinite(r.value) else None,
                "interval": [x if math.isfinite(x) else None for x in r.interval] if r.interval else None,
            }
            for r in self.rows
        ]
        return {"rows": rows, "worst": self.worst, "queries": self.queries}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Report:
        """The inverse of `as_dict`."""
        return cls(tuple(map(_measurement, record["rows"])), checks.whole(record, "queries"))


def _measurement(row: dict[str, Any]) -> Measurement:
    """One row of `Report.as_dict`; ValueError or KeyError for what is none."""
    value = math.nan if row["value"] is None else row["value"]
    known = checks.plain(Measurement, {**row, "value": value}, finite=False)
    if known["light"] not in (GREEN, AMBER, RED, GREY):
        raise ValueError(f"'light' is {known['light']!r}")
    interval = known.get("interval")
    if interval is not None:
        low, high = (math.nan if x is None else float(x) for x in interval)
        known["interval"] = (low, high)
    return Measurement(**known)


def if_seen(green: Measurement, visits: float, queries: int) -> Measurement:
    """A green row about visits, or a grey one if its number of visits could have missed one in a hundred."""
    if green.light != GREEN or visits * RARE >= RULE_OF_THREE:
        return green
    needed = math.ceil(queries * RULE_OF_THREE / RARE / max(visits, 1.0))
    rare = max(visits / RULE_OF_THREE, 1.0)
    why = f"{green.verdict} But {visits:,.0f} visits may miss one in {rare:,.0f}: give {needed:,} queries."
    return Measurement(green.name, green.value, GREY, why, needed=needed)


def light_of(least: float, most: float, amber: float, green: float, red: float) -> str:
    """The light of a share that lies between `least` and `most`.

    amber < green: a share between the two may get either light, so that a share near a threshold can be resolved, too.
    """
    if least > amber:
        return RED if least > red else AMBER
    return GREEN if most <= green else GREY


def resolving(queries: int, resolved: Callable[[float], bool]) -> int | None:
    """The number of queries, `queries` times the least factor that is `resolved`; None if no number is enough."""
    factor = 1.0
    while factor < 1e12:
        factor *= 1.15
        if resolved(factor):
            digits = max(len(str(int(queries * factor))) - 2, 0)
            return math.ceil(queries * factor / 10**digits) * 10**digits  # two digits are all it is worth
    return None
