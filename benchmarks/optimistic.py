"""OptimisticPrimalDual with its default setting, on fresh queries and on stored samples; SampledLP for comparison.

    python benchmarks/optimistic.py

Prints tables and writes benchmarks/results/optimistic.json. sub = gap / (optimum - uniform), exact. "Fixed point" is
value iteration on the same samples, the best that can be expected from them. Seeds 0 to 9; nothing was tuned on them.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

import coreplan

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from helpers.stored_samples import fixed_point, sub

LIVE = [
    ("random-linear", 1_000, 10),
    ("random-linear", 10_000, 10),
    ("river-linear", 3_000, 10),
    ("river-linear", 10_000, 10),
    ("river-linear:L=15,discount=0.99", 15_000, 10),
    ("river-swim", 3_000, 10),
    ("river-swim-long", 30_000, 10),
    ("inventory", 44_100, 5),
]
STORED = [("random-linear", 100), ("river-linear", 100), ("river-linear:L=15,discount=0.99", 150)]


def live() -> list[dict]:
    rows = []
    for name, budget, seeds in LIVE:
        problem = coreplan.make(name)
        subs, seconds, doubts = [], 0.0, 0
        for seed in range(seeds):
            result = coreplan.plan(
                problem, planner=coreplan.OptimisticPrimalDual(), budget=budget, seed=seed, reality=0
            )
            subs.append(coreplan.evaluate(problem, result.policy).sub)
            seconds += result.seconds / seeds
            doubts += result.status is not coreplan.Status.FINISHED
        rows.append(
            {"problem": name, "queries": budget, "subs": subs, "seconds": seconds, "doubtful": doubts}
        )
        print(
            f"{name:34}{budget:8,} mean sub {np.mean(subs):.5f} max {max(subs):.5f} doubtful {doubts} {seconds:.2f} s",
            flush=True,
        )
    return rows


def stored() -> list[dict]:
    rows = []
    for name, n in STORED:
        problem = coreplan.make(name)
        m = len(coreplan.CoreSet.of(problem))
        subs: dict[str, list[float]] = {"fixed point": [], "sampled-lp": [], "optimistic": []}
        seconds = {"sampled-lp": 0.0, "optimistic": 0.0}
        for seed in range(10):
            result = coreplan.plan(
                problem, planner=coreplan.SampledLP(samples=n), budget=n * m, seed=seed, reality=0
            )
            begin = time.perf_counter()
            found = coreplan.OptimisticPrimalDual().on(result.stored)
            seconds["optimistic"] += (time.perf_counter() - begin) / 10
            seconds["sampled-lp"] += result.seconds / 10
            subs["fixed point"].append(sub(problem, fixed_point(result.stored, problem.features.dimension)))
            subs["sampled-lp"].append(coreplan.evaluate(problem, result.policy).sub)
            subs["optimistic"].append(sub(problem, found.theta, found.scale))
        rows.append({"problem": name, "queries": n * m, "subs": subs, "seconds": seconds})
        means = ", ".join(f"{key} {np.mean(values):.6f}" for key, values in subs.items())
        print(f"{name:34}{n * m:8,} mean sub: {means}; seconds {seconds}", flush=True)
    return rows


def main() -> None:
    path = Path(__file__).parent / "results" / "optimistic.json"
    path.write_text(json.dumps({"live": live(), "stored": stored()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
