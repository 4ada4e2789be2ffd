"""How the queries of Algorithm 1 for a fixed gap grow with m, D and 1/(1 - gamma), against the powers of Theorem 1.

    python benchmarks/rate_growth.py

One size at a time grows over a decade, the others stay: m = d of `random-linear` (the core features are the unit
vectors), the radius D given to the planner, and 1/(1 - gamma) with D = sqrt(d)/(1 - gamma). T and K have the theorem's
split, K = T / (m^2 log(m A)), and the rates are those that minimise its bound, with no constant of our own. Measured: the
number of queries at which E_J[gap of pi_J] is two thirds of the uniform policy's gap, between budgets that grow
fourfold, by interpolation of logarithms; for each of three instances of the problem, with seeds of its own. Two thirds
is far from an optimal policy: it is what these rates reach over a whole decade at budgets that anyone can wait for. The
theorem's n is m^2 log(m A) D^4 / eps^4. Writes results/rate_growth.md.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

import coreplan
from coreplan.planners import PrimalDual, best_rates
from coreplan.run import Run
from coreplan.theory import Enumerated, optimal, value

sys.path.insert(0, str(Path(__file__).parent))
from over_j import gaps_at

RESULTS = Path(__file__).parent / "results"
SHARE = 2 / 3
BUDGETS = [4**k for k in range(3, 15)]
INSTANCES = (7, 8, 9)  # of the problem
PARTS = 24
SERIES = (
    ("m", "m = d, D = 2.5, gamma = .2", (2, 4, 9, 20), 2),
    ("D", "m = d = 2, gamma = .2", (1.0, 2.2, 4.6, 10.0), 4),
    ("1/(1 - gamma)", "m = d = 2, D = sqrt(2)/(1 - gamma)", (1.1, 2.4, 5.1, 11.0), 4),
)


def share_left(e: Enumerated, problem: coreplan.Problem, D: float, n: int, seed: int) -> float:
    """E_J[gap of pi_J] over the uniform policy's gap, after about n queries."""
    m, A, R = e.m, e.A, e.radius
    K = max(1, round(math.sqrt(n / (m * m * math.log(m * A)))))
    T = n // (K + 1)
    eta, beta, alpha = best_rates(m, A, R, D, T, K)
    run = Run.of(problem, PrimalDual(K=K, eta=eta, beta=beta, alpha=alpha, D=D), budget=n, seed=seed)
    moments = sorted({(2 * k + 1) * T // (2 * PARTS) + 1 for k in range(PARTS)})
    uniform = value(e, optimal(e)[1]) - value(e, np.full((e.X, A), 1 / A))
    return float(np.mean(gaps_at(run, e, moments))) / uniform


def runs_of(n: int) -> range:
    """The numbers of the runs with n queries: short ones are many, since where a first large step leads is luck."""
    return range(1, 17 if n <= 2**14 else 5 if n <= 2**18 else 2)


def queries(name: str, size: float, instance: int) -> float:
    """The queries at which the share is `SHARE`; infinite if it is not reached."""
    d = int(size) if name == "m" else 2
    discount = 1 - 1 / size if name == "1/(1 - gamma)" else 0.2
    D = {"m": 2.5, "D": size, "1/(1 - gamma)": math.sqrt(2) * size}[name]
    problem = coreplan.make(
        f"random-linear:d={d},states=20,actions=3,instance={instance},discount={discount}"
    )
    e, before = Enumerated.of(problem), math.inf
    for n in BUDGETS:
        left = float(np.mean([share_left(e, problem, D, n, 100 * run + instance) for run in runs_of(n)]))
        if left <= SHARE:
            if math.isinf(before):
                return float(n)
            return n / 4 * 4 ** (math.log(before / SHARE) / math.log(before / left))
        before = left
    return math.inf


def row(name: str, what: str, sizes: tuple[float, ...], power: int) -> str:
    """A line of the table: geometric means over the instances, and their ends."""
    found = np.empty((len(sizes), len(INSTANCES)))
    for i, size in enumerate(sizes):
        for k, instance in enumerate(INSTANCES):
            found[i, k] = queries(name, size, instance)
        print(name, size, [f"{n:.3g}" for n in found[i]], flush=True)
    logs = np.log(found)
    slopes = np.diff(logs.mean(axis=1)) / np.diff(np.log(sizes))
    decade = (logs[-1] - logs[0]) / math.log(sizes[-1] / sizes[0])
    counts = ", ".join(
        f"{math.exp(mean):.2g} ({low:.2g} to {high:.2g})"
        for mean, low, high in zip(logs.mean(axis=1), found.min(axis=1), found.max(axis=1), strict=True)
    )
    whole = f"{decade.mean():.1f} ({decade.min():.1f} to {decade.max():.1f})"
    between = ", ".join(f"{s:.1f}" for s in slopes)
    return f"| {name} | {what} | {', '.join(map(str, sizes))} | {counts} | {between} | {whole} | {power} |"


def main() -> None:
    lines = [
        "# Queries for a fixed gap, as one size grows", "",
        "`python benchmarks/rate_growth.py`: until E_J[gap of pi_J] is two thirds of the uniform policy's, on random-linear",
        "with 20 states and 3 actions, the theorem's own rates and split, up to 2^28 queries; over "
        f"{len(INSTANCES)} instances the geometric mean,",
        "least and largest. Slopes are of log queries: between neighbouring sizes, and over the whole decade. In the last",
        "column the theorem's power (the logarithm that goes with m^2 left out).", "",
        "| size | others | values | queries | slopes | over the decade | theorem |", "|---|---|---|---|---|---|---|",
        *(row(*series) for series in SERIES),
    ]  # fmt: skip
    (RESULTS / "rate_growth.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
