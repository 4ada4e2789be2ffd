"""The rows of `verify`: claims measured against their bounds; and groups of rows that are computed together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One claim: `measured` compared with `bound` by `relation` ('<=', '>', or '=' within 1e-6 or so)."""

    claim: str
    label: str
    relation: str
    bound: float
    measured: float
    holds: bool
    part: str = "paper"  # whose claim it is: the "paper"'s, or "ours"

    def as_dict(self) -> dict[str, Any]:
        return self._asdict()

    def starts_with(self, prefix: str) -> bool:
        """Whether the claim, or one of the labels in `label`, starts with the prefix."""
        return any(text.startswith(prefix) for text in (self.claim, *self.label.split(", ")))


@dataclass(frozen=True)
class Group:
    """Rows that are computed together; the beginnings of their labels and claims are known without computing them."""

    name: str
    begins: tuple[str, ...]  # with which the labels and claims of its rows begin
    rows: Callable[[], Iterable[Row]]

    def may_have(self, prefix: str) -> bool:
        """Whether the group, or a label or a claim of its rows, may start with the prefix."""
        return self.name.startswith(prefix) or any(
            text.startswith(prefix) or prefix.startswith(text) for text in self.begins
        )


def group(*begins: str) -> Callable[[Callable[[], Iterable[Row]]], Group]:
    """A decorator: turns a function that yields rows into a group; `begins` are the labels and the claims' first words."""
    return lambda rows: Group(rows.__name__, begins, rows)


def equal(claim: str, label: str, want: float, got: float, tolerance: float) -> Row:
    return _row(claim, label, "=", want, got, abs(want - got) <= tolerance)


def at_most(claim: str, label: str, limit: float, got: float) -> Row:
    return _row(claim, label, "<=", limit, got, got <= limit)


def above(claim: str, label: str, limit: float, got: float) -> Row:
    return _row(claim, label, ">", limit, got, got > limit)


def _row(claim: str, label: str, relation: str, bound: float, measured: float, holds: bool) -> Row:
    return Row(
        claim=claim,
        label=label,
        relation=relation,
        bound=float(bound),
        measured=float(measured),
        holds=bool(holds),
    )
