"""Callbacks: what they are told, in which order, and that they change nothing, whatever they do."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import coreplan
from coreplan import CoreMirror, CoreplanWarning, InputError, SimulatorError, Status, plan
from coreplan.tracking import RunInfo
from helpers.runs import numpy_problem, same

ARGUMENTS = {"planner": CoreMirror(), "seed": 4}


class Keeps:
    """Writes down what it is told."""

    def __init__(self):
        self.told = []

    def on_start(self, info):
        self.told.append(("start", info))

    def on_row(self, row):
        self.told.append(("row", row))

    def on_end(self, result):
        self.told.append(("end", result))

    def on_error(self, error):
        self.told.append(("error", error))

    @property
    def rows(self):
        return [what for event, what in self.told if event == "row"]

    @property
    def events(self):
        return [event for event, _ in self.told]


def table(rows, trace):
    """Rows as they were told, without what a clock says, in the form of the trace's."""
    return np.array([[row[name] for name in trace.columns if name != "seconds"] for row in rows])


def columns(trace):
    return np.stack([trace[name] for name in trace.columns if name != "seconds"], axis=1)


def test_a_run_is_told_row_by_row():
    keeps = Keeps()
    result = plan(numpy_problem(), budget=900, callbacks=[keeps], **ARGUMENTS)
    assert keeps.events == ["start", *["row"] * len(result.trace), "end"]
    start = keeps.told[0][1]
    assert isinstance(start, RunInfo) and (start.problem, start.planner, start.seed) == (
        "mine",
        "core-mirror",
        4,
    )
    assert (start.budget, start.rows, start.stage, start.folder) == (900, 0, 0, None)
    assert start.settings == result.settings and len(start.run) == 12
    assert [row["row"] for row in keeps.rows] == list(range(len(result.trace)))
    np.testing.assert_array_equal(table(keeps.rows, result.trace), columns(result.trace))
    assert math.isnan(keeps.rows[0]["value"]) and keeps.told[-1][1] is result


@pytest.mark.parametrize("budget", [900, 450], ids=["stopped by time", "finished, then raised"])
def test_a_resumed_run_goes_on_with_the_next_row_and_the_same_bits(tmp_path, budget):
    whole, once = Keeps(), plan(numpy_problem(), budget=900, **ARGUMENTS)
    same(plan(numpy_problem(), budget=900, callbacks=[whole], **ARGUMENTS), once)
    first, then = Keeps(), Keeps()
    seconds = 1e-9 if budget == 900 else None
    plan(numpy_problem(), budget=budget, callbacks=[first], seconds=seconds, out=tmp_path, **ARGUMENTS)
    again = plan(numpy_problem(), budget=900, callbacks=[then], resume=True, out=tmp_path, **ARGUMENTS)
    assert again.policy.theta.tobytes() == once.policy.theta.tobytes()
    assert then.told[0][1].rows == len(first.rows) and then.told[0][1].run == first.told[0][1].run
    told = [*first.rows, *then.rows]
    assert [row["row"] for row in told] == list(range(len(told))) and len(told) == len(again.trace)
    np.testing.assert_array_equal(table(told, again.trace), columns(again.trace))
    if budget == 900:
        same(again, once)


def test_a_run_that_is_finished_tells_its_end_and_no_row(tmp_path):
    plan(numpy_problem(), budget=300, out=tmp_path, **ARGUMENTS)
    keeps = Keeps()
    plan(numpy_problem(), budget=300, out=tmp_path, resume=True, callbacks=[keeps], **ARGUMENTS)
    assert keeps.events == ["start", "end"]


