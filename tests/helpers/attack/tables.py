"""Mutated files of a comparison, for what reads them and for a comparison that goes on in the same folder.

Right is: refused, with everything left as it was; or a table whose rows keep what every row promises, in which no row of a
run that is not asked for has appeared.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import coreplan
from coreplan.bench import CONDITIONS_FILE, RESULTS_FILE, TRIALS_FILE

from . import surgery
from .problems import Fault, problem_of
from .rule import Input, Refused, Wrong, answer
from .stored import contents, put_a_thing, put_back

FORMATS = (RESULTS_FILE, TRIALS_FILE, CONDITIONS_FILE)  # every format of a comparison


def compared(folder: Path, seeds: int = 2) -> coreplan.Results:
    """A comparison of two planners, with trials, in a folder."""
    problem = problem_of("function", "dense", Fault())
    planners = ["plug-in", "sampled-lp:n_initial=10"]
    return coreplan.compare(
        problem, planners, budgets=40, seeds=seeds, tune=1, rollouts=4, executor="serial", out=folder
    )


class Tables:
    """Mutations of the files in a comparison's folder."""

    name, share = "tables", 1.0

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def warm_up(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            compared(Path(name))
            self.kept = contents(Path(name))

    def attack(self, given: Input) -> str:
        folder, victim = given.folder / "table", given.folder / "victim"
        folder.mkdir()
        put_back(folder, self.kept)
        victim.write_bytes(b"precious")
        target = given.one(tuple(self.kept))
        given.note(target)
        self._damage(given, folder / target, victim)
        before, seeds = contents(folder), given.one((2, 3))
        if given.chance(0.5):
            found = answer(lambda: coreplan.Results.load(folder))
        else:
            given.note(f"then {seeds} seeds")
            found = answer(lambda: compared(folder, seeds))
        if victim.read_bytes() != b"precious":
            raise Wrong("overwritten", "a file outside of the folder was written through a link")
        if isinstance(found, Refused):
            if {k: v for k, v in contents(folder).items() if k in before} != before:
                raise Wrong("changed", f"refused ({str(found.error)[:200]}), and yet a file changed")
            return "refused"
        _usable(found)
        return "right"

    def _damage(self, given: Input, path: Path, victim: Path) -> None:
        data = self.kept[path.name]
        text = surgery.misspelt if path.suffix == ".json" else surgery.tabled
        how: Any = given.one((*surgery.BYTES.values(), text, text, text, None))
        if how is None:
            put_a_thing(given, path, victim)
        else:
            path.write_bytes(how(given, data))


def _usable(found: coreplan.Results) -> None:
    """Raise `Wrong`, or whatever it raises, unless the table can be used."""
    for row in found:
        if row.value is not None and not -1e-6 <= row.value <= 1 + 1e-6:
            raise Wrong("invalid row", str(row))
    if len(found):
        str(found), found.overall(), found.csv()
