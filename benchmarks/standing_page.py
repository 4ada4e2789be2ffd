"""The tables of docs/benchmarks.md, from what `standing.py` has measured: losses of the default planner first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import coreplan
from coreplan.bench import Results, Row
from coreplan.planning import default_planner

LEVELS = (0.05, 0.01)
DEFAULT = "default"  # the planner that `plan` picks
ACCURATE = 1e-4  # differences of sub below this are none


MISSING = "Not measured yet."
OTHERS = ("acting", "growth", "published", "peers")  # programs whose results/NAME.md the page repeats


def write(page: Path, folders: Path) -> None:
    """Put the tables between the page's marks."""
    text = page.read_text()
    for name, part in parts(folders).items():
        before, mark, rest = text.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        text = before + mark + part + "\n" + end + after if mark else text
    page.write_text(text)


def parts(folders: Path) -> dict[str, str]:
    """The tables, by the name of their mark."""
    files = {name: folders.parent / f"{name}.md" for name in OTHERS}
    found = dict.fromkeys(("least", "grid", "lost", "each", "values"), MISSING)
    found |= {name: told(path) if path.exists() else MISSING for name, path in files.items()}
    if (measured := newest(folders, "least")) is not None:
        manifest, table = measured
        lines = [line for _, line in least_rows(table)]
        found["least"] = "\n".join([
            about(manifest, len(table)), "", "| problem | sub | default | best other | who | |", "|---|---|---|---|---|---|",
            *lines,
        ])  # fmt: skip
    if (measured := newest(folders, "grid")) is not None:
        manifest, table = measured
        found["grid"] = "\n".join([
            about(manifest, len(table)), "",
            "| planner | tasks | sub, interquartile mean (95%) | beats the default | refused | failed | time up | s |",
            "|---|---|---|---|---|---|---|---|", *grid_rows(table),
        ])  # fmt: skip
        found["lost"] = "\n".join([
            "| problem | queries | default | best other | who |", "|---|---|---|---|---|", *lost_rows(table),
        ])  # fmt: skip
        found["each"] = matrix(table, "sub")
        found["values"] = matrix(table, "value")
    return found


def told(path: Path) -> str:
    """What a program has written, without the title."""
    return path.read_text().partition("\n")[2].strip()


def newest(folders: Path, kind: str) -> tuple[dict[str, Any], Results] | None:
    """The newest folder of a kind in which something has ended."""
    for folder in sorted(folders.glob("[0-9]*"), reverse=True):
        file = folder / "manifest.json"
        manifest = json.loads(file.read_text()) if file.exists() else {}
        if manifest.get("kind") == kind and manifest.get("ended"):
            table = complete(Results.load(folder), manifest)
            return manifest | {"folder": folder.name}, table
    return None


def complete(table: Results, manifest: dict[str, Any]) -> Results:
    """The rows of seeds, or of problems, all of whose runs were made: one that was stopped in between says nothing."""
    ended = manifest["ended"]
    if isinstance(ended, int):
        return Results([row for row in table if row.seed < ended])
    return Results([row for row in table if row.problem in ended])


def about(manifest: dict[str, Any], runs: int) -> str:
    """The command, and what it ran."""
    seeds = min(manifest["seeds"], manifest["ended"] if manifest["kind"] == "grid" else manifest["seeds"])
    since = f" ({manifest['rebased']} after a rebase)" if "rebased" in manifest else ""
    return (
        f"`{manifest['command'].strip()}`, folder {manifest['folder']}: {runs:,} runs, {seeds} seeds, at most "
        f"{manifest['seconds']:g} s of processor time each, {manifest['cpu_minutes']:.0f} minutes of it in all, revision "
        f"{manifest['revision']}{since}, {manifest['machine']}, begun {manifest['began']}."
    )


# Who needs the fewest queries.


