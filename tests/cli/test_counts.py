"""Counts on the command line are written as people write them; warnings of ours are one line each."""

from __future__ import annotations

import json
from typing import get_type_hints

import pytest
import typer

from coreplan.cli import app
from coreplan.cli.arguments import count
from helpers.commands import OWN, run


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1e5", 100_000),
        ("100_000", 100_000),
        ("1E6", 10**6),
        ("2.5e3", 2_500),
        ("1e18", 10**18),
        ("7", 7),
        (50, 50),
    ],
)
def test_counts(text, number):
    assert count(text) == number and type(count(text)) is int


@pytest.mark.parametrize("text", ["1.5", "many", "", "nan", "inf", "1e-3", "1e999999999", "1,000"])
def test_what_is_no_count(text):
    with pytest.raises(typer.BadParameter, match="such as 100000, 100_000 or 1e5"):
        count(text)


def test_every_count_option_takes_them(capsys):
    found = set()
    for command in app.registered_commands:
        for name, hint in get_type_hints(command.callback, include_extras=True).items():
            if name in ("budget", "queries", "rollouts") and hint.__metadata__[0].parser is count:
                found.add((command.callback.__name__, name))
    assert found == {
        ("plan", "budget"), ("plan", "rollouts"), ("tune", "budget"), ("check", "queries"), ("certify", "queries"),
        ("report", "queries"), ("compare", "rollouts"),
    }  # fmt: skip
    app(["tune", "river-swim", "--budget", "1e5", "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["best"]["T"] == 4166


def test_a_simulator_with_global_randomness_is_warned_about_in_one_line(tmp_path):
    (tmp_path / "own.py").write_text(
        OWN.replace("rng.standard_normal(states.shape)", "np.random.randn(*states.shape)")
    )
    done = run("plan", f"{tmp_path}/own.py:mine", "--budget", "1e3", "--json")
    assert done.returncode == 0
    lines = [line for line in done.stderr.splitlines() if line]
    assert len(lines) == 1 and lines[0].startswith("warning: The simulator's step draws from np.random")
