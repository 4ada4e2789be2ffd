"""Pictures of Algorithm 1 at work on `river-swim`: lambda, theta, the policy and its value over the iterations.

    python benchmarks/paper_pictures.py [--folder docs/images]

docs/paper-in-pictures.md explains them. Needs the extra `bench`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

import coreplan
from coreplan.base import FloatArray
from coreplan.enumerated import Enumerated
from coreplan.judge import optimal_values, policy_value
from coreplan.theory import occupancy

STYLE = {
    "svg.hashsalt": "coreplan",  # the same bytes for the same picture
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
RATES = {"K": 5, "eta": 2e-4, "beta": 0.02, "alpha": 0.006}  # found by search, see docs/algorithm-1.md
BUDGET, POINTS = 600_000, 150
COLOURS = ("#440154", "#443983", "#31688e", "#21918c", "#35b779", "#90d743")  # viridis, one per position


class Moments(NamedTuple):
    """What Algorithm 1 holds at some moments of a run."""

    queries: FloatArray  # [n]
    lam: FloatArray  # [n, m]
    theta: FloatArray  # [n, d]
    pi: FloatArray  # [n, X, A]
    value: FloatArray  # [n], normalised


def watched(problem: coreplan.Problem, budget: int, points: int) -> Moments:
    planner, table = coreplan.PrimalDual(output="last", **RATES), problem.tabular()
    found: list[tuple] = []
    for step in coreplan.steps(problem, planner, budget=budget, stride=budget // points):
        state = step.state
        lam = np.exp(state.log_lam - state.log_lam.max())
        policy = coreplan.SoftmaxPolicy(state.Theta.copy(), RATES["beta"], problem.features)
        found.append(
            (
                step.queries,
                lam / lam.sum(),
                state.theta.copy(),
                policy.probabilities(table.states),
                policy_value(table, policy, problem.discount),
            )
        )
    return Moments(*(np.array(column) for column in zip(*found, strict=True)))


def blank(title: str, label: str) -> tuple:
    import matplotlib
    import matplotlib.pyplot

    matplotlib.use("svg")
    matplotlib.rcParams.update(STYLE)
    figure, axes = matplotlib.pyplot.subplots(figsize=(6.4, 2.7), layout="constrained")
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel("queries")
    axes.set_ylabel(label)
    axes.set_xticks(np.linspace(0, BUDGET, 4), [f"{q:,.0f}" for q in np.linspace(0, BUDGET, 4)])
    return figure, axes


def picture_of_lambda(seen: Moments, best: FloatArray):
    """Rows are core pairs; the column at the right is where the optimal policy spends its time."""
    figure, axes = blank("lambda: which core pairs get weight", "")
    order = [2 * x + a for a in (0, 1) for x in range(6)]
    names = [f"{('left', 'right')[i % 2]} at {i // 2}" for i in order]
    image = axes.imshow(
        seen.lam[:, order].T, aspect="auto", cmap="Blues", vmin=0, interpolation="nearest",
        extent=(0, seen.queries[-1], 11.5, -0.5),
    )  # fmt: skip
    axes.set_yticks(range(12), names, fontsize=7)
    end = axes.inset_axes((1.03, 0, 0.05, 1))
    end.imshow(best[order][:, None], aspect="auto", cmap="Blues", vmin=0, vmax=image.get_clim()[1])
    end.set_xticks([])
    end.set_title("mu*", fontsize=8)
    end.set_yticks([])
    figure.colorbar(image, ax=axes, label="probability", pad=0.12)
    return figure


def picture_of_theta(seen: Moments, Q: FloatArray):
    """theta never learns a level, since every step adds up to zero: so Q* is drawn less its mean."""
    figure, axes = blank("theta: what the pairs are said to be worth", "theta, and Q* (dashed)")
    for x in range(6):
        axes.plot(seen.queries, seen.theta[:, 2 * x + 1], color=COLOURS[x], lw=1, label=f"right at {x}")
        axes.axhline(Q[x, 1] - Q.mean(), color=COLOURS[x], lw=0.8, ls="--")
    axes.legend(fontsize=7, ncol=1, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, reverse=True)
    return figure


def picture_of_the_policy(seen: Moments):
    figure, axes = blank("the policy: how likely it swims right", "probability of right")
    for x in range(6):
        axes.plot(seen.queries, seen.pi[:, x, 1], color=COLOURS[x], lw=1.2, label=f"at {x}")
    axes.set_ylim(0, 1.02)
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, reverse=True)
    return figure


def picture_of_the_value(seen: Moments, best: float):
    figure, axes = blank("the value of the policy", "normalised value")
    axes.plot(seen.queries, seen.value, color=COLOURS[1], lw=1.5)
    axes.axhline(best, color="0.4", lw=0.8, ls="--")
    axes.text(0, best, " optimum", va="bottom", fontsize=8, color="0.3")
    axes.text(BUDGET / 2, seen.value[0], "uniform policy", va="bottom", ha="left", fontsize=8, color="0.3")
    axes.axhline(seen.value[0], color="0.4", lw=0.8, ls="--")
    axes.set_ylim(0, best * 1.15)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("docs/images"))
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    problem = coreplan.make("river-swim")
    V, Q = optimal_values(problem.tabular(), problem.discount)
    greedy = np.eye(2)[Q.argmax(axis=1)]  # [X, A]
    best = occupancy(Enumerated.of(problem), greedy)
    seen = watched(problem, BUDGET, POINTS)
    pictures = {
        "lambda": picture_of_lambda(seen, np.asarray(best)),
        "theta": picture_of_theta(seen, Q),
        "policy": picture_of_the_policy(seen),
        "value": picture_of_the_value(seen, float((1 - problem.discount) * V[0])),
    }
    for name, figure in pictures.items():
        figure.savefig(folder / f"paper-{name}.svg", metadata={"Date": None, "Creator": None})
    print(f"value {seen.value[-1]:.4f} after {seen.queries[-1]:,} queries")


if __name__ == "__main__":
    main()
