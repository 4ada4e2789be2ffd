"""Reality in every plan: what is believed, what is earned, and what a plan says where they disagree."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import coreplan
from coreplan import CoreMirror, FunctionModel, PlugIn, Problem, SampledLP, Status, load_run, plan
from coreplan.planners import DOUBTS, FEATURES, MORE, Verdict, with_reality
from coreplan.problem import one_hot
from helpers.rooms import rooms


def test_a_grid_that_is_too_coarse_is_doubtful_and_says_both_numbers():
    """On five nodes per side the wall is open, so that the planner believes in a way through it."""
    result = plan(rooms(5), epsilon="1%")
    assert result.status is Status.DOUBTFUL
    assert result.believed > 0.3 and result.earned.high < 0.1
    assert f"The samples say {result.believed:.3g}, rollouts earned" in result.reason
    assert f"{result.earned.high:.3g}" in result.reason and "Refine" in result.reason
    alone = plan(rooms(5), epsilon="1%", reality=0)
    assert alone.status is Status.REACHED and alone.earned is None
    assert alone.queries == result.queries - result.reality_queries
    assert alone.policy.theta.tobytes() == result.policy.theta.tobytes()


def test_a_grid_that_is_fine_enough_is_not():
    """Nodes on both sides of the wall, and in its door: the policy goes through it."""
    axes = [
        [0, 0.15, 0.3, 0.4, 0.455, 0.465, 0.535, 0.545, 0.6, 0.7, 0.8, 0.86, 0.93, 1.0],
        np.linspace(0, 1, 26),
    ]
    features = coreplan.problem.rectilinear(axes, 8)
    problem = dataclasses.replace(rooms(3), features=features, core_pairs=None)
    result = plan(problem, budget=60_000)
    assert result.status is Status.FINISHED, result.sentence
    assert result.earned.low > 0.1 and result.uniform.high < 0.05


@pytest.mark.parametrize("planner", [PlugIn(), SampledLP(), CoreMirror()], ids=lambda p: p.name)
def test_the_budget_holds_rollouts_and_all(planner):
    problem = dataclasses.replace(coreplan.make("random-linear"), tabular=None)
    result = plan(problem, planner=planner, budget=4_000)
    assert 0 < result.reality_queries <= 400 and result.queries <= 4_000
    assert result.planner.setup.budget == 3_600
    assert result.earned.low <= result.earned.value <= result.earned.high
    assert result.status is Status.FINISHED and abs(result.believed - result.earned.value) < 0.1


def test_a_budget_too_small_for_both_goes_to_the_planner():
    problem = coreplan.make("random-linear")
    result = plan(problem, planner=PlugIn(samples=2, noise="independent"), budget=16)
    assert result.queries == 16 and result.earned is None
    assert "too few for rollouts; a first verdict needs about" in result.no_verdict


def chain(pays):
    """Two actions; action a pays `pays[a]` whatever the state does."""

    def step(rng, states, actions):
        return np.asarray(pays)[actions] + 0.01 * rng.random(len(states)), rng.integers(0, 3, len(states))

    model = FunctionModel(2, lambda rng, n: np.zeros(n, dtype=np.int64), step)
    return Problem(model, one_hot(3, 2), 0.9)


def test_baselines():
    """The optimal action is 1. Against action 0 it leads by .3, against itself by nothing."""
    ahead = plan(chain([0.2, 0.5]), budget=4_000, baseline=0)
    assert ahead.status is Status.FINISHED and "baseline" not in ahead.reason
    assert ahead.reality.lead.value == pytest.approx(0.3, abs=0.01)
    assert ahead.baseline.value == pytest.approx(0.205, abs=0.01)
    level = plan(chain([0.2, 0.5]), budget=4_000, baseline=lambda states: np.ones(len(states), dtype=int))
    assert level.status is Status.FINISHED and "not measurably better than the baseline" in level.reason
    assert "baseline" in str(level) and level.reality.lead.value == 0.0


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"baseline": 5}, "no action"),
        ({"baseline": "rule"}, "must be a policy"),
        ({"baseline": lambda states: np.zeros(len(states))}, "whole numbers"),
        ({"reality": 1.0}, "from 0 .none. to below 1"),
        ({"reality": -0.1}, "from 0"),
        ({"reality": "a tenth"}, "from 0"),
        ({"reality": True}, "from 0"),
    ],
)
def test_bad_wishes_cost_nothing(wish, words):
    asked = []
    base = chain([0.2, 0.5])
    model = FunctionModel(2, base.model.initial, lambda *a: asked.append(a) or base.model.step(*a))
    with pytest.raises(coreplan.InputError, match=words):
        plan(dataclasses.replace(base, model=model), budget=400, **wish)
    assert not asked


def test_a_baseline_that_breaks_later_does_not_lose_the_plan():
    def rule(states):
        return np.zeros(len(states), dtype=int) if (states == 0).all() else np.zeros(len(states))

    result = plan(chain([0.2, 0.5]), budget=4_000, baseline=rule)
    assert result.earned is None and "whole numbers" in result.no_verdict
    assert result.policy.theta.any() and result.status is Status.FINISHED


def test_a_simulator_that_fails_in_rollouts_does_not_lose_the_plan(tmp_path):
    base, asked = chain([0.2, 0.5]), []

    def step(rng, states, actions):
        asked.append(len(actions))
        if sum(asked) > 3_700:
            raise RuntimeError("no licence")
        return base.model.step(rng, states, actions)

    problem = dataclasses.replace(base, model=FunctionModel(2, base.model.initial, step))
    result = plan(problem, planner=CoreMirror(), budget=4_000, out=tmp_path)
    assert (
        result.earned is None
        and "rollouts of the policy failed" in result.no_verdict
        and "no licence" in result.no_verdict
    )
    assert 0 < result.reality_queries < 400 and result.queries == 3_600 + result.reality_queries
    again = load_run(tmp_path, problem)
    assert again.no_verdict == result.no_verdict and again.queries == result.queries


def test_a_run_keeps_what_it_found(tmp_path):
    problem = dataclasses.replace(coreplan.make("random-linear"), tabular=None)
    result = plan(problem, budget=4_000, out=tmp_path, baseline=2)
    loaded = load_run(tmp_path, problem)
    assert loaded.reality == result.reality and loaded.reality_queries == result.reality_queries
    assert loaded.believed == result.believed and loaded.queries == result.queries
    again = plan(problem, out=tmp_path, resume=True)  # finished: nothing is asked again
    assert again.reality == result.reality and again.queries == result.queries
    more = plan(problem, budget=8_000, out=tmp_path, resume=True)
    assert more.queries <= 8_000 and result.reality_queries < more.reality_queries <= 800


def test_print_shows_a_plan_in_about_ten_lines():
    problem = dataclasses.replace(chain([0.2, 0.5]), reward_range=(-1.0, 3.0))
    result = plan(problem, budget=4_000, baseline=0, evaluate=100)
    text = str(result).splitlines()
    assert len(text) <= 12
    for word in ("value", "earned", "believed", "uniform", "baseline", "queries", "policy"):
        assert any(line.startswith(word) for line in text), word
    assert f"{result.earned.returns.value:.5g}" in str(result)
    assert result.earned.returns.value == pytest.approx(problem.to_return_units(result.earned.value))


# The verdict itself.


def seen(**changes):
    from coreplan.judge import Evaluation, Reality
    from coreplan.judge.value import Interval

    def value(v):
        return Evaluation(value=v, low=v - 0.01, high=v + 0.01, exact=False, rollouts=40)

    known = {
        "queries": 1000, "least": 100, "believed": 0.6, "earned": value(0.6), "uniform": value(0.4),
        "excess": Interval(0.0, -0.01, 0.01), "gain": Interval(0.2, 0.19, 0.21), "ahead": Interval(0.0, -0.01, 0.01),
    }  # fmt: skip
    changes = {k: Interval(*v) if k in ("excess", "gain", "lead", "ahead") else v for k, v in changes.items()}
    return Reality(**known | changes)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, ""),
        ({"excess": (0.045, 0.03, 0.06)}, ""),  # certain, but less than a quarter of .2
        ({"excess": (0.09, -0.01, 0.19)}, ""),  # large, but not certain
        ({"ahead": (0.09, -0.01, 0.19)}, ""),
        ({"excess": (0.06, 0.03, 0.09)}, "believed and earned disagree"),
        ({"excess": (0.08, 0.06, 0.1)}, "believed and earned disagree"),
        ({"excess": (-0.3, -0.32, -0.28)}, ""),  # earns more than is believed
        ({"gain": (0.0, -0.02, 0.02)}, "no better than uniform"),
        ({"gain": (0.1, -0.1, 0.3)}, ""),  # too wide to tell
        ({"ahead": (0.08, 0.06, 0.1)}, "one step of look-ahead is better"),
        ({"lead": (-0.05, -0.06, -0.04)}, "worse than the baseline"),
    ],
)
def test_each_doubt_and_none(changes, name):
    found = with_reality(None, seen(**changes), 0.0)
    assert (found is None) == (name == "")
    if found:
        doubt = next(d for d in DOUBTS if d.name == name)
        assert found.status is Status.DOUBTFUL and found.reason.startswith(doubt.says.partition("{")[0])


@pytest.mark.parametrize(
    "changes", [{"excess": (0.08, 0.06, 0.1)}, {"gain": (0.0, -0.02, 0.02)}, {"ahead": (0.08, 0.06, 0.1)}]
)
def test_a_planner_that_makes_its_features_is_helped_by_queries(changes):
    given, made = (with_reality(None, seen(**changes), 0.0, makes=makes) for makes in (False, True))
    assert (given.helps, made.helps) == (FEATURES, MORE)
    assert "efine the" in given.reason and made.reason.endswith("Raise the budget.")


def test_the_accuracy_that_was_asked_for_is_allowed():
    assert with_reality(None, seen(excess=(0.08, 0.06, 0.1)), 0.09) is None
    assert with_reality(None, seen(excess=(0.08, 0.06, 0.1)), 0.07) is not None


def test_a_planners_own_doubt_is_kept_and_a_reached_accuracy_is_not():
    doubt = seen(excess=(0.1, 0.09, 0.11))
    own = with_reality(Verdict(Status.NOT_REACHED, "Raise the budget."), doubt, 0.0)
    assert own.status is Status.DOUBTFUL and own.reason.endswith("Raise the budget.")
    reached = with_reality(Verdict(Status.REACHED, "Sampling loses little."), doubt, 0.0)
    assert reached.status is Status.DOUBTFUL and "Sampling" not in reached.reason


def test_features_that_believe_little_and_earn_it_are_noticed():
    """Two nodes per product: the inventory's values are low and right, and one step of look-ahead does far better."""
    result = plan(dataclasses.replace(coreplan.make("inventory:grid=2"), tabular=None), epsilon="1%")
    assert result.status is Status.DOUBTFUL and "look-ahead" in result.reason
    fine = plan(dataclasses.replace(coreplan.make("inventory"), tabular=None), epsilon="1%")
    assert fine.status is Status.REACHED


