"""How often do the certificate's bounds hold, and how wide are they? On exact linear MDPs, where the truth is known.

    python benchmarks/certificate.py [--runs 500]

Coverage: fresh instances of random-linear, river-linear and hard-linear, and river-swim, with policies from optimal to
useless; in how many runs is lower > v_pi, and in how many is upper < v*? Both together may happen in at most 5%.
Width: (upper - lower) / (optimum - uniform) for the optimal policy. Dropped: river-linear with the last positions missing
from its core set. Prints a table and writes benchmarks/results/certificate.json.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import coreplan
from coreplan import CoreSet, SoftmaxPolicy, certify
from coreplan.judge import optimal_values
from coreplan.theory import Enumerated

KINDS = ("random-linear", "river-linear:L=4", "hard-linear", "river-swim")
QUERIES = 20_000


def near_optimal(problem, noise=0.0, rng=None):
    """The greedy policy for the least-squares fit of Q*, with Gaussian noise relative to the spread of theta added."""
    e = Enumerated.of(problem)
    Q = optimal_values(e.table, e.discount)[1].ravel()
    Phi = e.Phi.toarray() if hasattr(e.Phi, "toarray") else e.Phi
    theta = np.linalg.lstsq(Phi, Q, rcond=None)[0]
    if noise:
        theta = theta + noise * theta.std() * rng.standard_normal(len(theta))
    return SoftmaxPolicy(theta, np.inf, problem.features)


def spec(kind, instance):
    if kind == "river-swim":
        return f"river-swim:discount={0.8 + 0.15 * (instance % 100) / 100}"
    return f"{kind}{',' if ':' in kind else ':'}instance={instance}"


def coverage(kind, runs):
    row = {
        "problem": kind,
        "runs": runs,
        "queries": QUERIES,
        "lower missed": 0,
        "upper missed": 0,
        "condition denied": 0,
    }
    widths, seconds = [], []
    for i in range(runs):
        rng = np.random.default_rng([5, i])
        problem = coreplan.make(spec(kind, i + 1))
        policy = near_optimal(problem, noise=(0.0, 0.3, 3.0)[i % 3], rng=rng)
        begin = time.perf_counter()
        c = certify(problem, None, policy, queries=QUERIES, seed=rng)
        seconds.append(time.perf_counter() - begin)
        row["lower missed"] += bool(c.lower > c.exact.value + 1e-12)
        row["upper missed"] += bool(c.upper < c.exact.optimum - 1e-12)
        row["condition denied"] += not c.holds
        widths.append([c.upper - c.exact.optimum, c.exact.value - c.lower])
    slack = np.median(widths, axis=0)
    return row | {
        "median slack of upper": slack[0],
        "median slack of lower": slack[1],
        "seconds": float(np.median(seconds)),
    }


def width(name, queries, seeds=20):
    problem = coreplan.make(name)
    policy, ratios, seconds = near_optimal(problem), [], []
    for seed in range(seeds):
        begin = time.perf_counter()
        c = certify(problem, None, policy, queries=queries, seed=seed)
        seconds.append(time.perf_counter() - begin)
        ratios.append((c.upper - c.lower) / (c.exact.optimum - c.exact.uniform))
    return {
        "problem": name, "queries": queries, "seeds": seeds, "mean width": float(np.mean(ratios)),
        "largest width": float(np.max(ratios)), "seconds": float(np.median(seconds)),
    }  # fmt: skip


def dropped(positions):
    problem = coreplan.make("river-linear")
    core = CoreSet.of(problem)
    keep = core.states < 10 - positions
    c = certify(
        problem, CoreSet(core.states[keep], core.actions[keep]), near_optimal(problem), queries=QUERIES
    )
    return {"positions dropped": positions, "holds": c.holds, "hull error": c.condition.hull_error,
            "residual": c.condition.violation, "noise": c.condition.noise}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=500)
    runs = parser.parse_args().runs
    results = {"coverage": [], "width": [], "dropped": []}

    def show(part, row):
        results[part].append(row)
        print(
            ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()),
            flush=True,
        )

    for name, queries in (("random-linear", 50_000), ("random-linear", 500_000), ("river-swim", 50_000),
                          ("river-linear:L=4", 50_000), ("river-linear", 50_000), ("river-linear", 2_000_000)):  # fmt: skip
        show("width", width(name, queries, 20 if queries <= 50_000 else 3))
    for positions in (1, 2, 4):
        show("dropped", dropped(positions))
    for kind in KINDS:
        show("coverage", coverage(kind, runs // len(KINDS)))
    path = Path(__file__).parent / "results" / "certificate.json"
    path.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
