"""How often `PlugIn` believes a policy that rare outcomes make poor: seven families, their misses and their queries.

    python benchmarks/rare_outcomes.py                   # 100 runs per family, probability and noise; some minutes
    python benchmarks/rare_outcomes.py --runs 20 doors   # fewer runs, named families; nothing is written

Writes benchmarks/results/rare_outcomes.json and rare_outcomes.md. Every family has an outcome of probability p that decides
which policy is best: one that most first samples do not show. A run misses if it ends with `Status.REACHED` at epsilon =
1% and its exact sub, (v* - v) / (v* - v_uniform), is above 1%. A run that ends in another way does not miss, and is
counted. Seeds are 0 to 99; the settings of the rule were chosen on seeds from 1000 on. Misses are told per family: easy
ones hide the others.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

import coreplan
from coreplan.features import one_hot
from coreplan.problem import Tabular
from plug_in import Judge

RESULTS = Path(__file__).parent / "results"
CHANCES = (0.1, 0.05, 0.02, 0.01)


class Places:
    """A problem as a list of outcomes: for each place and action, pairs of a probability, a reward and the next place.

    A place at which an action has no outcomes stays, and pays nothing. One uniform number decides an outcome, the first ones
    having the smallest numbers.
    """

    def __init__(self, places: int, actions: int, discount: float) -> None:
        self.outcomes = {(x, a): [(1.0, 0.0, x)] for x in range(places) for a in range(actions)}
        self.places, self.actions, self.discount = places, actions, discount

    def __setitem__(self, pair: tuple[int, int], outcomes: list[tuple[float, float, int]]) -> None:
        self.outcomes[pair] = outcomes

    def problem(self) -> coreplan.Problem:
        X, A = self.places, self.actions
        k = max(len(o) for o in self.outcomes.values())
        limit, pays, to = np.ones((X, A, k)), np.zeros((X, A, k)), np.zeros((X, A, k), dtype=int)
        P, r = np.zeros((X, A, X)), np.zeros((X, A))
        for (x, a), outcomes in self.outcomes.items():
            limit[x, a, : len(outcomes)] = np.cumsum([p for p, *_ in outcomes])
            for i, (p, reward, y) in enumerate(outcomes):
                pays[x, a, i], to[x, a, i] = reward, y
                P[x, a, y] += p
                r[x, a] += p * reward
        limit[:, :, -1] = 2.0

        def step(x, a, u):
            which = (u >= limit[x, a]).sum(axis=1).clip(max=k - 1)
            return pays[x, a, which], to[x, a, which]

        model = coreplan.NoiseModel(A, lambda rng, n: np.zeros(n, dtype=int), step, 1)
        table = Tabular(np.arange(X), r, np.eye(X)[0], P=P.reshape(-1, X))
        pairs = (np.arange(X).repeat(A), np.tile(np.arange(A), X))
        return coreplan.Problem(model, one_hot(X, A), self.discount, core_pairs=pairs, tabular=lambda: table)


def rare_rewards(p: float) -> coreplan.Problem:
    """A walk of six places. At its end a lottery pays 1 with probability p; at its beginning p / 3 is certain."""
    w = Places(6, 2, 0.97)
    for x in range(6):
        w[x, 0] = [(1.0, p / 3 if x == 0 else 0.0, max(x - 1, 0))]
        w[x, 1] = [(1.0, 0.0, min(x + 1, 5))]
    w[5, 1] = [(p, 1.0, 5), (1 - p, 0.0, 5)]
    return w.problem()


def doors(p: float) -> coreplan.Problem:
    """Three doors. One opens with probability p, to a room that pays 1 for ever; staying out pays a third of its worth."""
    w = Places(2, 4, 0.95)
    w[1, 0] = w[1, 1] = w[1, 2] = w[1, 3] = [(1.0, 1.0, 1)]
    w[0, 3] = [(1.0, 0.95 * p / (1 - 0.95 * (1 - p)) / 3, 0)]
    w[0, 1] = [(p, 0.0, 1), (1 - p, 0.0, 0)]
    return w.problem()


def cliffs(p: float) -> coreplan.Problem:
    """A path of six places along an edge, from each of which one falls with probability p; a safe way round takes nine."""
    w = Places(18, 2, 0.99)
    goal, pit = 16, 17
    for x in range(6):  # along the edge
        to = x + 1 if x < 5 else goal
        w[x, 0] = [(p, 0.0, pit), (1 - p, 0.0, to)] if x else [(1.0, 0.0, to)]
    w[0, 1] = [(1.0, 0.0, 6)]
    around = 9 if p > 0.03 else 7
    for i in range(around):
        w[6 + i, 0] = w[6 + i, 1] = [(1.0, 0.0, 7 + i if i < around - 1 else goal)]
    w[goal, 0] = w[goal, 1] = [(1.0, 1.0, goal)]
    return w.problem()


def corridors(p: float) -> coreplan.Problem:
    """Two corridors to a goal. One is shorter, but every step slips back to its beginning with probability p."""
    w = Places(40, 2, 0.98)
    short, goal = 12, 39
    slips = sum((1 - p) ** -i for i in range(1, short))  # the expected number of steps
    long = round((short + slips) / 2)
    for x in range(short):
        to = x + 1 if x < short - 1 else goal
        w[x, 0] = [(p, 0.0, 0), (1 - p, 0.0, to)] if x else [(1.0, 0.0, to)]
    w[0, 1] = [(1.0, 0.0, short)]
    for i in range(long - 1):
        w[short + i, 0] = w[short + i, 1] = [(1.0, 0.0, short + i + 1 if i < long - 2 else goal)]
    w[goal, 0] = w[goal, 1] = [(1.0, 1.0, goal)]
    return w.problem()


def chains(p: float) -> coreplan.Problem:
    """A chain of four places, each left upwards with probability p; the top pays 1, staying below a third of its worth."""
    w = Places(5, 2, 0.98)
    up = 0.98 * p / (1 - 0.98 * (1 - p))
    for x in range(4):
        w[x, 0] = [(1.0, up**4 / 3, x)]
        w[x, 1] = [(p, 0.0, x + 1), (1 - p, 0.0, x)]
    w[4, 0] = w[4, 1] = [(1.0, 1.0, 4)]
    return w.problem()


def sparse_bandits(p: float) -> coreplan.Problem:
    """Eight arms: one pays 1 with probability p, three pay less for certain, four pay nothing."""
    w = Places(1, 8, 0.9)
    w[0, 0] = [(p, 1.0, 0), (1 - p, 0.0, 0)]
    for a in (1, 2, 3):
        w[0, a] = [(1.0, a * p / 8, 0)]
    return w.problem()


def ties(p: float) -> coreplan.Problem:
    """Ten places in a ring, two actions. One pays a half; the other a bit more, but nothing with probability p."""
    w = Places(10, 2, 0.95)
    for x in range(10):
        w[x, 0] = [(1.0, 0.5, (x + 1) % 10)]
        w[x, 1] = [(p, 0.0, (x + 1) % 10), (1 - p, 0.5 + 0.3 * p, (x + 1) % 10)]
    return w.problem()


FAMILIES: dict[str, Callable[[float], coreplan.Problem]] = {
    "rare rewards": rare_rewards, "doors": doors, "cliffs": cliffs, "corridors": corridors, "chains": chains,
    "sparse bandits": sparse_bandits, "ties": ties,
}  # fmt: skip


class Built(Judge):
    """The judge of a problem that is given, not named."""

    def __init__(self, problem: coreplan.Problem) -> None:
        self.problem = problem
        self.solve()


def measured(name: str, p: float, noise: str, seeds: range) -> dict:
    judge = Built(FAMILIES[name](p))
    runs, subs = [], []
    for seed in seeds:
        planner = coreplan.PlugIn(noise=noise)
        runs.append(coreplan.plan(judge.problem, planner=planner, epsilon="1%", seed=seed, reality=0))
        subs.append(judge.sub(runs[-1].policy))
    reached = [run.status is coreplan.Status.REACHED for run in runs]
    queries = [run.queries for run in runs]
    return {
        "family": name, "p": p, "noise": noise, "runs": len(runs), "pairs": len(judge.problem.core_pairs[1]),
        "missed": sum(r and sub > 0.01 for r, sub in zip(reached, subs, strict=True)),
        "not_reached": len(runs) - sum(reached), "worse_than_uniform": sum(sub > 1.0 for sub in subs),
        "queries": float(np.mean(queries)), "most_queries": max(queries),
    }  # fmt: skip


def page(rows: list[dict]) -> str:
    lines = [
        "# Rare outcomes", "",
        "Made by `python benchmarks/rare_outcomes.py`, which says what the families are. epsilon = 1%, 100 runs each, seeds",
        "0 to 99. *missed*: runs that ended with their accuracy reached and a true sub above 1%. *ended otherwise*: not",
        "reached. Queries are means.", "",
        "| family | core pairs | noise | p | missed | worse than uniform | ended otherwise | queries |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    lines += [
        f"| {r['family']} | {r['pairs']} | {r['noise']} | {r['p']:.0%} | {r['missed']} of {r['runs']} | "
        f"{r['worse_than_uniform']} | {r['not_reached']} | {r['queries']:,.0f} |"
        for r in rows
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("families", nargs="*", default=[])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    rows = []
    for name in given.families or FAMILIES:
        for noise in ("sobol", "independent"):
            for p in CHANCES:
                rows.append(measured(name, p, noise, range(given.first, given.first + given.runs)))
                r = rows[-1]
                print(
                    f"{name:15} {noise:12} p={p:.2f} missed {r['missed']:3} worse {r['worse_than_uniform']:3} "
                    f"other {r['not_reached']:3} queries {r['queries']:9,.0f} ({r['most_queries']:,})",
                    flush=True,
                )
    if given.families or given.runs != 100 or given.first:
        return
    (RESULTS / "rare_outcomes.json").write_text(json.dumps(rows, indent=1) + "\n")
    (RESULTS / "rare_outcomes.md").write_text(page(rows))


if __name__ == "__main__":
    main()
