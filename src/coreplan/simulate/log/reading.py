"""What a log holds, for people: counted, verified and exported. The file is only read."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...base import FileError, files
from .answers import Body, lane_of
from .querylog import ANSWERS, HEAD, require_head
from .records import Bad, body_at, scanned


@dataclass
class LogReport:
    """What is in a log. `damage` and `torn` count bytes that are no answers: damaged ones, and half a record at the end."""

    path: str
    problem: str
    seed: int
    version: int
    bytes: int = 0
    records: int = 0
    queries: int = 0
    lanes: dict[str, int] = field(default_factory=dict)  # queries by what they were for
    damage: int = 0
    damaged_at: int | None = None  # the first damaged byte
    torn: int = 0
    twice: int = 0  # answers that are there more than once

    @property
    def good(self) -> bool:
        """Whether every byte belongs to an answer that is there once."""
        return not (self.damage or self.torn or self.twice)

    def as_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return asdict(self) | {"good": self.good}


def read_log(path: str | Path) -> LogReport:
    """Count what is in a log, and verify every checksum and every record."""
    path = Path(path)
    with files.regular(path) as file:
        descriptor, size = file.fileno(), os.fstat(file.fileno()).st_size
        report = _report(path, descriptor, size)
        seen: set[int] = set()
        for found in scanned(descriptor, size, 0):
            body = None if isinstance(found, Bad) or found.kind == HEAD else _body(descriptor, found.offset)
            if isinstance(found, Bad) and found.torn:
                report.torn += found.length
            elif isinstance(found, Bad) or (body is None and found.kind == ANSWERS):
                report.damage += found.length
                report.damaged_at = found.offset if report.damaged_at is None else report.damaged_at
            elif body is not None:
                report.records += 1
                lane = "given noise" if body.given else lane_of(body.place)[0]
                report.lanes[lane] = report.lanes.get(lane, 0) + body.n
                keys = body.parts["keys"].tolist()
                report.twice += len(keys) - len(set(keys) - seen)
                seen.update(keys)
    report.queries = sum(report.lanes.values())
    return report


def export_log(path: str | Path, out: str | Path) -> int:
    """Write every good answer as a row of a CSV file, which must not exist yet; returns their number.

    Columns: the lane, block and piece of the noise, the numbers of the state, the action, the reward in the simulator's own
    units, and the numbers of the next state.
    """
    path, out = Path(path), Path(out)
    with files.regular(path) as file:
        descriptor, size = file.fileno(), os.fstat(file.fileno()).st_size
        require_head(path, descriptor)
        if os.path.lexists(out):
            raise FileError(f"{out} exists, and is left as it is. Give another name, or delete it first.")
        count, width = 0, -1
        with files.replacing(out) as target:
            text = io.TextIOWrapper(target, newline="")
            table = csv.writer(text)
            for states, actions, rewards, next_states, place in _answers(descriptor, size):
                if width < 0:
                    width = states.shape[1]
                    names = [f"{name}{i}" for name in ("state", "next_state") for i in range(width)]
                    table.writerow(
                        ["lane", "block", "piece", *names[:width], "action", "reward", *names[width:]]
                    )
                rows = zip(
                    states.tolist(), actions.tolist(), rewards.tolist(), next_states.tolist(), strict=True
                )
                table.writerows([*place, *x, a, r, *y] for x, a, r, y in rows)
                count += len(actions)
            text.detach()  # which flushes, and leaves the file to be closed by whoever opened it
    return count


def _report(path: Path, descriptor: int, size: int) -> LogReport:
    head = require_head(path, descriptor)
    try:
        return LogReport(
            path=str(path), problem=str(head["problem"])[:200], seed=int(head["seed"]), version=int(head["version"]),
            bytes=size,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        raise FileError(f"The beginning of the log {path} does not say whose answers it holds.") from None


def _body(descriptor: int, offset: int) -> Body | None:
    found = body_at(descriptor, offset)
    try:
        return None if found is None else Body(found[1])
    except (ValueError, TypeError):
        return None


def _answers(descriptor: int, size: int) -> Iterator[tuple[Any, Any, Any, Any, tuple[str, int, int]]]:
    """The answers of every good record: states `[n, D]`, actions `[n]`, rewards `[n]`, next states `[n, D]`, and where."""
    for found in scanned(descriptor, size, 0):
        if isinstance(found, Bad) or found.kind != ANSWERS:
            continue
        body = _body(descriptor, found.offset)
        pairs = body if body is None or not body.pairs_at else _body(descriptor, body.pairs_at)
        if body is None or pairs is None or len(pairs.parts["actions"]) != body.n:
            continue
        place = ("given noise", 0, 0) if body.given else lane_of(body.place)
        states, next_states = (
            np.asarray(states).reshape(body.n, -1)
            for states in (pairs.parts["states"], body.parts["next_states"])
        )
        yield states, pairs.parts["actions"], body.parts["rewards"], next_states, place