def test_a_planner_whose_beliefs_break_keeps_its_plan(monkeypatch):
    monkeypatch.setattr(PlugIn, "beliefs", lambda self, state: 1 / 0)
    result = plan(chain([0.2, 0.5]), budget=4_000)
    assert (
        result.policy.theta.any() and "ZeroDivisionError" in result.no_verdict and result.reality_queries == 0
    )


def test_a_budget_is_held_by_a_resume_that_reserves_less(tmp_path):
    problem = dataclasses.replace(coreplan.make("random-linear"), tabular=None)
    plan(problem, planner=CoreMirror(), budget=4_000, reality=0.5, out=tmp_path)
    again = plan(problem, budget=4_000, reality=0.1, out=tmp_path, resume=True)
    assert again.queries <= 4_000


def test_a_damaged_verdict_is_made_again(tmp_path):
    problem = dataclasses.replace(coreplan.make("random-linear"), tabular=None)
    plan(problem, epsilon="1%", out=tmp_path)
    (tmp_path / "reality.json").write_text('{"queries": 3}')
    assert plan(problem, out=tmp_path, resume=True).earned is not None


def test_a_problem_with_one_action_is_not_doubted():
    model = FunctionModel(
        1, lambda rng, n: np.zeros(n, dtype=np.int64), lambda rng, s, a: (rng.random(len(s)), s)
    )
    result = plan(Problem(model, one_hot(1, 1), 0.9), budget=4_000)
    assert result.status is Status.FINISHED and result.uniform is None and result.earned is not None
