"""PlugIn: quasi-random noise, what few queries reach, settings and doubts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import coreplan
from coreplan import CoreSet, FunctionFeatures, FunctionModel, InputError, PlugIn, Problem, Status
from coreplan.judge import policy_value
from coreplan.planners import CoreSetup
from coreplan.sampled import policy_iteration as bellman
from coreplan.sampled import sobol
from coreplan.simulate import REPEATED
from helpers.rivers import own
from helpers.runs import plan

# Noise.


def test_sobol_points_extend_and_are_balanced():
    whole = sobol(7, 3, 0, 64)
    np.testing.assert_array_equal(whole, np.concatenate([sobol(7, 3, 0, 16), sobol(7, 3, 16, 64)]))
    for c in range(3):  # each coordinate has one point in every 64th
        assert sorted((whole[:, c] * 64).astype(int)) == list(range(64))
    assert (sobol(8, 3, 0, 64) != whole).any()


def test_every_core_pair_gets_the_same_noise():
    problem = coreplan.make("inventory")
    setup = CoreSetup.with_core(problem, CoreSet.of(problem), 8000)
    planner = PlugIn().resolve(setup)
    assert planner.noise == "sobol"
    rng = np.random.default_rng(0)
    ask = planner.ask(planner.init(rng), rng)
    assert len(ask.core_index) == 8 * 441 and ask.noise.shape == (8 * 441, 2)
    assert (ask.noise.reshape(8, 441, 2) == ask.noise.reshape(8, 441, 2)[:, :1]).all()
    independent = PlugIn(noise="independent").resolve(setup)
    assert independent.ask(independent.init(rng), rng).noise is None


def test_linear_models_are_functions_of_their_noise():
    for name in ("random-linear", "random-linear:compiled=false", "random-linear:lazy=true", "river-linear"):
        problem = coreplan.make(name)
        states = np.asarray(CoreSet.of(problem).states).repeat(20)
        actions = CoreSet.of(problem).actions.repeat(20)
        rng, same = np.random.default_rng(3), np.random.default_rng(3)
        one = problem.model.step(rng, states, actions)
        two = problem.model.step_with(states, actions, same.random((len(states), 2)))
        np.testing.assert_array_equal(one[0], two[0])
        np.testing.assert_array_equal(one[1], two[1])


def test_every_call_of_a_noise_controlled_simulator_is_counted(tmp_path):
    """Also the few that are repeated to see whether it is a function of its noise; once a run, not once a resume."""
    base, calls = coreplan.make("river-swim"), []

    def step(states, actions, noise):
        calls.append(len(actions))
        return base.model.step_with(states, actions, noise)

    model = coreplan.NoiseModel(2, base.model.initial, step, 1)
    problem = coreplan.Problem(model, base.features, base.discount)
    first = plan(problem, budget=500, out=tmp_path)
    assert first.queries == sum(calls) <= 500
    second = plan(problem, budget=1200, out=tmp_path, resume=True)
    assert (
        second.queries + second.rechecked_queries == sum(calls) and second.rechecked_queries == 8 + REPEATED
    )
    assert second.queries <= 1200


# What it reaches: fixed seeds, so nothing here can fail by chance.


@pytest.mark.parametrize(
    ("name", "noise", "budget", "queries", "asked"),
    [
        ("random-linear", "independent", 800, 800, 0.001),
        ("random-linear", "auto", 800, 768 + REPEATED, 0.001),
        ("river-linear", "auto", 2_000, 2_000, 0.001),
        ("river-linear:L=15,discount=0.99", "independent", 4_500, 4_500, 0.002),
        ("river-linear:L=15,discount=0.99", "auto", 4_500, 4_500, 0.0005),
        ("inventory", "auto", 8_000, 8_000, 0.003),
    ],
)
def test_few_queries_are_enough(name, noise, budget, queries, asked):
    problem = coreplan.make(name)
    runs = [
        plan(problem, planner=PlugIn(noise=noise), budget=budget, seed=s)
        for s in range(5 if name == "inventory" else 10)
    ]
    assert {run.queries for run in runs} == {queries}
    assert {run.status for run in runs} == {Status.FINISHED}
    judged, table = coreplan.evaluate(problem, runs[0].policy), problem.tabular()
    values = [policy_value(table, run.policy, problem.discount) for run in runs]
    assert (judged.optimum - np.mean(values)) / (judged.optimum - judged.uniform) <= asked
    again = plan(problem, planner=PlugIn(noise=noise), budget=budget, seed=0)
    assert again.policy.theta.tobytes() == runs[0].policy.theta.tobytes()


# Settings.


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"samples": 0}, "at least 1"),
        ({"noise": "pink"}, "one of auto, sobol, independent; got 'pink'"),
        ({"output": "last"}, "'greedy' or a positive scale"),
        ({"output": -1.0}, "positive"),
        ({"ridge": -1}, "at least 0"),
    ],
)
def test_settings(settings, words):
    with pytest.raises(InputError, match=words):
        PlugIn(**settings)
    with pytest.raises(InputError, match="function of its noise"):
        plan(own(), planner=PlugIn(noise="sobol"), budget=100)
    with pytest.raises(InputError, match="each of the 12 core pairs 20 times"):
        plan(own(), planner=PlugIn(samples=20), budget=100)


# Doubts.


def test_few_samples_are_doubtful_where_there_is_chance():
    problem = coreplan.make("river-swim")
    for budget, status in ((12, "doubtful"), (60, "doubtful"), (8 * 12 + REPEATED, "finished")):
        run = plan(problem, planner=PlugIn(noise="independent"), budget=budget)
        assert run.status.value == status and ("chance" in run.reason) == (status == "doubtful")
    assert plan(problem, planner=PlugIn(samples=1), budget=60).status is Status.FINISHED
    certain = FunctionModel(2, problem.model.initial, lambda rng, x, a: (np.full(len(x), 0.5), (x + a) % 6))
    run = plan(dataclasses.replace(problem, model=certain, tabular=None), budget=24)
    assert run.status is Status.FINISHED


def turned(problem, T):
    """The same problem with features phi T, and the core set as it was."""
    features = FunctionFeatures(lambda x: problem.features(x) @ T, problem.n_actions, T.shape[1], 100.0)
    return dataclasses.replace(problem, features=features)


def test_gaps_are_noticed_in_general_features_too():
    base = coreplan.make("random-linear")
    problem = turned(base, np.random.default_rng(0).standard_normal((8, 8)))
    full = CoreSet.of(problem)
    good = plan(problem, full, budget=800)
    assert good.status is Status.FINISHED
    assert coreplan.evaluate(problem, good.policy).sub < 0.001
    short = plan(problem, CoreSet(full.states[:5], full.actions[:5]), budget=800)
    assert short.status in (Status.DOUBTFUL, Status.DIVERGED)
    assert np.isfinite(short.policy.theta).all()


def test_more_core_pairs_than_features():
    """A core of 60 random pairs beside the 8 corners: least squares instead of a basis, and no worse."""
    base = coreplan.make("random-linear")
    states, actions = base.core_pairs
    rng = np.random.default_rng(1)
    pairs = rng.permutation(800)[:60]
    core = CoreSet.distinct(
        np.concatenate([states, pairs // 4]), np.concatenate([actions, pairs % 4]).astype(np.int64)
    )
    run = plan(base, core, budget=30 * len(core))
    assert run.status is Status.FINISHED
    assert coreplan.evaluate(base, run.policy).sub < 0.01


def test_what_does_not_settle_is_said_to_be_so(monkeypatch):
    """Features that double from state to state (Tsitsiklis & Van Roy 1996): theta would grow without bound."""
    phi = np.array([[[1.0], [0.5]], [[2.0], [1.0]]])
    model = FunctionModel(
        2,
        lambda rng, n: np.zeros(n, dtype=int),
        lambda rng, x, a: (np.full(len(x), 0.5), np.ones(len(x), dtype=int)),
    )
    problem = Problem(
        model, FunctionFeatures(lambda x: phi[x], 2, 1, 2.0), 0.95, core_pairs=(np.array([0]), np.array([0]))
    )
    bounded = plan(problem, budget=32)  # the clipping holds it, at values that mean nothing
    assert bounded.status is Status.DOUBTFUL and np.isfinite(bounded.policy.theta).all()
    assert abs(bounded.policy.theta[0]) <= 20.0
    monkeypatch.setattr(bellman, "SWEEPS", 2)
    stopped = plan(problem, budget=32)
    assert stopped.status is Status.DIVERGED and "did not settle" in stopped.reason
    assert np.isfinite(stopped.policy.theta).all()
