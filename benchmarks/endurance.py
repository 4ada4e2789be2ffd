"""Does the memory of a long run grow? 10^8 queries each of `PrimalDual` and `CoreMirror`: benchmarks/results/endurance.md.

    nice python benchmarks/endurance.py [--queries 1e8] [--slow 1e7]     # Linux; some minutes

Each run is a process of its own: `plan` on `random-linear` with a folder and a checkpoint every second, so that everything
that a run does over and over is done often. Resident memory is read 200 times in a run. What counts is its growth after the
first million queries, when everything is compiled and allocated once. The Python loop has rows, too, with fewer queries
(`--slow`). The exit code is 1 if anything grows by 5 MB or more.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results" / "endurance.md"
FIRST = 1_000_000  # queries after which nothing may grow
MOST = 5e6  # bytes
RATES = {"K": 20, "eta": 2e-4, "beta": 0.02, "alpha": 0.006}


def resident() -> int:
    """Bytes of resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Watch:
    """Progress that writes down the memory whenever it is told of the queries so far, 200 times in a run."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []  # (queries, bytes)

    def update(self, queries: int) -> None:
        self.seen.append((queries, resident()))

    def close(self) -> None:
        pass


def measure(planner: str, compiled: bool, queries: int) -> dict[str, float]:
    """One run in this process: its time, and its memory after the first million queries and at most afterwards."""
    import coreplan

    problem = coreplan.make("random-linear" if compiled else "random-linear:compiled=false")
    chosen = coreplan.PrimalDual(**RATES) if planner == "PrimalDual" else coreplan.CoreMirror()
    watch = Watch()
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        result = coreplan.plan(
            problem, planner=chosen, budget=queries, out=Path(folder) / "run", checkpoint_seconds=1.0, reality=0,
            progress=watch,
        )  # fmt: skip
    seconds = time.perf_counter() - begin
    seen = [*watch.seen, (result.queries, resident())]
    after = [size for count, size in seen if count >= FIRST]
    return {"queries": result.queries, "seconds": seconds, "first": after[0], "most": max(after)}


def write(rows: list[str]) -> None:
    """The results so far."""
    head = [
        "# Memory of long runs",
        "",
        "`python benchmarks/endurance.py`: what it measures is said there.",
        "",
    ]
    head += [
        "| run | queries | seconds | MB after a million | MB at most afterwards | growth, MB |",
        "|---|---|---|---|---|---|",
    ]
    RESULTS.write_text("\n".join([*head, *rows, "", f"Allowed: {MOST / 1e6:g} MB.", ""]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Does the memory of a long run grow?")
    parser.add_argument("--queries", type=float, default=1e8, help="of each compiled run; 0 for none")
    parser.add_argument("--slow", type=float, default=1e7, help="of each run in the Python loop; 0 for none")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(measure(given.child[0], given.child[1] == "compiled", int(given.child[2]))))
        return
    rows, grown = [], 0.0
    for loop, queries in (("compiled", int(given.queries)), ("Python", int(given.slow))):
        for planner in ("PrimalDual", "CoreMirror") if queries else ():
            command = [sys.executable, __file__, "--child", planner, loop, str(queries)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            growth = found["most"] - found["first"]
            grown = max(grown, growth)
            rows.append(
                f"| `{planner}`, {loop} loop | {found['queries']:,} | {found['seconds']:,.0f} | {found['first'] / 1e6:.1f} "
                f"| {found['most'] / 1e6:.1f} | {growth / 1e6:.2f} |"
            )
            print(rows[-1], flush=True)
            write(rows)  # after each, so that nothing measured is lost
    sys.exit(grown >= MOST)


if __name__ == "__main__":
    main()
