"""Kill -9 and signals at any moment, resume, and get to the last bit what an uninterrupted run gives.

`benchmarks/kills.py` has the machinery, and is the long form: 220 moments.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time

import pytest

from helpers.places import benchmark

kills = benchmark("kills")

CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import kills
kills.work(kills.CASES[int(sys.argv[2])], kills.Paid(), Path(sys.argv[3]))
"""


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", kills.CASES, ids=lambda case: case.name)
def test_every_planner_in_both_loops_at_random_moments(case):
    found = kills.study([case], kills=4, signals=1, until=time.monotonic() + 300)
    assert kills.wrong(found) == []
    assert all(found.values()), "no moment met the run"


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("number", [0, 4], ids=lambda i: kills.CASES[i].name)
def test_the_same_run_is_killed_again_and_again(number, tmp_path):
    """From the first import on, in processes that share nothing but the folder."""

    def child(out):
        arguments = [str(kills.ROOT / "benchmarks"), str(number), str(out)]
        return subprocess.Popen([sys.executable, "-W", "ignore", "-c", CHILD, *arguments])

    begin = time.monotonic()
    assert child(tmp_path / "whole").wait() == 0
    duration, rng, killed = time.monotonic() - begin, random.Random(20231), 0
    for _ in range(20):
        process = child(tmp_path / "killed")
        try:
            assert process.wait(timeout=rng.uniform(0.1, 0.9 * duration)) == 0
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
    else:
        assert child(tmp_path / "killed").wait() == 0
    assert killed >= 2
    assert kills.contents(tmp_path / "killed") == kills.contents(tmp_path / "whole")
    assert not list((tmp_path / "killed").glob("*.partial")), "a finished run leaves no partial file"
