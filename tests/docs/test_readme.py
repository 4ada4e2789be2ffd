"""The README's code runs as printed, and its commands exist."""

from __future__ import annotations

import re

import pytest

from helpers.places import ROOT

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.S)


@pytest.mark.parametrize("code", BLOCKS, ids=["first", "own", "select", "theory"])
def test_python_blocks_run(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out


def test_the_first_example_is_short():
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 12


def test_both_commands_exist():
    makefile = (ROOT / "Makefile").read_text()
    for command in ("demo", "test"):
        assert f"make {command}" in README and f"\n{command}:" in makefile
