"""The standing benchmark: all planners on the built-in problems, at the same budgets and seeds, one row per run.

    make bench                                             # three budgets, five seeds, 20 s per run
    python benchmarks/standing.py --problems river-swim,random-linear --seeds 3 --jobs 1
    python benchmarks/standing.py --least                  # budgets in steps of three, ten seeds: who needs fewest queries?
    python benchmarks/standing.py --resume benchmarks/results/standing/001
    python benchmarks/standing.py --summary                # docs/benchmarks.md anew, from what has been measured

Every call writes a new folder, benchmarks/results/standing/NNN: results.csv, one line per run, and manifest.json with the
command, the revision, versions and the machine. Folders are never overwritten; `--resume` goes on with the runs that are
missing. Then the tables of docs/benchmarks.md are written from the newest folder of each kind, losses of the default planner
first. All runs are `coreplan.compare` with documented default settings, and their policies are judged exactly where states
can be enumerated, else by 200 rollouts that are not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import coreplan
from coreplan.bench import Results
from coreplan.planners import PLANNERS
from coreplan.problem import ZOO

HERE = Path(__file__).parent
FOLDERS, PAGE = HERE / "results" / "standing", HERE.parent / "docs" / "benchmarks.md"
LEVELS = (0.05, 0.01)
THREE = (1_000, 10_000, 100_000)
STEPS = (30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
DEFAULT = "default"  # the planner that `plan` picks
# Exact values, and features in which Q* is linear or nearly so.
LINEAR = "random-linear,river-swim,river-swim-long,river-linear,hard-linear,inventory,queue-network-cut,frozen-lake,taxi"


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
    parser.add_argument("--seconds", type=float, default=20.0, help="the limit per run")
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args()


def manifest_of(given: argparse.Namespace) -> dict[str, object]:
    """What is run, by whom and where."""
    least = given.least
    problems = given.problems or (LINEAR if least else ",".join(ZOO))
    revision = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True, check=False
    )
    return {
        "kind": "least" if least else "grid",
        "command": "python benchmarks/standing.py " + " ".join(sys.argv[1:]),
        "problems": problems.split(","),
        "planners": [DEFAULT, *(given.planners.split(",") if given.planners else PLANNERS)],
        "budgets": [int(float(b)) for b in given.budgets.split(",")] if given.budgets else list(STEPS if least else THREE),
        "seeds": given.seeds or (10 if least else 5), "seconds": given.seconds, "jobs": given.jobs,
        "revision": revision.stdout.strip(), "coreplan": coreplan.__version__, "python": platform.python_version(),
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
        if not file.exists():
            file.write_text(json.dumps(manifest_of(given), indent=1))
        manifest, begin = json.loads(file.read_text()), time.monotonic()
        table = coreplan.compare(
            manifest["problems"], manifest["planners"], budgets=manifest["budgets"], seeds=manifest["seeds"],
            seconds=manifest["seconds"], jobs=manifest["jobs"], rollouts=200, out=folder, progress=None,
        )  # fmt: skip
        print(table)
        print(f"{len(table):,} runs in {(time.monotonic() - begin) / 60:.1f} minutes: {folder}")
    write_page()


# The page.


def newest(kind: str) -> tuple[dict[str, object], Results] | None:
    """The newest folder of a kind."""
    for folder in sorted(FOLDERS.glob("[0-9]*"), reverse=True):
        file = folder / "manifest.json"
        if (
            file.exists()
            and json.loads(file.read_text())["kind"] == kind
            and (folder / "results.csv").exists()
        ):
            manifest = json.loads(file.read_text())
            return manifest | {"folder": folder.name}, complete(Results.load(folder), manifest)
    return None


def complete(table: Results, manifest: dict[str, object]) -> Results:
    """The rows of problems all of whose runs were made: a measurement that was stopped says nothing of the others."""
    runs = len(manifest["planners"]) * len(manifest["budgets"]) * manifest["seeds"]
    whole = {problem for problem in table.problems if sum(row.problem == problem for row in table) >= runs}
    return Results([row for row in table if row.problem in whole])


def least_rows(table: Results) -> list[tuple[bool, str]]:
    """One line per problem and level: what the default planner needs, and the best other one; True where it loses."""
    found = []
    for level in LEVELS:
        reached = {one.planner: one.reached for one in table.overall(level)}
        ours = reached.pop(DEFAULT, {})
        for problem in table.problems:
            mine = ours.get(problem)
            needed = {name: budgets[problem] for name, budgets in reached.items() if problem in budgets}
            best = min(needed.values(), default=None)
            who = ", ".join(f"`{name}`" for name, budget in needed.items() if budget == best)
            lost = best is not None and (mine is None or best < mine)
            verdict = "**loses**" if lost else "nobody" if best is None and mine is None else "no worse"
            told = [f"{n:,}" if n else "not reached" for n in (mine, best)]
            found.append(
                (lost, f"| `{problem}` | {level:g} | {told[0]} | {told[1]} | {who or '-'} | {verdict} |")
            )
    return sorted(found, key=lambda row: not row[0])


def grid_rows(table: Results) -> list[str]:
    """One line per planner: over how many tasks, interquartile mean, refusals and failures."""
    lines = []
    for one in sorted(table.overall(), key=lambda o: o.mean.value if o.mean else 9.0):
        mine = [row for row in table if row.planner == one.planner]
        count = {s: sum(row.status == s for row in mine) for s in ("refused", "failed", "time is up")}
        mean = f"{one.mean.value:.3f} ({one.mean.low:.3f} to {one.mean.high:.3f})" if one.mean else "-"
        better = [
            f"{table.improvement(one.planner, DEFAULT).value:.2f}"
            if one.tasks and one.planner != DEFAULT
            else "-"
        ]
        seconds = sum(row.seconds or 0.0 for row in mine) / max(len(mine), 1)
        lines.append(
            f"| `{one.planner}` | {one.tasks} | {mean} | {better[0]} | {count['refused']} | {count['failed']} | "
            f"{count['time is up']} | {seconds:.2f} |"
        )
    return lines


def about(manifest: dict[str, object], runs: int) -> str:
    return (
        f"`{manifest['command']}`, folder {manifest['folder']}: {runs:,} runs, {manifest['seeds']} seeds, at most "
        f"{manifest['seconds']:g} s each, revision {manifest['revision']}, {manifest['machine']}, begun {manifest['began']}."
    )


def write_page() -> None:
    """Put the tables between the page's marks."""
    text = PAGE.read_text()
    parts: dict[str, str] = {}
    least, grid = newest("least"), newest("grid")
    if least:
        manifest, table = least
        head = ["| problem | sub | default | best other | who | |", "|---|---|---|---|---|---|"]
        parts["least"] = "\n".join(
            [about(manifest, len(table)), "", *head, *(line for _, line in least_rows(table))]
        )
    if grid:
        manifest, table = grid
        head = [
            "| planner | tasks | sub, interquartile mean (95%) | beats the default | refused | failed | time up | s |",
            "|---|---|---|---|---|---|---|---|",
        ]
        parts["grid"] = "\n".join([about(manifest, len(table)), "", *head, *grid_rows(table)])
    for name, part in parts.items():
        before, mark, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        text = before + mark + part + "\n" + end + after
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
