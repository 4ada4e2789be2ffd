"""PPQ and QLearning: what their papers promise where it applies, and their updates; then the same, broken."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan import InputError, Status
from coreplan.features import dense
from coreplan.planners import PPQ, CoreSetup, QLearning, doubts, ppq, q_learning
from helpers.mutants import mutant
from helpers.relatives import recorded, still, subs, value_iterates
from helpers.runs import plan

# Planner, queries on river-linear (a linear MDP with an exact core set, m = d), and the most sub. On seeds 1000 to 1002 the
# largest sub was .004 (plain), .002 (optimal) and .0006.
GUARANTEED = {
    "plain": (lambda module: module.PPQ(version="plain"), ppq, 0.03),
    "optimal": (lambda module: module.PPQ(), ppq, 0.01),
    "q-learning": (lambda module: module.QLearning(), q_learning, 0.01),
}


@pytest.mark.parametrize("name", GUARANTEED)
def test_the_promised_accuracy_is_reached(name):
    make, module, most = GUARANTEED[name]
    assert max(subs(coreplan.make("river-linear"), make(module), 20_000)) < most


FAULTS = {
    "plain": ("theta=self._lift.theta(mean)", "theta=self._lift.theta(0.9 * mean)"),
    "optimal": ("lower = state.base + lower", "lower = 0.0 + lower"),
    "q-learning": ("rewards[i] + gamma * min", "rewards[i] - gamma * min"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_update_does_not_reach_it(name, tmp_path, monkeypatch):
    make, module, most = GUARANTEED[name]
    broken = make(mutant(module, *FAULTS[name], tmp_path, monkeypatch))
    result = plan(coreplan.make("river-linear"), planner=broken, budget=20_000, seed=0)
    assert coreplan.evaluate(coreplan.make("river-linear"), result.policy).sub > most


# Updates.


@pytest.mark.parametrize("settings", [{"version": "plain"}, {}, {"phases": 3, "rounds": 4}], ids=str)
def test_without_noise_ppq_is_value_iteration(settings):
    """Nothing is subtracted where samples agree, and values rise from 0: every round is one step, a reference too."""
    problem, _, _ = still()
    planner, state, _ = recorded(problem, PPQ(**settings), 21 * 200)
    steps = len(planner._schedule)
    assert state.round == steps > 4
    np.testing.assert_allclose(state.theta, value_iterates(steps), rtol=1e-7)  # a variance of rounding size


@pytest.mark.parametrize(
    "settings", [{}, {"version": "plain"}, {"phases": 4}, {"rounds": 1}, {"phases": 50}], ids=str
)
def test_the_schedule_uses_the_budget(settings):
    problem, _, _ = still()
    for n in (1, 2, 3, 5, 17, 100, 999, 12_345):
        setup = CoreSetup.with_core(problem, coreplan.CoreSet.of(problem), 21 * n)
        sizes = [size for size, _ in PPQ(**settings).resolve(setup)._schedule]
        assert sum(sizes) == n and min(sizes) >= 1


def test_ppq_agrees_with_a_naive_form():
    """Algorithm 2 written out by loops over the answers of a run."""
    problem = coreplan.make("random-linear")
    planner, state, heard = recorded(problem, PPQ(confidence=0.7), 3_000)
    gamma, m = 0.9, 8
    rows = [
        (j, r, f)
        for a in heard
        for j, r, f in zip(a.ask.core_index, a.rewards, dense(a.next_features, 8), strict=True)
    ]
    core = dense(planner.setup.core_features, 8)
    w = np.zeros(m)
    base = reference = w
    for n, first in planner._schedule:
        theta = np.linalg.solve(core, w)
        reference = theta if first else reference
        targets = [[] for _ in range(m)]
        for j, r, f in rows[: n * m]:
            V, V_i = (min(max(float(max(f @ x)), 0.0), 10.0) for x in (theta, reference))
            targets[j].append(r + gamma * V if first else gamma * (V - V_i))
        rows = rows[n * m :]
        error = [np.std(t, ddof=1) / np.sqrt(n) if n > 1 else 0.0 for t in targets]
        found = np.mean(targets, axis=1) - 0.7 * np.array(error)
        base, found = (found, found) if first else (base, base + found)
        w = np.maximum(w, found)
    assert not rows
    np.testing.assert_allclose(state.w, w, rtol=1e-9)
    np.testing.assert_allclose(state.theta, np.linalg.solve(core, w), rtol=1e-9)


def promised_and_earned(planner):
    problem = coreplan.make("random-linear")
    result = plan(problem, planner=planner, budget=16_000, seed=1)
    table = problem.tabular()
    V = (problem.features(table.states) @ result.policy.theta).max(axis=1)
    return (1 - problem.discount) * table.nu0 @ V, coreplan.evaluate(problem, result.policy).value


def test_what_ppq_promises_is_earned():
    """V <= V^pi if every backup stays below its mean; with 6 standard errors that fails less than once in a million."""
    promised, earned = promised_and_earned(PPQ(confidence=6.0))
    assert 0.5 * earned < promised <= earned


def test_without_the_subtraction_it_is_not(tmp_path, monkeypatch):
    broken = mutant(ppq, "mean - self.confidence", "mean + self.confidence", tmp_path, monkeypatch)
    promised, earned = promised_and_earned(broken.PPQ(confidence=6.0))
    assert promised > earned


@pytest.mark.parametrize("name", ["random-linear", "hard-linear", "river-swim"])
def test_q_learning_agrees_with_a_naive_form(name, monkeypatch):
    """Dense and sparse features, independent and dependent core features, several sweeps per ask and across asks."""
    monkeypatch.setattr(q_learning, "BATCH", 50)
    problem = coreplan.make(name)
    planner, state, heard = recorded(problem, QLearning(speed=0.7), 600)
    gamma, m, d = problem.discount, planner.setup.m, planner.setup.dimension
    core = dense(planner.setup.core_features, d)
    theta, t = np.zeros(d), 0
    for a in heard:
        phi = dense(a.next_features, d)
        for k in range(0, len(a.rewards), m):
            V = np.clip((phi[k : k + m] @ theta).max(axis=1), 0, 1 / (1 - gamma))
            delta = a.rewards[k : k + m] + gamma * V - core @ theta
            theta = theta + core.T @ delta / (np.linalg.norm(core, 2) ** 2 * (1 + 0.7 * (1 - gamma) * t))
            t += 1
    assert len(heard) > 1 and state.told == t * m
    np.testing.assert_allclose(state.theta, theta, rtol=1e-8)


# Refusals and doubts.


@pytest.mark.parametrize("planner", [PPQ(), QLearning()], ids=lambda p: p.name)
def test_refusals_and_doubts(planner):
    problem, _, _ = still()
    with pytest.raises(
        InputError, match=f"A budget of 20 queries is below 21: '{planner.name}' needs a sample of each"
    ):
        plan(problem, planner=planner, budget=20)
    result = plan(problem, planner=planner, budget=2 * 21)
    assert result.status is Status.DOUBTFUL and "sweeps over the core set are fewer" in result.reason
    bound = planner.resolve(CoreSetup.with_core(problem, coreplan.CoreSet.of(problem), 21))
    assert bound.verdict(bound.init(np.random.default_rng(0))) == doubts.NO_SWEEP()


def test_settings_are_checked():
    for settings in ({"version": "fast"}, {"rounds": 0}, {"phases": 1.5}, {"confidence": -1.0}):
        with pytest.raises(InputError, match=rf"PPQ\({next(iter(settings))}="):
            PPQ(**settings)
    with pytest.raises(InputError, match=r"QLearning\(speed="):
        QLearning(speed=0.0)
