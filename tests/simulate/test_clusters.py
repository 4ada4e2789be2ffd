"""Ray and Dask, really started on this machine, on loopback: the same bits. Skipped where they are not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from helpers.places import ROOT

# Each in a process of its own: Ray ends the process when it loses its own service, and both leave threads behind.
RAY = """
import os, sys
sys.path.insert(0, sys.argv[1] + "/tests")
import coreplan, ray as library
from coreplan.executors import ray
from helpers.executors import walk

def bits(executor=None):
    found = coreplan.plan(walk(), planner="plug-in", budget=600, reality=0, executor=executor)
    return found.policy.theta.tobytes(), found.queries, found.initial_draws, found.lost_queries

whole = bits()
for workers in (1, 2):
    assert bits(ray(workers, timeout=60)) == whole, workers
    niceness = library.get(library.remote(lambda: os.nice(0)).remote())
    assert niceness == os.nice(0), f"a worker has niceness {niceness}"  # Ray's own default is 15
    library.shutdown()
"""
NOBODY = """
import time
import coreplan
import ray as library
from coreplan.executors import ray

begin = time.monotonic()
try:
    ray(address="127.0.0.1:1").executor
except coreplan.ExecutorError as error:
    assert "cluster at '127.0.0.1:1'" in str(error), error
    print(time.monotonic() - begin)
"""
DASK = """
import sys
sys.path.insert(0, sys.argv[1] + "/tests")
import coreplan
from dask.distributed import Client, LocalCluster
from helpers.executors import walk

def bits(executor=None):
    found = coreplan.plan(walk(), planner="plug-in", budget=600, reality=0, executor=executor)
    return found.policy.theta.tobytes(), found.queries, found.initial_draws, found.lost_queries

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        with Client(cluster) as client:
            assert bits(coreplan.executors.given(client.get_executor(), workers=2, timeout=60)) == bits()
"""


def ran(tmp_path, code, seconds):
    (tmp_path / "child.py").write_text(code)
    return subprocess.run(
        [sys.executable, "-W", "ignore", tmp_path / "child.py", ROOT],
        capture_output=True,
        text=True,
        timeout=seconds,
    )


@pytest.mark.long
@pytest.mark.timeout(400)
def test_ray_with_one_and_two_workers(tmp_path):
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    done = ran(tmp_path, RAY, 380)
    if "Failed to connect to GCS" in done.stderr or "did not start within" in done.stderr:
        pytest.skip("Ray does not run on this machine: its own service does not start, or ends")
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.long
@pytest.mark.timeout(200)
def test_a_cluster_that_nobody_answers_for_is_an_error_within_half_a_minute(tmp_path):
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    done = ran(tmp_path, NOBODY, 190)
    assert done.stdout and float(done.stdout) < 35.0, done.stderr[-2000:]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_dask_with_a_local_cluster(tmp_path):
    pytest.importorskip("distributed", reason="Dask is not installed")
    done = ran(tmp_path, DASK, 280)
    assert done.returncode == 0, done.stderr[-2000:]
