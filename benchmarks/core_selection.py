"""Choosing 400 core pairs from pools of 200,000 points in dimension 100: time, memory, errors, and an independent check.

    python benchmarks/core_selection.py [--points 200000]

Three pools, each in a process of its own: Gaussian points (nearly all of them extreme), mixtures of 300 vertices (which
must be recovered exactly), and points near a subspace of dimension 10. For 100 random points the distances are compared
with scipy's NNLS, and enclosed by weak duality. Then the three methods are compared on pools a tenth as large.
Prints a table and writes benchmarks/results/core_selection.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from coreplan.core import Pool, select

D, SIZE, VERTICES = 100, 400, 300


def gaussian(rng, n):
    return rng.standard_normal((n, D))


def mixtures(rng, n):
    """Convex mixtures of 300 vertices, which are the first 300 points."""
    B = rng.dirichlet(np.full(VERTICES, 0.05), size=n)
    B[:VERTICES] = np.eye(VERTICES)
    return B @ rng.standard_normal((VERTICES, D))


def low_rank(rng, n):
    return rng.standard_normal((n, 10)) @ rng.standard_normal((10, D)) / 3 + 0.05 * rng.standard_normal(
        (n, D)
    )


POOLS = {"gaussian": gaussian, "mixtures": mixtures, "low-rank": low_rank}


def bracket(C, y):
    """An upper and a lower bound on dist(y, conv C), from scipy's NNLS with a heavily weighted row for sum b = 1.

    The upper bound is the distance |x| of the point that b gives; p_j . x >= |x| l for all j gives the lower bound l.
    """
    P = C - y
    heavy = 1e3 * np.abs(P).max()
    b = nnls(
        np.vstack([P.T, np.full(len(C), heavy)]), np.append(np.zeros(len(y)), heavy), maxiter=100 * len(C)
    )[0]
    x = P.T @ (b / b.sum())
    upper = float(np.linalg.norm(x))
    return upper, max(float((P @ x).min()) / max(upper, 1e-300), 0.0)


def check(points, selection, rng, n=100):
    """The largest differences between the selection's distances and independently computed ones, on n random points."""
    C = points[selection.indices]
    zs = rng.choice(len(points), size=n, replace=False)
    bounds = np.array([bracket(C, points[z]) for z in zs])
    found = selection.distances[zs]
    rebuilt = np.linalg.norm(points[zs] - selection.B[zs] @ C, axis=1)
    return {
        "largest |distance - NNLS|": float(np.abs(found - bounds[:, 0]).max()),
        "largest excess over the dual bound": float((found - bounds[:, 1]).max()),
        "largest |distance - |phi - B C||": float(np.abs(found - rebuilt).max()),
    }


def measure(name, n, method, size):
    """One selection in a fresh process, after a small one that compiles the kernels."""
    rng = np.random.default_rng(0)
    points = POOLS[name](rng, n)
    select(Pool(np.arange(500), np.zeros(500, dtype=int), points[:500]), size=20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu, load = time.perf_counter(), time.process_time(), os.getloadavg()[0]
    pool = Pool(np.arange(n), np.zeros(n, dtype=int), points)
    found = select(pool, size=size, method=method)
    row = {
        "pool": name, "points": n, "dimension": D, "method": method, "chosen": len(found.core),
        "seconds": time.perf_counter() - wall, "cpu seconds": time.process_time() - cpu,
        "load before and after": [load, os.getloadavg()[0]], "cores": os.cpu_count(),
        "pool MB": points.nbytes / 1e6, "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "peak MB before": before / 1e3, "mean": found.mean, "max": found.max,
        "nonzeros a row of B": found.B.nnz / n, **check(points, found, rng),
    }  # fmt: skip
    if name == "mixtures":
        row["vertices recovered"] = int(np.isin(np.arange(VERTICES), found.indices).sum())
    return row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=200_000)
    n = parser.parse_args().points
    jobs = [(name, n, "hull", SIZE) for name in POOLS]
    jobs += [
        (name, n // 10, method, D + 1) for name in POOLS for method in ("hull", "projection", "farthest")
    ]
    rows = []
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as processes:
        for row in processes.map(measure, *zip(*jobs, strict=True)):
            rows.append(row)
            print(
                f"{row['pool']:9} {row['method']:10} {row['points']:7} points, {row['chosen']:3} chosen: "
                f"{row['seconds']:6.1f} s ({row['cpu seconds']:.0f} CPU), peak {row['peak MB']:.0f} MB, errors mean "
                f"{row['mean']:.4g} max {row['max']:.4g}; NNLS differs by {row['largest |distance - NNLS|']:.1e}",
                flush=True,
            )
    path = Path(__file__).parent / "results" / "core_selection.json"
    path.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
