"""What does the query log cost? Ten million cheap queries with it and without: benchmarks/results/query_log.md.

    nice python benchmarks/query_log.py [--queries 1e7]      # Linux; a few minutes, and 300 MB of disk

Each row is a process of its own, which plans twice with the same seed: without a log, then with one. The simulator is a
corridor in NumPy, so cheap that whatever the log costs is seen. The cost is the difference of the two runs' CPU time, system
calls included, divided by the queries; it depends on how many queries there are in one call of the simulator, so there is a
row for several. Resident memory is read 200 times in a run: what counts is its growth after the first tenth of it. Then a
third run is answered from the log. The exit code is 1 unless all runs have the same bits, the third asks the simulator
nothing, memory grows by less than 50 MB, and the log costs at most 2 microseconds per query where a call has 200 or more.
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

RESULTS = Path(__file__).resolve().parent / "results" / "query_log.md"
MOST_GROWTH, MOST_COST = 50e6, 2e-6
CASES = (
    # name, planner, core pairs, share of the queries
    ("CoreMirror, 1,000 core pairs", "core-mirror", 1000, 1.0),
    ("CoreMirror, 200 core pairs", "core-mirror", 200, 1.0),
    ("PrimalDual, K = 20", "primal-dual", 200, 0.1),
    ("CoreMirror, one state at a time", "scalar", 200, 0.02),
)


def corridor(pairs: int, scalar: bool):
    """A corridor of places, `pairs` of them with an action each; and a count of what its simulator is asked."""
    import numpy as np

    import coreplan

    places, asked = pairs // 2, [0]

    def step(rng, x, a):
        asked[0] += len(x)
        y = np.where(
            (a == 1) & (rng.random(len(x)) < 0.8), np.minimum(x + 1, places - 1), np.maximum(x - 1, 0)
        )
        return (y == places - 1) * 1.0, y

    def one(rng, x, a):
        asked[0] += 1
        y = min(x + 1, places - 1) if a == 1 and rng.random() < 0.8 else max(x - 1, 0)
        return float(y == places - 1), y

    if scalar:
        model = coreplan.ScalarModel(2, lambda rng: rng.integers(places), one)
    else:
        model = coreplan.FunctionModel(2, lambda rng, n: rng.integers(places, size=n), step)
    return coreplan.Problem(model, coreplan.features.one_hot(places, 2), 0.9, name="corridor"), asked


def measure(case: int, queries: int) -> dict[str, float]:
    """Three runs in this process."""
    import coreplan
    from endurance import Watch, resident

    _, name, pairs, share = CASES[case]
    problem, asked = corridor(pairs, name == "scalar")
    planner = {"primal-dual": coreplan.PrimalDual(K=20, eta=2e-4, beta=0.02, alpha=0.006)}.get(
        name, coreplan.CoreMirror()
    )
    queries = int(queries * share)

    def run(log: Path | None, watch: Watch | bool = False):
        begin = time.process_time()
        found = coreplan.plan(problem, planner=planner, budget=queries, reality=0, log=log, progress=watch)
        return found, time.process_time() - begin

    coreplan.plan(problem, planner=planner, budget=10_000, reality=0)  # compiles
    with tempfile.TemporaryDirectory() as folder:
        log, watch = Path(folder) / "q.log", Watch()
        plain, without = run(None)
        logged, seconds = run(log, watch)
        seen = [*watch.seen, (queries, resident())]
        size, paid = log.stat().st_size, asked[0]
        again, replayed = run(log)
    after = [memory for count, memory in seen if count >= queries / 10]
    same = plain.policy.theta.tobytes() == logged.policy.theta.tobytes() == again.policy.theta.tobytes()
    return {
        "queries": logged.queries, "without": without, "with": seconds, "cost": (seconds - without) / logged.queries,
        "bytes": size / logged.queries, "growth": max(after) - after[0], "replayed": replayed, "same": same,
        "asked_again": asked[0] - paid,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=float, default=1e7)
    parser.add_argument("--case", type=int)
    given = parser.parse_args()
    if given.case is not None:
        print(json.dumps(measure(given.case, int(given.queries))))
        return
    rows, good = [], True
    for number, (name, *_) in enumerate(CASES):
        command = [sys.executable, __file__, "--case", str(number), "--queries", str(given.queries)]
        out = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ).stdout
        r = json.loads(out)
        good &= r["same"] and r["asked_again"] == 0 and r["growth"] < MOST_GROWTH
        good &= r["cost"] <= MOST_COST or number >= 2
        rows.append(
            f"| {name} | {r['queries']:,} | {r['without']:.1f} | {r['with']:.1f} | {1e6 * r['cost']:.2f} | {r['bytes']:.0f} "
            f"| {r['growth'] / 1e6:.1f} | {r['replayed']:.1f} | {'yes' if r['same'] else 'NO'} |"
        )
        print(rows[-1], flush=True)
    head = [
        "# The cost of the query log",
        "",
        "`python benchmarks/query_log.py`: what it measures is said there. Seconds are CPU time on a busy machine.",
        "",
        "| run | queries | seconds without | with | microseconds per query | bytes per query | growth, MB "
        "| seconds from the log | same bits |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    note = "None of the runs from the log asked the simulator anything."
    RESULTS.write_text("\n".join([*head, *rows, "", note, ""]))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
