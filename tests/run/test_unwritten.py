"""A folder that cannot be written does not end a run that can go on: one warning, another try, and the plan is returned."""

from __future__ import annotations

import functools
import json
import os
import shutil
import warnings

import pytest

import coreplan
from coreplan.base import FolderLock
from helpers.commands import run
from helpers.own_planners import Bandit
from helpers.rivers import own
from helpers.runs import plan, same

BUDGET = 240
ARGUMENTS = {"planner": Bandit(), "budget": BUDGET, "seed": 6, "checkpoint_seconds": 1e-9}


@functools.cache
def whole():
    return plan(own(), **ARGUMENTS)


def doing(at):
    """A river whose simulator does something at given calls: `{number: function}`."""
    base, calls = coreplan.make("river-swim"), []

    def step(rng, states, actions):
        at.get(len(calls), lambda: None)()
        return base.model.step(rng, states, actions)

    return own(step, calls)


class Disk:
    """A disk that is full while `full` is set."""

    def __init__(self, monkeypatch):
        self.full, usual = False, os.fsync

        def fsync(descriptor):
            if self.full:
                raise OSError(28, "No space left on device")
            usual(descriptor)

        monkeypatch.setattr(os, "fsync", fsync)

    def set(self, full):
        self.full = full


def warned(caught):
    return [str(w.message) for w in caught if issubclass(w.category, coreplan.CoreplanWarning)]


def files(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_disk_that_is_full_for_a_while_costs_a_warning(tmp_path, monkeypatch):
    disk = Disk(monkeypatch)
    problem = doing({9: lambda: disk.set(True), 20: lambda: disk.set(False)})
    with pytest.warns(coreplan.CoreplanWarning, match="No space left on device") as caught:
        result = plan(problem, **ARGUMENTS, out=tmp_path)
    assert len(warned(caught)) == 1 and "tries again at its next checkpoint" in warned(caught)[0]
    assert result.not_saved == ""
    same(result, whole())
    same(coreplan.load_run(tmp_path, own()), whole())


def test_a_disk_that_stays_full_leaves_the_last_checkpoint_and_returns_the_plan(tmp_path, monkeypatch):
    disk = Disk(monkeypatch)
    with pytest.warns(coreplan.CoreplanWarning) as caught:
        result = plan(doing({9: lambda: disk.set(True)}), **ARGUMENTS, out=tmp_path, evaluate=4)
    first, last = warned(caught)
    assert "checkpoint.npz: No space left on device. What was there before is unchanged." in first
    assert "The plan is complete, but its folder is not" in last and "policy.save" in last
    assert "No space left on device" in result.not_saved and result.evaluation is not None
    same(result, whole())
    disk.set(False)
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "running"
    same(plan(own(), **ARGUMENTS, out=tmp_path, resume=True), whole())


@pytest.mark.parametrize("at", [9, BUDGET // 6 - 1, BUDGET // 6 + 2], ids=["early", "last", "evaluation"])
def test_a_deleted_folder_is_made_again_with_all_its_files(at, tmp_path):
    folder, core = tmp_path / "run", coreplan.make("river-swim").core_pairs
    core = coreplan.CoreSet(
        core[0][::-1].copy(), core[1][::-1].copy()
    )  # not the problem's own, so that it is kept
    arguments = {**ARGUMENTS, "evaluate": 4, "core": core}
    usual = plan(own(), **arguments, out=tmp_path / "usual")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is lost, so nobody is warned
        result = plan(doing({at: lambda: shutil.rmtree(folder)}), **arguments, out=folder)
    assert (
        result.not_saved == "" and files(folder) == files(tmp_path / "usual") and "core.npz" in files(folder)
    )
    same(result, usual)
    same(coreplan.load_run(folder, own()), usual)
    with pytest.raises(coreplan.FileError, match="already holds a run"):
        plan(own(), **arguments, out=folder)


def test_a_folder_that_cannot_be_made_again_is_not_said_to_be_unchanged(tmp_path):
    folder = tmp_path / "run"

    def blocked():
        shutil.rmtree(folder)
        folder.write_text("a file of this name")

    with pytest.warns(coreplan.CoreplanWarning) as caught:
        result = plan(doing({9: blocked}), **ARGUMENTS, out=folder)
    assert "Cannot write into the folder" in result.not_saved
    assert len(warned(caught)) == 2 and not any("unchanged" in message for message in warned(caught))
    assert folder.read_text() == "a file of this name"
    same(result, whole())


def test_another_run_that_took_the_place_is_left_alone(tmp_path):
    folder = tmp_path / "run"

    def taken():
        shutil.rmtree(folder)
        plan(own(), **{**ARGUMENTS, "seed": 1}, out=folder)

    with pytest.warns(coreplan.CoreplanWarning, match="another run has been made there since"):
        result = plan(doing({9: taken}), **ARGUMENTS, out=folder)
    same(result, whole())
    assert json.loads((folder / "run.json").read_text())["seed"] == 1


def test_another_run_that_is_at_work_there_is_left_alone(tmp_path):
    folder, held = tmp_path / "run", []

    def taken():
        shutil.rmtree(folder)
        held.append(FolderLock(folder))

    with pytest.warns(coreplan.CoreplanWarning, match="Another run is writing into"):
        same(plan(doing({9: taken}), **ARGUMENTS, out=folder), whole())
    held[0].close()
    assert files(folder) == [".lock"]


def test_an_error_on_a_full_disk_does_not_claim_that_all_is_kept(tmp_path, monkeypatch):
    disk, usual = Disk(monkeypatch), Bandit.numbers

    def numbers(planner, state):
        if state.rounds >= 9:
            disk.set(True)
            raise ZeroDivisionError
        return usual(planner, state)

    monkeypatch.setattr(Bandit, "numbers", numbers)
    with (
        pytest.warns(coreplan.CoreplanWarning, match="No space left"),
        pytest.raises(
            coreplan.RunError, match=r"The last checkpoint stands.*No space left on device"
        ) as caught,
    ):
        plan(own(), **ARGUMENTS, out=tmp_path)
    assert "What was paid before it is in" not in str(caught.value)


def test_a_folder_that_cannot_be_written_at_the_start_is_refused_before_a_query(tmp_path, monkeypatch):
    Disk(monkeypatch).set(True)
    calls = []
    with pytest.raises(coreplan.FileError, match="No space left on device"):
        plan(own(calls=calls), **ARGUMENTS, out=tmp_path)
    assert not calls


def test_the_command_line_says_so_and_exits_with_2(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import shutil, coreplan\n"
        "from dataclasses import replace\n"
        "def problem():\n"
        "    base = coreplan.make('river-swim')\n"
        "    def step(rng, states, actions):\n"
        "        shutil.rmtree('out', ignore_errors=True)\n"
        "        open('out', 'a').close()\n"
        "        return base.model.step(rng, states, actions)\n"
        "    return replace(base, model=coreplan.FunctionModel(2, base.model.initial, step), tabular=None, name='mine')\n"
    )
    said = run("plan", "mine:problem", "--out", "out", "--budget", "2000", "--json", cwd=tmp_path, code=2)
    record = json.loads(said.stdout)
    assert record["policy"] is None and record["status"] != "failed"
    assert "warning: The plan is complete, but its folder is not" in said.stderr
