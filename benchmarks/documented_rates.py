"""Algorithm 1 with its documented rates: the expected gap of pi_J, and the gap of the other outputs, of the same runs.

    python benchmarks/documented_rates.py [--seeds 5] [--parts 100] [--only NAME]

E_J[gap] of a run is computed from the whole run (`over_j.py`); intervals are over seeds. Writes documented_rates.json and
documented_rates.md to benchmarks/results/. The rates were found by `search_rates.py` on other seeds. `river-swim-long` has
no documented rates: of 50 settings that were tried with 5 million queries, one solved the search's seeds, but no other
seeds; so it runs with the theorem's rates.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import coreplan
from coreplan.planning import documented_settings
from coreplan.run import Run
from coreplan.theory import Enumerated, optimal, value

sys.path.insert(0, str(Path(__file__).parent))
from over_j import expected_gap, interval, rest

RESULTS = Path(__file__).parent / "results"
OUTPUTS = {"random": "pi_J, in expectation over J", "last": "last policy", "greedy": "its greedy limit"}
BUDGETS = {
    "random-linear": 2_200_000,
    "river-swim": 2_000_000,
    "random-linear:instance=3": 2_200_000,
    "river-linear": 10_000_000,
    "river-linear:L=15,discount=0.99": 10_000_000,
    "river-swim-long": 10_000_000,
}


def study(name: str, budget: int, seeds: int, parts: int) -> dict[str, Any]:
    """All gaps of one problem, `[seeds]` for each output."""
    problem = coreplan.make(name)
    e, settings = Enumerated.of(problem), documented_settings("primal-dual", name)
    gaps: dict[str, list[float]] = {output: [] for output in OUTPUTS}
    for seed in range(seeds):
        run = Run.of(problem, coreplan.PrimalDual(**settings), budget=budget, seed=seed)
        T = budget // (run.planner.K + 1)
        gaps["random"].append(expected_gap(run, e, T, parts, np.random.default_rng(seed)))
        for output, gap in rest(run, e, budget).items():
            gaps[output].append(gap)
    optimum, uniform = value(e, optimal(e)[1]), value(e, e.softmax(np.zeros(e.Phi.shape[1]), 1.0))
    return {
        "problem": name, "budget": budget, "settings": dict(settings), "parts": parts, "gaps": gaps,
        "optimum": optimum, "uniform": uniform,
    }  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """The means over seeds with their intervals."""
    lines = [
        "# Algorithm 1 with its documented rates", "",
        "Mean gap over seeds, and a 95% interval of that mean; in the last column the gap of the uniform policy.", "",
        "| problem | queries | seeds | " + " | ".join(OUTPUTS.values()) + " | largest seed, pi_J | uniform |",
        "|---" * (len(OUTPUTS) + 5) + "|",
    ]  # fmt: skip
    for row in rows:
        said = []
        for output in OUTPUTS:
            mean, low, high = interval(np.array(row["gaps"][output]))
            said.append(f"{mean:.5f} ({low:.5f} to {high:.5f})")
        pi_J = row["gaps"]["random"]
        numbers = f"{row['budget']:,} | {len(pi_J)} | {' | '.join(said)} | {max(pi_J):.5f}"
        lines.append(f"| `{row['problem']}` | {numbers} | {row['optimum'] - row['uniform']:.3f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--parts", type=int, default=100, help="draws of J per run")
    parser.add_argument("--only", choices=BUDGETS, help="one problem, printed and not written")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, budget in BUDGETS.items():
        if args.only in (None, name):
            rows.append(study(name, budget, args.seeds, args.parts))
            print(table(rows[-1:]).splitlines()[-1], flush=True)
            if args.only is None:
                (RESULTS / "documented_rates.json").write_text(json.dumps(rows, indent=1) + "\n")
                (RESULTS / "documented_rates.md").write_text(table(rows))


if __name__ == "__main__":
    main()
