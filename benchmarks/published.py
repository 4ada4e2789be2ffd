"""Published numbers: the four queues of de Farias & Van Roy (2003), and the perishable inventory of Lin et al. (2020).

    python benchmarks/published.py             # both; about three minutes
    python benchmarks/published.py --queues
    python benchmarks/published.py --perishable
    python benchmarks/published.py --queues --seeds 0,1

Average costs of the queues are means of independent chains after a burn-in, with control variates and normal 95%
intervals over chains; the network is the one with buffers of 200, which stand for none. Ours is planned for discounted
cost (.9998: a horizon of 5,000 events), on hat functions of the lengths, and judged by its average cost. Costs of the
inventory are discounted, by 40,000 rollouts. Settings were chosen on seeds from 1000 on, the seeds here are 0 to 2.
Writes benchmarks/results/published.md and .json (each call updates its own rows).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import sparse

import coreplan
from coreplan.features import rectilinear
from coreplan.simulate import Simulator
from revision import revision

RESULTS = Path(__file__).parent / "results"
CHAINS, BURN, STEPS = 200, 30_000, 30_000
NODES = (0, 1, 3, 8, 20, 60, 200)  # of the lengths; 200 is the most that a queue holds
UNIT = (1200 + 200 * 0.95**2) / 0.05  # the discounted cost of a normalised value of 0


def queues(seeds, discount=0.9998):
    """The network with the published rates, planned on hat functions of the lengths, 128 samples of every core pair."""
    world = coreplan.make(f"queue-network:discount={discount}")
    problem = replace(world, features=rectilinear([NODES] * 4, 4))
    found = [{"who": "serve the longest", **average(world, world.baseline[1], seed=0)}]
    print(found[-1], flush=True)
    for seed in seeds:
        budget = 128 * 4 * len(NODES) ** 4
        result = coreplan.plan(problem, planner="plug-in", budget=budget, seed=seed, reality=0)
        found.append(
            {
                "who": f"PlugIn, seed {seed}",
                "queries": result.queries,
                **average(world, result.policy.act, seed=seed),
            }
        )
        print(found[-1], flush=True)
    return found


def average(problem, act, seed):
    """The average total length, with an interval.

    Over a stationary chain the mean of E f(y) - f(x) is zero for every f. With f the lengths and their products these means,
    chain by chain, explain most of what one chain's average length has by chance; the intercept of the regression on
    them is the estimate.
    """
    simulator = Simulator(problem, None, 2**40 + seed)
    x, total, drifts = simulator.initial(CHAINS), np.zeros(CHAINS), np.zeros((CHAINS, 14))
    for t in range(BURN + STEPS):
        actions = act(x)
        if t >= BURN:
            total += x.sum(axis=1)
            drifts += drift(x, actions)
        _, x = simulator.step(x, actions)
    design = np.column_stack([np.ones(CHAINS), drifts / STEPS])
    inverse = np.linalg.pinv(design.T @ design)
    found = inverse @ (design.T @ (total / STEPS))
    rest = total / STEPS - design @ found
    half = 1.96 * np.sqrt(inverse[0, 0] * (rest @ rest) / (CHAINS - 15))
    return {"mean": float(found[0]), "low": float(found[0] - half), "high": float(found[0] + half)}


def drift(x, actions):
    """E f(y) - f(x) for the four lengths and their ten products, `[n, 14]`, from the published rates."""
    fourth, third = actions // 2 == 1, actions % 2 == 1  # else servers serve the first and the second queue
    busy = x > 0
    p1, p4 = 0.12 * (~fourth & busy[:, 0]), 0.28 * (fourth & busy[:, 3])
    p2, p3 = 0.12 * (~third & busy[:, 1]), 0.28 * (third & busy[:, 2])
    b = np.column_stack([0.08 - p1, p1 - p2, 0.08 - p3, p3 - p4])
    i, j = np.triu_indices(4)
    second = x[:, i] * b[:, j] + x[:, j] * b[:, i]
    for k, variance in enumerate((0.08 + p1, p1 + p2, 0.08 + p3, p3 + p4)):
        second[:, (i == k) & (j == k)] += variance[:, None]
    for pair, moved in (((0, 1), p1), ((2, 3), p3)):  # from one queue to the next
        second[:, (i == pair[0]) & (j == pair[1])] -= moved[:, None]
    return np.column_stack([b, second])


def perishable(seeds, queries=900_000):
    """PlugIn on a grid of whole numbers, the rule that orders up to a level, and a certificate's bound on a coarse grid."""
    found = []
    problem = coreplan.make("perishable-inventory:grid=11")
    rule = coreplan.evaluate(problem, problem.baseline[1], rollouts=40_000, seed=0)
    found.append({"who": problem.baseline[0], **costs(rule)})
    for seed in seeds:
        result = coreplan.plan(problem, planner="plug-in", budget=queries, seed=seed, reality=0)
        value = coreplan.evaluate(problem, result.policy, rollouts=40_000, seed=seed)
        found.append({"who": f"PlugIn, seed {seed}", "queries": result.queries, **costs(value)})
        print(found[-1], flush=True)
    coarse = coreplan.make("perishable-inventory:grid=3")
    sure = coreplan.certify(
        coarse, None, coreplan.plan(coarse, budget=50_000, reality=0).policy, queries=300_000, seed=0
    )
    found.append(
        {
            "who": "lower bound, from samples (`certify`)",
            "mean": (1 - sure.upper) * UNIT,
            "if": [
                *sure.assumes,
                f"found to hold on samples: {'yes' if sure.holds else 'NO, so that it proves nothing'}",
            ],
        }
    )
    return [*found, bound()]


