"""How many nodes, which interpolation, which box, how to treat time: what a choice of features earns and what it costs.

    python benchmarks/choosing_features.py              # all parts: about three minutes on one core
    python benchmarks/choosing_features.py season queue # some of them
    python benchmarks/choosing_features.py --quick      # the first rows of each part with one seed; writes nothing

Writes benchmarks/results/choosing_features.json and choosing_features.md; each call updates the parts that it ran.

Parts with chance plan to an accuracy of 1% with seeds 0 to 2 and show means. Parts without chance query each core pair once
(`PlugIn(samples=1)`); `epsilon="1%"` finds the same policy, with 5% of the queries repeated and more time to say how far it
is from the uniform policy. The value of a policy is exact, from tables or tensors that the planner does not see; only that
of Acrobot and the pendulum comes from rollouts.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import sparse

import coreplan
from coreplan.judge import optimal_values, policy_value
from coreplan.judge.exact import normalised
from coreplan.problem import (
    Tabular,
    interpolation,
    polynomial,
    rectilinear,
    simplicial,
    with_terminal,
)

RESULTS = Path(__file__).parent / "results"
GRIDS = {"multilinear": interpolation, "simplicial": simplicial}


# Acrobot.

REACH = (np.pi, np.pi, 4 * np.pi, 9 * np.pi)  # angles, and the speeds at which Gymnasium cuts them off


def slopes(s, torque):
    """Time derivatives `[n, 4]` of Gymnasium's Acrobot-v1 (book's equations; unit masses and lengths)."""
    a1, a2, w1, w2 = s.T
    d1 = 0.25 + 1.25 + np.cos(a2) + 2.0
    d2 = 0.25 + 0.5 * np.cos(a2) + 1.0
    g2 = 0.5 * 9.8 * np.cos(a1 + a2 - np.pi / 2)
    g1 = -0.5 * w2**2 * np.sin(a2) - w2 * w1 * np.sin(a2) + 1.5 * 9.8 * np.cos(a1 - np.pi / 2) + g2
    b2 = (torque + d2 / d1 * g1 - 0.5 * w1**2 * np.sin(a2) - g2) / (1.25 - d2**2 / d1)
    return np.stack([w1, w2, -(d2 * b2 + g1) / d1, b2], axis=1)


def swing(rng, states, actions, dt=0.2):
    """One step of 0.2 s by Runge-Kutta; it pays -1 until the tip is above the bar, which ends the episode."""
    s, torque = states[:, :4], actions - 1.0
    k1 = slopes(s, torque)
    k2 = slopes(s + dt / 2 * k1, torque)
    k3 = slopes(s + dt / 2 * k2, torque)
    k4 = slopes(s + dt * k3, torque)
    s = s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    s[:, :2] = (s[:, :2] + np.pi) % (2 * np.pi) - np.pi
    s[:, 2:] = np.clip(s[:, 2:], -np.array(REACH[2:]), REACH[2:])
    above = -np.cos(s[:, 0]) - np.cos(s[:, 0] + s[:, 1]) > 1.0
    over = (states[:, 4] > 0) | above
    next_states = np.where(over[:, None], [0.0, 0, 0, 0, 1], np.column_stack([s, np.zeros(len(s))]))
    return np.where(over, 0.0, -1.0), next_states


def hanging(rng, n):
    return np.column_stack([rng.uniform(-0.1, 0.1, (n, 4)), np.zeros(n)])


def acrobot(kind, nodes, box, periodic=False):
    low, high = [-b for b in box], list(box)
    angles = {"periodic": (True, True, False, False)} if periodic else {}
    features = with_terminal(GRIDS[kind](low, high, [nodes] * 4, 3, **angles))
    model = coreplan.FunctionModel(3, hanging, swing)
    return coreplan.Problem(model, features, discount=0.99, reward_range=(-1.0, 0.0), name="Acrobot")


def played(problem, policy, box, episodes=100, steps=500):
    """Sums of rewards `[episodes]`, without discount, from seeded starts; and the share of steps outside the box."""
    rng = np.random.default_rng(0)
    states, total, outside, alive = problem.model.initial(rng, episodes), np.zeros(episodes), 0, 0
    for _ in range(steps):
        living = states[:, 4] == 0
        outside, alive = outside + (np.abs(states[living, :4]) > box).any(axis=1).sum(), alive + living.sum()
        rewards, states = problem.model.step(rng, states, policy.act(states, rng))
        total += rewards
    return total, float(outside / alive)


# A square with walls: 41 x 41 cells, three thin walls with a passage of two cells each.

SIDE, GAPS = 41, {9: (37, 38), 19: (2, 3), 29: (37, 38)}  # a wall right of this column, open in these rows
MOVES = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])


def moved(cells, directions):
    """Cells `[n, 2]` (column, row) after one step, or where they were if the edge or a wall is in the way."""
    there = np.clip(cells + MOVES[directions], 0, SIDE - 1)
    left = np.minimum(cells[:, 0], there[:, 0])
    for wall, rows in GAPS.items():
        blocked = (left == wall) & (there[:, 0] != cells[:, 0]) & ~np.isin(cells[:, 1], rows)
        there = np.where(blocked[:, None], cells, there)
    return there


def at_goal(cells):
    return ((cells[:, 0] >= 38) & (cells[:, 1] >= 38)).astype(float)


def walk(rng, states, actions):
    cells = states.astype(int)
    return at_goal(cells), moved(cells, actions).astype(float)


def square_table():
    cells = np.array(list(itertools.product(range(SIDE), repeat=2)))  # [X, 2]
    X = len(cells)
    to = np.stack([moved(cells, np.full(X, a)) @ [SIDE, 1] for a in range(4)])  # [4, X]
    P = sparse.csr_matrix((np.ones(4 * X), (np.arange(4 * X), to.T.ravel())), shape=(4 * X, X))
    nu0 = (cells < 5).all(axis=1) / 25
    return Tabular(cells.astype(float), np.repeat(at_goal(cells)[:, None], 4, axis=1), nu0, P=P)


def square(features):
    start = lambda rng, n: rng.integers(5, size=(n, 2)).astype(float)  # noqa: E731
    model = coreplan.FunctionModel(4, start, walk)
    return coreplan.Problem(model, features, discount=0.99, tabular=square_table, name="square")


# Five machines that wear: repair one of them, or none.

MACHINES, LEVELS, WEAR = 5, 9, np.array([0.2, 0.3, 0.4, 0.5, 0.6])  # wear 0..8; chance of one more


def output(states, actions):
    """Production less the price of a repair: a machine makes 1 - (wear / 8)^2, and nothing while it is repaired."""
    made = 1 - (states / (LEVELS - 1)) ** 2
    repaired = actions[:, None] == np.arange(MACHINES)
    return np.where(repaired, 0.0, made).sum(axis=1) - 0.5 * repaired.any(axis=1)


def wear(states, actions, noise):
    repaired = actions[:, None] == np.arange(MACHINES)
    after = np.where(repaired, 0.0, states) + (noise < WEAR)
    return output(states, actions), np.minimum(after, LEVELS - 1)


def machines(features):
    model = coreplan.NoiseModel(
        MACHINES + 1, lambda rng, n: rng.integers(LEVELS, size=(n, MACHINES)).astype(float), wear, MACHINES
    )
    return coreplan.Problem(
        model, features, discount=0.95, reward_range=(-0.5, float(MACHINES)), name="machines"
    )


class Machines:
    """The five machines as tensors over all 9^5 states: exact values without a transition matrix."""

    def __init__(self):
        self.shape = (LEVELS,) * MACHINES
        self.states = np.array(list(itertools.product(range(LEVELS), repeat=MACHINES)), dtype=float)
        n, A = len(self.states), MACHINES + 1
        low, high = -0.5, float(MACHINES)
        self.r = np.stack(
            [(output(self.states, np.full(n, a)) - low) / (high - low) for a in range(A)], axis=1
        )
        self.optimum = self.value(lambda Q: Q.max(axis=1))
        self.uniform = self.value(lambda Q: Q.mean(axis=1))

    def backed_up(self, V):
        """r + gamma P V, `[X, A]`: every machine wears on its own, and a repaired one starts from 0."""
        W = V.reshape(self.shape)
        for i, p in enumerate(WEAR):
            worse = np.minimum(np.arange(LEVELS) + 1, LEVELS - 1)
            W = (1 - p) * W + p * np.take(W, worse, axis=i)
        fresh = [np.broadcast_to(np.take(W, [0], axis=i), self.shape).ravel() for i in range(MACHINES)]
        return self.r + 0.95 * np.stack([*fresh, W.ravel()], axis=1)

    def value(self, choose):
        """The normalised value of V <- choose(backed up V), iterated to 1e-10."""
        V = np.zeros(len(self.states))
        for _ in range(600):
            new = choose(self.backed_up(V))
            change, V = np.abs(new - V).max(), new
            if change < 1e-10:
                break
        return 0.05 * float(V.mean())

    def of(self, policy):
        actions = policy.act(self.states, 0)
        return self.value(lambda Q: Q[np.arange(len(Q)), actions])


# A season: sell a stock within 20 steps at one of five prices.

STOCK, SEASON, PRICES = 20, 20, np.array([1.0, 2.0, 3.0, 4.0, 5.0])
DEMAND = 2.4 * np.exp(-0.35 * (PRICES - 1.0))  # mean number of buyers per step
MOST = 12  # buyers per step


def buyers():
    """Distribution `[A, MOST + 1]` of the buyers: Poisson, cut off."""
    k = np.arange(MOST + 1)
    p = np.exp(-DEMAND[:, None]) * DEMAND[:, None] ** k / np.cumprod(np.maximum(k, 1))
    return p / p.sum(axis=1, keepdims=True)


def sell(states, actions, noise):
    wish = (noise > np.cumsum(buyers(), axis=1)[actions, :-1]).sum(axis=1)
    sold = np.minimum(wish, states[:, 0]) * (states[:, 1] < SEASON)
    clock = np.minimum(states[:, 1] + 1, SEASON)
    return sold * PRICES[actions], np.column_stack([states[:, 0] - sold, clock])


def season_table():
    stock, clock = np.meshgrid(np.arange(STOCK + 1), np.arange(SEASON + 1), indexing="ij")
    states = np.column_stack([stock.ravel(), clock.ravel()])
    X, A = len(states), len(PRICES)
    r, P = np.zeros((X, A)), sparse.lil_matrix((X * A, X))
    chance, top = buyers(), MOST * PRICES.max()
    for (x, (s, t)), a in itertools.product(enumerate(states), range(A)):
        for wish, p in enumerate(chance[a]):
            sold = min(wish, s) * (t < SEASON)
            r[x, a] += p * sold * PRICES[a] / top
            P[x * A + a, (s - sold) * (SEASON + 1) + min(t + 1, SEASON)] += p
    nu0 = (states == [STOCK, 0]).all(axis=1).astype(float)
    return Tabular(states.astype(float), r, nu0, P=P.tocsr())


def season(stocks=STOCK + 1, clocks=SEASON + 1):
    features = interpolation([0.0, 0.0], [STOCK, SEASON], [stocks, clocks], len(PRICES))
    start = lambda rng, n: np.tile([float(STOCK), 0.0], (n, 1))  # noqa: E731
    return coreplan.Problem(
        coreplan.NoiseModel(len(PRICES), start, sell, 1), features, discount=0.99,
        reward_range=(0.0, MOST * PRICES.max()), tabular=season_table, name="season",
    )  # fmt: skip


# Planning and judging.


class Exact:
    """Exact values in a table, with optimum and uniform computed once."""

    def __init__(self, problem):
        self.table, self.discount = problem.tabular(), problem.discount
        self.optimum = normalised(self.table, optimal_values(self.table, self.discount)[0], self.discount)
        self.uniform = self.of(coreplan.SoftmaxPolicy.uniform(problem.features))

    def of(self, policy):
        return policy_value(self.table, policy, self.discount)


def believed(problem, policy):
    """What the solve says that its greedy policy is worth from the initial distribution, normalised."""
    states = problem.model.initial(np.random.default_rng(1), 2000)
    index, weight = problem.features(states)  # sparse, [n, A, k]
    return float((1 - problem.discount) * (weight * policy.theta[index]).sum(axis=2).max(axis=1).mean())


def planned(problem, **options):
    """The plan, without rollouts of its own, and its CPU seconds."""
    begin = time.process_time()
    with warnings.catch_warnings():  # nodes at the edge of a box step out of it
        warnings.simplefilter("ignore", coreplan.CoverageWarning)
        result = coreplan.plan(problem, reality=0, **options)
    return result, time.process_time() - begin


def once(problem):
    """Options of `plan` for a simulator without chance: one query per pair."""
    return {"planner": coreplan.PlugIn(samples=1), "budget": len(problem.core_pairs[1])}


def measured(problem, judge, label, seeds, **options):
    """One row: means over the seeds of what was spent, believed and earned."""
    runs = []
    for seed in seeds:
        result, seconds = planned(problem, seed=seed, **(options or {"epsilon": "1%"}))
        said = believed(problem, result.policy) if len(result.core) == len(result.policy.theta) else None
        runs.append(
            {
                "queries": result.queries,
                "believed": said,
                "earned": judge.of(result.policy),
                "seconds": seconds,
            }
        )
    mean = {k: None if runs[0][k] is None else float(np.mean([run[k] for run in runs])) for k in runs[0]}
    return {
        **label, "size": len(result.policy.theta), **mean,
        "sub": (judge.optimum - mean["earned"]) / (judge.optimum - judge.uniform), "runs": runs,
        "optimum": judge.optimum, "uniform": judge.uniform,
    }  # fmt: skip


# The parts: each returns its rows.

ANGLES = {False: "cut", True: "joined"}
SLOW_BOX = (np.pi, np.pi, 5.0, 8.0)  # the speeds that good policies reach


def acrobot_part(quick=False):
    rows, plain = [], list(itertools.product((5, 7, 9, 11, 13), GRIDS, (REACH, SLOW_BOX), (False,)))
    even = itertools.product((6, 8), ("multilinear",), (REACH, SLOW_BOX), (False,))
    joined = itertools.product((5, 7, 9, 11), GRIDS, (REACH, SLOW_BOX), (True,))
    for n, kind, box, periodic in plain[:4] if quick else [*plain, *even, *joined]:
        problem = acrobot(kind, n, box, periodic)
        result, seconds = planned(problem, **once(problem))
        total, outside = played(problem, result.policy, box)
        rows.append({
            "interpolation": kind, "speeds": f"{box[2]:.3g}, {box[3]:.3g}", "angles": ANGLES[periodic], "nodes": n,
            "size": len(result.policy.theta), "queries": result.queries,
            "believed": believed(problem, result.policy),
            "earned": coreplan.evaluate(problem, result.policy, rollouts=100).value,
            "episodes": float(total.mean()), "solved": int((total > -500).sum()), "outside": outside,
            "seconds": seconds,
        })  # fmt: skip
    return rows


def pendulum_part(quick=False):
    rows = []
    for n, periodic in itertools.product((9, 13) if quick else (9, 13, 21, 31), (False, True)):
        problem = coreplan.make(f"pendulum:grid={n},periodic={str(periodic).lower()}")
        result, seconds = planned(problem, **once(problem))
        found = coreplan.evaluate(problem, result.policy, rollouts=400)
        rows.append({
            "angles": ANGLES[periodic], "nodes": n, "size": len(result.policy.theta), "queries": result.queries,
            "believed": believed(problem, result.policy), "earned": found.value, "returns": found.returns.value,
            "seconds": seconds,
        })  # fmt: skip
    return rows


# Nodes on both sides of every wall, and in and beside every passage.
FITTED = ([0, 9, 10, 19, 20, 29, 30, 38, 40], [0, 1, 2, 3, 4, 36, 37, 38, 39, 40])


def square_part(quick=False):
    low, high, rows = [0.0, 0.0], [SIDE - 1.0] * 2, []
    maps = {f"{n} x {n}": interpolation(low, high, [n, n], 4) for n in (5, 9, 11, 21, 41)}
    maps["9 x 10, fitted to the walls"] = rectilinear(FITTED, 4)
    judge = Exact(square(maps["5 x 5"]))
    for name, features in list(maps.items())[:: -5 if quick else 1]:
        problem = square(features)
        rows.append(measured(problem, judge, {"nodes": name}, (0,), **once(problem)))
    return rows


def machines_part(quick=False):
    judge, low, high = Machines(), [0.0] * MACHINES, [LEVELS - 1.0] * MACHINES
    rows, seeds = [], (0,) if quick else (0, 1, 2)
    for n in (2,) if quick else (2, 3, 5):
        problem = machines(interpolation(low, high, [n] * MACHINES, MACHINES + 1))
        rows.append(measured(problem, judge, {"features": f"{n} nodes per axis"}, seeds))
    for budget in () if quick else (10_000, 40_000):
        problem = machines(polynomial(low, high, 2, MACHINES + 1))
        rows.append(measured(problem, judge, {"features": "polynomials of degree 2"}, seeds, budget=budget))
    return rows


def season_part(quick=False):
    judge, seeds = Exact(season()), (0,) if quick else (0, 1, 2)
    sizes = [(21, 2), (21, 3), (21, 6), (21, 11), (21, 21), (11, 21), (6, 21), (3, 21), (6, 6)]
    return [
        measured(season(stocks, clocks), judge, {"stock": stocks, "time": clocks}, seeds)
        for stocks, clocks in (sizes[:2] if quick else sizes)
    ]


def inventory_part(quick=False):
    judge, seeds = Exact(coreplan.make("inventory")), (0,) if quick else (0, 1, 2)
    return [
        measured(coreplan.make(f"inventory:grid={n}"), judge, {"nodes": n, "spacing": 30 / (n - 1)}, seeds)
        for n in ((4, 7) if quick else (4, 7, 11, 13, 16, 31))
    ]


def queue_part(quick=False):
    base = coreplan.make("queue:buffer=199")
    axes = {f"11 evenly from 0 to {b}": np.linspace(0, b, 11) for b in (10, 20, 40, 100, 199)}
    axes["13 unevenly: 0, 1, 2, 3, 5, 8, ..., 144, 199"] = [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 199]
    judge, seeds = Exact(base), (0,) if quick else (0, 1, 2)
    return [
        measured(
            replace(base, features=rectilinear([axis], 4), core_pairs=None), judge, {"nodes": name}, seeds
        )
        for name, axis in list(axes.items())[: 2 if quick else None]
    ]


PARTS = {
    "acrobot": acrobot_part, "pendulum": pendulum_part, "square": square_part, "machines": machines_part,
    "season": season_part, "inventory": inventory_part, "queue": queue_part,
}  # fmt: skip


# The page.

ABOUT = {
    "acrobot": (
        "Acrobot: multilinear or simplicial, and how wide a box",
        "Gymnasium's Acrobot-v1 (deterministic; discount .99; -1 per step until the tip is above the bar) from four",
        "coordinates: two angles in [-pi, pi] and two speeds. *speeds*: where the box ends; Gymnasium cuts the speeds off",
        "at 12.6 and 28.3. *episodes*: mean sum of rewards of 100 episodes of at most 500 steps; *solved*: how many",
        "of them ended; *outside*: the share of their steps outside the box. *angles*: cut at pi, or joined there",
        "(`periodic=`).",
    ),
    "pendulum": (
        "Pendulum: an angle, cut or joined",
        "The built-in `pendulum:grid=...` (deterministic; five torques; discount .99), by 400 rollouts. *returns*:",
        "discounted sum of rewards.",
    ),
    "square": (
        "A square with walls",
        "41 x 41 cells, four moves without chance, three walls with a passage of two cells each, a goal in the corner;",
        "discount .99.",
    ),
    "machines": (
        "Five machines",
        "Wear 0 to 8 each, so 59,049 states; in every step one of them is repaired, or none; discount .95. Polynomials",
        "have no core set: the planner is then `Grow`, with a budget.",
    ),
    "season": (
        "A season: time as a coordinate",
        "Sell 20 units within 20 steps at one of five prices; the state is (stock, time), each with 21 values. Discount",
        ".99.",
    ),
    "inventory": (
        "Inventory: whole numbers",
        "The built-in `inventory:grid=...`, two stocks of 0 to 30. *spacing*: between two nodes. The simulator rounds stock",
        "down, so a node at 2.5 is asked as 2.",
    ),
    "queue": (
        "A queue: a long coordinate",
        "The built-in `queue:buffer=199`, one coordinate from 0 to 199. A state beyond the last node counts as that node.",
    ),
}  # fmt: skip
HEADS = {
    "interpolation": "interpolation", "speeds": "speeds", "angles": "angles", "nodes": "nodes", "features": "features",
    "stock": "stock nodes", "time": "time nodes", "spacing": "spacing", "size": "d", "queries": "queries",
    "believed": "believed", "earned": "earned", "sub": "sub", "episodes": "episodes", "solved": "solved",
    "outside": "outside", "returns": "returns", "seconds": "CPU s",
}  # fmt: skip
FORMATS = {
    "size": ",", "queries": ",.0f", "believed": ".5f", "earned": ".5f", "sub": ".4f", "episodes": ".1f",
    "seconds": ".1f", "outside": ".1%", "returns": ".1f", "spacing": ".3g",
}  # fmt: skip


def cell(key, value):
    return "" if value is None else format(value, FORMATS.get(key, ""))


def page(results):
    lines = [
        "# Choosing features",
        "",
        "Made by `python benchmarks/choosing_features.py`. *d*: the number of features, and of core pairs where there is a",
        "core set. *believed*: what the solve says that its policy is worth; *earned*: what it is worth; both normalised.",
        "*sub* = (optimum - earned) / (optimum - uniform). Problems with chance: planned to 1%, means of seeds 0 to 2.",
    ]
    for part, rows in results.items():
        title, *text = ABOUT[part]
        keys = [key for key in HEADS if key in rows[0]]
        lines += ["", f"## {title}", "", *text, ""]
        if "optimum" in rows[0]:
            lines += [f"Optimum {rows[0]['optimum']:.5f}, uniform policy {rows[0]['uniform']:.5f}.", ""]
        lines += ["| " + " | ".join(HEADS[key] for key in keys) + " |", "|---" * len(keys) + "|"]
        lines += ["| " + " | ".join(cell(key, row[key]) for key in keys) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> None:
    quick, asked = "--quick" in sys.argv, [word for word in sys.argv[1:] if word in PARTS]
    path = RESULTS / "choosing_features.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for part in asked or PARTS:
        begin = time.process_time()
        results[part] = PARTS[part](quick)
        print(f"{part}: {time.process_time() - begin:.0f} s of CPU", flush=True)
    results = {part: results[part] for part in PARTS if part in results}
    if quick:
        print(page(results))
        return
    path.write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "choosing_features.md").write_text(page(results))


if __name__ == "__main__":
    main()
