"""The rate of Algorithm 1, measured: suboptimality against queries with theory-shaped rates.

    python benchmarks/rate.py [--quick]

As in Theorem 1, T and K have its split, K = T / (m^2 log(m A)), eta and beta fall as 1/sqrt(T) and alpha as
1/sqrt(K); only the constants are practical ones, the same for all budgets. The theorem guarantees n^(-1/4). For each
kind of output (pi_J in expectation over J, the last policy, its greedy limit) there is a local slope between
neighbouring budgets, of the logarithm of the mean gap over seeds, and one over all of them by least squares;
intervals are 95% bootstrap intervals over seeds. One exponent does not say it: local slopes change along the way.
Writes rate.json, rate.md and rate.svg to benchmarks/results/.

The constants are those of the first version of this program, which had T : K = 10,000. How they were found is not
recorded, so they may have been chosen on the seeds that are scored here, 0 to 7: the height of the curves may be a
little too good, and slopes too. pi_J is averaged over J within a run, because one random J per seed is too noisy.
The picture needs matplotlib (`pip install -e '.[plot]'`).
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np

import coreplan
from coreplan.planners import PrimalDual
from coreplan.run import Run
from coreplan.theory import Enumerated

sys.path.insert(0, str(Path(__file__).parent))
from over_j import gaps_at, rest

RESULTS = Path(__file__).parent / "results"
OUTPUTS = ("random", "last", "greedy")
_PARTS = 64
ETA, BETA, ALPHA = 0.06, 6.0, 0.02  # eta = ETA / sqrt(T), beta = BETA / sqrt(T), alpha = ALPHA / sqrt(K)


def gaps(problem: coreplan.Problem, e: Enumerated, n: int, seed: int) -> dict[str, float]:
    """The gap of every kind of output after about n queries, from one run."""
    K = max(1, round(math.sqrt(n / (e.m**2 * math.log(e.m * e.A)))))
    T = n // (K + 1)
    rates = {"eta": ETA / math.sqrt(T), "beta": BETA / math.sqrt(T), "alpha": ALPHA / math.sqrt(K)}
    run = Run.of(problem, PrimalDual(K=K, **rates), budget=n, seed=seed)
    parts = min(_PARTS, T)  # the middles of equal parts of 1..T: the mean gap there is the expectation over J
    along = gaps_at(run, e, [max(1, (2 * part + 1) * T // (2 * _PARTS)) + 1 for part in range(parts)])
    return {"random": float(np.mean(along)), **rest(run, e, n)}


def exponent(budgets: np.ndarray, table: np.ndarray) -> float:
    """The slope of log mean gap against log n; `table` is [seeds, budgets]. Budgets with a zero mean gap are left out."""
    mean = table.mean(axis=0)
    good = mean > 1e-12
    return float(np.polyfit(np.log(budgets[good]), np.log(mean[good]), 1)[0]) if good.sum() > 1 else math.nan


def local(budgets: np.ndarray, table: np.ndarray) -> list[tuple[float, float, float]]:
    """The slope between every two neighbouring budgets, with a 95% bootstrap interval over seeds."""
    rng, n = np.random.default_rng(1), len(table)
    found = []
    for i in range(len(budgets) - 1):
        two = slice(i, i + 2)
        samples = [exponent(budgets[two], table[rng.integers(0, n, n)][:, two]) for _ in range(1000)]
        low, high = np.nanpercentile(samples, [2.5, 97.5])
        found.append((exponent(budgets[two], table[:, two]), float(low), float(high)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="2 seeds, up to 10^5 queries: a smoke test")
    parser.add_argument("--problem", default="random-linear")
    args = parser.parse_args()
    problem = coreplan.make(args.problem)
    e = Enumerated.of(problem)
    budgets = np.array([round(10 ** (4.5 + k / 2)) for k in range(2 if args.quick else 6)])
    seeds = range(2 if args.quick else 8)
    found: dict[str, np.ndarray] = {o: np.empty((len(seeds), len(budgets))) for o in OUTPUTS}
    for i, n in enumerate(budgets):
        for seed in seeds:
            for output, gap in gaps(problem, e, int(n), seed).items():
                found[output][seed, i] = gap
        print(f"{n:>10,}", {o: f"{found[o][:, i].mean():.2e}" for o in OUTPUTS}, flush=True)
    rng = np.random.default_rng(0)
    rows = []
    for output in OUTPUTS:
        samples = [
            exponent(budgets, found[output][rng.integers(0, len(seeds), len(seeds))]) for _ in range(1000)
        ]
        low, high = np.nanpercentile(samples, [2.5, 97.5])
        rows.append({"output": output, "exponent": exponent(budgets, found[output]), "low": low, "high": high,
                     "local": local(budgets, found[output]), "gaps": found[output].tolist()})  # fmt: skip
    if not args.quick:
        write(args.problem, budgets, rows, len(seeds))


def write(problem: str, budgets: np.ndarray, rows: list[dict], seeds: int) -> None:
    (RESULTS / "rate.json").write_text(
        json.dumps({"problem": problem, "budgets": budgets.tolist(), "rows": rows}) + "\n"
    )
    lines = [
        f"# The rate of Algorithm 1 on `{problem}`, {seeds} seeds, theory-shaped rates", "",
        "Mean gap by queries, the theorem's split K = T / (m^2 log(m A)); promised for pi_J: the exponent -1/4.", "",
        "| read-out | " + " | ".join(f"{n:,}" for n in budgets) + " | exponent (95%) |",
        "|---" * (len(budgets) + 2) + "|",
    ]  # fmt: skip
    for row in rows:
        means = np.mean(row["gaps"], axis=0)
        fit = f"{row['exponent']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
        lines.append(f"| {row['output']} | " + " | ".join(f"{g:.1e}" for g in means) + f" | {fit} |")
    steps = [f"{a:,} to {b:,}" for a, b in itertools.pairwise(budgets)]
    lines += [
        "",
        "Local slopes (95%):",
        "",
        "| read-out | " + " | ".join(steps) + " |",
        "|---" * (len(steps) + 1) + "|",
    ]
    for row in rows:
        cells = [f"{s:.2f} ({low:.2f} to {high:.2f})" for s, low, high in row["local"]]
        lines.append(f"| {row['output']} | " + " | ".join(cells) + " |")
    (RESULTS / "rate.md").write_text("\n".join(lines) + "\n")
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    for row in rows:
        table = np.array(row["gaps"])
        axes.loglog(
            budgets, table.mean(axis=0), "o-", label=f"{row['output']}: exponent {row['exponent']:.2f}"
        )
    axes.loglog(
        budgets,
        np.array(rows[0]["gaps"]).mean(axis=0)[0] * (budgets / budgets[0]) ** -0.25,
        "k--",
        label="promised -1/4",
    )
    axes.set(
        xlabel="queries",
        ylabel="gap to the optimum",
        title=f"Algorithm 1 on {problem}, mean of {seeds} seeds",
    )
    axes.legend()
    figure.tight_layout()
    figure.savefig(RESULTS / "rate.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
