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
from coreplan.features import Coordinates, with_terminal
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
    fields = {"core_pairs": None, "tabular": None, "state_names": None, "name": f"{name}, bounds only"}
    return replace(problem, features=features, **fields)


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


def leaky_walls() -> Problem:
    """A square with two walls that only the END of a step can meet: noise of two standard deviations jumps over them."""
    model = FunctionModel(8, _start, _walk)
    return Problem(model, None, 0.98, box=([0.0, 0.0], [1.0, 1.0]), name="leaky walls")


def percent_of(optimum: float) -> Callable[[Problem, Any], float]:
    """The policy's value in percent of the optimum."""
    return lambda problem, policy: 100.0 * value(problem, policy) / optimum


# By value iteration on fine grids: 401 x 401 nodes (see `navigation`), and 151 x 151 nodes with 81 noises per pair.
# The inventory's is exact.
NAVIGATION, LEAKY, INVENTORY = 0.3887, 0.3944, 0.6497
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
    "navigation": Task(lambda: make("navigation:features=none"), 35_000, percent_of(NAVIGATION), ">= 97 %"),
    "leaky-walls": Task(leaky_walls, 35_000, percent_of(LEAKY), ""),
    "masses": Task(lambda: make("masses:features=none"), 40_000, percent_of(1.0), ""),
    "inventory": Task(lambda: make("inventory:features=none"), 20_000, percent_of(INVENTORY), ""),
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