@pytest.mark.parametrize("method", ["on_start", "on_row", "on_end"])
@pytest.mark.parametrize("error", [ValueError("no\nroom"), SystemError("x" * 5000), InputError("ours")])
def test_one_that_raises_is_given_up_with_one_warning_and_costs_nothing(method, error):
    class Raises(Keeps):
        pass

    def raises(self, what):
        self.told.append(("raised", what))
        raise error

    setattr(Raises, method, raises)
    faulty, other = Raises(), Keeps()
    with pytest.warns(CoreplanWarning, match=f"Raises is told no more: its {method} raised") as seen:
        result = plan(numpy_problem(), budget=300, callbacks=[faulty, other], **ARGUMENTS)
    assert len(seen) == 1 and len(str(seen[0].message)) <= 1000
    assert faulty.events[-1] == "raised" and faulty.events.count("raised") == 1
    assert other.events[-1] == "end" and len(other.rows) == len(result.trace)
    same(result, plan(numpy_problem(), budget=300, **ARGUMENTS))


def test_what_a_callback_changes_is_its_own():
    class Spoils:
        def on_start(self, info):
            info.settings.clear()

        def on_row(self, row):
            row.clear()

    spoils, keeps = Spoils(), Keeps()
    result = plan(numpy_problem(), budget=300, callbacks=[spoils, keeps], **ARGUMENTS)
    assert keeps.told[0][1].settings == result.settings and keeps.rows[0]["queries"] == 0
    same(result, plan(numpy_problem(), budget=300, **ARGUMENTS))


def test_a_run_that_fails_tells_its_error_and_goes_on_where_it_stood(tmp_path):
    base, calls = numpy_problem().model, []

    def step(rng, states, actions):
        calls.append(None)
        if len(calls) == 40:
            raise RuntimeError("the licence server is down")
        return base.step(rng, states, actions)

    failed, then = Keeps(), Keeps()
    with pytest.raises(SimulatorError) as caught:
        plan(numpy_problem(step), budget=900, out=tmp_path, callbacks=[failed], **ARGUMENTS)
    assert failed.told[-1] == ("error", caught.value) and "end" not in failed.events
    plan(numpy_problem(step), budget=900, out=tmp_path, resume=True, callbacks=[then], **ARGUMENTS)
    assert then.told[0][1].rows == len(failed.rows) > 0 and then.rows[0]["row"] == len(failed.rows)


def test_what_never_started_tells_no_error():
    keeps = Keeps()
    with pytest.raises(InputError):
        plan(numpy_problem(), budget=1, callbacks=[keeps], **ARGUMENTS)
    assert keeps.told == []


def test_auto_tells_each_stage_and_one_end(monkeypatch):
    from coreplan.planning import auto
    from coreplan.planning.advice import Way

    problem = numpy_problem()
    monkeypatch.setattr(Status, "doubted", property(lambda status: status is not Status.INTERRUPTED))
    way = Way("core-mirror", 1_000, "the other", lambda policy: (problem, CoreMirror()))
    monkeypatch.setattr(auto, "ways", lambda *given: [way])
    keeps = Keeps()
    with warnings.catch_warnings(record=True):
        result = plan(problem, planner="auto", budget=6_000, callbacks=[keeps])
    starts = [info for event, info in keeps.told if event == "start"]
    assert [(info.stage, info.planner) for info in starts] == [(1, "plug-in"), (2, "core-mirror")]
    assert keeps.events.count("end") == 1 and keeps.told[-1][1] is result
    assert len({info.run for info in starts}) == 2


@pytest.mark.parametrize("given", [3, "run.jsonl", [3], [Keeps], [print], {"a": 1}, [Keeps(), None]])
def test_what_is_no_list_of_callbacks_is_refused_before_the_first_query(given):
    with pytest.raises(InputError, match=r"`plan\(callbacks=...\)` must be a list of"):
        plan(numpy_problem(), callbacks=given)


def test_compiled_runs_are_told_too():
    keeps, problem = Keeps(), coreplan.make("random-linear")
    planner = coreplan.PrimalDual(K=7, eta=3e-3, beta=0.02, alpha=0.3, D=12.0)
    result = plan(problem, planner=planner, budget=4_000, reality=0, callbacks=[keeps])
    assert len(keeps.rows) == len(result.trace) and keeps.rows[-1]["value"] == result.trace["value"][-1]
