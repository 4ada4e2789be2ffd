"""Ray, Dask and MPI, really started on this machine: the same bits for every planner. Skipped where not installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Each in a process of its own: Ray ends the process when it loses its own service, and all leave threads behind.
EVERY = """
import os, sys
import coreplan
from coreplan.planners import PLANNERS, registry
from coreplan.planners.testing import check_planner

FEW = {planner.name: 600 for planner in registry.RELATIVES}  # there are many of them

def every_planner(engine):
    for name, planner in PLANNERS.items():
        check_planner(planner(), budget=FEW.get(name, 1500), executor=engine, only="who simulates")
"""
RAY = (
    EVERY
    + """
import ray as library
from coreplan.executors import ray

for workers in (1, 2):
    every_planner(ray(workers, timeout=60))
    niceness = library.get(library.remote(lambda: os.nice(0)).remote())
    assert niceness == os.nice(0), f"a worker has niceness {niceness}"  # Ray's own default is 15
    library.shutdown()
"""
)
NOBODY = """
import os, socket, time
import coreplan
from coreplan.executors import ray

mute = socket.socket()  # takes connections, and says nothing
mute.bind(("127.0.0.1", 0))
mute.listen(50)
for address, words in (("127.0.0.1:1", "Nobody answers"), (f"127.0.0.1:{mute.getsockname()[1]}", "did not answer")):
    begin = time.monotonic()
    try:
        ray(address=address).executor
    except coreplan.ExecutorError as error:
        assert f"cluster at '{address}'" in str(error) and words in str(error), error
        print(time.monotonic() - begin, flush=True)
os._exit(0)  # Ray goes on trying
"""
DASK = (
    EVERY
    + """
from dask.distributed import Client, LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster:
        with Client(cluster) as client:
            every_planner(coreplan.executors.given(client.get_executor(), workers=2, timeout=60))
"""
)
MPI = (
    EVERY
    + """
from mpi4py.futures import MPIPoolExecutor

if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        every_planner(coreplan.executors.given(pool, workers=2, timeout=60))
"""
)


def ran(tmp_path, code, seconds, *before):
    (tmp_path / "child.py").write_text(code)
    module = ["-m", "mpi4py.futures"] if before else []
    return subprocess.run(
        [*before, sys.executable, "-W", "ignore", *module, tmp_path / "child.py"],
        capture_output=True,
        text=True,
        timeout=seconds,
    )


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_ray_with_one_and_two_workers(tmp_path):
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    done = ran(tmp_path, RAY, 1180)
    if "Failed to connect to GCS" in done.stderr or "did not start within" in done.stderr:
        pytest.skip("Ray does not run on this machine: its own service does not start, or ends")
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.long
@pytest.mark.timeout(200)
def test_a_cluster_that_nobody_answers_for_is_an_error_within_half_a_minute(tmp_path):
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    done = ran(tmp_path, NOBODY, 190)
    seconds = [float(line) for line in done.stdout.split()]
    assert len(seconds) == 2 and max(seconds) < 30.0, done.stderr[-2000:]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_dask_with_a_local_cluster(tmp_path):
    pytest.importorskip("distributed", reason="Dask is not installed")
    done = ran(tmp_path, DASK, 880)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_mpi_with_two_workers(tmp_path):
    pytest.importorskip("mpi4py", reason="MPI is not installed")
    folder = str(Path(sys.executable).parent)
    names = ("mpiexec.hydra", "mpiexec")
    mpiexec = next(filter(None, (shutil.which(name, path=p) for p in (folder, None) for name in names)), None)
    if mpiexec is None:
        pytest.skip("MPI is not installed: there is no mpiexec")
    done = ran(tmp_path, MPI, 880, mpiexec, "-n", "3")
    assert done.returncode == 0, done.stderr[-2000:]
