"""How the queries of Algorithm 1 for a fixed gap grow with m, D and 1/(1 - gamma), against the powers of Theorem 1.

    python benchmarks/rate_growth.py

One size at a time grows over a decade, the others stay: m = d of `random-linear` (the core features are the unit
vectors), the radius D given to the planner, and 1/(1 - gamma) with D = sqrt(d)/(1 - gamma). T and K have the
theorem's split, K = T / (m^2 log(m A)). The rates are those that minimise its bound, times constants that are the
same everywhere (those that make them the practical ones of rate.py at its problem: with the theorem's own rates the
gap hardly moves at budgets that anyone can wait for). Measured: the number of queries at which E_J[gap of pi_J], the
mean over seeds, is a quarter of the uniform policy's gap, between budgets that double, by interpolation of
logarithms. The theorem's n is m^2 log(m A) D^4 / eps^4. Problem instances and seeds are other ones than rate.py's.
Writes results/rate_growth.md.
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
TIMES = (13.0, 100.0, 0.0007)  # eta, beta, alpha: practical rates over the theorem's, at random-linear
SHARE = 0.25
BUDGETS = [2**k for k in range(12, 21)]
SEEDS = (101, 102, 103)
PARTS = 24
BASE = {"d": 8, "states": 60, "actions": 3, "instance": 7}


def share_left(e: Enumerated, problem: coreplan.Problem, D: float, n: int, seed: int) -> float:
    """E_J[gap of pi_J] over the uniform policy's gap, after about n queries."""
    m, A, R = e.m, e.A, e.radius
    K = max(1, round(math.sqrt(n / (m * m * math.log(m * A)))))
    T = n // (K + 1)
    eta, beta, alpha = (c * rate for c, rate in zip(TIMES, best_rates(m, A, R, D, T, K), strict=True))
    run = Run.of(problem, PrimalDual(K=K, eta=eta, beta=beta, alpha=alpha, D=D), budget=n, seed=seed)
    moments = sorted({(2 * k + 1) * T // (2 * PARTS) + 1 for k in range(PARTS)})
    uniform = value(e, optimal(e)[1]) - value(e, np.full((e.X, A), 1 / A))
    return float(np.mean(gaps_at(run, e, moments))) / uniform


def queries(discount: float, D: float, **sizes: int) -> float:
    """The queries at which the mean share is `SHARE`; infinite if it is not reached."""
    spec = ",".join(f"{k}={v}" for k, v in {**BASE, **sizes, "discount": discount}.items())
    problem = coreplan.make(f"random-linear:{spec}")
    e, before = Enumerated.of(problem), None
    for n in BUDGETS:
        left = float(np.mean([share_left(e, problem, D, n, seed) for seed in SEEDS]))
        if left <= SHARE:
            if before is None:
                return float(n)
            at = (math.log(before) - math.log(SHARE)) / (math.log(before) - math.log(left))
            return n / 2 * 2**at
        before = left
    return math.inf


def series() -> list[tuple[str, str, list[float], list[float], float]]:
    """Name, what it is, sizes, queries, and the theorem's power of the size (the log in m left out)."""
    found = []
    for name, what, sizes, power in (
        ("m", "m = d, D = 30, gamma = .9", [4, 8, 16, 40], 2.0),
        ("D", "m = 8, gamma = .9", [10, 22, 46, 100], 4.0),
        ("1/(1 - gamma)", "m = 8, D = sqrt(8)/(1 - gamma)", [2, 5, 10, 20], 4.0),
    ):
        counts = []
        for size in sizes:
            if name == "m":
                n = queries(0.9, 30.0, d=size)
            elif name == "D":
                n = queries(0.9, float(size))
            else:
                n = queries(1 - 1 / size, math.sqrt(8) * size)
            counts.append(n)
            print(name, size, f"{n:.3g}", flush=True)
        found.append((name, what, sizes, counts, power))
    return found


def main() -> None:
    lines = [
        "# Queries for a fixed gap, as one size grows", "",
        "`python benchmarks/rate_growth.py`: E_J[gap of pi_J] down to a quarter of the uniform policy's, random-linear, 60",
        f"states, {len(SEEDS)} seeds, the theorem's split and rates times fixed constants. Local slopes: of log queries",
        "between neighbouring sizes. `inf`: not within 2^20 = 1,048,576 queries.", "",
        "| size | others | values | queries | local slopes | theorem |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, what, sizes, counts, power in series():
        with np.errstate(invalid="ignore"):  # inf - inf
            logs = np.diff(np.log(counts)) / np.diff(np.log(sizes))
        slopes = ", ".join("-" if not np.isfinite(s) else f"{s:.2f}" for s in logs)
        lines.append(
            f"| {name} | {what} | {', '.join(map(str, sizes))} | {', '.join(f'{n:.3g}' for n in counts)} "
            f"| {slopes} | {power:g} |"
        )
    (RESULTS / "rate_growth.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
