"""`coreplan report`, and the report that `coreplan plan --out` writes."""

import json

from typer.testing import CliRunner

import coreplan
from coreplan.cli import app
from helpers.commands import OWN
from helpers.html import Page, safe


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_a_plan_leaves_a_report_with_checks_and_trajectories(tmp_path):
    done = run(
        "plan", "river-swim", "--budget", "600", "--out", tmp_path / "r", "--report-queries", "1000", "--json"
    )
    record = json.loads(done.stdout)
    assert 100 < record["report_queries"] <= 1000 and record["report"] == str(tmp_path / "r" / "report.html")
    page = Page((tmp_path / "r" / "report.html").read_text())
    safe(page)
    assert page.data("run")["check"]["queries"] + len(page.data("explorer")["sample"]) > 100
    assert (
        record["queries"] == json.loads((tmp_path / "r" / "run.json").read_text())["queries"]
    )  # counted apart


def test_without_queries_the_report_says_what_makes_them(tmp_path):
    run("plan", "river-swim", "--budget", "600", "--out", tmp_path / "r", "--report-queries", "0")
    text = Page((tmp_path / "r" / "report.html").read_text()).text
    assert f"coreplan report {tmp_path / 'r'} --queries 20000" in text
    done = run("report", tmp_path / "r", "--queries", "800", "-o", tmp_path / "page.html", "--json")
    assert done.exit_code == 0 and 0 < json.loads(done.stdout)["queries"] <= 800
    assert "not checked" not in Page((tmp_path / "page.html").read_text()).text


def test_several_runs(tmp_path):
    for seed in (0, 1):
        coreplan.plan(coreplan.make("river-swim"), budget=600, seed=seed, out=tmp_path / str(seed))
    done = run("report", tmp_path / "0", tmp_path / "1", "-o", tmp_path / "page.html")
    assert done.exit_code == 0 and "page.html" in done.stdout
    assert "2 runs of river-swim" in Page((tmp_path / "page.html").read_text()).text


def test_a_problem_of_ones_own(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    name = f"{tmp_path / 'own.py'}:mine"
    done = run("plan", name, "--budget", "2000", "--out", tmp_path / "r", "--report-queries", "0")
    assert done.exit_code == 0, done.output
    page = Page((tmp_path / "r" / "report.html").read_text())
    assert f"coreplan plan {name} --planner plug-in" in " ".join(page.text.replace("\\", "").split())
    assert page.data("explorer")["axes"]
    done = run("report", tmp_path / "r", "--queries", "500", "-o", tmp_path / "page.html")
    assert done.exit_code != 0 and "--problem" in str(done.exception)
    done = run("report", tmp_path / "r", "--problem", name, "--queries", "500", "-o", tmp_path / "page.html")
    assert done.exit_code == 0, done.output


def test_a_plan_is_not_lost_for_its_report(tmp_path, monkeypatch):
    import coreplan.report as part

    def fails(*given, **more):
        raise coreplan.FileError("The disk is full.")

    monkeypatch.setattr(part, "write_report", fails)
    done = run("plan", "river-swim", "--budget", "600", "--out", tmp_path / "r", "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["report"] is None and "disk is full" in done.stderr


def test_a_live_view_says_where_it_is():
    done = run("plan", "river-swim", "--budget", "600", "--live", "--port", "0", "--json")
    assert done.exit_code == 0 and "Live view: http://127.0.0.1:" in done.stderr
    assert json.loads(done.stdout)["queries"] <= 600


def test_nothing_is_no_run(tmp_path):
    done = run("report", tmp_path)
    assert "does not hold a run" in str(done.exception)
