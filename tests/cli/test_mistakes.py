"""Mistakes on the command line get a paragraph, and nothing else."""

from __future__ import annotations

import sys
import textwrap

import pytest

from coreplan.cli import main
from helpers.commands import OWN, run


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
        (["plan", "river-swim", "--set", "noise=pink"], "auto, sobol, independent"),
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
