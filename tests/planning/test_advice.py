"""What is picked where nobody chooses, and what is proposed where a plan ends with doubts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import coreplan
from coreplan import FunctionFeatures, Grow, PlugIn, Problem, Refine, Search, Status, load_run, plan
from coreplan.planners import CORE, DOUBTS, FEATURES, MORE
from coreplan.planning import default_planner
from coreplan.planning.advice import next_sentence, pick, ways
from helpers.cores import without
from helpers.rooms import rooms

RIVER = "river-linear"


def names(found):
    return [way.name for way in found]


def test_each_branch_of_the_choice():
    river = coreplan.make(RIVER)
    assert isinstance(pick(river).planner, PlugIn)
    assert pick(river).why == "PlugIn, since the problem brings a core set of 20 pairs."
    given = pick(river, without(river))
    assert (
        isinstance(given.planner, PlugIn)
        and f"a core set of {len(without(river))} pairs is given" in given.why
    )
    alone = dataclasses.replace(river, core_pairs=None)
    assert isinstance(pick(alone).planner, Grow)
    assert pick(alone).why == "Grow, since there are features, d = 20, and no core set."
    bounds = coreplan.make("cart-pole:features=none")
    assert isinstance(default_planner(bounds), Refine)
    assert pick(bounds).why == "Refine, since there are bounds on 4 numbers and no features."


def test_the_plan_says_what_was_picked_unless_somebody_chose(tmp_path):
    problem = coreplan.make(RIVER)
    result = plan(problem, budget=400, out=tmp_path / "run")
    assert result.picked.startswith("PlugIn, since") and "picked    PlugIn, since" in str(result)
    chosen = plan(problem, planner="plug-in", budget=400)
    assert chosen.picked == "" and "picked" not in str(chosen)
    assert chosen.policy.theta.tobytes() == result.policy.theta.tobytes()
    assert load_run(tmp_path / "run").picked == result.picked
    assert plan(problem, budget=800, out=tmp_path / "run", resume=True).picked == result.picked
    bounds = plan(coreplan.make("mountain-car:features=none"), budget=2_000, reality=0)
    assert bounds.planner.name == "refine" and "bounds on 2 numbers" in bounds.picked


def test_every_doubt_has_something_that_helps_or_is_known_to_have_none():
    """A new reason for doubt must be put under one of the three, or here."""
    silent = {d.name for d in DOUBTS if not d.helps and d.status not in (Status.FINISHED, Status.REACHED)}
    assert silent == {"ball too small"}
    assert {d.helps for d in DOUBTS} <= {"", MORE, FEATURES, CORE}
    from coreplan.planners import doubts

    listed = {d.name for d in DOUBTS}
    assert set.union(*doubts._HELPS.values()) <= listed


@pytest.mark.parametrize(
    ("spec", "planner", "helps", "found"),
    [
        ("inventory", "plug-in", MORE, ["plug-in"]),
        ("inventory", "plug-in", FEATURES, ["refine", "search"]),
        ("inventory", "plug-in", CORE, ["grow", "search"]),
        ("mountain-car", "plug-in", FEATURES, ["refine"]),  # d is too large for a search
        ("tetris", "grow", FEATURES, ["search"]),  # its features have no box
        ("masses", "grow", FEATURES, ["search", "refine"]),
        ("masses", "search", FEATURES, ["refine", "search"]),
        ("masses:masses=4", "grow", FEATURES, ["search"]),  # eight coordinates are too many for a tree
        ("masses:features=none", "refine", FEATURES, ["refine"]),
        ("masses", "grow", "", []),
        ("inventory:horizon=5", "plug-in", FEATURES, []),
    ],
)
def test_ways(spec, planner, helps, found):
    assert names(ways(coreplan.make(spec), planner, helps, 1_000, 500)) == found


def test_ways_begin_with_what_was_paid_for():
    problem = coreplan.make("masses")
    policy = coreplan.SoftmaxPolicy(np.arange(75.0), np.inf, problem.features)
    search, refine = ways(problem, "grow", FEATURES, 1_000, 75)
    same, planner = search.begin(policy)
    assert same is problem and isinstance(planner, Search) and (planner.start == policy.theta).all()
    bounded, planner = refine.begin(policy)
    assert isinstance(planner, Refine) and bounded.bounds.high.tolist() == [2.0] * 4
    assert next_sentence(problem, "grow", MORE, 1_000, 75) == "Next: twice the budget, about 2,000 queries."
    nodes = next_sentence(coreplan.make("masses:features=none"), "refine", MORE, 1_000, 500)
    assert "some 200 nodes" in nodes and "2,000 queries" in nodes


def test_a_doubtful_plan_names_the_next_thing_and_its_cost(tmp_path):
    """On five nodes per side the wall is open; `refine` would make nodes where the wall is."""
    result = plan(rooms(5), epsilon="1%", out=tmp_path / "run")
    assert result.status is Status.DOUBTFUL and result.helps == FEATURES
    assert result.next.startswith("Next: the planner `refine`") and "50,000 queries" in result.next
    assert result.sentence.endswith(result.next) and result.next in str(result)
    again = load_run(tmp_path / "run", rooms(5))
    assert (again.next, again.helps) == (result.next, result.helps)
    good = plan(coreplan.make(RIVER), epsilon="1%")
    assert good.next == good.helps == ""


def test_too_few_samples_ask_for_more():
    result = plan(coreplan.make("inventory"), budget=1_000, reality=0)
    assert result.helps == MORE and result.next == "Next: twice the budget, about 2,000 queries."


def test_a_doubt_of_a_problem_without_box():
    flat = FunctionFeatures(lambda x: np.ones((len(x), 2, 1)), 2, 1, 1.0)
    model = coreplan.FunctionModel(
        2, lambda rng, n: rng.random((n, 1)), lambda rng, x, a: (a * (0.5 + 0.5 * rng.random(len(x))), x)
    )
    result = plan(Problem(model, flat, 0.8), budget=2_000)
    assert result.status is Status.DOUBTFUL and "`search`" in result.next
