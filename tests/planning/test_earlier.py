"""The last solve stands, unless rollouts show that an earlier one earns more."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest

import coreplan
from coreplan import Grow, PlugIn, Status, load_run, plan
from coreplan.judge import policy_value
from coreplan.planners import Earlier
from coreplan.sampled import Beliefs, differ


@dataclass(frozen=True, kw_only=True, eq=False)
class Spoilt(PlugIn):
    """PlugIn whose last solve went wrong: it has theta's sign, and the earlier solve is theta times `good`."""

    sign: float = -1.0
    good: float = 1.0

    def policy(self, state):
        theta, scale = super().policy(state)
        return type(super().policy(state))(self.sign * theta, scale)

    def earlier(self, state):
        theta, scale = PlugIn.policy(self, state)
        read = type(PlugIn.policy(self, state))(self.good * theta, scale)
        return Earlier(read, Beliefs(state.theta), "on fewer samples") if state.solved else None


PROBLEM = coreplan.make("river-linear")
BLIND = dataclasses.replace(PROBLEM, tabular=None)


def exact(policy):
    return policy_value(PROBLEM.tabular(), policy, PROBLEM.discount)


def test_a_better_earlier_solve_takes_its_place(tmp_path):
    run = plan(BLIND, planner=Spoilt(), budget=40_000, out=tmp_path)
    best = plan(BLIND, planner=PlugIn(), budget=run.queries - run.reality_queries, reality=0)
    assert run.policy.theta.tobytes() == best.policy.theta.tobytes()
    assert run.status is Status.FINISHED and "an earlier solve, on fewer samples" in run.reason
    assert run.queries <= 40_000 and 0 < run.reality_queries <= 4_000
    found = run.reality
    # 95% intervals, but for fixed seeds: they hold or they do not.
    assert found.earned.low <= exact(run.policy) <= found.earned.high
    spoilt = dataclasses.replace(run.policy, theta=-run.policy.theta)
    assert found.above_last.low <= exact(run.policy) - exact(spoilt) <= found.above_last.high
    assert abs(found.believed - exact(run.policy)) < 0.02 and found.excess.low <= 0.0 <= found.excess.high
    assert load_run(tmp_path, BLIND).policy.theta.tobytes() == run.policy.theta.tobytes()
    again = plan(BLIND, planner=Spoilt(), budget=40_000, out=tmp_path, resume=True)  # nothing is asked again
    assert again.policy.theta.tobytes() == run.policy.theta.tobytes()
    assert (again.queries, again.status, again.reason) == (run.queries, run.status, run.reason)
    assert again.reality == run.reality


def test_an_equal_one_does_not():
    run = plan(BLIND, planner=Spoilt(good=-1.0), budget=40_000)
    assert run.status is Status.DOUBTFUL and "earlier solve" not in run.reason
    assert run.reality.set_aside == "" and run.reality_queries <= 4_000


def test_a_good_last_solve_is_not_raced():
    run = plan(BLIND, planner=Spoilt(sign=1.0), budget=40_000)
    alone = plan(BLIND, planner=PlugIn(), budget=40_000)
    assert run.status is Status.FINISHED and run.reason == "" and run.reality.set_aside == ""
    assert run.policy.theta.tobytes() == alone.policy.theta.tobytes()


def test_a_race_that_cannot_be_decided_is_not_run():
    """Rollouts that earn by a rare prize scatter too much: the sentence says what a decision would cost."""
    run = plan(BLIND, planner=Spoilt(), budget=12_000)
    assert run.reality_queries <= 1_200
    assert "an earlier solve" in run.reason or "queries would tell" in run.no_verdict or run.earned is None


def test_a_baseline_is_set_against_the_policy_that_was_chosen():
    run = plan(BLIND, planner=Spoilt(), budget=60_000, baseline=0)
    value = exact(run.policy)
    assert run.reality.set_aside
    lead = run.reality.lead
    assert lead.low <= value - run.reality.baseline.value + 0.02 and lead.high >= value - run.baseline.high


def test_which_earlier_solves_count():
    """Grow's is that on half of the samples, PlugIn's the one before; none if both act alike in 99% of the states."""
    run = plan(coreplan.make("river-linear"), planner=Grow(), budget=4_000, reality=0)
    state = None
    for step in coreplan.steps(BLIND, Grow(), budget=4_000):
        state = step.state
    planner = run.planner
    theta = planner.policy(state).theta
    assert theta.tobytes() == run.policy.theta.tobytes() and state.half.any()
    found = planner.earlier(state._replace(half=-state.theta))
    assert found is not None and np.array_equal(found.policy.theta, -theta)
    assert planner.earlier(state._replace(half=state.theta)) is None
    for step in coreplan.steps(BLIND, PlugIn(), budget=4_000):
        state = step.state
    assert state.before.any() and not np.array_equal(state.before, state.theta)


@pytest.mark.parametrize("share", [0.0, 0.005, 0.05])
def test_policies_differ_from_one_per_cent_on(share):
    """200 states of two actions; the first coordinate prefers action 0 in all, the second in a `share` of them."""
    n = 200
    other = np.arange(n) < share * n
    weight = np.zeros((n, 2, 2))
    weight[:, 0, 0] = 1.0
    weight[np.arange(n), np.where(other, 1, 0), 1] = 1.0
    index = np.broadcast_to(np.arange(2, dtype=np.int32), weight.shape).copy()
    phi = coreplan.features.Sparse(index, weight)
    assert differ(phi, np.array([1.0, 0.0]), np.array([0.0, 1.0])) is (share > 0.01)
