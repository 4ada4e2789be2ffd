"""How often do the certificate's bounds hold, and how wide are they? On exact linear MDPs, where the truth is known.

    python benchmarks/certificate.py [--runs 40] [--only coverage]

Coverage: fresh instances of random-linear and river-linear, and river-swim, with policies from optimal to useless; in how
many runs is lower > v_pi, and in how many is upper < v*? At confidence .95 and .5: both together may happen in at most 5%
and 50%. Width: (upper - lower) / (optimum - uniform) for the optimal policy. Dropped: river-linear with the last positions
missing from its core set. Prints a table and writes the parts that ran into benchmarks/results/certificate.json. Seconds
are CPU time.
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

KINDS = ("random-linear", "river-linear:L=4", "river-swim")
QUERIES = 20_000  # of which a bound for a core set with dropped pairs is had
FEW = 5_000  # of a run that counts for coverage
WIDTHS = (
    ("random-linear", 50_000, 10), ("random-linear", 500_000, 3), ("river-swim", 50_000, 10),
    ("river-linear:L=4", 50_000, 10), ("river-linear", 50_000, 10), ("river-linear", 2_000_000, 2),
)  # fmt: skip
PATH = Path(__file__).parent / "results" / "certificate.json"


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


def coverage(kind, confidence, runs):
    row = {
        "problem": kind,
        "confidence": confidence,
        "runs": runs,
        "queries": FEW,
        "lower missed": 0,
        "upper missed": 0,
        "condition denied": 0,
    }
    widths, seconds = [], []
    for i in range(runs):
        rng = np.random.default_rng([5, i])
        problem = coreplan.make(spec(kind, i + 1))
        policy = near_optimal(problem, noise=(0.0, 0.3, 3.0)[i % 3], rng=rng)
        begin = time.process_time()
        c = certify(problem, None, policy, queries=FEW, confidence=confidence, seed=rng)
        seconds.append(time.process_time() - begin)
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


def width(name, queries, seeds):
    problem = coreplan.make(name)
    policy, ratios, seconds = near_optimal(problem), [], []
    for seed in range(seeds):
        begin = time.process_time()
        c = certify(problem, None, policy, queries=queries, seed=seed)
        seconds.append(time.process_time() - begin)
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
    parser.add_argument("--runs", type=int, default=40, help="of each kind and confidence")
    parser.add_argument("--only", choices=("width", "dropped", "coverage"))
    given = parser.parse_args()
    parts = {
        "coverage": [lambda k=k, c=c: coverage(k, c, given.runs) for c in (0.95, 0.5) for k in KINDS],
        "width": [lambda w=w: width(*w) for w in WIDTHS],
        "dropped": [lambda n=n: dropped(n) for n in (1, 2, 4)],
    }
    for part, rows in parts.items():
        if given.only in (None, part):
            found = []
            for row in rows:
                found.append(row())
                said = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in found[-1].items())
                print(", ".join(said), flush=True)
            results = json.loads(PATH.read_text()) if PATH.exists() else {}
            PATH.write_text(json.dumps(results | {part: found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
