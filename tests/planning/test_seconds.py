"""`seconds`: a limit beside the budget, after which a run goes on with the same bits."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace

import pytest

import coreplan
from coreplan import CoreMirror, InputError, PlugIn, PrimalDual, Search, Status, load_run, plan
from coreplan.planning import limit
from helpers.runs import RATES, numpy_problem, same

TINY = 1e-9  # seconds: up after every batch


@pytest.fixture
def ticking(monkeypatch):
    """A clock of its own for the limit, that goes on by a second whenever it is read: at every batch."""
    ticks = itertools.count()
    monkeypatch.setattr(limit, "time", SimpleNamespace(perf_counter=lambda: float(next(ticks))))


def to_the_end(problem, folder, seconds, most=40, **arguments):
    """The plan after as many resumes as it takes, and the plans at which the time was up."""
    stops = []
    for _ in range(most):
        result = plan(problem, out=folder, resume=True, seconds=seconds, **arguments)
        if result.status is not Status.TIME_UP:
            return result, stops
        stops.append(result)
    raise AssertionError("it does not come to an end")


def equal(result, whole):
    same(result, whole)
    assert (result.reality_queries, result.lost_queries) == (whole.reality_queries, 0)
    assert (result.status, result.earned) == (whole.status, whole.earned)


def test_a_run_that_is_stopped_at_once_goes_on_with_the_same_bits(tmp_path):
    arguments = {"planner": PrimalDual(**RATES), "budget": 1_000, "seed": 3}
    whole = plan(numpy_problem(), **arguments)
    stopped = plan(numpy_problem(), out=tmp_path, seconds=TINY, **arguments)
    assert stopped.status is Status.TIME_UP and 0 < stopped.queries < whole.queries
    equal(plan(numpy_problem(), out=tmp_path, resume=True, seed=3), whole)


@pytest.mark.parametrize(
    ("planner", "budget", "seconds"),
    [
        (PlugIn(epsilon="1%"), 20_000, 1),
        (CoreMirror(), 900, 30),
        (Search(horizon=5.0, rollouts=2), 4_000, 30),
    ],
    ids=["plug-in", "core-mirror", "search"],
)
def test_so_does_one_that_is_stopped_often(planner, budget, seconds, tmp_path, ticking):
    arguments = {"planner": planner, "budget": budget, "seed": 3}
    result, stops = to_the_end(numpy_problem(), tmp_path, seconds, **arguments)
    assert len(stops) >= 2 and all(stop.reality_queries == 0 for stop in stops)
    equal(result, plan(numpy_problem(), **arguments))
    assert load_run(tmp_path, numpy_problem()).policy.theta.tobytes() == result.policy.theta.tobytes()


def test_so_does_compiled_code(tmp_path, ticking):
    problem, arguments = coreplan.make("random-linear"), {"planner": PrimalDual(**RATES), "budget": 8_000}
    stopped = plan(problem, out=tmp_path, seconds=90, **arguments)
    assert stopped.status is Status.TIME_UP and 0 < stopped.queries < 7_000
    equal(plan(problem, out=tmp_path, resume=True, **arguments), plan(problem, **arguments))


def test_what_a_stopped_plan_says_and_keeps(tmp_path):
    problem = numpy_problem()
    result = plan(
        problem, planner=CoreMirror(), budget=900, seconds=TINY, out=tmp_path, evaluate=10, certify=2_000
    )
    assert result.status is Status.TIME_UP and result.status.stopped and result.stopped_by == 0
    assert result.sentence.startswith(f"Time was up after {result.queries} queries: the policy is the one")
    assert result.reality is None and result.reality_queries == 0  # rollouts wait for the end of the run
    assert result.evaluation is not None and result.certificate is not None
    assert json.loads((tmp_path / "run.json").read_text())["status"] == "time is up"
    assert load_run(tmp_path, problem).status is Status.TIME_UP


def test_a_run_within_its_time_is_finished():
    result = plan(numpy_problem(), planner=CoreMirror(), budget=300, seconds=3600)
    same(result, plan(numpy_problem(), planner=CoreMirror(), budget=300))
    assert result.status is not Status.TIME_UP


def test_the_last_batch_ends_the_run_whatever_the_time():
    assert plan(numpy_problem(), planner=PlugIn(samples=1), budget=8, seconds=TINY, reality=0).queries == 8


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "1 minute", True, [1]])
def test_a_limit_is_a_positive_number(seconds):
    with pytest.raises(InputError, match=r"`plan\(seconds=...\)` must be a positive finite number"):
        plan(numpy_problem(), seconds=seconds)
