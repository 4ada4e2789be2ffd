"""How often do the certificate's bounds hold, and how wide are they? Where the truth is known.

    python benchmarks/certificate.py [--runs 50] [--only coverage]

Coverage: fresh instances of ten families, with policies from optimal to useless; in how many runs is lower > v_pi, and in
how many is upper < v*? At confidence .95 and .5: both together may happen in at most 5% and 50%. Misspecified: one pair in a
hundred (and no core pair) pays more, and leads elsewhere, than its features say; in how many runs is upper < v*, and
upper + unseen < v*? Width: (upper - lower) / (optimum - uniform) for the optimal policy; on the grid both are found by
value iteration. Dropped: river-linear with the last positions missing from its core set. Prints a table and writes
the parts that ran into benchmarks/results/certificate.json. Seconds are CPU time.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import coreplan
import rare_outcomes
from coreplan import CoreSet, SoftmaxPolicy, certify
from coreplan.features import one_hot
from coreplan.judge import optimal_values
from coreplan.problem import from_matrices
from coreplan.theory import Enumerated

QUERIES = 20_000  # of which a bound for a core set with dropped pairs is had
FEW = 4_000  # of a run that counts for coverage
WIDTHS = (
    ("random-linear", 50_000, 10), ("random-linear", 500_000, 3), ("river-swim", 50_000, 10),
    ("river-linear:L=4", 50_000, 10), ("river-linear", 50_000, 10), ("river-linear", 2_000_000, 2),
    ("grid of 10,000 pairs", 50_000, 3), ("inventory", 200_000, 2),
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


def garnet(instance):
    """Five states, two actions, three next states each; every pair has its number."""
    rng = np.random.default_rng([7, instance])
    P = np.zeros((2, 5, 5))
    for a, x in np.ndindex(2, 5):
        P[a, x, rng.choice(5, 3, replace=False)] = rng.dirichlet(np.ones(3))
    return from_matrices(P, rng.random((5, 2)) ** 3, 0.9, reward_range=(0.0, 1.0))


def rare(name):
    """A family of rare_outcomes.py, with a chance of 3% to 20%."""
    return lambda i: rare_outcomes.FAMILIES[name](0.03 + 0.17 * (i % 50) / 50)


FAMILIES = {
    "random-linear": lambda i: coreplan.make(f"random-linear:instance={i}"),
    "river-linear:L=4": lambda i: coreplan.make(f"river-linear:L=4,instance={i}"),
    "hard-linear": lambda i: coreplan.make(f"hard-linear:instance={i}"),
    "river-swim": lambda i: coreplan.make(f"river-swim:discount={0.8 + 0.15 * (i % 100) / 100}"),
    "garnet": garnet,
} | {name: rare(name) for name in ("rare rewards", "doors", "chains", "sparse bandits", "ties")}


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
        problem = FAMILIES[kind](i + 1)
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


def misspecified(runs, first=0):
    """random-linear, of which one pair in a hundred pays `more` and leads to one state, which the features do not say."""
    row = {"problem": "random-linear, 1% of the pairs wrong", "runs": runs, "queries": FEW, "upper missed": 0,
           "and not denied": 0, "upper + unseen missed": 0}  # fmt: skip
    for i in range(first, first + runs):
        base = coreplan.make(f"random-linear:instance={i + 1},states=200")
        e, rng = Enumerated.of(base), np.random.default_rng([9, i])
        P, r = np.asarray(e.P).copy(), e.r.copy()
        wrong = rng.choice(np.setdiff1d(np.arange(e.Z), e.rows), e.Z // 100, replace=False)
        P[wrong], r[wrong] = np.eye(e.X)[rng.integers(e.X)], (0.7, 0.85, 1.0)[i % 3]
        pairs = np.divmod(e.rows, e.A)
        problem = from_matrices(P, r.reshape(e.X, e.A), base.discount, nu0=e.nu0, features=base.features,
                                core_pairs=pairs, reward_range=(0.0, 1.0))  # fmt: skip
        c = certify(problem, None, near_optimal(base), queries=FEW, seed=rng)
        missed = c.upper < c.exact.optimum - 1e-12
        row["upper missed"] += bool(missed)
        row["and not denied"] += bool(missed and c.holds)
        row["upper + unseen missed"] += bool(c.upper + c.condition.unseen < c.exact.optimum - 1e-12)
    return row


def grid(side=50):
    """A deterministic grid of side x side cells, its optimal policy, the optimum and the uniform policy's value."""
    X, cost = side * side, np.random.default_rng(1).random(side * side)

    def step(states, actions, noise):
        row, column = np.divmod(states, side)
        row = np.clip(row + np.array([-1, 1, 0, 0])[actions], 0, side - 1)
        column = np.clip(column + np.array([0, 0, -1, 1])[actions], 0, side - 1)
        there = states == X - 1
        return np.where(there, 1.0, 0.3 * cost[states]), np.where(there, states, row * side + column)

    model = coreplan.NoiseModel(4, lambda rng, n: rng.integers(X, size=n), step, noise_dimension=0)
    r, y = step(*np.divmod(np.arange(4 * X), 4), None)
    problem = coreplan.Problem(model, one_hot(X, 4), 0.95)
    V, U = np.zeros(X), np.zeros(X)
    for _ in range(600):
        V, U = (r + 0.95 * V[y]).reshape(X, 4).max(axis=1), (r + 0.95 * U[y]).reshape(X, 4).mean(axis=1)
    policy = SoftmaxPolicy(r + 0.95 * V[y], np.inf, problem.features)
    return problem, policy, 0.05 * V.mean(), 0.05 * U.mean()


def width(name, queries, seeds):
    ratios, seconds, holds = [], [], []
    if name.startswith("grid"):
        problem, policy, optimum, uniform = grid()
    else:
        problem = coreplan.make(name)
        policy = near_optimal(problem)
    for seed in range(seeds):
        begin = time.process_time()
        c = certify(problem, None, policy, queries=queries, seed=seed)
        seconds.append(time.process_time() - begin)
        if c.exact is not None:
            optimum, uniform = c.exact.optimum, c.exact.uniform
        ratios.append((c.upper - c.lower) / (optimum - uniform))
        holds.append(c.holds)
    return {
        "problem": name, "queries": queries, "seeds": seeds, "mean width": float(np.mean(ratios)),
        "largest width": float(np.max(ratios)), "hold": int(np.sum(holds)), "seconds": float(np.median(seconds)),
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
    parser.add_argument(
        "--runs", type=int, default=50, help="of each family and confidence; six times as many misspecified"
    )
    parser.add_argument("--only", choices=("width", "dropped", "coverage", "misspecified"))
    given = parser.parse_args()
    parts = {
        "coverage": [lambda k=k, c=c: coverage(k, c, given.runs) for c in (0.95, 0.5) for k in FAMILIES],
        "misspecified": [lambda: misspecified(6 * given.runs)],
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