def least_rows(table: Results) -> list[tuple[bool, str]]:
    """One line per problem and level: what the default planner needs, and the best other one; True where it loses."""
    found = []
    cells = [cell for cell in table.cells() if cell.what == "sub"]
    for level in LEVELS:
        for problem in table.problems:
            same, needed = default_of(problem), dict[str, int]()
            for cell in sorted(cells, key=lambda cell: -cell.budget):
                if cell.problem == problem and cell.median <= level:
                    needed[cell.planner] = cell.budget
            mine = needed.pop(DEFAULT, None)
            needed.pop(same, None)
            best = min(needed.values(), default=None)
            who = ", ".join(f"`{name}`" for name, budget in needed.items() if budget == best)
            lost = best is not None and (mine is None or best < mine)
            verdict = "**loses**" if lost else "nobody" if best is None and mine is None else "no worse"
            most = [
                row.budget for row in table if row.problem == problem and row.planner not in (DEFAULT, same)
            ]
            told = [
                f"{mine:,}" if mine else "not reached",
                f"{best:,}" if best else f"over {max(most, default=0):,}",
            ]
            found.append(
                (lost, f"| `{problem}` | {level:g} | {told[0]} | {told[1]} | {who or '-'} | {verdict} |")
            )
    return sorted(found, key=lambda row: not row[0])


def default_of(problem: str) -> str:
    """The name of the planner that `plan` picks; empty for a problem that is not built in."""
    try:
        return default_planner(coreplan.make(problem)).name
    except coreplan.InputError:
        return ""


# The grid.


def grid_rows(table: Results) -> list[str]:
    """One line per planner: over how many tasks, interquartile mean, refusals and failures."""
    lines = []
    for one in sorted(table.overall(), key=lambda o: o.mean.value if o.mean else 9.0):
        mine = [row for row in table if row.planner == one.planner]
        count = {s: sum(row.status == s for row in mine) for s in ("refused", "failed", "time is up")}
        mean = f"{one.mean.value:.3f} ({one.mean.low:.3f} to {one.mean.high:.3f})" if one.mean else "-"
        other = one.tasks and one.planner != DEFAULT
        better = f"{table.improvement(one.planner, DEFAULT).value:.2f}" if other else "-"
        seconds = [row.seconds for row in mine if row.seconds is not None]
        lines.append(
            f"| `{one.planner}` | {one.tasks} | {mean} | {better} | {count['refused']} | {count['failed']} | "
            f"{count['time is up']} | {np.mean(seconds) if seconds else 0.0:.2f} |"
        )
    return lines


def lost_rows(table: Results) -> list[str]:
    """The problems and budgets at which another planner's median of sub is below the default's, the largest loss first."""
    medians: dict[tuple[str, int], dict[str, float]] = {}
    for cell in table.cells():
        if cell.what == "sub":
            medians.setdefault((cell.problem, cell.budget), {})[cell.planner] = cell.median
    found = []
    for (problem, budget), by in medians.items():
        mine = by.pop(DEFAULT, None)
        by.pop(default_of(problem), None)
        who = min(by, key=lambda name: by[name], default=None)
        if mine is not None and who is not None and by[who] < mine - ACCURATE:
            line = f"| `{problem}` | {budget:,} | {mine:.4f} | {by[who]:.4f} | `{who}` |"
            found.append((by[who] - mine, line))
    return [line for _, line in sorted(found)]


def matrix(table: Results, what: str) -> str:
    """Medians over seeds of each planner (a line) on each problem (a column), at the largest budget that gave one."""
    cells = [cell for cell in table.cells() if cell.what == what]
    problems = [name for name in table.problems if any(cell.problem == name for cell in cells)]
    lines = ["| | " + " | ".join(f"`{name}`" for name in problems) + " |", "|---" * (len(problems) + 1) + "|"]
    for planner in table.planners:
        entries = []
        for problem in problems:
            here = [cell for cell in cells if (cell.planner, cell.problem) == (planner, problem)]
            last = max(here, key=lambda cell: cell.budget, default=None)
            entries.append(
                _entry(last, [row for row in table if row.planner == planner and row.problem == problem])
            )
        lines.append(f"| `{planner}` | " + " | ".join(entries) + " |")
    return "\n".join(lines)


def _entry(cell: Any, rows: list[Row]) -> str:
    """A median with the budget if it is not the largest one, or why there is none."""
    if cell is None:
        return next((row.status for row in rows), "")
    if cell.failed == cell.runs:
        return "failed" if "failed" in cell.statuses else "time up"
    largest = max(row.budget for row in rows)
    return f"{cell.median:.4f}" + ("" if cell.budget == largest else f" ({cell.budget:,})")
