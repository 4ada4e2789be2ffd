"""How the cost per query and the memory grow as |X|, d, m, A and K each grow tenfold.

    python benchmarks/growth.py        # about two minutes

Each measurement is a process of its own, which plans on `random-linear:lazy=true` twice: to compile, and then measured in
CPU seconds. An exponent is the slope of log cost against log size: 0 is "does not depend", 1 "in proportion". PrimalDual is
the paper's algorithm, where K has a meaning; PlugIn is the default. m alone grows by pairs at random states, whose features
mix those of the core. Writes benchmarks/results/growth.md and .json.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

from revision import revision

RESULTS = Path(__file__).parent / "results"
BASE = {"states": 10**4, "d": 8, "m": 8, "actions": 4, "K": 20}
TENFOLD = {"states": (10**4, 10**5), "d": (8, 80), "m": (8, 80), "actions": (4, 40), "K": (20, 200)}
QUERIES = {"plug-in": 100_000, "primal-dual": 200_000}


def measure(planner, states, d, m, actions, K):
    """CPU seconds per query, and the megabytes of the process beyond those of an idle one."""
    import resource
    import time

    import numpy as np

    import coreplan
    from coreplan.core import CoreSet

    problem = coreplan.make(f"random-linear:lazy=true,states={states},d={max(d, 1)},actions={actions}")
    core = CoreSet.of(problem)
    if m > d:  # more pairs than dimensions
        rng = np.random.default_rng(0)
        more = rng.choice(states, m - d, replace=False).astype(core.states.dtype)
        core = CoreSet.distinct(
            np.append(core.states, more), np.append(core.actions, np.zeros(m - d, dtype=np.int64))
        )
    made = (
        coreplan.PlugIn()
        if planner == "plug-in"
        else coreplan.PrimalDual(K=K, eta=1e-4, beta=0.02, alpha=0.006)
    )
    queries = QUERIES[planner]
    coreplan.plan(problem, core, made, budget=max(4 * m, 4 * K), reality=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    result = coreplan.plan(problem, core, made, budget=queries, reality=0)
    seconds = time.process_time() - begin
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"us": 1e6 * seconds / result.queries, "mb": (after - before) / 1024}


def main():
    rows = []
    for planner in QUERIES:
        for name, sizes in TENFOLD.items():
            if name == "K" and planner == "plug-in":
                continue
            found = []
            for size in sizes:
                at = BASE | {name: size} | ({"m": size} if name == "d" else {})
                call = [sys.executable, __file__, "--one", json.dumps([planner, at])]
                found.append(
                    json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout)
                )
            rows.append(
                {"planner": planner, "of": name, "sizes": sizes, "found": found, **exponents(sizes, found)}
            )
            print(rows[-1], flush=True)
    (RESULTS / "growth.json").write_text(json.dumps(rows, indent=1))
    (RESULTS / "growth.md").write_text(page(rows))


def exponents(sizes, found):
    """Slopes on logarithmic axes, by least squares; memory in units of at least 1 MB, below which it says nothing."""
    x = [math.log(s) for s in sizes]
    out = {}
    for key in ("us", "mb"):
        y = [math.log(max(f[key], 1.0 if key == "mb" else 1e-9)) for f in found]
        mx, my = sum(x) / len(x), sum(y) / len(y)
        out[f"exponent_{key}"] = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / sum(
            (a - mx) ** 2 for a in x
        )
    return out


def page(rows):
    lines = [
        "# Growth", "",
        f"Made by `python benchmarks/growth.py`, revision {revision()}, on `random-linear:lazy=true`, from |X| = 10,000,",
        "d = m = 8, A = 4, K = 20.",
        "CPU microseconds per query, and megabytes beyond those before the run, at two sizes, a factor of ten apart.", "",
        "| planner | grows | sizes | us per query | exponent | MB | exponent |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    names = {"states": "\\|X\\|", "d": "d = m", "m": "m alone", "actions": "A", "K": "K"}
    for row in rows:
        us = ", ".join(f"{f['us']:.2f}" for f in row["found"])
        mb = ", ".join(f"{f['mb']:.0f}" for f in row["found"])
        sizes = ", ".join(f"{s:,}" for s in row["sizes"])
        lines.append(
            f"| `{row['planner']}` | {names[row['of']]} | {sizes} | {us} | {row['exponent_us']:.2f} | {mb} | "
            f"{row['exponent_mb']:.2f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        planner, at = json.loads(sys.argv[2])
        print(json.dumps(measure(planner, **at)))
    else:
        main()
