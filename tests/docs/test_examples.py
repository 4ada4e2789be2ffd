"""Every example runs as it stands, in a process of its own, and says something."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import coreplan
from helpers.places import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_there_are_examples():
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_an_example_runs(path, tmp_path):
    source = str(Path(coreplan.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(path)],
        capture_output=True, text=True, cwd=tmp_path, env=env, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert len(path.read_text().splitlines()) <= 30, "an example is short"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_what_a_person_copies_is_the_default(path):
    """An accuracy of 1%, or a budget where the default planner cannot tell its accuracy; rates in one place only."""
    text = path.read_text()
    assert ('epsilon="1%"' in text) == (path.stem != "no_core_set")
    assert ("budget=" in text) == (path.stem in ("no_core_set", "algorithm_1"))
    assert ("PrimalDual" in text) == (path.stem == "algorithm_1")
    assert "SoftmaxPolicy(" not in text, "a policy comes from a planner"


@pytest.mark.long
def test_the_example_runs(capsys):
    runpy.run_path(str(ROOT / "examples" / "select_core.py"))
    assert "pairs gathered" in capsys.readouterr().out
