"""CoreMirror with its default setting: suboptimality at fixed budgets, queries until it stays low, memory.

    python benchmarks/core_mirror.py          # the table, seeds 0 to 9 (the schedule was chosen on seeds from 100 on)
    python benchmarks/core_mirror.py memory   # peak memory at 10^5 and 10^8 queries; takes minutes

Results go to benchmarks/results/core_mirror.json and core_mirror_memory.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from coreplan import CoreMirror, evaluate, make, plan

RESULTS = Path(__file__).parent / "results"
SEEDS = range(10)
PROBLEMS = {  # budget, target
    "random-linear": (1_500, 0.001),
    "river-linear": (7_000, 0.001),
    "river-linear:L=15,discount=0.99": (14_000, 0.001),
    "inventory": (70_000, 0.01),
}
PLANNERS = {"core-mirror": "CoreMirror()", "primal-dual": "PrimalDual(K=100, eta=2e-4, beta=.02, alpha=.006)"}


def measure(spec: str, budget: int, target: float) -> dict[str, object]:
    """Mean and largest sub at the budget; if the trace has values, the queries after which the mean stays at the target."""
    problem, subs, curves, run = make(spec), [], [], None
    for seed in SEEDS:
        run = plan(problem, planner=CoreMirror(), budget=budget, seed=seed, reality=0)
        judged = evaluate(problem, run.policy)
        scale = judged.optimum - judged.uniform
        subs.append((judged.optimum - judged.value) / scale)
        curves.append((judged.optimum - run.trace["value"]) / scale)
    assert run is not None
    mean = np.mean(curves, axis=0)  # NaN if the trace has no values
    above = np.flatnonzero(~(mean <= target))
    settled = above[-1] + 1 < len(mean)
    return {
        "problem": spec, "queries": run.queries, "mean sub": float(np.mean(subs)), "largest sub": float(np.max(subs)),
        "target": target, "mean stays below target from": float(run.trace["queries"][above[-1] + 1]) if settled else None,
    }  # fmt: skip


def peak(planner: str, budget: int) -> float:
    """Peak memory in MB of a process that plans `river-swim`."""
    code = (
        "import resource\nfrom coreplan import *\n"
        f"plan(make('river-swim'), planner={PLANNERS[planner]}, budget={budget}, reality=0)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    if sys.argv[1:] == ["memory"]:
        rows = [{"planner": p, "queries": n, "peak MB": peak(p, n)} for p in PLANNERS for n in (10**5, 10**8)]
        name = "core_mirror_memory.json"
    else:
        rows = [measure(spec, *limits) for spec, limits in PROBLEMS.items()]
        name = "core_mirror.json"
    for row in rows:
        print(row)
    (RESULTS / name).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
