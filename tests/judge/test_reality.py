"""What a policy earns, from few queries: estimates against exact values, whatever the planner believes."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import coreplan
from coreplan import FunctionModel, Problem, SoftmaxPolicy, evaluate
from coreplan.judge import Reality, face_reality, price
from coreplan.judge.look_ahead import LookAhead, per_state
from coreplan.judge.reality import _lengths
from coreplan.judge.rollouts import Values
from coreplan.problem import from_matrices, one_hot
from coreplan.sampled import Beliefs


def small_mdp(ends):
    """Five states, three actions, discount .9; if `ends`, state 0 is the end."""
    rng = np.random.default_rng(4)
    P, r = rng.dirichlet(np.full(5, 0.5), size=(3, 5)), rng.random((5, 3))
    if ends:
        P[:, 0], r[0] = np.eye(5)[0], 0.0
    problem = from_matrices(P, r, 0.9)
    return dataclasses.replace(problem, ends=lambda states: states == 0) if ends else problem


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("beliefs", ["none", "wrong", "right"])
def test_earned_is_unbiased_whatever_is_believed(ends, beliefs):
    """300 estimates: their mean is within five of its standard errors of the exact value, or within .003 of it.

    Five standard errors are passed by chance once in two million; lengths that must fit the budget are slightly too short,
    which is what the .003 allows for.
    """
    problem = small_mdp(ends)
    policy = SoftmaxPolicy(np.random.default_rng(5).normal(size=15), 1.0, problem.features)
    exact, table = evaluate(problem, policy).value, problem.tabular()
    theta = np.random.default_rng(6).uniform(0, 10, size=15)
    if beliefs == "right":
        pi = policy.probabilities(table.states)
        V = coreplan.judge.value_function(table, pi, 0.9)
        theta = (table.r + 0.9 * table.expect(V).reshape(5, 3)).ravel()
    held = None if beliefs == "none" else Beliefs(theta)
    found = [face_reality(problem, policy, queries=900, seed=s, beliefs=held) for s in range(300)]
    earned = np.array([f.earned.value for f in found])
    error = earned.std(ddof=1) / math.sqrt(len(earned))
    assert abs(earned.mean() - exact) <= 5 * error + 0.003
    assert all(f.queries <= 900 and f.earned.rollouts >= 8 for f in found)
    inside = np.mean([f.earned.low <= exact <= f.earned.high for f in found])
    assert inside >= 0.88  # of 95% claimed; below .88 by chance once in ten million if .95 were exact
    if beliefs == "right":
        assert earned.std() < 0.03 and all(abs(f.excess.value) < 0.05 for f in found)
    if beliefs == "wrong":
        believed = np.array([f.believed for f in found])
        np.testing.assert_allclose([f.excess.value for f in found], believed - earned, atol=1e-9)


def test_right_beliefs_make_rollouts_sharper():
    problem = dataclasses.replace(coreplan.make("inventory"), tabular=None)
    plan = coreplan.plan(problem, budget=30_000, reality=0)
    blind, sharp = (
        np.std([face_reality(problem, plan.policy, queries=1_500, seed=s, beliefs=b).earned.value for s in range(30)])
        for b in (None, Beliefs(plan.policy.theta))
    )  # fmt: skip
    assert sharp < blind / 1.5


def test_lengths_follow_the_discount():
    """P(length > t) = gamma^t; and they fit into the room."""
    rng = np.random.default_rng(0)
    for room in (300, 3_000):
        drawn = [_lengths(room, 0.9, rng) for _ in range(400)]
        assert all(lengths.sum() <= room for lengths in drawn)
        every = np.concatenate(drawn)
        for t in (1, 5, 20):
            assert np.mean(every > t) == pytest.approx(0.9**t, abs=0.02)
    assert len(_lengths(3, 0.9, rng)) <= 1


def test_too_few_queries_are_said_and_not_spent():
    problem = small_mdp(ends=False)
    found = face_reality(problem, SoftmaxPolicy.uniform(problem.features), queries=20, seed=0)
    assert found.earned is None and found.queries == 0 and found.least == price(problem, False, 8)


def test_a_fault_is_returned_with_what_was_paid():
    calls = []

    def step(rng, states, actions):
        calls.append(len(actions))
        if len(calls) > 5:
            raise RuntimeError("the licence server is down")
        return np.full(len(states), 0.5), states

    model = FunctionModel(2, lambda rng, n: np.zeros(n, dtype=np.int64), step)
    problem = Problem(model, one_hot(1, 2), 0.9)
    found = face_reality(problem, SoftmaxPolicy.uniform(problem.features), queries=1_000, seed=0)
    assert found.earned is None and "licence server" in str(found.fault) and found.queries == sum(calls[:-1])


def test_the_same_seed_gives_the_same_numbers_and_json_keeps_them():
    import json

    problem = dataclasses.replace(coreplan.make("inventory"), tabular=None)
    policy, rule = SoftmaxPolicy.uniform(problem.features), lambda s: np.where(s.sum(axis=1) < 20, 8, 0)
    beliefs = Beliefs(np.full(441, 10.0))
    one, two = (
        face_reality(problem, policy, queries=4_000, seed=3, beliefs=beliefs, baseline=rule) for _ in range(2)
    )
    assert one == two and one.baseline is not None and one.lead is not None and one.ahead is not None
    assert Reality.from_dict(json.loads(json.dumps(one.as_dict()))) == one
    assert one.queries <= 4_000


def test_the_lead_over_a_baseline_is_paired():
    """A policy against itself as a baseline leads by nothing at all."""
    problem = dataclasses.replace(coreplan.make("inventory"), tabular=None)
    policy = SoftmaxPolicy.uniform(problem.features)
    found = face_reality(problem, policy, queries=4_000, seed=3, baseline=policy)
    assert found.lead == (0.0, 0.0, 0.0)


# Look-ahead.


def line(advantage):
    """States in [0, 1]; action 1 pays `advantage` more where the state is above one half, and as much less below."""

    def step(rng, states, actions):
        gain = np.where(states[:, 0] > 0.5, advantage, -advantage) * (actions == 1)
        return 0.5 + gain + 0.1 * (rng.random(len(states)) - 0.5), rng.random(states.shape)

    model = FunctionModel(2, lambda rng, n: rng.random((n, 1)), step)
    phi = coreplan.problem.polynomial([0.0], [1.0], 0, 2)  # blind to the state
    return Problem(model, phi, 0.9)


def test_look_ahead_sees_what_the_features_cannot():
    """The policy takes action 0 everywhere. Deviating above one half gains .2 there, so .1 on average."""
    problem = line(0.2)
    policy = SoftmaxPolicy(np.array([1.0, 0.0]), math.inf, problem.features)
    look = LookAhead(problem, policy, Values(problem), 0)
    states = np.random.default_rng(1).random((400, 1))
    gains = look.gains([(states, np.zeros(400))], 200, np.random.default_rng(2))
    assert gains.mean() == pytest.approx(0.1, abs=0.02) and look.queries <= 200 * per_state(problem)
    none = LookAhead(line(0.0), policy, Values(problem), 0)
    nothing = none.gains([(states, np.zeros(400))], 200, np.random.default_rng(2))
    assert abs(nothing.mean()) < 1e-12  # all actions are alike, and their noise is common


def test_look_ahead_never_asks_for_what_a_mask_forbids():
    asked = []
    base = line(0.2)

    def step(rng, states, actions):
        asked.append(actions.copy())
        return base.model.step(rng, states, actions)

    model = FunctionModel(2, base.model.initial, step)
    mask = lambda states: np.tile([True, False], (len(states), 1))  # noqa: E731
    problem = Problem(model, base.features, 0.9, mask=mask)
    policy = SoftmaxPolicy(np.array([1.0, 0.0]), math.inf, problem.features)
    gains = LookAhead(problem, policy, Values(problem), 0).gains(
        [(np.random.default_rng(0).random((50, 1)), np.zeros(50))], 40, np.random.default_rng(1)
    )
    assert (gains == 0).all() and all((actions == 0).all() for actions in asked)


# Ends, arrays of the user's own, and what is kept.


def once(pool):
    """One decision, then the end: action 1 pays 1, action 0 nothing."""

    def step(rng, states, actions):
        return np.where(states[:, 0] > 0, 0.0, actions.astype(float)), np.ones_like(states)

    model = FunctionModel(2, lambda rng, n: pool[:n], step)
    phi = coreplan.problem.polynomial([0.0], [1.0], 0, 2)
    return Problem(model, phi, 0.99, ends=lambda states: states[:, 0] > 0)


def test_look_ahead_gains_nothing_after_the_end():
    """The other action gains 1 in one step of a hundred: .01 of normalised value, and not 1."""
    problem = once(np.zeros((5_000, 1)))
    policy = SoftmaxPolicy(np.array([1.0, 0.0]), math.inf, problem.features)
    found = face_reality(problem, policy, queries=5_000, seed=0, beliefs=Beliefs(np.zeros(2)))
    assert found.ahead.value == pytest.approx(0.01, rel=0.2)
    assert found.earned.value == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("writeable", [True, False])
def test_arrays_that_a_simulator_keeps_are_left_alone(writeable):
    pool = np.zeros((5_000, 1))
    pool.setflags(write=writeable)
    problem = once(pool)
    policy = SoftmaxPolicy(np.array([1.0, 0.0]), math.inf, problem.features)
    found = face_reality(problem, policy, queries=5_000, seed=0, baseline=1)
    assert found.fault is None and (pool == 0).all()
    assert found.lead.value == pytest.approx(-0.01, rel=0.2)


def test_processes_that_begin_at_their_end():
    problem = once(np.ones((5_000, 1)))
    found = face_reality(problem, SoftmaxPolicy.uniform(problem.features), queries=5_000, seed=0)
    assert found.queries == 0 and found.earned.value == 0.0
    assert evaluate(problem, 0, queries=5_000).queries == 0


def test_steps_are_kept_from_whole_rollouts():
    """However many rollouts there are, later steps are among those kept: on average as many as the discount says."""
    problem = dataclasses.replace(coreplan.make("river-swim"), tabular=None)
    from coreplan.base import Lane
    from coreplan.judge.rollouts import KEEP, Rollouts, Rule

    rollouts = Rollouts(problem, [Rule(problem, 1)], key=0, lane=Lane.REALITY)
    lengths = _lengths(200_000, 0.95, np.random.default_rng(0))
    rollouts.go(lengths, np.ones(int(lengths.max())))
    kept = [len(d) for _, d in rollouts.kept]
    assert len(kept) > 60 and 0.5 * KEEP < sum(kept) < 2 * KEEP
