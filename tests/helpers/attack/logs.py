"""Damaged query logs, and things that are no logs, for a run that takes from them and for what reads them.

Right is: refused, with the file as it was; or, where checksums protect what was damaged, the bits of a run without a log,
and every byte that was there is there still (but for half a record at the end, which may be dropped). A record that was put
together anew, with a right checksum, may hold any numbers: then the result must keep what every result promises.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import coreplan
from coreplan.simulate import export_log, read_log
from coreplan.simulate.log.records import FRAME, framed, scanned

from . import surgery
from .problems import Fault, problem_of
from .rule import Input, Refused, Wrong, answer
from .simulators import SEED, valid
from .stored import put_a_thing

BUDGET = 120
PLANNERS = ("plug-in", "grow")


def problem() -> coreplan.Problem:
    return problem_of("function", "dense", Fault())


def plan(planner: str, log: Path | None) -> coreplan.Plan:
    return coreplan.plan(problem(), planner=planner, budget=BUDGET, seed=SEED, log=log)


class Logs:
    """Mutations of a query log."""

    name, share = "logs", 2.0

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.thetas: dict[str, bytes] = {}

    def warm_up(self) -> None:
        for planner in PLANNERS:
            with tempfile.TemporaryDirectory() as name:
                self.thetas[planner] = plan(planner, Path(name) / "q.log").policy.theta.tobytes()
                self.kept[planner] = (Path(name) / "q.log").read_bytes()

    def attack(self, given: Input) -> str:
        planner = given.one(PLANNERS)
        path, victim, data = given.folder / "q.log", given.folder / "victim", self.kept[planner]
        victim.write_bytes(b"precious")
        kind = given.one(("bytes", "bytes", "records", "numbers", "thing"))
        given.note(f"{planner}: {kind}")
        if kind == "thing":
            put_a_thing(given, path, victim)
        else:
            path.write_bytes(getattr(self, f"_{kind}")(given, data))
        before = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        reader = given.one(("plan", "plan", "read", "export"))
        given.note(f"then {reader}")
        found = answer(lambda: self._read(reader, planner, path, given.folder / "answers.csv"))
        if victim.read_bytes() != b"precious":
            raise Wrong("overwritten", "a file that is no log was written to")
        if before is not None:
            self._whole(path.read_bytes(), before, isinstance(found, Refused) or reader != "plan")
        if isinstance(found, Refused):
            return "refused"
        if isinstance(found, coreplan.Plan):
            valid(problem(), found)
            if kind != "numbers" and found.policy.theta.tobytes() != self.thetas[planner]:
                raise Wrong("silent change", "a damaged log gives other numbers than none")
        return "right"

    def _read(self, reader: str, planner: str, path: Path, out: Path) -> Any:
        if reader == "plan":
            return plan(planner, path)
        return read_log(path).as_dict() if reader == "read" else export_log(path, out)

    @staticmethod
    def _whole(after: bytes, before: bytes, untouched: bool) -> None:
        """Raise `Wrong` if anything that was there has been overwritten."""
        if untouched and after != before:
            raise Wrong("changed", "the log was only read, or refused, and changed")
        same = next(
            (i for i, (a, b) in enumerate(zip(after, before, strict=False)) if a != b),
            min(len(after), len(before)),
        )
        if same < len(before) and not _half(before[same:], before):
            raise Wrong("overwritten", f"from byte {same} on the log is not what it was")

    def _bytes(self, given: Input, data: bytes) -> bytes:
        how = given.one(tuple(surgery.BYTES))
        given.note(how)
        return surgery.BYTES[how](given, data)

    def _records(self, given: Input, data: bytes) -> bytes:
        """Records that are repeated, left out or out of order."""
        head, *rest = _cut(data)
        for _ in range(given.one((1, 2, 5))):
            at = int(given.rng.integers(len(rest)))
            how = given.one(("repeat", "drop", "swap"))
            given.note(how)
            if how == "repeat":
                rest.insert(at, rest[at])
            elif how == "drop" and len(rest) > 1:
                del rest[at]
            else:
                rest[at], rest[0] = rest[0], rest[at]
        return head + b"".join(rest)

    def _numbers(self, given: Input, data: bytes) -> bytes:
        """Bodies that are changed, with a right checksum."""
        records = _cut(data)
        for _ in range(given.one((1, 2, 5))):
            at = int(given.rng.integers(len(records)))
            how = given.one(tuple(surgery.BYTES))
            given.note(f"{how} in record {at}")
            body = surgery.BYTES[how](given, records[at][FRAME.size :])
            kind = given.one((records[at][4], 0, 1, 2))
            records[at] = b"".join(framed(kind, body))
        return b"".join(records)


def _cut(data: bytes) -> list[bytes]:
    """The records of a good log."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        found = [record.offset for record in scanned(file.fileno(), len(data), 0)]
    return [data[begin:end] for begin, end in zip(found, [*found[1:], len(data)], strict=True)]


def _half(rest: bytes, before: bytes) -> bool:
    """Whether what is gone was half a record at the end."""
    with tempfile.TemporaryFile() as file:
        file.write(before)
        file.flush()
        *_, last = scanned(file.fileno(), len(before), 0)
    return getattr(last, "torn", False) and last.length >= len(rest)
