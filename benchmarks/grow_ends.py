"""What each part of `Grow` does without a race: restarting chains at ends, exact ends, the ridge and the horizon.

`python benchmarks/grow_ends.py` writes results/grow_ends.json and results/grow_ends.md. Every setting but the last leaves
the race out, and differs from the default in one more thing. Seeds 1000 to 1002, every query counted; the rollouts of the
reality check are part of the budget. Where values are exact a score is sub = (optimum - value) / (optimum - uniform); else
it is the mean return of 100 episodes.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import coreplan
from coreplan import Grow
from coreplan.judge import policy_value
from coreplan.planners.grow import planner, race, state
from coreplan.sampled import ends

RESULTS = Path(__file__).parent / "results"
SEEDS = range(1000, 1003)


def episodes(problem: coreplan.Problem, policy: Any, steps: int = 500, n: int = 100) -> float:
    """The mean length of n episodes of at most so many steps."""
    rng = np.random.default_rng(0)
    x, length = problem.model.initial(rng, n), np.zeros(n)
    for _ in range(steps):
        live = ~problem.ended(x)
        if not live.any():
            break
        length += live
        x[live] = problem.model.step(rng, x[live], policy.act(x[live], rng))[1]
    return float(length.mean())


def sub(spec: str) -> Callable[[], tuple[coreplan.Problem, Callable[[Any], float]]]:
    def make() -> tuple[coreplan.Problem, Callable[[Any], float]]:
        problem = coreplan.make(spec)
        table, gamma = problem.tabular(), problem.discount
        known = coreplan.evaluate(problem, coreplan.SoftmaxPolicy.uniform(problem.features))
        width = known.optimum - known.uniform
        bare = dataclasses.replace(problem, tabular=None)
        return bare, lambda policy: (known.optimum - policy_value(table, policy, gamma)) / width

    return make


def returns(spec: str, sign: float) -> Any:
    def both() -> tuple[coreplan.Problem, Callable[[Any], float]]:
        problem = coreplan.make(spec)
        return problem, lambda policy: sign * episodes(problem, policy)

    return both


PROBLEMS: dict[str, tuple[Any, int]] = {
    "frozen-lake, one-hot, 5 k": (sub("frozen-lake"), 5_000),
    "river-linear, 5 k": (sub("river-linear"), 5_000),
    "river-linear L = 15, 5 k": (sub("river-linear:L=15,discount=0.99"), 5_000),
    "inventory, quadratic, 5 k": (sub("inventory:features=quadratic"), 5_000),
    "CartPole, polynomials, 8 k": (returns("cart-pole:features=polynomial", 1.0), 8_000),
    "Acrobot, quadratic, 20 k": (returns("acrobot", -1.0), 20_000),
    "queue-network-cut, polynomials, 10 k": (sub("queue-network-cut:features=polynomial"), 10_000),
    "mountain-car, radial, 20 k": (returns("mountain-car:features=rbf", -1.0), 20_000),
}


@contextmanager
def swapped(**names: Any) -> Any:
    """Parts of the planner replaced for a while: without a race, with a restart alone, with exact ends alone."""
    places = {"which_end": planner, "exits": state, "SHARE": race}
    old = {name: getattr(places[name], name) for name in names}
    for name, value in names.items():
        setattr(places[name], name, value)
    try:
        yield
    finally:
        for name, value in old.items():
            setattr(places[name], name, value)


def _nowhere(phi: Any, _: Any) -> Any:
    return np.full(len(phi.weight), -1)


def _no_exits(pair: Any, next_phi: Any, found: ends.Ends) -> ends.Exits:
    return ends.exits(pair, next_phi, found._replace(rewards=found.rewards[:0]))


NO_RACE, RACED = {"SHARE": 0.0}, {"SHARE": race.SHARE}
SETTINGS: dict[str, tuple[dict[str, float], dict[str, Any]]] = {
    "default": ({}, {}),  # without a race, as all that follow
    "no restart": ({}, {"which_end": _nowhere}),
    "restart, ends fitted": ({}, {"exits": _no_exits}),
    "neither": ({}, {"which_end": _nowhere, "exits": _no_exits}),
    "ridge 1e-2": ({"ridge": 1e-2}, {}),
    "ridge 1e-4": ({"ridge": 1e-4}, {}),
    "horizon 1": ({"horizon": 1.0}, {}),
    "horizon 1.5": ({"horizon": 1.5}, {}),
    "horizon 2": ({"horizon": 2.0}, {}),
    "default, raced": ({}, RACED),
}


def measured(make: Any, budget: int, settings: dict[str, float], swaps: dict[str, Any], seeds: Any) -> Any:
    problem, score = make()
    scores, begin = [], time.perf_counter()
    for seed in seeds:
        with swapped(**(NO_RACE | swaps)):
            result = coreplan.plan(problem, planner=Grow(**settings), budget=budget, seed=seed)
        scores.append(score(result.policy))
    return {"scores": scores, "seconds": (time.perf_counter() - begin) / len(scores)}


def main(only: str = "", setting: str = "", seeds: Any = SEEDS) -> None:
    """Measures what results/grow_ends.json does not have yet; delete the file to measure all again."""
    path = RESULTS / "grow_ends.json"
    rows: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for problem, (make, budget) in PROBLEMS.items():
        for name, (settings, swaps) in SETTINGS.items():
            key = f"{problem} | {name}"
            if key in rows or only not in problem or (setting and setting != name):
                continue
            rows[key] = measured(make, budget, settings, swaps, seeds)
            print(key, np.round(rows[key]["scores"], 4), f"{rows[key]['seconds']:.1f} s", flush=True)
            path.write_text(json.dumps(rows, indent=1) + "\n")
            (RESULTS / "grow_ends.md").write_text(page(rows))


def page(rows: dict[str, Any]) -> str:
    lines = [
        "# Ends, ridge and horizon of Grow",
        "",
        "`python benchmarks/grow_ends.py`, seeds 1000 to 1002; mean (worst). All but the last column are without a race.",
        "CartPole: steps of 500; Acrobot and mountain-car: minus the steps; the others: sub, smaller is better.",
        "",
        f"| problem | {' | '.join(SETTINGS)} |",
        "|---" * (len(SETTINGS) + 1) + "|",
    ]
    for problem in (p for p in PROBLEMS if any(key.startswith(p) for key in rows)):
        cells = [_cell(rows.get(f"{problem} | {name}")) for name in SETTINGS]
        lines.append(f"| {problem} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(row: Any) -> str:
    if row is None:
        return ""
    scores = row["scores"]
    if max(map(abs, scores)) > 2:
        return f"{np.mean(scores):.0f} ({min(scores):.0f})"
    return f"{np.mean(scores):.4f} ({max(scores):.4f})"


if __name__ == "__main__":
    main(*sys.argv[1:3])
