"""`planner="auto"`: the first choice and what helps after it, in one budget, with the better policy kept."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import coreplan
from coreplan import InputError, Status, load_run, plan
from coreplan.planners import Planner, ReadOut, doubts
from coreplan.planners.testing import bounded_corridor
from coreplan.planning import auto, limit
from coreplan.planning.advice import Pick, Way
from coreplan.problem import one_hot
from coreplan.simulate import Ask
from helpers.rooms import rooms

STATES = 3


class Made(NamedTuple):
    told: int


@dataclass(frozen=True, kw_only=True)
class Always(Planner):
    """A planner that spends half of its budget and then always takes one action; doubtful if it is told to be."""

    needs_core = False
    action: int = 0
    doubtful: bool = False

    def init(self, rng):
        return Made(0)

    def ask(self, state, rng):
        if state.told >= self.setup.budget // 2:
            return None
        return Ask(states=np.zeros(10, dtype=np.int64), actions=np.arange(10) % 2)

    def tell(self, state, answers, rng):
        return Made(state.told + 10)

    def told(self, state):
        return state.told

    def policy(self, state):
        return ReadOut(np.tile(np.eye(2)[self.action], STATES), np.inf)

    def verdict(self, state):
        return doubts.NO_GAIN(cure="made up.") if self.doubtful else None


class Worse(Always):
    """The same under another name."""


def problem(pays=(0.2, 0.5)):
    def step(rng, x, a):
        return np.asarray(pays)[a] + 0.01 * rng.random(len(x)), rng.integers(0, STATES, len(x))

    model = coreplan.FunctionModel(2, lambda rng, n: np.zeros(n, dtype=np.int64), step)
    return coreplan.Problem(model, one_hot(STATES, 2), 0.9)


@pytest.fixture
def stages(monkeypatch):
    """`auto` with made-up stages: the first is doubtful, the second is tried after it."""

    def set_up(first, second):
        monkeypatch.setattr(auto, "pick", lambda problem, core: Pick(first, "It was made up."))
        way = Way(second.name, 1_000, "the other", lambda policy: (problem(), second))
        monkeypatch.setattr(auto, "ways", lambda *given: [way])

    return set_up


@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "in a folder"])
def test_a_better_policy_takes_the_place_of_the_first(stages, tmp_path, kept):
    stages(Always(action=0, doubtful=True), Worse(action=1))
    out = tmp_path / "run" if kept else None
    result = plan(problem(), planner="auto", budget=8_000, out=out)
    assert result.policy.act(np.zeros(2, dtype=np.int64)).tolist() == [1, 1]
    assert result.queries <= 8_000 and result.status is Status.FINISHED
    assert "always ended with doubts" in result.reason and "worse ended without doubts" in result.reason
    assert "takes its place" in result.reason and result.picked == "It was made up."


def test_a_worse_policy_does_not_and_all_is_counted(stages, tmp_path):
    stages(Always(action=1, doubtful=True), Worse(action=0))
    made = problem()
    result = plan(made, planner="auto", budget=8_000, out=tmp_path / "run")
    assert result.policy.act(np.zeros(2, dtype=np.int64)).tolist() == [1, 1]
    assert result.status is Status.DOUBTFUL and "does not take its place" in result.reason
    each = [load_run(tmp_path / "run" / name, made).queries for name in ("1-always", "2-worse")]
    assert sum(each) < result.queries <= 8_000  # and the race
    again = load_run(tmp_path / "run", made)
    assert (again.queries, again.sentence) == (result.queries, result.sentence)
    assert again.policy.theta.tobytes() == result.policy.theta.tobytes()


def test_equal_policies_change_nothing(stages):
    stages(Always(action=1, doubtful=True), Worse(action=1))
    result = plan(problem(), planner="auto", budget=8_000)
    assert result.planner.name == "always" and "does not take its place" in result.reason


@pytest.mark.parametrize("budget", [40, 301, 1_000, 5_000])
def test_the_budget_holds_everything(stages, budget):
    stages(Always(action=0, doubtful=True), Worse(action=1))
    assert plan(problem(), planner="auto", budget=budget).queries <= budget


def test_resumed_runs_have_the_same_bits(stages, tmp_path):
    """After the first stage, as if killed there; and when all was done, which costs nothing more."""
    stages(Always(action=0, doubtful=True), Worse(action=1))
    made = problem()
    whole = plan(made, planner="auto", budget=8_000, out=tmp_path / "whole")
    plan(made, planner=Always(action=0, doubtful=True), budget=4_000, out=tmp_path / "cut" / "1-always")
    for _ in range(2):
        again = plan(made, planner="auto", budget=8_000, out=tmp_path / "cut", resume=True)
        assert again.policy.theta.tobytes() == whole.policy.theta.tobytes()
        assert (again.queries, again.sentence) == (whole.queries, whole.sentence)
    with pytest.raises(coreplan.FileError, match="already holds a run"):
        plan(made, planner="auto", budget=8_000, out=tmp_path / "whole")


@pytest.mark.parametrize("stop", [1, 2], ids=["in the first stage", "in the second"])
def test_a_time_limit_ends_the_stages_and_resumes_have_the_same_bits(stages, tmp_path, monkeypatch, stop):
    """On a clock that goes on by a second whenever it is read: the first stage takes about 90, the second 60."""
    monkeypatch.setattr(limit, "time", SimpleNamespace(perf_counter=iter(range(10_000)).__next__))
    stages(Always(action=0, doubtful=True), Worse(action=1))
    made = problem()
    whole = plan(made, planner="auto", budget=8_000)
    stopped = plan(made, planner="auto", budget=8_000, out=tmp_path, seconds=(40, 130)[stop - 1], evaluate=10)
    assert stopped.status is Status.TIME_UP and load_run(tmp_path, made).status is Status.TIME_UP
    assert stopped.planner.name == "always" and len(list(tmp_path.glob("?-*"))) == stop
    assert stopped.evaluation is not None
    again = plan(made, budget=8_000, out=tmp_path, resume=True)
    assert again.policy.theta.tobytes() == whole.policy.theta.tobytes() and again.planner.name == "worse"
    assert (again.queries, again.reality_queries) == (whole.queries, whole.reality_queries)
    assert again.sentence == whole.sentence


def test_a_folder_of_one_planner_is_none_of_auto(tmp_path):
    plan(coreplan.make("river-linear"), budget=400, out=tmp_path / "run")
    with pytest.raises(coreplan.FileError, match="not of planner='auto'"):
        plan(coreplan.make("river-linear"), planner="auto", out=tmp_path / "run", resume=True)


def test_a_first_choice_without_doubts_stands_alone(tmp_path):
    made = coreplan.make("river-linear")
    result = plan(made, planner="auto", budget=20_000, evaluate=True, out=tmp_path / "run")
    alone = plan(made, budget=10_000, epsilon="1%")
    assert result.policy.theta.tobytes() == alone.policy.theta.tobytes() and result.queries == alone.queries
    assert result.evaluation.exact and load_run(tmp_path / "run").evaluation == result.evaluation
    assert plan(made, budget=20_000, out=tmp_path / "run", resume=True).queries == result.queries


def test_features_that_are_too_coarse_are_replaced(tmp_path):
    """On five nodes per side the wall is open: `refine`, within the box of these features, finds the door."""
    made = rooms(5)
    result = plan(made, planner="auto", budget=40_000, out=tmp_path / "run")
    assert result.planner.name == "refine" and result.status is Status.FINISHED and result.queries <= 40_000
    assert result.earned.low > 0.1
    again = load_run(tmp_path / "run", made)
    x = np.random.default_rng(0).random((50, 2))
    np.testing.assert_array_equal(again.policy.act(x), result.policy.act(x))
    with pytest.raises(coreplan.FileError, match="other features"):
        coreplan.load_policy(tmp_path / "run", coreplan.make("navigation:actions=3"))


def test_what_is_refused():
    with pytest.raises(InputError, match="no epsilon"):
        plan(coreplan.make("masses"), planner="auto", epsilon=0.1, budget=500)
    with pytest.raises(InputError, match="budget"):
        plan(problem(), planner="auto", budget=0)


def test_with_bounds_only_the_first_choice_has_the_whole_budget():
    result = plan(bounded_corridor(), planner="auto", budget=3_000)
    assert result.planner.name == "refine" and 2_000 < result.queries <= 3_000
