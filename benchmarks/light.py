"""Queries, CPU seconds and bytes of three kinds of problems on which `PlugIn` was wasteful: benchmarks/results/light.md.

    python benchmarks/light.py [REV ...]     # about two minutes; other revisions have a limit of 200 s of CPU each

Deterministic simulators: queries. A forest of 1,000 states (pymdptoolbox's) and a perishable inventory with 23,808 core
pairs and 31 actions: CPU seconds on one core, with and without compilation. An inventory with 1,364 core pairs: the size of
the checkpoint. This checkout is measured, and every revision that is named, each in processes of its own.
"""

from __future__ import annotations

import inspect
import io
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 200  # seconds of CPU for one measurement
CASES = ("mountain-car", "cart-pole", "forest", "perishable", "checkpoint")


def forest(states: int = 1000, fire: float = 0.1, discount: float = 0.96):
    """pymdptoolbox's forest management: waiting lets it grow or burn, cutting starts again; the oldest pays 4 or 2."""
    import numpy as np

    from coreplan.problem import from_matrices

    P, R = np.zeros((2, states, states)), np.zeros((states, 2))
    P[0, :, 0] = fire
    P[0, np.arange(states), np.minimum(np.arange(states) + 1, states - 1)] += 1 - fire
    P[1, :, 0] = 1.0
    R[-1, 0], R[1:, 1], R[-1, 1] = 4.0, 1.0, 2.0
    return from_matrices(P, R, discount)


def perishable(nodes: list[int], orders: int, discount: float = 0.95):
    """`perishable-inventory` with fractions of orders, as a function of the demand's quantile."""
    import numpy as np

    from coreplan import NoiseModel, Problem
    from coreplan.features import interpolation

    price, worst = 20 * discount**2, 200 * discount**2 + 1200

    def demand(u):  # a triangle on [0, 10] with the deviation 2
        return 10 * np.where(u < 0.5, np.sqrt(u / 2), 1 - np.sqrt((1 - u) / 2))

    def step(x, action, noise):
        a, d = action * (10.0 / (orders - 1)), demand(noise[:, 0])
        old, fresh = x[:, 0], x[:, 1]
        left = fresh - np.maximum(d - old, 0)
        cost = price * a + 2 * np.maximum(left, 0) + 10 * np.maximum(d - old - fresh, 0)
        cost += 5 * np.maximum(old - d, 0) + 100 * np.maximum(d - old - fresh - 10, 0)
        return -cost, np.stack([np.maximum(left, -10), x[:, 2], a], axis=1)

    model = NoiseModel(orders, lambda rng, n: np.full((n, 3), 5.0), step, 1)
    grid = interpolation((-10.0, 0.0, 0.0), (10.0, 10.0, 10.0), nodes, orders)
    return Problem(model, grid, discount, reward_range=(-worst, 0.0))


def measure(case: str) -> str:
    """One case with the sources that are imported here, as a row of the table."""
    import coreplan

    # Without rollouts of the policy; earlier revisions make none.
    alone = {"reality": 0} if "reality" in inspect.signature(coreplan.plan).parameters else {}
    if case == "checkpoint":
        with tempfile.TemporaryDirectory() as folder:
            coreplan.plan(perishable([31, 2, 2], 11), budget=1_400_000, out=folder, **alone)
            size = (Path(folder) / "checkpoint.npz").stat().st_size
        return f"{size / 1e6:,.0f} MB"
    made = {"mountain-car": "mountain-car:grid=31", "cart-pole": "cart-pole:grid=7"}
    tables = {"forest": forest, "perishable": lambda: perishable([16, 8, 6], 31)}
    problem = coreplan.make(made[case]) if case in made else tables[case]()
    seconds = []
    for _ in range(1 if case in made else 2):
        begin = time.process_time()
        run = coreplan.plan(problem, epsilon="1%", **alone)
        seconds.append(time.process_time() - begin)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    cpu = (
        ""
        if case in made
        else f", {seconds[1]:.1f} s ({seconds[0]:.1f} s with compilation), {memory:,.0f} MB"
    )
    return f"{run.queries:,} queries{cpu}, {run.status.value}"


def child(case: str, sources: Path) -> str:
    """The row of one case, measured in a process of its own with a limit of CPU seconds."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(sources),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, __file__, "--measure", case]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT)),
    )  # fmt: skip
    if done.returncode:
        return (
            f"not finished after {LIMIT} s" if done.returncode < 0 else done.stderr.strip().splitlines()[-1]
        )
    return done.stdout.strip()


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        print(measure(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        sources = {"this checkout": ROOT / "src"}
        for revision in sys.argv[1:]:
            archive = subprocess.run(
                ["git", "archive", revision, "src"], cwd=ROOT, capture_output=True, check=True
            )
            with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as sources_then:
                sources_then.extractall(Path(folder) / revision, filter="data")
            sources[revision] = Path(folder) / revision / "src"
        print("| case | " + " | ".join(sources) + " |\n|" + "---|" * (1 + len(sources)))
        for case in CASES:
            print(
                f"| {case} | " + " | ".join(child(case, src) for src in sources.values()) + " |", flush=True
            )


if __name__ == "__main__":
    main()
