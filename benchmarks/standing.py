"""The standing benchmark: all planners on the built-in problems, at the same budgets and seeds, one row per run.

    make bench                                             # three budgets, five seeds, 20 s per run
    python benchmarks/standing.py --problems river-swim,random-linear --seeds 3 --jobs 1
    python benchmarks/standing.py --least                  # ten seeds: who needs the fewest queries?
    python benchmarks/standing.py --resume benchmarks/results/standing/001
    python benchmarks/standing.py --summary                # docs/benchmarks.md anew, from what has been measured

Every call writes a new folder, benchmarks/results/standing/NNN: results.csv, one line per run, and manifest.json with the
command, the revision, versions, the machine and the time it took. Folders are never overwritten; `--resume` goes on with the
runs that are missing. Then the tables of docs/benchmarks.md are written (`standing_page.py`) from the newest folder of each
kind, losses of the default planner first. All runs are `coreplan.compare` with documented default settings, and their
policies are judged exactly where states can be enumerated, else by 200 rollouts that are not counted.

The grid makes all runs of one seed before those of the next, so that a measurement that was stopped has fewer seeds, and
every problem.

`--least` goes through rising budgets, problem by problem. A planner is run until the median of sub over seeds is at most
.05 and .01; the others, until one of them has reached the level, and to three times what the default planner needed at
most. Six of ten seeds above a level decide that the median is above it, and then the other four are not run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import coreplan
import standing_page
from coreplan.bench import Results, Row
from coreplan.planners import PLANNERS
from coreplan.planning import default_planner
from coreplan.problem import ZOO
from revision import revision

HERE = Path(__file__).parent
FOLDERS, PAGE = HERE / "results" / "standing", HERE.parent / "docs" / "benchmarks.md"
LEVELS = standing_page.LEVELS
THREE = (300, 3_000, 30_000)
STEPS = (10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
DEFAULT = standing_page.DEFAULT
FURTHER = 3.0  # times what the default planner needed: as far as the others are asked
# Exact values, and features in which Q* is linear or nearly so.
LINEAR = (
    "random-linear,river-swim,river-swim-long,river-linear,hard-linear,inventory,queue-network-cut,queue,frozen-lake,"
    "taxi"
)


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--least", action="store_true", help="the least budgets that reach sub .05 and .01")
    parser.add_argument("--summary", action="store_true", help="only write the page")
    parser.add_argument("--resume", type=Path, help="a folder to go on with")
    parser.add_argument(
        "--problems", help="separated by commas; by default all, with --least those with linear features"
    )
    parser.add_argument("--planners", help="separated by commas; by default all, and `default`")
    parser.add_argument("--budgets", help="separated by commas")
    parser.add_argument("--seeds", type=int, help="how many")
    parser.add_argument("--seconds", type=float, default=20.0, help="of processor time, the limit per run")
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args()


def manifest_of(given: argparse.Namespace) -> dict[str, object]:
    """What is run, by whom and where."""
    least = given.least
    problems = given.problems or (LINEAR if least else ",".join(ZOO))
    return {
        "kind": "least" if least else "grid",
        "command": "python benchmarks/standing.py " + " ".join(sys.argv[1:]),
        "problems": problems.split(","),
        "planners": [DEFAULT, *(given.planners.split(",") if given.planners else PLANNERS)],
        "budgets": [int(float(b)) for b in given.budgets.split(",")] if given.budgets else list(STEPS if least else THREE),
        "seeds": given.seeds or (10 if least else 5), "seconds": given.seconds, "jobs": given.jobs,
        "revision": revision(), "coreplan": coreplan.__version__, "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors", "began": time.strftime("%Y-%m-%d %H:%M:%S"),
    }  # fmt: skip


def new_folder() -> Path:
    """The next number that nobody has."""
    FOLDERS.mkdir(parents=True, exist_ok=True)
    last = max((int(p.name) for p in FOLDERS.iterdir() if p.name.isdigit()), default=0)
    folder = FOLDERS / f"{last + 1:03d}"
    folder.mkdir()  # raises if another call was quicker
    return folder


def main() -> None:
    given = asked()
    if not given.summary:
        folder = given.resume or new_folder()
        file = folder / "manifest.json"
        manifest = json.loads(file.read_text()) if file.exists() else manifest_of(given)
        if manifest["revision"] != revision():
            raise SystemExit(
                f"{folder} was measured at revision {manifest['revision']}, and this is {revision()}: its rows are not "
                "mixed with others. Check that revision out, or measure anew."
            )
        begin = clocks()

        def keep(**said: Any) -> None:
            """What has ended, and how long all of it has taken, on disk."""
            nonlocal begin
            now = clocks()
            for name, minutes in zip(
                ("minutes", "cpu_minutes"), (b - a for a, b in zip(begin, now, strict=True)), strict=True
            ):
                manifest[name] = round(manifest.get(name, 0.0) + minutes, 2)
            begin = now
            manifest.update(said)
            file.write_text(json.dumps(manifest, indent=1))

        keep()
        measure = least if manifest["kind"] == "least" else grid
        table = measure(manifest, folder, keep)
        print(table)
        print(f"{len(table):,} runs in {manifest['minutes']:.1f} minutes: {folder}")
    standing_page.write(PAGE, FOLDERS)


def clocks() -> tuple[float, float]:
    """Minutes on the clock, and of processor time of this process and those that have ended for it."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.monotonic() / 60, sum(one.ru_utime + one.ru_stime for one in spent) / 60


