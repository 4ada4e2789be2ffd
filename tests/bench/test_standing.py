"""benchmarks/standing.py: folders that are never overwritten, a resume that adds nothing, and tables that say who lost."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

import coreplan
from coreplan.bench import Results, Row
from helpers.places import benchmark


@pytest.fixture
def standing(tmp_path, monkeypatch):
    module = benchmark("standing")
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
    few = [
        "--problems",
        "river-swim",
        "--planners",
        "core-mirror",
        "--budgets",
        "12,240",
        "--seeds",
        "2",
        "--jobs",
        "1",
    ]
    for kind in ((), ("--least",)):
        call(standing, monkeypatch, *few, *kind)
    first, second = (standing.FOLDERS / name for name in ("001", "002"))
    assert len(Results.load(first)) == 8  # two planners, budgets and seeds
    assert len(Results.load(second)) == 8  # 12 queries are not enough for anybody, so that all go on
    manifest = json.loads((first / "manifest.json").read_text())
    assert manifest["kind"] == "grid" and manifest["coreplan"] == coreplan.__version__
    page = standing.PAGE.read_text()
    assert "| `core-mirror` | 2 |" in page and "| `river-swim` | 0.05 |" in page and "OBSOLETE" not in page
    assert page.startswith("# P\n") and page.endswith("<!-- end -->\nlast\n")
    before = (first / "results.csv").read_bytes()
    call(standing, monkeypatch, "--resume", str(first))
    assert (first / "results.csv").read_bytes() == before
    assert sorted(p.name for p in standing.FOLDERS.iterdir()) == ["001", "002"]
    monkeypatch.setattr(standing, "revision", lambda: "another")
    with pytest.raises(SystemExit, match="its rows are not"):
        call(standing, monkeypatch, "--resume", str(first))


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
        ({10: 0.2, 100: 0.2}, {10: 0.2, 100: 0.2}, "| not reached | over 100 | - | nobody |"),
    ],
)
def test_who_needs_fewer_queries(standing, ours, theirs, says):
    lines = standing.standing_page.least_rows(Results([*rows("default", ours), *rows("b", theirs)]))
    assert any(line == "| `p` | 0.05 " + says for _, line in lines)
    assert [lost for lost, _ in lines] == sorted((lost for lost, _ in lines), reverse=True)


def test_the_planner_that_is_the_default_is_no_other(standing):
    """On river-swim `plan` picks PlugIn, which can then not be better than the default."""
    table = Results(
        [
            replace(row, problem="river-swim")
            for row in [*rows("default", {10: 0.2}), *rows("plug-in", {10: 0.0})]
        ]
    )
    assert (
        standing.standing_page.least_rows(table)[0][1]
        == "| `river-swim` | 0.05 | not reached | over 0 | - | nobody |"
    )


def measured(curves):
    """`run` for planners whose loss falls with the budget as told, the same with every seed; and what it was asked."""
    asked = []

    def run(planners, budget, seeds):
        asked.append((budget, seeds, tuple(planners)))
        return [
            Row(
                problem="p",
                planner=name,
                tuning="default",
                seed=seed,
                budget=budget,
                sub=curves[name](budget, seed),
                status="x",
            )
            for name in planners
            for seed in range(seeds)
        ]

    return run, asked


def test_the_search_for_the_least_budgets(standing):
    """Each level at the first budget whose median reaches it; who is hopeless with six seeds is not asked for ten."""
    run, asked = measured({
        "default": lambda n, seed: 2.0 / n,  # .04 at 50, .01 at 200
        "b": lambda n, seed: 0.04 if n >= 20 else 1.0,
        "c": lambda n, seed: 1.0,
    })  # fmt: skip
    mine, theirs = standing.search(run, ["b", "c"], [10, 20, 50, 100, 200, 500, 1000], 10)
    assert mine == {0.05: 50, 0.01: 200} and theirs == {0.05: 20}
    assert (20, 6, ("default", "b", "c")) in asked and (20, 10, ("b",)) in asked
    assert max(budget for budget, _, _ in asked) == 500  # three times 200 is below 1,000
    assert not any("c" in names for _, seeds, names in asked if seeds == 10)


def test_the_search_goes_by_the_median(standing):
    """Four good seeds of ten are too few, and those come last; six are enough."""
    run, _ = measured(
        {"default": lambda n, seed: 0.0 if seed >= 6 else 1.0, "b": lambda n, seed: 0.0 if seed >= 4 else 1.0}
    )
    assert standing.search(run, ["b"], [10], 10) == ({}, {0.05: 10, 0.01: 10})


def test_medians_on_each_problem_and_losses(standing):
    page = standing.standing_page
    table = Results([*rows("default", {10: 0.2, 100: 0.02}), *rows("b", {10: 0.3, 100: 0.01})])
    assert page.matrix(table, "sub").splitlines()[2:] == ["| `default` | 0.0200 |", "| `b` | 0.0100 |"]
    assert page.lost_rows(table) == ["| `p` | 100 | 0.0200 | 0.0100 | `b` |"]
    refused = replace(rows("c", {10: None})[0], status="refused", value=None)
    assert "| `c` | refused |" in page.matrix(Results([*table, refused]), "sub")
