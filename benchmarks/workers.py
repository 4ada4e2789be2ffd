"""Do workers pay? A simulator that waits 2 ms per query, and one that costs nothing: benchmarks/results/workers.md.

    python benchmarks/workers.py [--queries 4800]        # some minutes; with Ray, if it is installed

`plan` with `PlugIn` on a corridor of 100 places, 200 core pairs. The simulator sleeps for 2 ms per query, as one does that
waits for another machine; so eight workers need no eight cores. Seconds are those of planning, without the start of the
workers, who have been used once before; each run with workers follows one without, and what is shown are medians of three.
"Ideal" is the number of workers. Then the same corridor in NumPy, where workers do not pay, and which must not become slower
by more than a tenth: there the two are run five times in turn, and the medians of CPU time compared.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from pathlib import Path

import numpy as np

import coreplan
from coreplan.executors import processes, ray

RESULTS = Path(__file__).resolve().parent / "results" / "workers.md"
WAIT, PLACES, BLOCK = 2e-3, 100, 16


def corridor(wait: float) -> coreplan.Problem:
    """A corridor whose simulator waits."""

    def step(rng, x, a):
        if wait:
            time.sleep(wait)
        y = min(x + 1, PLACES - 1) if a == 1 and rng.random() < 0.8 else max(x - 1, 0)
        return float(y == PLACES - 1), y

    def steps(rng, x, a):
        y = np.where(
            (a == 1) & (rng.random(len(x)) < 0.8), np.minimum(x + 1, PLACES - 1), np.maximum(x - 1, 0)
        )
        return (y == PLACES - 1) * 1.0, y

    if wait:
        model = coreplan.ScalarModel(2, lambda rng: rng.integers(PLACES), step)
        model.block = BLOCK
    else:
        model = coreplan.FunctionModel(2, lambda rng, n: rng.integers(PLACES, size=n), steps)
    return coreplan.Problem(model, coreplan.features.one_hot(PLACES, 2), 0.9, name="corridor")


def run(problem: coreplan.Problem, queries: int, engine=None):
    """The plan, its seconds, and the processor's."""
    begin, cpu = time.perf_counter(), time.process_time()
    found = coreplan.plan(
        problem, planner=coreplan.PlugIn(noise="independent"), budget=queries, reality=0, executor=engine
    )
    return found, time.perf_counter() - begin, time.process_time() - cpu


def slow(queries: int, turns: int = 3) -> list[str]:
    """The waiting simulator with each kind of workers, each time right after a run without any: a busy machine drifts."""
    run(corridor(0.0), 1000)  # compiles
    rows = []
    engines = [("processes", processes, n) for n in (1, 2, 8)] + [("ray", ray, n) for n in (2, 8)]
    for name, make, workers in engines:
        engine = make(workers)
        try:
            run(corridor(WAIT), 800 * workers, engine)  # until all have started
        except coreplan.InputError:
            rows.append(f"| {name}, {workers} | - | - | - | {workers} | not installed |")
            continue
        pairs = [(run(corridor(WAIT), queries), run(corridor(WAIT), queries, engine)) for _ in range(turns)]
        same = all(a[0].policy.theta.tobytes() == b[0].policy.theta.tobytes() for a, b in pairs)
        serial, there = (statistics.median(pair[k][1] for pair in pairs) for k in (0, 1))
        ratio = statistics.median(pair[0][1] / pair[1][1] for pair in pairs)
        rows.append(
            f"| {name}, {workers} | {serial:.2f} | {there:.2f} | {ratio:.2f} | {workers} | {'yes' if same else 'NO'} |"
        )
        print(rows[-1], flush=True)
        engine.shut()
        if name == "ray":
            import ray as library

            library.shutdown()
    return rows


def quick(queries: int) -> tuple[float, str]:
    """How much slower a cheap simulator is with workers, and what is said about it."""
    said: list[str] = []
    engine, seconds = processes(2), {True: [], False: []}
    for turn in range(6):
        for workers in (True, False):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                taken = run(corridor(0.0), queries, engine if workers else None)[1:]
            said += [str(w.message) for w in caught]
            if turn:
                seconds[workers].append(taken[1])
    engine.shut()
    return statistics.median(seconds[True]) / statistics.median(seconds[False]), said[
        0
    ] if said else "nothing"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=4800)
    given = parser.parse_args()
    rows = slow(given.queries)
    ratio, said = quick(200_000)
    load = os.getloadavg()[0]
    RESULTS.write_text("\n".join([
        "# Workers", "", "`python benchmarks/workers.py`: what it measures is said there.", "",
        f"{given.queries:,} queries of 2 ms, on {os.cpu_count()} cores whose load was {load:.1f} at the end:", "",
        "| who simulates | seconds without | with | times as fast | ideal | same bits |",
        "|---|---|---|---|---|---|", *rows, "",
        f"A simulator that costs nothing, 200,000 queries: with `processes(2)` it takes {ratio:.2f} times the CPU time "
        f"without. It is said once: \"{said}\"", "",
    ]))  # fmt: skip
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()
