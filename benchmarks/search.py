"""`Search`: lines per game of Tetris by budget, and what it earns beside `Grow`, alone and as a last improvement.

    python benchmarks/search.py [--tetris 4000000 8000000] [--seeds 0 3] [--games 60] [--others]

Every query counts, those that tell what the policy earns too. Settings are the defaults, the same for every problem.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import njit

import coreplan
from coreplan import Grow, Problem, Search, make

FIRST = 20  # games for the table
LONGEST = 1_000_000  # placements per game, at most
OTHERS = {
    "cart-pole:features=polynomial": 32_000,
    "inventory:features=quadratic": 20_000,
    "queue-network-cut:features=polynomial": 40_000,
}


@njit(nogil=True)
def _play(rng, step, features, model_data, feature_data, x, y, a, r, phi, theta, most):
    """Lines of one game, greedy on theta; the state's last number says that the game is over."""
    lines = 0.0
    for _ in range(most):
        features(feature_data, x, phi)
        best = 0
        top = -np.inf
        for b in range(phi.shape[1]):
            s = 0.0
            for i in range(theta.shape[0]):
                s += phi[0, b, i] * theta[i]
            if s > top:
                top, best = s, b
        a[0] = best
        step(rng, model_data, x, a, r, y)
        lines += r[0]
        x[0] = y[0]
        if x[0, x.shape[1] - 1]:
            break
    return lines


def games(problem: Problem, theta: Any, n: int) -> Any:
    """Lines of n games, `[n]`; their pieces are the same for every policy."""
    model: Any = problem.model
    features: Any = problem.features
    found = []
    for i in range(n):
        rng = np.random.default_rng([12345, i])
        x = np.array(model.initial(rng, 1))
        y, a, r = np.array(model.empty_states(1)), np.zeros(1, dtype=np.int64), np.zeros(1)
        phi = np.array(features.empty(1))
        args = (
            rng,
            model.step_kernel,
            features.kernel,
            model.data,
            features.data,
            x,
            y,
            a,
            r,
            phi,
            theta,
            LONGEST,
        )
        found.append(_play(*args))
    return np.array(found)


def tetris(budget: int, seeds: range, n: int) -> Iterator[str]:
    problem = make("tetris:lines=false")
    for seed in seeds:
        begin = time.process_time()
        result = coreplan.plan(problem, planner=Search(), budget=budget, seed=seed)
        seconds = time.process_time() - begin
        lines = games(problem, result.policy.theta, n)
        error = lines.std(ddof=1) / math.sqrt(len(lines))
        mean = f"{lines[:FIRST].mean():,.0f} | {lines.mean():,.0f} +- {error:,.0f} | {np.median(lines):,.0f}"
        end = f"{result.trace['generations'][-1]:.0f} | {seconds:.0f} | {result.status.value}"
        yield f"| {budget:,} | {seed} | {result.queries:,} | {mean} | {end} |"


def worth(problem: Problem, policy: Any) -> float:
    """Sub where it can be known, else the value lost compared with 1."""
    if problem.tabular is not None:
        return float(coreplan.evaluate(problem, policy).sub)
    return 1.0 - float(coreplan.evaluate(problem, policy, rollouts=400, seed=12345).value)


def others(seeds: range) -> Iterator[str]:
    for name, budget in OTHERS.items():
        problem, found = make(name), []
        for seed in seeds:
            grown = coreplan.plan(problem, planner=Grow(), budget=budget, seed=seed)
            alone = coreplan.plan(problem, planner=Search(), budget=budget, seed=seed)
            after = coreplan.plan(problem, planner=Search(start=grown.policy), budget=budget, seed=seed)
            kept = (after.policy.theta == grown.policy.theta).all()
            found.append((*(worth(problem, p.policy) for p in (grown, alone, after)), 0.0 if kept else 1.0))
        rows = np.array(found)
        cells = " | ".join(f"{rows[:, i].mean():.4f} ({rows[:, i].max():.4f})" for i in range(3))
        yield f"| `{name}` | {budget:,} | {cells} | {rows[:, 3].sum():.0f} of {len(rows)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tetris", type=int, nargs="*", default=[])
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 3))
    parser.add_argument(
        "--games", type=int, default=60, help="per policy; the first 20 are those of the table"
    )
    parser.add_argument("--others", action="store_true")
    given = parser.parse_args()
    for budget in given.tetris:
        for row in tetris(budget, range(*given.seeds), given.games):
            print(row, flush=True)
    if given.others:
        for row in others(range(*given.seeds)):
            print(row, flush=True)


if __name__ == "__main__":
    main()
