"""`coreplan plan`, as a person or a script uses it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import coreplan
from coreplan.cli import main
from coreplan.simulate import REPEATED
from helpers.commands import OWN, run

FIELDS = {
    "problem", "planner", "seed", "queries", "seconds", "warmup_seconds", "value", "optimum", "uniform", "gap",
    "sub", "status", "lost_queries", "rechecked_queries", "logged_queries",
    "reason", "policy", "initial_draws", "evaluation_queries", "reality_queries", "believed", "earned", "uniform_earned",
    "baseline", "picked", "next", "baseline_earned", "baseline_queries", "no_verdict",
}  # fmt: skip


def test_plan_json_is_one_line_with_every_field(tmp_path):
    out = tmp_path / "run"
    done = run(
        "plan",
        "random-linear",
        "--planner",
        "primal-dual",
        "--budget",
        "60000",
        "--seed",
        "3",
        "--set",
        "output=last",
        "--out",
        str(out),
        "--json",
    )
    assert done.stdout.count("\n") == 1
    record = json.loads(done.stdout)
    assert set(record) == FIELDS | {"report", "report_queries"}
    assert 59_000 < record["queries"] <= 60_000 and record["status"] == "finished" and record["seed"] == 3
    assert record["gap"] == pytest.approx(record["optimum"] - record["value"])
    assert record["sub"] == pytest.approx(record["gap"] / (record["optimum"] - record["uniform"]))
    assert record["seconds"] > 0 and record["evaluation_queries"] == 0
    policy = coreplan.load_policy(record["policy"])
    assert coreplan.evaluate(coreplan.make("random-linear"), policy).value == record["value"]
    again = run("plan", "random-linear", "--planner", "primal-dual", "--budget", "60000", "--seed", "3", "--set",
                "output=last", "--out", str(out), "--json", "--resume")  # fmt: skip
    assert json.loads(again.stdout)["value"] == record["value"]


def test_auto_goes_on_and_says_so(tmp_path):
    """Five nodes per side are too coarse for a car on a mountain; what follows is within the budget, and told."""
    out = tmp_path / "run"
    given = (
        "plan",
        "mountain-car:grid=5",
        "--planner",
        "auto",
        "--budget",
        "12000",
        "--out",
        str(out),
        "--rollouts",
        "20",
    )
    record = json.loads(run(*given, "--json").stdout)
    assert record["queries"] <= 12_000 and "(auto: plug-in ended with doubts" in record["reason"]
    assert record["picked"].startswith("PlugIn, since") and (out / "1-plug-in" / "policy.npz").exists()
    again = json.loads(run(*given, "--resume", "--json").stdout)
    assert (again["queries"], again["value"]) == (record["queries"], record["value"])
    refused = run("plan", "river-swim", "--planner", "auto", "--set", "samples=3", code=2)
    assert "takes no --set" in refused.stderr


def test_estimated_values_have_an_interval():
    done = run(
        "plan",
        "mountain-car:grid=5",
        "--planner",
        "primal-dual",
        "--budget",
        "5000",
        "--set",
        "K=20",
        "--rollouts",
        "50",
        "--json",
    )
    record = json.loads(done.stdout)
    assert set(record) == FIELDS | {"value_low", "value_high"}
    assert record["optimum"] is record["gap"] is record["sub"] is record["policy"] is None
    assert record["value_low"] <= record["value"] <= record["value_high"]
    assert record["evaluation_queries"] == 50 * 917
    assert record["baseline"] == "push with the velocity" and 0 < record["baseline_queries"] < 50 * 200
    assert 0.28 < record["baseline_earned"][0] < 0.33
    silent = json.loads(
        run(
            "plan",
            "mountain-car:grid=5",
            "--planner",
            "primal-dual",
            "--budget",
            "5000",
            "--rollouts",
            "0",
            "--json",
        ).stdout
    )
    assert silent["value"] is None


@pytest.mark.parametrize("name", ["problem.py:mine", "problem.py:make_mine", "problem:mine"])
def test_a_problem_of_ones_own(tmp_path, name):
    (tmp_path / "problem.py").write_text(OWN)
    done = run(
        "plan",
        name,
        "--planner",
        "primal-dual",
        "--budget",
        "4000",
        "--set",
        "K=19",
        "--out",
        "run",
        cwd=tmp_path,
    )
    assert "in your rewards" in done.stdout and "4 numbers in run/policy.npz" in done.stdout
    assert "queries" in done.stdout and "Finished" in done.stdout
    namespace = {}
    exec(OWN, namespace)
    policy = coreplan.load_policy(tmp_path / "run", namespace["mine"])
    assert policy.act(np.array([[0.5]]), 0).shape == (1,)


def test_what_a_users_code_prints_is_not_in_the_json(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "helper.py").write_text("NOISE = 0.05\n")
    (tmp_path / "sub" / "problem.py").write_text("import helper\nprint('hello')\n" + OWN)
    done = run(
        "plan",
        "sub/problem.py:mine",
        "--planner",
        "primal-dual",
        "--budget",
        "4000",
        "--set",
        "K=19",
        "--reality",
        "0",
        "--json",
        cwd=tmp_path,
    )
    assert done.stdout.count("\n") == 1 and json.loads(done.stdout)["queries"] == 4000
    assert "hello" in done.stderr


def test_ctrl_c_stops_with_a_checkpoint(tmp_path):
    arguments = [
        "plan",
        "random-linear",
        "--planner",
        "primal-dual",
        "--budget",
        str(10**11),
        "--out",
        str(tmp_path / "r"),
        "--json",
    ]
    child = subprocess.Popen(
        [sys.executable, "-m", "coreplan", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "r" / "run.json").exists():  # written when the first query is about to go out
        assert child.poll() is None
        time.sleep(0.05)
    time.sleep(1.0)
    os.kill(child.pid, signal.SIGINT)
    stdout, stderr = child.communicate(timeout=60)
    assert child.returncode == 130 and "Traceback" not in stderr
    record = json.loads(stdout)
    assert record["status"] == "interrupted" and record["queries"] > 0
    assert (tmp_path / "r" / "checkpoint.npz").exists()


def test_every_planner_plans_without_a_budget(monkeypatch, capsys):
    """Two of them only here: the others stream a million queries by default."""
    for planner, most, status in (
        ("plug-in", 10_000_000, "accuracy reached"),
        ("sampled-lp", 10_000, "finished"),
    ):
        monkeypatch.setattr(
            sys, "argv", ["coreplan", "plan", "random-linear", "--planner", planner, "--json"]
        )
        with pytest.raises(SystemExit) as caught:
            main()
        record = json.loads(capsys.readouterr().out)
        assert not caught.value.code and record["status"] == status and record["queries"] <= most


@pytest.mark.parametrize(
    "settings",
    [
        ["--epsilon", "0.01%"],
        ["--epsilon", "0.0001", "--set", "noise=independent"],
        ["--planner", "core-mirror", "--set", "allocation=occupancy"],
        ["--planner", "primal-dual", "--set", "output=last", "--set", "K=7", "--set", "eta=0.001"],
    ],
    ids=lambda s: " ".join(s[1:3]),
)
def test_resume_needs_no_setting_twice(tmp_path, monkeypatch, capsys, settings):
    def record(*arguments):
        monkeypatch.setattr(sys, "argv", ["coreplan", "plan", "river-linear", *arguments, "--json"])
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capsys.readouterr()
        assert not caught.value.code, err
        record = json.loads(out)
        return {k: record[k] for k in ("planner", "queries", "value", "status")}

    folder = ["--out", str(tmp_path / "r")]
    first = record(*settings, "--budget", "400", *folder)
    assert record("--resume", *folder) == first
    assert record("--resume", *settings, *folder) == first
    raised = record("--resume", "--budget", "2000", *folder)
    assert raised == record("--resume", *settings, "--budget", "2000", *folder)
    if "primal-dual" not in settings:  # whose other rates are those of the first budget
        assert raised == record(*settings, "--budget", "2000")


def test_the_command_line_plans_by_default(monkeypatch, capsys):
    def record(*arguments):
        monkeypatch.setattr(sys, "argv", ["coreplan", "plan", *arguments, "--json"])
        with pytest.raises(SystemExit):
            main()
        return json.loads(capsys.readouterr().out)

    default, loose = record("river-swim"), record("river-swim", "--epsilon", "0.1")
    assert default["planner"] == loose["planner"] == "plug-in"
    planned = default["queries"] - default["reality_queries"]
    assert default["sub"] < 0.01 and 96 < planned <= 64 * 12 + REPEATED
    assert default["status"] == "accuracy reached"
    assert record("river-swim", "--epsilon", "0.00001%", "--budget", "50")["status"] == "accuracy not reached"
    assert (
        record("river-linear", "--budget", "2000", "--set", "noise=independent", "--reality", "0")["queries"]
        == 2000
    )
