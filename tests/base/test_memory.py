"""Available memory: the machine's, and what cgroups of both versions and `ulimit -v` leave of it."""

import math
import subprocess
import sys

import pytest

from coreplan.base import available_memory, memory
from helpers.places import ROOT

GB = 1024.0**3


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with 8 GB available and no limits; `write(path, text)` adds files below its root."""
    monkeypatch.setattr(memory, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path / "cgroup")

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    write("proc/meminfo", f"MemTotal: 99999999 kB\nMemAvailable: {int(8 * GB) // 1024} kB\n")
    return write


def group(write, folder, limit, used, cached=0, version=2):
    names = {2: ("max", "current", ""), 1: ("limit_in_bytes", "usage_in_bytes", "total_")}[version]
    write(f"cgroup/{folder}/memory.{names[0]}", f"{limit}\n")
    write(f"cgroup/{folder}/memory.{names[1]}", f"{int(used)}\n")
    write(f"cgroup/{folder}/memory.stat", f"anon 5\n{names[2]}inactive_file {int(cached)}\n")


def test_without_limits_it_is_what_the_machine_has(machine):
    assert available_memory() == 8 * GB
    machine("proc/self/cgroup", "0::/user.slice\n")
    group(machine, "user.slice", "max", GB)
    assert available_memory() == 8 * GB


def test_a_limit_of_version_2_less_what_is_used(machine):
    machine("proc/self/cgroup", "0::/jobs/one\n")
    group(machine, "jobs/one", int(4 * GB), GB, cached=0.5 * GB)
    assert available_memory() == 3.5 * GB
    group(machine, "jobs", int(2 * GB), 1.5 * GB)  # the group around it leaves less
    assert available_memory() == 0.5 * GB


def test_inside_a_container_the_limit_is_at_the_mount(machine):
    """With a namespace of its own the path is `/`; without one it is the path outside, which is not there."""
    group(machine, ".", int(3 * GB), GB)
    for path in ("/", "/docker/0123456789ab", "/../other"):
        machine("proc/self/cgroup", f"0::{path}\n")
        assert available_memory() == 2 * GB


def test_a_limit_of_version_1(machine):
    machine("proc/self/cgroup", "7:cpu,cpuacct:/a\n4:memory:/jobs/one\n0::/\n")
    group(machine, "memory/jobs/one", int(4 * GB), 3 * GB, cached=GB, version=1)
    group(machine, "memory", 9223372036854771712, GB, version=1)  # how version 1 writes "no limit"
    assert available_memory() == 2 * GB


def test_a_group_that_is_full_leaves_nothing(machine):
    machine("proc/self/cgroup", "0::/\n")
    group(machine, ".", int(GB), 1.1 * GB)
    assert available_memory() == 0.0


@pytest.mark.parametrize("text", ["", "nonsense", "::", "0::", "4:memory:", "\n\n", "0::/a:b\n"])
def test_files_that_make_no_sense_limit_nothing(machine, text):
    machine("proc/self/cgroup", text)
    group(machine, ".", "???", 0)
    assert available_memory() == 8 * GB


def test_without_proc_psutil_tells(machine, tmp_path, monkeypatch):
    (tmp_path / "proc" / "meminfo").unlink()
    known = type("psutil", (), {"virtual_memory": staticmethod(lambda: type("m", (), {"available": 123})())})
    monkeypatch.setitem(sys.modules, "psutil", known)
    assert available_memory() == 123.0
    monkeypatch.setitem(sys.modules, "psutil", None)  # not installed
    assert 0 < available_memory() < math.inf  # physical memory


def test_an_ulimit_is_seen():
    pytest.importorskip("resource")
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30,) * 2)\n"
        "from coreplan.base.memory import available_memory; print(available_memory() < 3 * 2**30)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.stdout.strip() == "True", done.stderr
