"""CPU time and memory of `Grow`: many nonzeros, actions and queries, and d = 98,304: benchmarks/results/grow_scale.md.

`python benchmarks/grow_scale.py` runs every case in a process of its own, seed 0, rollouts of the result included, and
writes the page; `python benchmarks/grow_scale.py CASE` runs one. Seconds are those of CPU, compilation included where
nothing is cached; memory is the peak of the process, in which imports alone take 170 MB.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import coreplan
from coreplan import FunctionFeatures, FunctionModel, Grow, Problem
from coreplan.features import polynomial, tile_coding

RESULTS = Path(__file__).parent / "results"
# Seconds and MB of the version before, measured with this program's problems on the same machine (seed 1000).
BEFORE = {
    "dense": "124 s, 1,950 MB",
    "polynomial": "59 s, 1,010 MB",
    "tetris": "24 s, 2,390 MB",
    "tiles": "refused",
}


def linear(D: int, n_actions: int, features=None) -> Problem:
    """x <- M x + B_a + noise with a rotation M that shrinks; the reward falls with |x|^2. D dimensions, box [-2, 2]."""
    rng = np.random.default_rng(0)
    M = np.linalg.qr(rng.normal(size=(D, D)))[0] * 0.95
    B = rng.normal(size=(n_actions, D)) * 0.3
    B[0] = 0.0

    def step(rng, x, a):
        y = np.clip(x @ M.T + B[a] + 0.1 * rng.normal(size=x.shape), -2, 2)
        return 1 - (x**2).mean(axis=1) / 4, y

    def quadratic(x):
        """Quadratic in where each action leads: D + D (D + 1) / 2 + 2 numbers, dense."""
        p = np.clip((x @ M.T)[:, None] + B, -3, 3) / 3  # [n, A, D]
        i, j = np.triu_indices(D)
        rest = [(p**2).mean(axis=-1, keepdims=True), np.ones((*p.shape[:2], 1))]
        return np.concatenate([p, p[..., i] * p[..., j], *rest], axis=-1)

    model = FunctionModel(n_actions, lambda rng, n: rng.uniform(-1, 1, (n, D)), step)
    d = D + D * (D + 1) // 2 + 2
    return Problem(model, features or FunctionFeatures(quadratic, n_actions, d, 12.0), 0.95)


def masses(tiles: int = 3, tilings: int = 8) -> Problem:
    """Three masses in a row on springs, six dimensions; the first is pushed to the left, not at all, or to the right.

    The reward falls with the squared displacements. Tiles: (3 + 1)^6 cells, 8 tilings, 3 actions, d = 98,304.
    """
    springs = np.array([[2.0, -1, 0], [-1, 2, -1], [0, -1, 1]])
    dt, box = 0.25, 2.0

    def step(rng, x, a):
        q, v = x[:, :3], x[:, 3:]
        v = v - dt * (q @ springs + 0.1 * v) + 0.05 * rng.normal(size=v.shape)
        v[:, 0] += 2 * dt * (a - 1)
        y = np.clip(np.concatenate([q + dt * v, v], axis=1), -box, box)
        return 1 - np.minimum(1, (q**2).mean(axis=1)), y

    def initial(rng, n):
        return np.concatenate([rng.uniform(-1, 1, (n, 3)), np.zeros((n, 3))], axis=1)

    return Problem(
        FunctionModel(3, initial, step), tile_coding([-box] * 6, [box] * 6, [tiles] * 6, tilings, 3), 0.95
    )


CASES = {
    "dense": (lambda: linear(13, 18), 40_000),
    "polynomial": (lambda: linear(10, 11, polynomial([-2] * 10, [2] * 10, 2, 11)), 40_000),
    "tetris": (lambda: coreplan.make("tetris"), 100_000),
    "tiles": (masses, 50_000),
}


def measured(case: str, seed: int = 0) -> dict[str, object]:
    """One run in this process."""
    make, budget = CASES[case]
    problem = make()
    begin = time.process_time()
    result = coreplan.plan(problem, planner=Grow(), budget=budget, seed=seed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    d, A = problem.features.dimension, problem.n_actions
    return {
        "case": case, "d": d, "A": A, "queries": result.queries, "seconds": time.process_time() - begin, "MB": peak,
        "earned": result.earned.value, "uniform": result.uniform.value, "status": result.status.value,
    }  # fmt: skip


def page(rows: list[dict]) -> str:
    lines = [
        "# Time and memory of Grow",
        "",
        "`python benchmarks/grow_scale.py`, seed 0; CPU seconds and peak memory of the whole process, of which imports take",
        "170 MB; other programs ran on the machine. Earned and uniform: normalised values of the policy and of the uniform",
        "one, by rollouts. Dense: quadratic features of where each action leads, in 13 dimensions. Polynomial: degree 2 in",
        "ten dimensions, a copy per action. Tiles: three masses on springs, six dimensions, 8 tilings.",
        "",
        "| case | d | A | queries | seconds | MB | before | earned | uniform | status |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        lines.append(
            f"| {r['case']} | {r['d']:,} | {r['A']} | {r['queries']:,} | {r['seconds']:.1f} | {r['MB']:.0f} | "
            f"{BEFORE[r['case']]} | {r['earned']:.4g} | {r['uniform']:.4g} | {r['status']} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measured(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)))
        return
    rows = []
    for case in CASES:
        command = [sys.executable, __file__, case]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        print(rows[-1], flush=True)
    (RESULTS / "grow_scale.md").write_text(page(rows))


if __name__ == "__main__":
    main()