def bound(nodes=201, quantiles=400, between=8):
    """A lower bound on the cost of every policy from the demand's distribution: V(start) + min (T V - V) / (1 - gamma).

    From whole numbers only the oldest stock becomes a fraction: V is made by value iteration on a grid of it, linear in
    between. Then the least of T V - V is taken over a grid `between` times as fine.
    """
    problem = coreplan.make("perishable-inventory")
    gamma, order = problem.discount, 20.0 * problem.discount**2
    grid = np.linspace(-10.0, 10.0, nodes)
    backup = _backup(problem, grid, grid, quantiles)
    V = np.zeros((nodes, 11, 11))
    for _ in range(1000):
        TV = backup(V, gamma, order)
        change, V = TV - V, TV
        if np.ptp(change) < 1e-4 * (1 - gamma):
            break
    fine = np.linspace(-10.0, 10.0, between * (nodes - 1) + 1)
    at = np.apply_along_axis(lambda v: np.interp(fine, grid, v), 0, V)
    excess = _backup(problem, fine, grid, quantiles)(V, gamma, order) - at
    start = V[np.searchsorted(grid, 5.0), 5, 5]
    return {
        "who": "lower bound, from the demand's distribution",
        "mean": float(start + excess.min() / (1 - gamma)),
        "high": float(start + excess.max() / (1 - gamma)),
        "if": [
            "orders are whole numbers, as in the problem",
            f"the least of T V - V over {fine.size * 121:,} states, all with whole fresh stock and the oldest in steps of "
            f"{fine[1] - fine[0]:g}, is the least of all",
            f"the mean over {quantiles} quantiles of the demand is its expectation",
        ],
    }


def _backup(problem, oldest, grid, quantiles):
    """T: for values on `grid` x whole x whole, the least cost at `oldest` x whole x whole over the eleven orders."""
    u = (np.arange(quantiles) + 0.5) / quantiles
    s0, s1 = (z.ravel() for z in np.meshgrid(oldest, np.arange(11.0), indexing="ij"))
    states = np.column_stack([s0, s1, np.zeros_like(s0)])
    cost, rows = np.zeros(len(s0)), np.arange(len(s0))
    M = sparse.csr_matrix((len(s0), len(grid)))
    for k in range(quantiles):
        rewards, y = problem.model.step_with(
            states, np.zeros(len(s0), dtype=np.int64), np.full((len(s0), 1), u[k])
        )
        place = (y[:, 0] - grid[0]) / (grid[1] - grid[0])
        left = np.clip(place.astype(np.int64), 0, len(grid) - 2)
        share = place - left
        entries = np.concatenate([1.0 - share, share]) / quantiles
        M = M + sparse.csr_matrix(
            (entries, (np.tile(rows, 2), np.concatenate([left, left + 1]))), shape=M.shape
        )
        cost -= rewards / quantiles

    def backup(V, gamma, order):
        ahead = (M @ V.reshape(len(grid), 121)).reshape(len(oldest), 11, 11, 11)  # s0, s1, s2, the order
        return (cost.reshape(len(oldest), 11)[:, :, None, None] + order * np.arange(11) + gamma * ahead).min(
            axis=3
        )

    return backup


def costs(value):
    """The discounted cost, with its interval."""
    own = value.returns
    return {"mean": -own.value, "low": -own.high, "high": -own.low}


PARTS = {"queues": queues, "perishable": perishable}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queues", action="store_true")
    parser.add_argument("--perishable", action="store_true")
    parser.add_argument(
        "--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[0, 1, 2]
    )
    given = parser.parse_args()
    wanted = [name for name in PARTS if getattr(given, name)] or list(PARTS)
    made = {name: PARTS[name](given.seeds) for name in wanted}
    file = RESULTS / "published.json"  # read now, since other calls may have added their rows meanwhile
    found = json.loads(file.read_text()) if file.exists() else {}
    for name, rows in made.items():
        rows = [*found.get(name, []), *({**row, "revision": revision()} for row in rows)]
        found[name] = list({row["who"]: row for row in rows}.values())
    file.write_text(json.dumps(found, indent=1))
    (RESULTS / "published.md").write_text(page(found))


PUBLISHED = {
    "queues": "Published average total lengths: serving the longest 45.04, approximate LP 33.37, POLITEX about 31.",
    "perishable": "Published costs: lower bound 2003.4, self-guided approximate LP 2056.4, approximate LP 2081.6.",
}


def page(found):
    made_at = sorted({row["revision"] for rows in found.values() for row in rows})
    lines = [
        "# Published numbers",
        "",
        f"Made by `python benchmarks/published.py`, revision {', '.join(made_at)}. Means with 95% intervals.",
    ]
    for name, rows in ((name, found[name]) for name in PUBLISHED if name in found):
        lines += [
            "",
            PUBLISHED[name],
            "",
            f"| {name} | queries | mean | from | to |",
            "|---|---|---|---|---|",
        ]
        for row in rows:
            ends = [f"{row[k]:.2f}" if k in row else "-" for k in ("mean", "low", "high")]
            queries = f"{row['queries']:,}" if "queries" in row else "-"
            lines.append(f"| {row['who']} | {queries} | {' | '.join(ends)} |")
        for row in rows:
            if "if" in row:
                lines.append(f"\nThe {row['who']} is conditional on: {'; '.join(row['if'])}.")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
