"""PlugIn: quasi-random noise, what few queries reach, faults, resumes, memory and doubts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import coreplan
from coreplan import (
    CoreSet,
    FunctionFeatures,
    FunctionModel,
    InputError,
    PlugIn,
    Problem,
    SimulatorError,
    Status,
    plan,
)
from coreplan.judge import policy_value
from coreplan.planners import Setup, plug_in
from coreplan.sampled import Accuracy, sobol
from coreplan.sampled import policy_iteration as bellman
from coreplan.simulate import REPEATED

# Noise.


def test_sobol_points_extend_and_are_balanced():
    whole = sobol(7, 3, 0, 64)
    np.testing.assert_array_equal(whole, np.concatenate([sobol(7, 3, 0, 16), sobol(7, 3, 16, 64)]))
    for c in range(3):  # each coordinate has one point in every 64th
        assert sorted((whole[:, c] * 64).astype(int)) == list(range(64))
    assert (sobol(8, 3, 0, 64) != whole).any()


def test_every_core_pair_gets_the_same_noise():
    problem = coreplan.make("inventory")
    setup = Setup.of(problem, CoreSet.of(problem), 8000)
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


# What it reaches: fixed seeds, so nothing here can fail by chance.


@pytest.mark.parametrize(
    ("name", "noise", "budget", "queries", "asked"),
    [
        ("random-linear", "independent", 800, 800, 0.001),
        ("random-linear", "auto", 800, 768, 0.001),
        ("river-linear", "auto", 2_000, 1_920, 0.002),
        ("river-linear:L=15,discount=0.99", "independent", 4_500, 4_500, 0.002),
        ("river-linear:L=15,discount=0.99", "auto", 4_500, 3_840, 0.002),
        ("inventory", "auto", 8_000, 7_056, 0.003),
    ],
)
def test_few_queries_are_enough(name, noise, budget, queries, asked):
    problem = coreplan.make(name)
    runs = [
        plan(problem, planner=PlugIn(noise=noise), budget=budget, seed=s)
        for s in range(5 if name == "inventory" else 10)
    ]
    assert {run.queries for run in runs} == {queries + (REPEATED if noise == "auto" else 0)}
    assert {run.status for run in runs} == {Status.FINISHED}
    judged, table = coreplan.evaluate(problem, runs[0].policy), problem.tabular()
    values = [policy_value(table, run.policy, problem.discount) for run in runs]
    assert (judged.optimum - np.mean(values)) / (judged.optimum - judged.uniform) <= asked
    again = plan(problem, planner=PlugIn(noise=noise), budget=budget, seed=0)
    assert again.policy.theta.tobytes() == runs[0].policy.theta.tobytes()


def test_greedy_or_softmax_and_the_stored_samples():
    problem = coreplan.make("river-swim")
    result = plan(problem, planner=PlugIn(samples=4), budget=1000)
    assert result.queries == 48 + REPEATED and result.policy.scale == np.inf
    stored = result.stored
    assert stored.m == 12 and stored.next_features.index.shape[0] == 48
    left = np.flatnonzero(CoreSet.of(problem).actions == 0)  # "left" is deterministic: pair 2 x goes to x - 1
    for j in left:
        x = max(CoreSet.of(problem).states[j] - 1, 0)
        assert (stored.next_features.index[4 * j : 4 * j + 4, 0, 0] == 2 * x).all()
    soft = plan(problem, planner=PlugIn(samples=4, output=500.0), budget=1000)
    assert soft.policy.scale == 500.0
    np.testing.assert_allclose(soft.policy.theta, 0.05 * result.policy.theta)
    assert soft.policy.theta.max() <= 1.0 + 1e-9  # normalised values


# Faults, folders, memory.


def own(step=None, calls=None):
    """A river in plain NumPy, dense features, without control of its noise."""
    base = coreplan.make("river-swim")
    eye = np.eye(12).reshape(6, 2, 12)

    def counted(rng, states, actions):
        if calls is not None:
            calls.append(len(actions))
        return (step or base.model.step)(rng, states, actions)

    model = FunctionModel(2, base.model.initial, counted)
    features = FunctionFeatures(lambda x: eye[x], 2, 12, 1.0)
    return Problem(model, features, 0.95, core_pairs=base.core_pairs)


@pytest.mark.parametrize("sparse", [False, True])
def test_samples_that_were_paid_for_are_kept(tmp_path, monkeypatch, sparse):
    monkeypatch.setattr(plug_in, "BATCH", 50)
    problem = coreplan.make("river-swim") if sparse else own()
    whole = plan(problem, budget=1200, seed=5)
    assert whole.queries == (1152 + REPEATED if sparse else 1200)
    calls: list[int] = []

    def step(rng, states, actions):
        if len(calls) == 9:
            raise RuntimeError("the licence server is down")
        return coreplan.make("river-swim").model.step(rng, states, actions)

    if not sparse:
        with pytest.raises(SimulatorError, match="licence"):
            plan(own(step, calls), budget=1200, seed=5, out=tmp_path)
        before = sum(calls[:-1])
        calls.clear()
        resumed = plan(own(None, calls), budget=1200, seed=5, out=tmp_path, resume=True)
        assert before + sum(calls) == 1200  # nothing was asked again
    else:
        plan(problem, budget=500, seed=5, out=tmp_path)  # a smaller budget, raised
        resumed = plan(problem, budget=1200, seed=5, out=tmp_path, resume=True)
    assert resumed.policy.theta.tobytes() == whole.policy.theta.tobytes()
    assert resumed.queries == whole.queries


def test_a_resume_towards_an_accuracy_gives_the_same_bits(tmp_path):
    problem = coreplan.make("river-linear")
    whole = plan(problem, epsilon="0.5%", seed=2)
    first = plan(problem, epsilon="0.5%", budget=400, seed=2, out=tmp_path)
    assert first.status is Status.NOT_REACHED
    resumed = plan(problem, epsilon="0.5%", budget=10**7, seed=2, out=tmp_path, resume=True)
    assert resumed.queries == whole.queries > 400 and resumed.status is Status.FINISHED
    assert resumed.policy.theta.tobytes() == whole.policy.theta.tobytes()


def test_a_damaged_state_is_refused():
    problem = coreplan.make("river-linear")
    planner = PlugIn().resolve(Setup.of(problem, CoreSet.of(problem), 400))
    rng = np.random.default_rng(0)
    simulator = coreplan.run.Simulator(problem, CoreSet.of(problem), 0)
    state = planner.init(rng)
    state = planner.tell(state, simulator.answer(planner.ask(state, rng)), rng)
    planner.check(state)
    for damage in (
        {"rewards": state.rewards[:-1]},
        {"next_index": state.next_index + 20},
        {"next_index": state.next_index.astype(np.int64)},
        {"next_weight": state.next_weight[:, :2]},
        {"initial_weight": state.initial_weight[:0]},
        {"counts": np.array([10, 16, 0])},
    ):
        with pytest.raises(ValueError):
            planner.check(state._replace(**damage))


def test_what_does_not_fit_into_memory_is_said_before_the_first_query(monkeypatch):
    calls: list[int] = []
    monkeypatch.setattr(plug_in, "available_memory", lambda: 4e6)
    with pytest.raises(InputError, match="core-mirror"):
        plan(own(calls=calls), budget=10**6)
    assert calls == []
    assert plan(own(), budget=1200).queries == 1200
    short = plan(coreplan.make("river-linear"), epsilon=1e-12)
    assert short.status is Status.NOT_REACHED and "No more samples fit into memory" in short.reason


@pytest.mark.parametrize("fault", [False, True])
def test_a_run_may_move_between_machines(tmp_path, monkeypatch, fault):
    """On a smaller one nothing is asked and what is stored still counts; on a larger one it goes on as ever."""
    monkeypatch.setattr(plug_in, "BATCH", 50)
    monkeypatch.setattr(Accuracy, "target", lambda self, scale: -1.0)  # out of reach
    base = coreplan.make("river-swim")
    calls: list[int] = []

    def step(rng, states, actions):
        if fault and len(calls) == 25:  # between the solves with 64 and 128 samples
            raise RuntimeError("out of memory")
        return base.model.step(rng, states, actions)

    def on(memory, problem):
        monkeypatch.setattr(plug_in, "available_memory", lambda: memory)
        return plan(problem, epsilon=1e-12, budget=3000, seed=4, out=tmp_path, resume=True)

    if fault:
        with pytest.raises(SimulatorError, match="out of memory"):
            on(1e9, own(step, calls))
        stored = sum(calls[:-1])
        assert 64 < stored / 12 < 128
    else:
        first = on(1e6, own())
        stored = first.queries
        assert "No more samples fit into memory" in first.reason and 16 < stored / 12 < 200
    small = on(2.2e5, own())
    assert small.queries == stored and small.status is Status.NOT_REACHED
    assert "No more samples fit into memory" in small.reason
    large = on(1e9, own())
    assert large.queries == 3000
    whole = plan(own(), epsilon=1e-12, budget=3000, seed=4)
    assert large.policy.theta.tobytes() == whole.policy.theta.tobytes()


def test_a_budget_that_does_not_fit_is_refused_by_a_planner_that_has_run(monkeypatch):
    setup = Setup.of(own(), CoreSet.of(own()), 1200)
    monkeypatch.setattr(plug_in, "available_memory", lambda: 2.2e5)
    capped = PlugIn(epsilon=0.1).resolve(setup)
    assert capped._cap == 20 < 1200 // 12
    with pytest.raises(InputError, match="may be used here"):
        dataclasses.replace(capped, epsilon=None).resolve(setup)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"samples": 0}, "at least 1"),
        ({"noise": "pink"}, "'sobol'"),
        ({"output": "last"}, "'greedy' or a positive scale"),
        ({"output": -1.0}, "positive"),
        ({"ridge": -1}, "positive"),
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
    assert second.queries == sum(calls) <= 1200 and second.queries % 12 == REPEATED
