"""Mutated files of a run's folder, and things that are not files, for everything that reads them.

Right is: refused; or what the undamaged file gives, where the damage is to bytes that a checksum protects; or, where the
damage is to numbers that nothing protects or whose checksum was made right again, a result that keeps what every result
promises. A refusal leaves the folder as it was, and nothing outside of it is ever written.
"""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import coreplan
from coreplan import CoreSet, Plan
from coreplan.base import files
from coreplan.planners import make_planner
from coreplan.report import measure
from coreplan.run.folder import VERSION

from ..html import Page, safe
from . import surgery
from .problems import CORE, Fault, problem_of
from .rule import Input, Refused, Wrong, answer
from .simulators import ATTACKED, BUDGET, SEED, SETTINGS, valid

NPZ = ("policy.npz", "core.npz", "checkpoint.npz")
JSON = ("run.json", "evaluation.json", "reality.json", "certificate.json", "check.json", "sample.json")
CSV = ("trace.csv",)
PAGE = ("report.html",)  # which nothing of ours reads, and a report replaces
FORMATS = (
    *NPZ,
    *JSON,
    *CSV,
    *PAGE,
)  # every format that coreplan writes; a test compares it with what a run leaves behind
OTHER_CORE = CoreSet(CORE[0][::-1], CORE[1][::-1])  # not the problem's own order, so that core.npz is written


class Files:
    """Mutations of the files in a run's folder."""

    name, share = "files", 5.0

    def __init__(self, planners: tuple[str, ...] = ATTACKED) -> None:
        self.planners = planners
        self.folders: dict[str, dict[str, bytes]] = {}
        self.thetas: dict[tuple[str, str], bytes] = {}  # what each reader finds in a healthy folder
        self.bombs: list[bytes] = []

    def warm_up(self) -> None:
        for planner in self.planners:
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                found = run(planner, folder, evaluate=10, certify=2_000)
                measure(folder, problem(), found.policy, found.core, queries=400)
                _reported(folder)
                kept = self.folders[planner] = contents(folder)
                for reader, read in READERS.items():
                    self.thetas[planner, reader] = _numbers(read(folder, planner))
                    put_back(folder, kept)
        self.bombs = [surgery.bomb(megabytes) for megabytes in (20, 700)]

    def attack(self, given: Input) -> str:
        planner = given.one(self.planners)
        folder = given.folder / "run"
        folder.mkdir()
        put_back(folder, self.folders[planner])
        target = given.one(
            (
                "checkpoint.npz",
                "checkpoint.npz",
                "policy.npz",
                *(n for n in FORMATS if n in self.folders[planner]),
            )
        )
        given.note(f"{planner}: {target}")
        victim = given.folder / "victim"
        victim.write_bytes(b"precious")
        protected = self._damage(given, planner, folder / target, victim)
        reader = given.one(_READ_BY.get(target, ("load_run", "write_report", "resume", "raise the budget")))
        given.note(f"then {reader}")
        before = contents(folder)
        try:
            found = answer(lambda: READERS[reader](folder, planner))
            if isinstance(found, Refused):
                _unchanged(folder, before, str(found.error), running="resume" in reader or "budget" in reader)
                return "refused"
            if protected and _numbers(found) != self.thetas[planner, reader]:
                raise Wrong("silent change", f"{reader} gives other numbers than from the healthy file")
            _usable(found)
            return "right"
        finally:
            if victim.read_bytes() != b"precious":
                raise Wrong("overwritten", "a file outside of the folder was written through a link")

    def _damage(self, given: Input, planner: str, path: Path, victim: Path) -> bool:
        """Damage a file; returns whether a checksum protects what was damaged."""
        data = self.folders[planner][path.name]
        kind = given.one(
            ("bytes", "numbers", "numbers", "container", "thing")
            if path.name in NPZ
            else ("bytes", "thing")
            if path.name in PAGE
            else ("bytes", "text", "text", "thing")
        )
        if kind == "bytes":
            how = given.one(tuple(surgery.BYTES))
            given.note(how)
            path.write_bytes(surgery.BYTES[how](given, data))
            return path.name in NPZ
        if kind == "thing":
            return put_a_thing(given, path, victim)
        if kind == "text":
            path.write_bytes((surgery.tabled if path.name in CSV else surgery.misspelt)(given, data))
            return False
        if kind == "container":
            if path.name == "policy.npz" and given.chance(0.02):
                path.write_bytes(given.one(self.bombs))
                given.note("a bomb")
                return False
            how = given.one((surgery.repacked, surgery.beheaded))
            path.write_bytes(how(given, data))
            return True
        path.write_bytes(given.one((surgery.renumbered, surgery.redescribed))(given, data))
        return False


def put_back(folder: Path, kept: dict[str, bytes]) -> None:
    """Make the folder hold these files."""
    for name, data in kept.items():
        (folder / name).write_bytes(data)


