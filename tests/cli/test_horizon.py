"""`--horizon`, with built-in problems and with one's own."""

from __future__ import annotations

import json

import pytest

import coreplan
from coreplan.cli import main
from coreplan.problem import problem_by_name
from helpers.commands import OWN


def command(monkeypatch, *arguments):
    """The exit code of a command, run in this process."""
    monkeypatch.setattr("sys.argv", ["coreplan", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


def test_a_built_in_problem_has_its_horizon_in_its_name(tmp_path, capsys, monkeypatch):
    out = str(tmp_path / "run")
    assert (
        command(monkeypatch, "plan", "river-swim:discount=1", "--horizon", "9", "--out", out, "--json") == 0
    )
    record = json.loads(capsys.readouterr().out)
    assert record["problem"] == "river-swim:discount=1,horizon=9" and record["sub"] == pytest.approx(
        0.0, abs=1e-9
    )
    assert command(monkeypatch, "certify", out, "--json") == 0  # the name builds the problem again
    capsys.readouterr()
    assert command(monkeypatch, "check", "river-swim", "--horizon", "3", "--queries", "2000", "--json") == 0
    capsys.readouterr()
    same = coreplan.make("river-swim:discount=1,horizon=9")
    assert same.model.discount == 1.0 and coreplan.make("river-swim:horizon=9").model.discount < 1.0
    assert len(coreplan.load_policy(out).theta) == same.features.dimension == 9 * 12 + 1


def test_a_problem_of_ones_own(tmp_path, capsys, monkeypatch):
    (tmp_path / "own.py").write_text(OWN)
    spec, out = f"{tmp_path}/own.py:mine", str(tmp_path / "run")
    problem = problem_by_name(spec, 6)
    assert problem.horizon == 6 and problem.name == spec
    assert (
        command(
            monkeypatch,
            "plan",
            spec,
            "--horizon",
            "6",
            "--budget",
            "3000",
            "--out",
            out,
            "--rollouts",
            "10",
            "--json",
        )
        == 0
    )
    assert command(
        monkeypatch, "certify", out, "--problem", spec, "--horizon", "6", "--queries", "9000", "--json"
    ) in (
        0,
        1,
    )
    capsys.readouterr()
    assert command(monkeypatch, "certify", out, "--problem", spec) == 2
    assert "other features" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "river-swim", "--horizon", "0"], "at least 1, got 0"),
        (["plan", "river-swim:discount=1"], "horizon=n"),
        (["plan", "river-swim:horizon=2.5"], "whole number"),
        (["plan", "river-swim:horizon_nodes=3"], "give a horizon of at least 3"),
        (["plan", "perishable-inventory:discount=1,horizon=5"], "must be below 1"),
        (["plan", "river-swim:horizn=5"], "horizon"),
        (["certify", "runs/none", "--horizon", "5"], "goes with `--problem`"),
    ],
)
def test_mistakes(arguments, words, capsys, monkeypatch):
    assert command(monkeypatch, *arguments) == 2
    assert words in capsys.readouterr().err
