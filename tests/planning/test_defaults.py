"""What is done where nobody has chosen: planner, budget, accuracy, settings."""

from __future__ import annotations

import dataclasses

import pytest

import coreplan
from coreplan import CoreMirror, Grow, PlugIn, PrimalDual, SampledLP, Status, evaluate
from coreplan.planning import default_planner, documented_settings
from coreplan.planning.defaults import ACCURACY, CAP
from helpers.cores import without
from helpers.rivers import own
from helpers.runs import plan, same


@pytest.mark.parametrize("spec", ["river-linear", "random-linear", "river-swim"])
def test_a_problem_is_planned_to_one_percent(spec):
    problem = coreplan.make(spec)
    result = plan(problem)
    assert ACCURACY == "1%" and result.settings["epsilon"] == "1%" and result.planner.name == "plug-in"
    assert result.status is Status.REACHED and result.planner.setup.budget == CAP == 10_000_000
    assert evaluate(problem, result.policy).sub <= 0.01
    same(result, plan(problem, epsilon="1%"))
    same(result, plan(problem, planner="plug-in"))
    same(result, plan(problem, planner=PlugIn(epsilon="1%")))


def test_a_budget_alone_asks_for_no_accuracy():
    result = plan(coreplan.make("river-linear"), budget=400)
    assert result.settings["epsilon"] is None and result.status is Status.FINISHED


def test_without_a_core_set_it_is_grow():
    problem = dataclasses.replace(coreplan.make("river-linear"), core_pairs=None)
    assert default_planner(problem).name == "grow"
    assert default_planner(problem, without(coreplan.make("river-linear"))).name == "plug-in"


@pytest.mark.parametrize(
    ("planner", "first"),
    [(SampledLP(), 10_000), (Grow(), 100_000), (CoreMirror(), 1_000_000), (PlugIn(samples=20), 1_000_000)],
    ids=lambda p: getattr(p, "name", ""),
)
def test_planners_that_cannot_tell_have_a_first_budget(planner, first, monkeypatch):
    assert planner.first_budget == first
    monkeypatch.setattr(type(planner), "first_budget", 1_200)
    result = plan(own(), planner=planner)
    assert result.planner.setup.budget == 1_200
    same(result, plan(own(), planner=planner, budget=1_200))


def test_a_name_brings_the_documented_settings():
    problem = coreplan.make("random-linear")
    known = documented_settings("primal-dual", "random-linear:states=50")
    assert known["K"] == 5
    by_name = plan(problem, planner="primal-dual", budget=6_000)
    same(by_name, plan(problem, planner=PrimalDual(**known), budget=6_000))
    assert by_name.settings["eta"] == known["eta"]


def test_a_name_with_an_accuracy():
    problem = coreplan.make("river-linear")
    same(plan(problem, planner="plug-in", epsilon="2%"), plan(problem, epsilon="2%"))


def test_a_resume_by_name_keeps_the_settings(tmp_path):
    problem = coreplan.make("river-linear")
    first = plan(problem, planner=CoreMirror(output="greedy"), budget=400, out=tmp_path)
    same(plan(problem, planner="core-mirror", out=tmp_path, resume=True), first)


def test_a_resume_without_anything_keeps_budget_and_accuracy(tmp_path):
    """A plan to 1% that was started without arguments, and one with a budget alone: neither becomes the other."""
    problem = coreplan.make("river-linear")
    one = plan(problem, out=tmp_path / "one")
    same(plan(problem, out=tmp_path / "one", resume=True), one)
    two = plan(problem, budget=400, out=tmp_path / "two")
    again = plan(problem, out=tmp_path / "two", resume=True)
    same(again, two)
    assert again.settings["epsilon"] is None


def test_sentences():
    problem = coreplan.make("river-linear")
    reached, spent = plan(problem), plan(problem, budget=400)
    assert reached.sentence.startswith(
        f"Accuracy reached after {reached.queries:,} queries. Sampling is estimated"
    )
    assert spent.sentence == f"Finished after {spent.queries:,} queries."
    short = plan(problem, epsilon=1e-6, budget=400)
    assert short.sentence.startswith(
        f"Accuracy not reached after {short.queries:,} queries: the policy is the best"
    )
    assert "Raise the budget above 400" in short.sentence
