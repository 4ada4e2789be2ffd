"""The command line, as a person or a script uses it: in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import coreplan
from coreplan.cli import main

FIELDS = {
    "problem", "planner", "seed", "queries", "seconds", "warmup_seconds", "value", "optimum", "uniform", "gap",
    "sub", "status",
    "reason", "policy", "initial_draws", "evaluation_queries",
}  # fmt: skip

OWN = """
import numpy as np
from coreplan import FunctionFeatures, FunctionModel, Problem

def initial(rng, n):
    return rng.random((n, 1))

def step(rng, states, actions):
    move = np.where(actions == 1, 0.1, -0.1)[:, None]
    y = np.clip(states + move + 0.05 * rng.standard_normal(states.shape), 0, 1)
    return 10 * y[:, 0] - 5, y

def phi(states):
    base = np.concatenate([1 - states, states], axis=1)
    out = np.zeros((len(states), 2, 4))
    out[:, 0, :2] = base
    out[:, 1, 2:] = base
    return out

mine = Problem(
    FunctionModel(2, initial, step), FunctionFeatures(phi, 2, 4, radius=1.0), discount=0.9, reward_range=(-5, 5),
    core_pairs=(np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([0, 0, 1, 1])),
)

def make_mine():
    return mine

def broken():
    raise KeyError("nothing")

not_a_problem = 3
"""


def run(*arguments, cwd=None, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "coreplan", *arguments], capture_output=True, text=True, timeout=240, cwd=cwd
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


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
    assert set(record) == FIELDS
    assert record["queries"] == 60000 and record["status"] == "finished" and record["seed"] == 3
    assert record["gap"] == pytest.approx(record["optimum"] - record["value"])
    assert record["sub"] == pytest.approx(record["gap"] / (record["optimum"] - record["uniform"]))
    assert record["seconds"] > 0 and record["evaluation_queries"] == 0
    policy = coreplan.load_policy(record["policy"])
    assert coreplan.evaluate(coreplan.make("random-linear"), policy).value == record["value"]
    again = run("plan", "random-linear", "--planner", "primal-dual", "--budget", "60000", "--seed", "3", "--set",
                "output=last", "--out", str(out), "--json", "--resume")  # fmt: skip
    assert json.loads(again.stdout)["value"] == record["value"]


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
        "--json",
        cwd=tmp_path,
    )
    assert done.stdout.count("\n") == 1 and json.loads(done.stdout)["queries"] == 4000
    assert "hello" in done.stderr


def test_lists():
    problems, planners = run("problems").stdout, run("planners").stdout
    for name in coreplan.problem.ZOO:
        assert name in problems
    assert "primal-dual" in planners and "output" in planners
    assert run("--version").stdout.strip() == coreplan.__version__


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "river-linaer"], "Did you mean 'river-linear'"),
        (["plan", "river-linear", "--planner", "primal-duel"], "Did you mean 'primal-dual'"),
        (["plan", "river-swim", "--planner", "primal-dual", "--set", "ouput=last"], "Did you mean 'output'"),
        (["plan", "river-swim", "--set", "K"], "name=value"),
        (["plan", "river-swim", "--planner", "primal-dual", "--set", "K=0"], "at least 1, got 0"),
        (["plan", "river-swim", "--planner", "primal-dual", "--set", "eta=-1"], "positive"),
        (
            ["plan", "river-swim", "--planner", "primal-dual", "--set", "eta=fast"],
            "positive finite number, got 'fast'",
        ),
        (["plan", "river-swim", "--planner", "primal-dual", "--budget", "3"], "below K + 1"),
        (["plan", "river-swim", "--budget", "3"], "each of the 12 core pairs"),
        (["plan", "river-swim", "--epsilon", "little"], "such as '1%'; got 'little'"),
        (["plan", "river-swim", "--epsilon", "150%"], "got '150%'"),
        (["plan", "river-swim", "--planner", "grow", "--epsilon", "1%"], "takes a budget and no epsilon"),
        (["plan", "river-swim", "--set", "noise=pink"], "'sobol'"),
        (["plan", "river-swim", "--budget", str(10**23)], "at least 1 and below 2^63, got 1000"),
        (["plan", "queue-network", "--planner", "core-mirror"], "--planner grow), which needs none"),
        (["plan", "river-swim", "--seed", "-2"], "seed"),
        (["plan", "river-swim", "--resume"], "--out"),
        (["plan", "nowhere.py:x"], "There is no file nowhere.py"),
        (["plan", "problem.py"], "problem.py:name"),
        (["plan", "problem.py:mime"], "Did you mean 'mine'"),
        (["plan", "problem.py:not_a_problem"], "it is a int"),
        (["plan", "problem.py:broken"], "KeyError: 'nothing' (problem.py, line"),
        (["plan", "crash.py:x"], "ZeroDivisionError: division by zero (crash.py, line 2)"),
        (["plan", "syntax.py:x"], "(syntax.py, line 2)"),
        (["plan", "exits.py:x"], "SystemExit"),
        (
            ["plan", "river-swim", "--planner", "primal-dual", "--set", "eta=10**400"],
            "positive finite number",
        ),
        (["plan", "river-swim", "--planner", "primal-dual", "--set", "K=99**99"], "whole number"),
        (["plan", "mountain-car:grid=5", "--rollouts", "1"], "at least 2, got 1"),
        (["plan", "river-swim", "--rollouts", "-5"], "got -5"),
        (["plan", "river-swim", "--out", "problem.py/run"], "Cannot write into the folder"),
    ],
)
def test_mistakes_get_a_paragraph(tmp_path, monkeypatch, capsys, arguments, words):
    (tmp_path / "problem.py").write_text(OWN)
    (tmp_path / "crash.py").write_text("\nx = 1 / 0\n")
    (tmp_path / "syntax.py").write_text("\nx = = 1\n")
    (tmp_path / "exits.py").write_text("import sys\nsys.exit()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["coreplan", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    out, err = capsys.readouterr()
    assert caught.value.code == 2
    assert err.startswith("error: ") and words in err and err.count("\n") == 1
    assert out == ""


def test_a_simulator_that_fails_is_the_users_news(tmp_path):
    (tmp_path / "problem.py").write_text(
        OWN
        + textwrap.dedent("""
        def step(rng, states, actions):
            return np.full(len(states), 99.0), states
        import dataclasses
        bad = dataclasses.replace(mine, model=FunctionModel(2, initial, step))
    """)
    )
    done = run("plan", "problem.py:bad", "--budget", "4000", cwd=tmp_path, code=1)
    assert "the reward 99 for state" in done.stderr and "[-5, 5]" in done.stderr


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
    for planner, most in (("plug-in", 10_000_000), ("sampled-lp", 10_000)):
        monkeypatch.setattr(
            sys, "argv", ["coreplan", "plan", "random-linear", "--planner", planner, "--json"]
        )
        with pytest.raises(SystemExit) as caught:
            main()
        record = json.loads(capsys.readouterr().out)
        assert not caught.value.code and record["status"] == "finished" and record["queries"] <= most


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


def test_bench_throughput_runs():
    """A smoke test with a tenth of the queries; no speed is asserted here."""
    record = json.loads(run("bench", "throughput", "--quick", "--json").stdout)
    assert {"dense_ratio", "sparse_ratio", "numpy_K256", "lazy_time_ratio", "act_microseconds"} <= set(record)
    assert all(np.isfinite(v) for v in record.values())
