"""`steps`: a run, one ask at a time, the same as `plan` makes."""

from __future__ import annotations

import itertools
import types

import numpy as np
import pytest

import coreplan
from coreplan import CoreMirror, Grow, InputError, OptimisticPrimalDual, PlugIn, SampledLP
from coreplan.judge import cheap_value
from coreplan.run import Step, steps
from coreplan.run.trace import ROWS
from helpers.cores import without
from helpers.own_planners import Bandit
from helpers.rivers import River
from helpers.runs import plan, planner

ALL = [planner(), CoreMirror(), OptimisticPrimalDual(steps=20), PlugIn(), SampledLP(), Grow(), Bandit()]


def copied(state):
    return type(state)(*(np.array(value) for value in state))


def policy_of(chosen, step):
    """theta as the planner, which `plan` has resolved, reads it out of a step's state."""
    return chosen.policy(step.state).theta


@pytest.mark.parametrize("chosen", ALL, ids=lambda p: p.name)
@pytest.mark.parametrize("spec", ["random-linear", "random-linear:compiled=false"])
def test_the_last_state_is_that_of_a_plan(spec, chosen):
    problem = coreplan.make(spec)
    whole = plan(problem, planner=chosen, budget=1_000, seed=4)
    last = None
    for last in steps(problem, chosen, budget=1_000, seed=4, value=cheap_value(problem)):
        assert isinstance(last, Step) and last.queries <= 1_000
    assert last.queries == whole.queries
    assert policy_of(whole.planner, last).tobytes() == whole.policy.theta.tobytes()
    if whole.stored is not None:
        found = whole.planner.stored(last.state)
        assert found.rewards.tobytes() == whole.stored.rewards.tobytes()
    assert set(last.row) == set(whole.trace.columns)
    assert last.row["value"] == whole.trace["value"][-1]


@pytest.mark.parametrize("chosen", [planner(output="last"), CoreMirror()], ids=lambda p: p.name)
def test_every_state_is_that_of_a_plan_with_so_large_a_budget(chosen):
    problem = coreplan.make("random-linear")
    begin, *later = [
        (step.queries, copied(step.state)) for step in itertools.islice(steps(problem, chosen, seed=2), 6)
    ]
    assert begin[0] == 0
    for k, (queries, state) in enumerate(later, 1):
        assert queries == 8 * k  # K + 1 = 8, and m = 8
        part = plan(problem, planner=chosen, budget=queries, seed=2)
        assert part.planner.policy(state).theta.tobytes() == part.policy.theta.tobytes()


def test_it_is_lazy():
    """Nothing is simulated before it is asked for; the first step is where the run begins."""
    river = River()
    run = steps(river.problem, Bandit())
    assert isinstance(run, types.GeneratorType) and river.batches == [] == river.steps
    first = next(run)
    assert (first.queries, river.steps, first.state.rounds) == (0, [], 0)
    for k in (1, 2, 3):
        step = next(run)
        assert (step.queries, step.state.rounds, len(river.steps)) == (6 * k, k, k)
    run.close()
    assert len(river.steps) == 3


@pytest.mark.parametrize("budget", [8, 23, 24, 100])
def test_the_budget_is_kept(budget):
    river = River()
    queries = [step.queries for step in steps(river.problem, planner(), budget=budget)]
    assert queries == list(range(0, budget + 1, 8)) and sum(river.steps) == queries[-1]


def test_a_planner_that_is_done_ends_it():
    queries = [
        step.queries for step in steps(coreplan.make("river-swim"), SampledLP(samples=5), budget=10_000)
    ]
    assert queries == [0, 60]


def test_strides_and_rows_are_those_of_the_trace():
    """With a stride of a 200th of the budget, the rows are the trace's: also means since the row before."""
    problem, budget = coreplan.make("random-linear"), 8 * 5 * ROWS
    whole = plan(problem, planner=planner(), budget=budget, seed=1)
    rows = [
        s.row for s in steps(problem, planner(), budget=budget, seed=1, stride=40, value=cheap_value(problem))
    ]
    assert len(rows) == len(whole.trace) == ROWS + 1
    for column in whole.trace.columns:
        if column != "seconds":
            np.testing.assert_array_equal([row[column] for row in rows], whole.trace[column])
    assert len(np.unique(whole.trace["temporal_difference"][1:])) > 100


def test_a_core_set_and_blocks_of_noise():
    problem = coreplan.make("river-linear")
    core = without(problem, 3)
    *_, last = steps(problem, CoreMirror(), core=core, budget=190, seed=5, block=50)
    whole = plan(problem, core, CoreMirror(), budget=190, seed=5, block=50)
    assert policy_of(whole.planner, last).tobytes() == whole.policy.theta.tobytes()
    assert last.row["outside"] == whole.trace["outside"][-1] > 0.001


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"problem": "river-swim"}, "Problem"),
        ({"planner": "core-mirror"}, "must be a planner"),
        ({"budget": 0}, "budget"),
        ({"budget": 3}, "below m = 12"),
        ({"block": 0}, "block"),
        ({"seed": -1}, "seed"),
        ({"stride": 0}, "stride"),
    ],
)
def test_bad_arguments(arguments, words):
    good = {"problem": coreplan.make("river-swim"), "planner": CoreMirror()}
    with pytest.raises(InputError, match=words):
        next(steps(**{**good, **arguments}))
