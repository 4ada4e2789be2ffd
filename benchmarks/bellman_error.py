"""The interval for the inherent Bellman error: its width, before and after the relaxation of theory/bellman.py.

    python benchmarks/bellman_error.py

On every problem of the zoo that can be enumerated and whose transition matrix can be written out densely (of larger
ones a smaller member of the family), with D = sqrt(d) / (1 - gamma), and on the small instances of `verify`. "Before"
is the upper end by the linear-MDP fit alone: |r - Phi vartheta| + gamma R D |P - Phi W|_1, and R times the sum of the
norms that may lie outside of the ball. Deterministic. Writes results/bellman_error.md.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np

import coreplan
from coreplan.problem import ZOO
from coreplan.theory import Enumerated, linear_fit
from coreplan.theory.bellman import ascent, upper
from coreplan.theory.claims import instances

RESULTS = Path(__file__).parent / "results"
MOST = 1e7, 5e6  # entries of P and of Phi
SEARCHED = 2e5  # entries of Phi up to which the ascent is affordable
SMALLER = {"queue": "queue:buffer=60"}
INSTANCES = (
    instances.linear_instance, instances.nearly_linear_instance, instances.misspecified_instance,
    instances.optimality_complete_instance, instances.constant_feature_instance, instances.approximate_instance,
)  # fmt: skip


def before(e: Enumerated, D: float, ball: bool) -> float:
    """The upper end by the linear-MDP fit alone."""
    fit, gamma, R = linear_fit(e), e.discount, e.radius
    high = fit.reward_error + gamma * R * D * fit.transition_error
    if ball:
        reach = np.linalg.norm(fit.vartheta) + gamma * R * D * np.linalg.norm(fit.W, axis=0).sum()
        high += R * max(0.0, float(reach) - D)
    return min(high, 1 + gamma * R * D)


def row(name: str, e: Enumerated) -> str:
    D, cells = math.sqrt(e.d) / (1 - e.discount), []
    for ball in (True, False):
        begin = time.process_time()
        old, new = before(e, D, ball), upper(e, D, ball)
        low = min(ascent(e, D, ball, 6, 0), new) if e.Z * e.d <= SEARCHED else 0.0
        cells += [f"{low:.3g}", f"{old:.3g}", f"{new:.3g}", f"{old - low:.3g}", f"{new - low:.3g}"]
        print(name, ball, cells[-5:], f"{time.process_time() - begin:.0f} s", flush=True)
    return f"| {name} | {e.X} x {e.A} | {e.d} | {D:.3g} | " + " | ".join(cells) + " |"


def main() -> None:
    lines = [
        "# The inherent Bellman error as an interval, before and after", "",
        "`python benchmarks/bellman_error.py`, deterministic. D = sqrt(d) / (1 - gamma); errors are in units of Q, which is",
        "up to 1 / (1 - gamma). The lower end is the ascent's in both cases (0 where Phi has too many entries for it).", "",
        "| problem | X x A | d | D | ball: low | high before | high after | width before | width after "
        "| no ball: low | high before | high after | width before | width after |",
        "|---" * 14 + "|",
    ]  # fmt: skip
    problems = [(f.__name__.replace("_", " "), f()) for f in INSTANCES]
    left = []
    for name in ZOO:
        problem = coreplan.make(SMALLER.get(name, name))
        if problem.tabular is None:
            left.append(f"{name} (not enumerable)")
        else:
            problems.append((SMALLER.get(name, name), problem))
    for name, problem in problems:
        e = Enumerated.of(problem)
        if MOST[0] < e.Z * e.X or e.Z * e.d > MOST[1]:
            left.append(f"{name} ({e.X:,} states, {e.Z:,} pairs, {e.d:,} features)")
        else:
            lines.append(row(name, e))
    lines += ["", "Left out: " + ", ".join(left) + "."]
    (RESULTS / "bellman_error.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
