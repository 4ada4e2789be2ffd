"""One row of `verify`: a claim, measured against its bound."""

from __future__ import annotations

from typing import Any, NamedTuple


class Row(NamedTuple):
    """One claim: `measured` against `bound`; `relation` says how ('<=', '=' within 1e-6 or so, '>')."""

    claim: str
    label: str
    relation: str
    bound: float
    measured: float
    holds: bool

    def as_dict(self) -> dict[str, Any]:
        return {k: getattr(self, k) for k in ("claim", "label", "relation", "bound", "measured", "holds")}


def equal(claim: str, label: str, want: float, got: float, tolerance: float) -> Row:
    return Row(claim, label, "=", float(want), float(got), bool(abs(want - got) <= tolerance))


def at_most(claim: str, label: str, limit: float, got: float) -> Row:
    return Row(claim, label, "<=", float(limit), float(got), bool(got <= limit))


def above(claim: str, label: str, limit: float, got: float) -> Row:
    return Row(claim, label, ">", float(limit), float(got), bool(got > limit))
