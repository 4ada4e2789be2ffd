"""benchmarks/standing.py: folders that are never overwritten, a resume that adds nothing, and tables that say who lost."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest

import coreplan
from coreplan.bench import Results, Row
from helpers.places import ROOT


@pytest.fixture
def standing(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("standing", ROOT / "benchmarks" / "standing.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "FOLDERS", tmp_path / "standing")
    monkeypatch.setattr(module, "PAGE", tmp_path / "page.md")
    module.PAGE.write_text(
        "# P\n<!-- least -->\n<!-- end -->\nand\n<!-- grid -->\nOBSOLETE\n<!-- end -->\nlast\n"
    )
    return module


def call(module, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["standing.py", *words])
    module.main()


def test_a_small_grid(standing, monkeypatch, capsys):
    few = (
        "--problems",
        "river-swim",
        "--planners",
        "plug-in",
        "--budgets",
        "12,240",
        "--seeds",
        "2",
        "--jobs",
        "1",
    )
    for kind in ((), ("--least",)):
        call(standing, monkeypatch, *few, *kind)
    first, second = (standing.FOLDERS / name for name in ("001", "002"))
    assert len(Results.load(first)) == len(Results.load(second)) == 8  # two planners, budgets and seeds
    manifest = json.loads((first / "manifest.json").read_text())
    assert manifest["kind"] == "grid" and manifest["coreplan"] == coreplan.__version__
    page = standing.PAGE.read_text()
    assert "| `plug-in` | 2 |" in page and "| `river-swim` | 0.05 |" in page and "OBSOLETE" not in page
    assert page.startswith("# P\n") and page.endswith("<!-- end -->\nlast\n")
    before = (first / "results.csv").read_bytes()
    call(standing, monkeypatch, "--resume", str(first))
    assert (first / "results.csv").read_bytes() == before
    assert sorted(p.name for p in standing.FOLDERS.iterdir()) == ["001", "002"]


def rows(planner, found):
    return [
        Row(
            problem="p",
            planner=planner,
            tuning="default",
            seed=seed,
            budget=budget,
            value=0.5,
            sub=sub,
            status="finished",
        )
        for budget, sub in found.items()
        for seed in (0, 1, 2)
    ]


@pytest.mark.parametrize(
    ("ours", "theirs", "says"),
    [
        ({10: 0.2, 100: 0.03}, {10: 0.04, 100: 0.001}, "| 100 | 10 | `b` | **loses** |"),
        ({10: 0.04, 100: 0.03}, {10: 0.2, 100: 0.001}, "| 10 | 100 | `b` | no worse |"),
        ({10: 0.2, 100: 0.2}, {10: 0.2, 100: 0.04}, "| not reached | 100 | `b` | **loses** |"),
        ({10: 0.2, 100: 0.2}, {10: 0.2, 100: 0.2}, "| not reached | not reached | - | nobody |"),
    ],
)
def test_who_needs_fewer_queries(standing, ours, theirs, says):
    lines = standing.least_rows(Results([*rows("default", ours), *rows("b", theirs)]))
    assert any(line == "| `p` | 0.05 " + says for _, line in lines)
    assert [lost for lost, _ in lines] == sorted((lost for lost, _ in lines), reverse=True)
