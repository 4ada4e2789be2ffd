"""A simulator that is paid by the query, a run without a folder, and kill -9: only what was on its way is paid again."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKERS, BLOCK, BUDGET = 2, 4, 600
CHILD = """
import os, sys, time
sys.path[:0] = [sys.argv[1] + "/tests", sys.argv[1] + "/src"]
import coreplan
from coreplan.executors import processes
from helpers.executors import walk

out, workers = sys.argv[2], int(sys.argv[3])

def paid(rng, x, a, file=out + "/paid", places=6):
    time.sleep(0.003)
    y = min(x + 1, places - 1) if a == 1 and rng.random() < 0.8 else max(x - 1, 0)
    with open(file, "ab", 0) as bill:  # as a service would count: one byte for each query, when it is answered
        bill.write(b".")
    return float(y == places - 1), y

if __name__ == "__main__":
    problem = walk(block=4)
    problem.model._step = paid
    engine = processes(workers, timeout=60) if workers else None
    result = coreplan.plan(problem, planner="plug-in", budget=600, reality=0, executor=engine, log=out + "/q.log")
    with open(out + "/result", "wb") as file:
        file.write(result.policy.theta.tobytes() + str((result.queries, result.lost_queries)).encode())
"""


def child(out, workers):
    script = out / "child.py"
    script.write_text(CHILD)
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", script, ROOT, out, str(workers)], start_new_session=True
    )


def paid(out):
    return os.path.getsize(out / "paid") if (out / "paid").exists() else 0


def logged(out):
    """What is in the log, as the next run will find it."""
    from coreplan.simulate import read_log

    path = out / "q.log"
    return read_log(path).queries if path.exists() and path.stat().st_size > 200 else 0


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("workers", [0, WORKERS])
def test_killed_at_twenty_moments_and_only_what_was_on_its_way_is_paid_again(workers, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    assert child(whole, workers).wait() == 0
    all_of_it = paid(whole)
    rng, bill = random.Random(1523), [(0, 0)]
    for moment in sorted(rng.sample(range(5, all_of_it - 60), 20)):
        process = child(killed, workers)
        while paid(killed) < moment and process.poll() is None:
            time.sleep(0.001)
        assert process.poll() is None, "it ended before it could be killed"
        os.killpg(process.pid, 9)  # with its workers, whose answers nobody would hear
        process.wait()
        bill.append((paid(killed), logged(killed)))
    # A chain is a block of queries; about twice as many tasks as workers, of at most a tenth of a second, are on their way.
    on_their_way = 2 * WORKERS * max(BLOCK, round(0.1 / 0.003)) if workers else round(0.1 / 0.003) + BLOCK
    lost = [(now - before) - (has - had) for (before, had), (now, has) in pairwise(bill)]
    assert min(lost) >= 0, "the log has nothing that was not paid for"
    assert max(lost) <= on_their_way, f"{max(lost)} queries were paid and are not in the log"
    assert child(killed, workers).wait() == 0
    assert paid(killed) == all_of_it + sum(lost), "nothing that was in the log has been asked again"
    assert (killed / "result").read_bytes().startswith((whole / "result").read_bytes()[:96])