def compared(
    manifest: dict[str, Any], folder: Path, problems: Any, planners: Any, budgets: Any, seeds: Any
) -> Results:
    """The rows of these runs; those that are missing are made."""
    return coreplan.compare(
        problems, planners, budgets=budgets, seeds=seeds, seconds=manifest["seconds"], jobs=manifest["jobs"], rollouts=200,
        clock="processor", executor="processes" if manifest["kind"] == "grid" else None, out=folder, progress=None,
    )  # fmt: skip


def grid(manifest: dict[str, Any], folder: Path, keep: Callable[..., None]) -> Results:
    """All runs, one seed after the other."""
    for seeds in range(1, manifest["seeds"] + 1):
        table = compared(
            manifest, folder, manifest["problems"], manifest["planners"], manifest["budgets"], seeds
        )
        keep(ended=seeds)
    return table


def least(manifest: dict[str, Any], folder: Path, keep: Callable[..., None]) -> Results:
    """Rising budgets on each problem."""
    for k, problem in enumerate(manifest["problems"]):
        same = default_planner(coreplan.make(problem)).name
        others = [name for name in manifest["planners"] if name not in (DEFAULT, same)]

        def run(planners: list[str], budget: int, seeds: int, problem: str = problem) -> Results:
            return compared(manifest, folder, [problem], planners, [budget], seeds)

        search(run, others, manifest["budgets"], manifest["seeds"])
        keep(ended=manifest["problems"][: k + 1])
    return Results.load(folder)


def search(
    run: Callable[[list[str], int, int], Iterable[Row]], others: list[str], budgets: list[int], seeds: int
) -> tuple[dict[float, int], dict[float, int]]:
    """By level, the least budget that the default planner needs, and the best of the others.

    `run(planners, budget, seeds)` gives the rows. Whoever has a majority of seeds above a level has its median there.
    """
    mine: dict[float, int] = {}
    theirs: dict[float, int] = {}
    for budget in budgets:
        open_mine = [level for level in LEVELS if level not in mine]
        open_theirs = [
            level
            for level in LEVELS
            if level not in theirs and budget <= FURTHER * mine.get(level, float("inf"))
        ]
        wanted = {DEFAULT: open_mine} | dict.fromkeys(others, open_theirs)
        wanted = {name: levels for name, levels in wanted.items() if levels}
        if not wanted:
            break
        first = losses(run(list(wanted), budget, seeds // 2 + 1))
        hopeful = {
            name: levels for name, levels in wanted.items() if min(first.get(name, [9.0])) <= max(levels)
        }
        found = losses(run(list(hopeful), budget, seeds)) if hopeful else {}
        for name, levels in hopeful.items():
            reached = mine if name == DEFAULT else theirs
            for level in levels:
                if statistics.median(found[name]) <= level:
                    reached.setdefault(level, budget)
    return mine, theirs


def losses(rows: Iterable[Row]) -> dict[str, list[float]]:
    """sub of all runs that count, by planner."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if row.loss is not None:
            found.setdefault(row.planner, []).append(row.loss)
    return found


if __name__ == "__main__":
    main()