def _numbers(found: Any) -> bytes:
    """The numbers that make up what a reader found."""
    if isinstance(found, CoreSet):
        return found.states.tobytes() + found.actions.tobytes()
    return (found.policy if isinstance(found, Plan) else found).theta.tobytes()


def _usable(found: Any) -> None:
    """Raise `Wrong`, or whatever it raises, unless what was found can be used."""
    if isinstance(found, Plan):
        valid(problem(), found)
    elif isinstance(found, coreplan.SoftmaxPolicy) and found.features is not None:
        p = found.probabilities(CORE[0])
        if not np.allclose(p.sum(axis=1), 1.0):
            raise Wrong("invalid policy", f"{p}")


def _unchanged(folder: Path, before: dict[str, bytes], said: str, running: bool) -> None:
    """Raise `Wrong` if a refusal changed a file; a run that could write no more may have made progress before it."""
    after = contents(folder)
    changed = [name for name in before if after.get(name) != before[name]]
    if running and "checkpoint.npz" in changed:
        files.read_npz(folder / "checkpoint.npz", "coreplan checkpoint", VERSION)
    if (
        running
    ):  # a resume makes results again; what was found about a policy that stays was paid for, and stays
        same = "policy.npz" in before and "policy.npz" not in changed
        changed = [name for name in changed if same and name in ("evaluation.json", "certificate.json")]
    if changed:
        raise Wrong("changed", f"refused ({said[:200]}), and yet {', '.join(changed)} changed")


def _reported(folder: Path) -> coreplan.SoftmaxPolicy:
    """A page of what there is, which can run nothing but its own scripts; in place of a result, always the same policy."""
    page = coreplan.write_report(folder, folder / "report.html", problem())
    safe(Page(page.read_text()))
    return coreplan.SoftmaxPolicy(np.ones(4), 1.0)


def problem() -> coreplan.Problem:
    return problem_of("function", "dense", Fault())


def run(planner: str, folder: Path, **more: Any) -> Plan:
    """A run in a folder, or what a resume makes of it."""
    chosen = make_planner(planner, SETTINGS.get(planner, {}))
    given = {"planner": chosen, "core": OTHER_CORE, "budget": BUDGET, "seed": SEED, "out": folder, **more}
    return coreplan.plan(problem(), **given)


READERS: dict[str, Any] = {
    "load_policy": lambda folder, planner: coreplan.load_policy(folder, problem()),
    "load_policy without a problem": lambda folder, planner: coreplan.load_policy(folder / "policy.npz"),
    "CoreSet.load": lambda folder, planner: CoreSet.load(folder / "core.npz"),
    "load_run": lambda folder, planner: coreplan.load_run(folder, problem()),
    "load_run without a problem": lambda folder, planner: coreplan.load_run(folder),
    "write_report": lambda folder, planner: _reported(folder),
    "resume": lambda folder, planner: run(planner, folder, resume=True),
    "resume, with only the budget": lambda folder, planner: coreplan.plan(
        problem(), core=OTHER_CORE, budget=BUDGET, seed=SEED, out=folder, resume=True
    ),
    "raise the budget": lambda folder, planner: run(planner, folder, resume=True, budget=2 * BUDGET),
}
_READ_BY = {
    "policy.npz": (
        "load_policy",
        "load_policy without a problem",
        "load_run",
        "load_run without a problem",
        "write_report",
        "resume",
    ),
    "core.npz": ("CoreSet.load", "load_run", "write_report", "resume"),
    "checkpoint.npz": (
        "write_report",
        "resume",
        "resume, with only the budget",
        "raise the budget",
        "raise the budget",
    ),
}


def contents(folder: Path) -> dict[str, bytes]:
    """What is in a folder, regular files only."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.name != ".lock" and not path.is_symlink() and path.is_file():
            found[path.name] = path.read_bytes()
    return found


def put_a_thing(given: Input, path: Path, victim: Path) -> bool:
    """Put something that is no file in the place of a file, of its partial form, or of the folder's lock."""
    place = given.one((path, path, path.with_name(path.name + ".partial"), path.with_name(".lock")))
    if place.exists():
        place.unlink()
    how = given.one(("loop", "zeros", "full", "fifo", "folder", "victim", "nothing", "socket", "dangling"))
    given.note(f"{how} as {place.name}")
    if how == "loop":
        place.symlink_to(place.name)
    elif how in ("zeros", "full"):
        place.symlink_to("/dev/zero" if how == "zeros" else "/dev/full")
    elif how == "fifo":
        os.mkfifo(place)
    elif how == "folder":
        place.mkdir()
        (place / "x").write_bytes(b"")
    elif how == "victim":
        place.symlink_to(victim)
    elif how == "dangling":
        place.symlink_to(victim.with_name("nowhere"))
    elif how == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(place))
    return True
