"""The folder of a run: never overwritten, never half written, one writer, and damage is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

import coreplan
from coreplan.base.files import read_npz, write_npz
from coreplan.run.folder import KIND, VERSION
from helpers.runs import numpy_problem, plan, planner


def test_a_used_folder_is_not_overwritten(tmp_path):
    problem = coreplan.make("river-swim")
    plan(problem, planner=planner(), budget=4000, out=tmp_path)
    before = (tmp_path / "policy.npz").read_bytes()
    with pytest.raises(coreplan.FileError, match="already holds a run"):
        plan(problem, planner=planner(), budget=4000, seed=1, out=tmp_path)
    assert (tmp_path / "policy.npz").read_bytes() == before


def test_two_runs_into_one_folder_are_refused(tmp_path):
    """The second run starts while the first is inside its simulator."""
    inside, go_on, seen = threading.Event(), threading.Event(), []

    def step(rng, states, actions):
        inside.set()
        go_on.wait(30)
        return numpy_problem().model.step(rng, states, actions)

    thread = threading.Thread(
        target=lambda: seen.append(plan(numpy_problem(step), planner=planner(), budget=16, out=tmp_path))
    )
    thread.start()
    assert inside.wait(60)
    code = f"""
import coreplan
coreplan.plan(coreplan.make("river-swim"), planner=coreplan.PrimalDual(K=1), budget=10, out={str(tmp_path)!r}, resume=True)
"""
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    with pytest.raises(coreplan.FileError, match="Another run"):
        plan(numpy_problem(), planner=planner(), budget=16, out=tmp_path)
    go_on.set()
    thread.join()
    assert "Another run is writing" in other.stderr
    assert seen[0].queries == 16
    plan(numpy_problem(), planner=planner(), budget=32, out=tmp_path, resume=True)  # the lock is free again


@pytest.mark.parametrize("keep", [0, 30, 0.4, 0.95])
def test_a_damaged_checkpoint_is_refused_and_left_alone(tmp_path, keep):
    problem = coreplan.make("river-swim")
    plan(problem, planner=planner(), budget=4000, out=tmp_path)
    path = tmp_path / "checkpoint.npz"
    data = path.read_bytes()
    damaged = data[: int(keep * len(data)) if isinstance(keep, float) else keep]
    path.write_bytes(damaged)
    with pytest.raises(coreplan.FileError, match=r"checkpoint\.npz"):
        plan(problem, planner=planner(), budget=8000, out=tmp_path, resume=True)
    assert path.read_bytes() == damaged


def test_a_foreign_checkpoint_is_refused(tmp_path):
    problem = coreplan.make("river-swim")
    plan(problem, planner=planner(), budget=4000, out=tmp_path)
    shutil.copy(tmp_path / "policy.npz", tmp_path / "checkpoint.npz")
    with pytest.raises(coreplan.FileError, match="not a coreplan checkpoint"):
        plan(problem, planner=planner(), budget=8000, out=tmp_path, resume=True)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(coreplan.FileError, match="Cannot write into the folder"):
        plan(coreplan.make("river-swim"), planner=planner(), budget=4000, out=tmp_path / "file" / "run")


def test_a_full_disk_keeps_the_old_checkpoint(tmp_path, monkeypatch):
    """The disk fills while the second checkpoint is written: the first stays usable."""
    problem = coreplan.make("river-swim")
    plan(problem, planner=planner(), budget=4000, out=tmp_path)
    before = (tmp_path / "checkpoint.npz").read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(coreplan.FileError, match="No space left on device"):
        plan(problem, planner=planner(), budget=8000, out=tmp_path, resume=True)
    monkeypatch.undo()
    assert (tmp_path / "checkpoint.npz").read_bytes() == before
    assert not list(tmp_path.glob("*.partial"))
    again = plan(problem, planner=planner(), budget=8000, out=tmp_path, resume=True)
    assert (
        again.policy.theta.tobytes() == plan(problem, planner=planner(), budget=8000).policy.theta.tobytes()
    )


def test_a_crafted_checkpoint_is_refused(tmp_path):
    """A right checksum on wrong sizes or counters: nothing reaches a kernel."""
    problem = coreplan.make("river-swim")
    plan(problem, planner=planner(), budget=4000, out=tmp_path)
    path = tmp_path / "checkpoint.npz"
    arrays, meta = read_npz(path, KIND, VERSION)
    crafted = [
        ({**arrays, "state.theta": np.zeros(1)}, meta),
        (arrays, {**meta, "simulator": {**meta["simulator"], "queries": -5}}),
        (arrays, {**meta, "simulator": {**meta["simulator"], "next_sweep": 2**70}}),
        (arrays, {**meta, "planner_stream": {}}),
    ]
    for a, m in crafted:
        write_npz(path, a, m)
        with pytest.raises(coreplan.FileError, match="damaged"):
            plan(problem, planner=planner(), budget=8000, out=tmp_path, resume=True)


@pytest.mark.parametrize(
    "name",
    [
        "trace.csv",
        "core.npz",
        "evaluation.json",
        "certificate.json",
        "reality.json",
        "policy.npz",
        "run.json",
    ],
)
@pytest.mark.parametrize("resume", [False, True])
def test_a_foreign_file_is_not_overwritten(tmp_path, name, resume):
    """A file with the name of a result, which no run here wrote: refused before the first query."""
    (tmp_path / name).write_text("mine")
    asked = []

    def step(rng, states, actions):
        asked.append(len(actions))
        return numpy_problem().model.step(rng, states, actions)

    with pytest.raises(coreplan.FileError):
        plan(numpy_problem(step), planner=planner(), budget=80, out=tmp_path, resume=resume)
    assert (tmp_path / name).read_text() == "mine" and not asked
