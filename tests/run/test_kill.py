"""Kill -9 at any moment, resume, and get to the last bit what an uninterrupted run gives."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time

import numpy as np
import pytest

CHILD = """
import sys, json, coreplan
spec, out, budget, name, settings = sys.argv[1:6]
planner = coreplan.planners.make_planner(name, json.loads(settings))
plan = coreplan.plan(coreplan.make(spec), planner=planner, budget=int(budget), seed=7, out=out, resume=True,
                     checkpoint_seconds=0.05)
print(json.dumps(plan.queries))
"""


RATES = {"K": 5, "eta": 2e-4, "beta": 0.02, "alpha": 0.006, "D": 28.0}
PYTHON = "random-linear:compiled=false"


def child(spec, out, budget, planner, settings):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, spec, str(out), str(budget), planner, json.dumps(settings)],
        stdout=subprocess.PIPE,
    )


def contents(folder):
    """Everything but clocks: policy, checkpoint state, trace."""
    with np.load(folder / "policy.npz") as p:
        policy = p["theta"].tobytes()
    with np.load(folder / "checkpoint.npz") as c:
        state = {name: c[name].tobytes() for name in c.files if name.startswith("state.")}
        meta = json.loads(c["meta"].tobytes())
    lines = (folder / "trace.csv").read_text().splitlines()
    clock = lines[0].split(",").index("seconds")
    trace = [[v for i, v in enumerate(line.split(",")) if i != clock] for line in lines]
    return policy, state, meta["planner_stream"], meta["simulator"], trace


def wait_for_work(process, folder):
    """Until the run has written its first checkpoint, or ended; the time then."""
    while process.poll() is None and not (folder / "checkpoint.npz").exists():
        time.sleep(0.01)
    return time.monotonic()


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("spec", "budget", "planner", "settings", "kills"),
    [
        ("random-linear", 6_000_000, "primal-dual", RATES, 10),
        (PYTHON, 250_000, "primal-dual", RATES, 10),
        (PYTHON, 1_000_000, "plug-in", {}, 4),
        (PYTHON, 1_000_000, "plug-in", {"epsilon": 1e-9}, 4),
        ("random-linear", 6_000_000, "core-mirror", {}, 4),
        (PYTHON, 80_000, "optimistic", {}, 4),
        ("mountain-car:grid=11", 20_000, "sampled-lp", {}, 4),
    ],
)
def test_kill_at_random_moments(spec, budget, planner, settings, kills, tmp_path):
    whole = tmp_path / "whole"
    begin = time.monotonic()
    process = child(spec, whole, budget, planner, settings)
    begun = wait_for_work(process, whole)
    assert process.wait() == 0
    duration, work = time.monotonic() - begin, time.monotonic() - begun
    want = contents(whole)
    rng = random.Random(20231)
    done, round_, during = 0, 0, 0
    while done < kills:
        out = tmp_path / f"killed{round_}"
        round_ += 1
        while True:
            process = child(spec, out, budget, planner, settings)
            moment = rng.uniform(0.1, duration)
            if done % 2:  # most of a short run is its start: every other kill waits until work has begun
                wait_for_work(process, out)
                moment = rng.uniform(0.0, work)
            try:
                process.wait(timeout=moment)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                done += 1
                during += (out / "checkpoint.npz").exists()
                continue
            assert process.returncode == 0
            break
        assert contents(out) == want
        assert not list(out.glob("*.partial")), "a finished run leaves no partial file"
    assert during >= kills // 3, "too few kills met a run that had begun"
