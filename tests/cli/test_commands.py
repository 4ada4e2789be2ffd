"""The other commands: lists, check, tune, verify, bench."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import coreplan
from coreplan import CoreSet
from coreplan.cli import main
from coreplan.judge.assumptions import GREY
from helpers.commands import run


def test_lists():
    problems, planners = run("problems").stdout, run("planners").stdout
    for name in coreplan.problem.ZOO:
        assert name in problems
    assert "primal-dual" in planners and "output" in planners
    assert run("--version").stdout.strip() == coreplan.__version__


def test_the_command(tmp_path):
    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "coreplan", *arguments], capture_output=True, text=True, timeout=240
        )

    done = run("check", "river-linear", "--queries", "4000", "--json")
    record = json.loads(done.stdout)
    assert done.returncode == 0 and record["worst"] == GREY and record["queries"] <= 4000
    core = CoreSet.of(coreplan.make("river-linear"))
    CoreSet(core.states[:6], core.actions[:6]).save(tmp_path / "core.npz")
    table = run("check", "river-linear", "--queries", "4000", "--core", str(tmp_path))
    assert table.returncode == 0 and "red" in table.stdout and "hull error" in table.stdout
    missing = run("check", "river-linear", "--core", str(tmp_path / "none.npz"))
    assert (
        missing.returncode == 2 and "There is no file" in missing.stderr and "Traceback" not in missing.stderr
    )


def test_tune_prints_the_terms_and_the_bill(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["coreplan", "tune", "random-linear", "--epsilon", "0.1", "--json"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    record = json.loads(capsys.readouterr().out)
    assert record["best"]["bound"]["eps_opt"] == pytest.approx(0.1, rel=1e-3)
    assert 1.08 < record["paper"]["queries"] / record["best"]["queries"] < 1.16
    assert "years" in record["sentence"]
    monkeypatch.setattr(sys, "argv", ["coreplan", "tune", "random-linear", "--budget", "100000"])
    with pytest.raises(SystemExit):
        main()
    out = capsys.readouterr().out
    assert "eta m^2 (1 + 2 R D)^2 / 2" in out and "vacuous" in out
    monkeypatch.setattr(sys, "argv", ["coreplan", "tune", "random-linear"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2


@pytest.mark.long
def test_the_command_holds_and_ends_in_two_minutes(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["coreplan", "verify", "--json"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) >= 30
    assert all(set(row) >= {"claim", "label", "bound", "measured", "holds"} and row["holds"] for row in rows)


def test_bench_throughput_runs():
    """A smoke test with a tenth of the queries; no speed is asserted here."""
    record = json.loads(run("bench", "throughput", "--quick", "--json").stdout)
    assert {"dense_ratio", "sparse_ratio", "numpy_K256", "lazy_time_ratio", "act_microseconds"} <= set(record)
    assert all(np.isfinite(v) for v in record.values())
