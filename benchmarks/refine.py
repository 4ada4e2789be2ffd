"""`Refine` with bounds only: what its policies earn, by budget.

    python benchmarks/refine.py [--problem NAME ...] [--seeds 0 5] [--times 1]

Every query counts, those of rollouts and of the final choice too. Settings are the defaults, the same for every problem.
"""

from __future__ import annotations

import argparse
import functools
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import coreplan
from coreplan import Problem, Refine
from coreplan.features import Coordinates, interpolation, with_terminal
from coreplan.problem import Box, FunctionModel, make

EPISODES = 200


class Task(NamedTuple):
    """A problem with bounds only, the budget of the table, and what is measured."""

    problem: Callable[[], Problem]
    budget: int
    measure: Callable[[Problem, Any], float]
    target: str


def bounded(name: str, low: Any, high: Any, periodic: Any = None) -> Problem:
    """A problem of the zoo, without its features."""
    problem = make(name)
    features: Any = Coordinates(Box(low, high, periodic), problem.n_actions)
    if problem.model.initial(np.random.default_rng(0), 1).shape[1] > len(low):
        features = with_terminal(features)
    return replace(problem, features=features, core_pairs=None, tabular=None, name=f"{name}, bounds only")


def total(limit: int, worth: float) -> Callable[[Problem, Any], float]:
    """The mean length of an episode, at most `limit`, times `worth`: the return of Gymnasium's environment."""

    def measure(problem: Problem, policy: Any) -> float:
        rng = np.random.default_rng(12345)
        x = problem.model.initial(rng, EPISODES)
        lengths = np.zeros(EPISODES)
        for _ in range(limit):
            going = ~problem.ended(x)
            lengths += going
            _, x = problem.model.step(rng, x, policy.act(x))
        return worth * float(lengths.mean())

    return measure


def value(problem: Problem, policy: Any) -> float:
    return coreplan.evaluate(problem, policy, rollouts=EPISODES, exact=False, seed=12345).value


@functools.cache
def pendulum_scale() -> tuple[float, float]:
    """What the fixed 31 x 31 grid earns, and what the uniform policy earns."""
    grid = make("pendulum:grid=31")
    best = coreplan.plan(grid, planner=coreplan.PlugIn(samples=1), budget=100_000, reality=0).policy
    return value(grid, best), value(grid, coreplan.SoftmaxPolicy.uniform(grid.features))


def against_grid(problem: Problem, policy: Any) -> float:
    """The difference from the fixed grid's value, in percent of that value's difference from uniform."""
    grid, uniform = pendulum_scale()
    return 100.0 * (value(problem, policy) - grid) / (grid - uniform)


def _blocked(x: Any) -> Any:
    first = (x[:, 0] > 0.30) & (x[:, 0] < 0.36) & (x[:, 1] < 0.75)
    second = (x[:, 0] > 0.64) & (x[:, 0] < 0.70) & (x[:, 1] > 0.25)
    return first | second


def _walk(rng: np.random.Generator, x: Any, a: Any) -> Any:
    """A step of .05 in one of eight directions with noise; walls and edges stop it; at the goal it stays, and earns 1."""
    angle = 2 * np.pi * a / 8
    step = 0.05 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.005 * rng.standard_normal((len(x), 2))
    y = np.clip(x + step, 0.0, 1.0)
    y = np.where(_blocked(y)[:, None], x, y)
    there = (x > 0.9).all(axis=1)
    return there * 1.0, np.where(there[:, None], x, y)


def _start(rng: np.random.Generator, n: int) -> Any:
    return 0.2 * rng.random((n, 2))


def walls(grid: int = 0) -> Problem:
    """A square with two walls, from one corner to the other; features on a grid, or bounds only."""
    base = (
        interpolation([0.0, 0.0], [1.0, 1.0], [grid, grid], 8)
        if grid
        else Coordinates(Box([0.0, 0.0], [1.0, 1.0]), 8)
    )
    return Problem(FunctionModel(8, _start, _walk), base, 0.98, name="walls")


@functools.cache
def walls_optimum() -> float:
    """At most what can be earned: discount^steps on the shortest path round the walls' corners, without noise."""
    corners = np.array([[0.30, 0.75], [0.36, 0.75], [0.64, 0.25], [0.70, 0.25], [0.9, 0.9]])
    rest = np.linalg.norm(np.diff(corners, axis=0), axis=1).sum()
    x = _start(np.random.default_rng(12345), 10_000)
    return float((0.98 ** ((np.linalg.norm(x - corners[0], axis=1) + rest) / 0.05)).mean())


def share_of_optimum(problem: Problem, policy: Any) -> float:
    """In percent of that."""
    return 100.0 * value(problem, policy) / walls_optimum()


_ACROBOT = [s * math.pi * np.array([1.0, 1.0, 4.0, 9.0]) for s in (-1, 1)]
TASKS = {
    "mountain-car": Task(
        lambda: bounded("mountain-car", (-1.2, -0.07), (0.6, 0.07)), 15_000, total(200, -1.0), ">= -105"
    ),
    "acrobot": Task(
        lambda: bounded("acrobot", *_ACROBOT, (True, True, False, False)), 45_000, total(500, -1.0), ">= -100"
    ),
    "cart-pole": Task(
        lambda: bounded("cart-pole", (-2.4, -3.0, -0.21, -3.5), (2.4, 3.0, 0.21, 3.5)), 10_000, total(500, 1.0), ">= 490"
    ),
    "pendulum": Task(
        lambda: bounded("pendulum", (-math.pi, -8.0), (math.pi, 8.0), (True, False)), 40_000, against_grid, ">= -2 %"
    ),
    "walls": Task(walls, 35_000, share_of_optimum, ">= 97 %"),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problem", nargs="*", default=list(TASKS))
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 5))
    parser.add_argument(
        "--times", nargs="*", type=float, default=[1.0], help="budgets, as multiples of the table's"
    )
    parser.add_argument("--set", nargs="*", default=[], help="settings of Refine, name=value")
    given = parser.parse_args()
    settings = {k: float(v) if "." in v else int(v) for k, v in (pair.split("=") for pair in given.set)}
    print("| problem | budget | queries | mean | worst | each | nodes | seconds | target |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in given.problem:
        for times in given.times:
            report(name, times, range(*given.seeds), settings)


def report(name: str, times: float, seeds: range, settings: dict[str, Any]) -> None:
    """One row: a problem at a multiple of its budget."""
    task = TASKS[name]
    problem, budget = task.problem(), int(times * task.budget)
    begin, found, queries, nodes = time.perf_counter(), [], [], []
    for seed in seeds:
        result = coreplan.plan(problem, planner=Refine(**settings), budget=budget, seed=seed)
        found.append(task.measure(problem, result.policy))
        queries.append(result.queries)
        nodes.append(len(result.policy.theta) // problem.n_actions)
    seconds = (time.perf_counter() - begin) / len(found)
    each = " ".join(f"{v:.1f}" for v in found)
    print(
        f"| {name} | {budget:,} | {max(queries):,} | {np.mean(found):.1f} | {min(found):.1f} | {each} | "
        f"{np.mean(nodes):.0f} | {seconds:.1f} | {task.target} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
