"""What `Grow` reaches without a core set: exact sub at the README's budgets, and at a quarter and a sixteenth of them.

`python benchmarks/grow.py` writes results/grow.json and results/grow.md. Seeds 0 to 9, one default setting, every
query counted; the defaults were chosen on seeds from 100 on. sub = (optimum - value) / (optimum - uniform). The smaller
budgets show how often a run that failed (sub above 0.15) ends as doubtful. MountainCar has no exact value; there 100
episodes of at most 200 steps are simulated, from Gymnasium's initial states.
"""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np

import coreplan
from coreplan import Grow, Status
from coreplan.judge import policy_value

RESULTS = Path(__file__).parent / "results"
SEEDS = range(10)
TABLE = {
    "queue-network-cut:features=polynomial": (40_000, 100_000),
    "river-linear": (5_000,),
    "river-linear:L=15,discount=0.99": (20_000,),
    "inventory:features=quadratic": (20_000,),
}
DRIVEN = {"mountain-car:features=rbf": (60_000, 200_000)}
FAILED = 0.15


def exact(spec: str, budget: int) -> dict:
    problem = coreplan.make(spec)
    table, gamma = problem.tabular(), problem.discount
    known = coreplan.evaluate(problem, coreplan.SoftmaxPolicy.uniform(problem.features))
    # No exact values in the trace: they take longer than planning.
    problem = dataclasses.replace(problem, tabular=None)
    subs, doubtful, seconds = [], [], []
    for seed in SEEDS:
        result = coreplan.plan(problem, planner=Grow(), budget=budget, seed=seed, reality=0)
        value = policy_value(table, result.policy, gamma)
        subs.append((known.optimum - value) / (known.optimum - known.uniform))
        doubtful.append(result.status is Status.DOUBTFUL)
        seconds.append(result.seconds)
    failed = [s > FAILED for s in subs]
    return {
        "problem": spec, "budget": budget, "mean": float(np.mean(subs)), "max": max(subs),
        "failed": sum(failed), "failed_and_doubtful": sum(f and d for f, d in zip(failed, doubtful, strict=True)),
        "false_alarms": sum(d and not f for f, d in zip(failed, doubtful, strict=True)),
        "seconds": float(np.mean(seconds)),
    }  # fmt: skip


def driven(spec: str, budget: int) -> dict:
    problem = coreplan.make(spec)
    solved, steps, doubtful, seconds = [], [], [], []
    for seed in SEEDS:
        result = coreplan.plan(problem, planner=Grow(), budget=budget, seed=seed, reality=0)
        taken = drive(problem, result.policy)
        solved.append(int((taken <= 200).sum()))
        steps.append(float(np.minimum(taken, 200).mean()))
        doubtful.append(result.status is Status.DOUBTFUL)
        seconds.append(result.seconds)
    return {
        "problem": spec, "budget": budget, "solved_of_100": solved, "mean_steps": steps,
        "doubtful": sum(doubtful), "seconds": float(np.mean(seconds)),
    }  # fmt: skip


def drive(problem: coreplan.Problem, policy: coreplan.SoftmaxPolicy) -> np.ndarray:
    """Steps to the goal in 100 episodes, infinite if more than 200."""
    rng = np.random.default_rng(0)
    x, taken = problem.model.initial(rng, 100), np.full(100, math.inf)
    for t in range(1, 201):
        _, x = problem.model.step(rng, x, policy.act(x, rng))
        taken = np.where((x[:, 0] >= 0.5) & np.isinf(taken), t, taken)
    return taken


def main() -> None:
    """Measures the rows that results/grow.json does not have yet; delete the file to measure all again."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "grow.json"
    rows = json.loads(path.read_text()) if path.exists() else []
    wanted = [(exact, spec, b // k) for spec, budgets in TABLE.items() for b in budgets for k in (16, 4, 1)]
    wanted += [(driven, spec, b) for spec, budgets in DRIVEN.items() for b in budgets]
    for measure, spec, budget in wanted:
        if any((r["problem"], r["budget"]) == (spec, budget) for r in rows):
            continue
        rows.append(measure(spec, budget))
        print(rows[-1], flush=True)
        path.write_text(json.dumps(rows, indent=1) + "\n")
        (RESULTS / "grow.md").write_text(page(rows))


def page(rows: list[dict]) -> str:
    lines = [
        "# Grow, without a core set",
        "",
        "`python benchmarks/grow.py`, seeds 0 to 9.",
        "",
        "| problem | queries | mean sub | largest | failed (sub > 0.15) | of these doubtful | false alarms | s per run |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        if "mean" in r:
            lines.append(
                f"| `{r['problem']}` | {r['budget']:,} | {r['mean']:.4f} | {r['max']:.4f} | {r['failed']} | "
                f"{r['failed_and_doubtful']} | {r['false_alarms']} | {r['seconds']:.1f} |"
            )
    lines += [
        "",
        "| problem | queries | episodes solved of 100, by seed | mean steps | doubtful | s per run |",
        "|---|---|---|---|---|---|",
    ]
    for r in rows:
        if "solved_of_100" in r:
            lines.append(
                f"| `{r['problem']}` | {r['budget']:,} | {', '.join(map(str, r['solved_of_100']))} | "
                f"{np.mean(r['mean_steps']):.1f} | {r['doubtful']} | {r['seconds']:.1f} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
