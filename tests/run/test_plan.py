"""What a run returns, traces and tells while it goes on; arguments that are none."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import coreplan
from coreplan import PrimalDual, Status
from coreplan.run.trace import next_point
from helpers.runs import RATES, numpy_problem, plan, planner, same


def test_a_run_reports_what_it_did():
    problem = coreplan.make("random-linear")
    result = plan(problem, planner=planner(output="last"), budget=80_000, seed=4)
    assert result.status is Status.FINISHED and result.sentence == "Finished after 80,000 queries."
    assert result.queries == 80_000 and result.seconds > 0
    trace = result.trace
    assert 195 <= len(trace) <= 205
    assert trace["queries"][0] == 0 and trace["queries"][-1] == 80_000
    assert (np.diff(trace["queries"]) > 0).all() and (np.diff(trace["seconds"]) >= 0).all()
    assert trace["lambda_entropy"][0] == pytest.approx(math.log(8))
    assert (trace["theta_norm"] <= RATES["D"] * (1 + 1e-9)).all()
    assert trace["value"][-1] == pytest.approx(coreplan.evaluate(problem, result.policy).value, abs=1e-12)
    assert trace["value"][0] == pytest.approx(coreplan.evaluate(problem, result.policy).uniform, abs=1e-12)
    assert np.isfinite(trace["temporal_difference"][1:]).all()
    lines = trace.csv().splitlines()
    assert lines[0].split(",") == list(trace.columns) and len(lines) == len(trace) + 1


@pytest.mark.parametrize("budget", [8, 100, 1601, 10**6 + 3])
def test_the_trace_has_about_200_points_whatever_the_budget(budget):
    points, queries = [], 0
    while queries + 8 <= budget:
        due = next_point(queries, budget)
        assert due > queries
        queries = min(-(-due // 8) * 8, budget // 8 * 8)
        points.append(queries)
    early = [q for q in points if q * 200 < budget]  # at powers of two, before the first multiple of a 200th
    assert len(points) - len(early) <= 201
    assert budget < 2000 or len(points) >= 190
    assert early == [64 * 2**i for i in range(len(early))] and (budget < 10**6 or len(early) == 7)


def test_same_seed_same_bits_and_other_seeds_differ():
    problem = coreplan.make("river-swim")
    a, b, c = (plan(problem, planner=planner(), budget=4000, seed=s) for s in (1, 1, 2))
    same(a, b)
    assert a.policy.theta.tobytes() != c.policy.theta.tobytes()


def test_progress_is_told():
    class Recorder:
        seen, closed = [], False

        def update(self, queries):
            self.seen.append(queries)

        def close(self):
            self.closed = True

    recorder = Recorder()
    plan(coreplan.make("river-swim"), planner=planner(), budget=4000, progress=recorder)
    assert recorder.seen[-1] == 4000 and recorder.closed
    plan(coreplan.make("river-swim"), planner=planner(), budget=4000, progress=True)  # the bar itself


def test_compilation_is_warm_up_also_for_numpy_models():
    """The kernels are compiled on made-up answers: the simulator is not called for it."""
    calls = []
    base = numpy_problem()

    def step(rng, states, actions):
        calls.append(len(states))
        return base.model.step(rng, states, actions)

    result = plan(numpy_problem(step), planner=planner(), budget=8)
    assert calls == [8] and result.warmup_seconds > 0


# Arguments.


def test_numpy_numbers_are_numbers(tmp_path):
    rates = PrimalDual(K=np.int64(7), eta=np.float32(0.01), beta=1, alpha=np.float64(0.1), D=np.int32(5))
    result = plan(
        coreplan.make("river-swim"), planner=rates, budget=np.int64(800), block=np.int64(100), out=tmp_path
    )
    assert result.queries == 800
    assert plan(coreplan.make("river-swim"), planner=planner(K=1e2), budget=808).planner.K == 100


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"budget": 0}, "budget"),
        ({"budget": 1.5}, "budget"),
        ({"seed": -1}, "seed"),
        ({"seed": "a"}, "seed"),
        ({"budget": None, "epsilon": 0.1}, "takes a budget and no epsilon"),
        ({"planner": 3}, "must be a planner"),
        ({"planner": PrimalDual}, r"the class PrimalDual; write PrimalDual\(\)"),
        ({"planner": "primal-duel"}, "no planner 'primal-duel'. Did you mean 'primal-dual'"),
        ({"core": (np.zeros(1), np.zeros(1))}, "must be a CoreSet"),
        ({"checkpoint_seconds": 0}, "checkpoint_seconds"),
        ({"problem": "river-swim"}, "must be a Problem"),
    ],
)
def test_bad_arguments(arguments, words):
    good = {"problem": coreplan.make("river-swim"), "planner": planner(), "budget": 800}
    with pytest.raises(coreplan.InputError, match=words):
        plan(**{**good, **arguments})


def test_a_problem_without_a_core_set():
    problem = dataclasses.replace(coreplan.make("random-linear"), core_pairs=None)
    with pytest.raises(coreplan.InputError, match="brings no core set"):
        plan(problem, planner=planner(), budget=800)
