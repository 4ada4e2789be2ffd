"""PlugIn: the solver against a naive one, quasi-random noise, the stopping rule, faults, resumes and doubts."""

from __future__ import annotations

import dataclasses
import json
import sys

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
from coreplan.cli import main
from coreplan.exact import policy_value
from coreplan.planners import bellman, plug_in
from coreplan.planners.base import Setup
from coreplan.planners.halving import Accuracy, before, half_weights, losses
from coreplan.planners.noise import sobol
from coreplan.problem import Sparse
from coreplan.problem.features import UNAVAILABLE
from coreplan.problem.guard import REPEATED
from mutants import mutant


def toy(seed=0, m=6, N=5, A=3, k=2, gamma=0.9, module=bellman):
    """A random sampled model whose features are convex combinations of unit vectors."""
    rng = np.random.default_rng(seed)
    index = rng.permuted(np.broadcast_to(np.arange(m), (N * m, A, m)), axis=-1)[:, :, :k]
    weight = rng.dirichlet(np.ones(k), size=(N * m, A))
    initial = module.Sparse(index[:4], weight[:4])
    return module.Sampled(Sparse(np.ascontiguousarray(index), weight), rng.random(m), initial, gamma)


def naive(sampled, w, R, sweeps=600):
    """q by plain value iteration, in NumPy."""
    m = len(sampled.r)
    q = np.zeros(m)
    for _ in range(sweeps):
        theta = R @ q
        scores = (sampled.phi.weight * theta[sampled.phi.index]).sum(axis=2)  # [n, A]
        scores = np.where(sampled.phi.weight[:, :, 0] == UNAVAILABLE, -np.inf, scores)
        V = np.clip(scores.max(axis=1), 0, 1 / (1 - sampled.discount))
        q = sampled.r + sampled.discount * (w * V).reshape(-1, m).sum(axis=0)
    return q


def agrees(module):
    """Whether a module's solver and evaluation give what a naive solver gives."""
    for seed in range(3):
        sampled = toy(seed, module=module)
        w = np.random.default_rng(seed).dirichlet(np.ones(5), size=6).T.ravel()
        through = module.Through(np.eye(6), 6)
        solution = sampled.solve(through, w)
        q = naive(sampled, w, np.eye(6))
        if not solution.settled or not np.allclose(solution.theta, q, atol=1e-9):
            return False
        iterated = sampled._iterate(through, w, 1e-10)
        if not np.allclose(iterated.theta, q, atol=1e-7):
            return False
    return True


def test_the_solver_agrees_with_naive_value_iteration():
    assert agrees(bellman)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if s > top:", "if s < top:"),
        (
            "            if at >= 0:\n                F[n % m, at] += w[n] * phi.weight[n, a, i]",
            "            pass",
        ),
        ("q[n % m] += w[n] * min", "q[n % m] += min"),
        ("new = self.r + self.discount * new", "new = self.r + new"),
    ],
)
def test_the_comparison_notices_faults(old, new, tmp_path, monkeypatch):
    assert not agrees(mutant(bellman, old, new, tmp_path, monkeypatch))


def test_a_core_that_is_no_identity_gives_the_same_values():
    sampled = toy(3)
    plain = sampled.solve(bellman.Through(np.eye(6), 6), sampled.equal())
    T = np.random.default_rng(1).standard_normal((6, 6))
    dense = (sampled.phi.weight[..., None] * T[sampled.phi.index]).sum(axis=2)  # [n, A, 6]: phi T
    turned = bellman.Sampled(bellman.as_rows(dense), sampled.r, bellman.as_rows(dense[:4]), 0.9)
    through = bellman.Through(T, 6)
    solution = turned.solve(through, turned.equal())
    np.testing.assert_allclose(T @ solution.theta, plain.theta, atol=1e-8)
    order = np.random.default_rng(2).permutation(6)  # unit vectors in another order
    shuffled = bellman.Sampled(sampled.phi, sampled.r, sampled.initial, 0.9)
    columns = bellman.Through(np.eye(6)[order], 6)
    np.testing.assert_array_equal(columns.columns, order)
    np.testing.assert_allclose(
        shuffled.solve(columns, sampled.equal()).theta,
        naive(sampled, sampled.equal(), np.eye(6)[order].T)[np.argsort(order)],
        atol=1e-9,
    )


def test_large_systems_are_iterated_to_the_same_solution(monkeypatch):
    sampled = toy(4, m=150, N=3)
    through = bellman.Through(np.eye(150), 150)
    one = sampled.solve(through, sampled.equal())
    uniform = sampled.value(through, sampled.equal(), None, None)
    monkeypatch.setattr(bellman, "LARGE", 10)
    two = sampled.solve(through, sampled.equal())
    assert sampled.value(through, sampled.equal(), None, None) == pytest.approx(uniform, abs=1e-9)
    monkeypatch.setattr(bellman, "FACTORED", 1000)
    monkeypatch.setattr(bellman, "LARGE", 10**9)
    three = sampled.solve(through, sampled.equal())
    np.testing.assert_allclose(one.theta, three.theta, atol=1e-8)
    np.testing.assert_allclose(two.theta, three.theta, atol=1e-8)


def test_forbidden_actions_are_never_chosen():
    sampled = toy(5)
    without = bellman.Sampled(
        Sparse(sampled.phi.index[:, 1:].copy(), sampled.phi.weight[:, 1:].copy()),
        sampled.r,
        sampled.initial,
        0.9,
    )
    sampled.phi.weight[:, 0, 0] = UNAVAILABLE
    through = bellman.Through(np.eye(6), 6)
    a, b = (s.solve(through, s.equal()) for s in (sampled, without))
    np.testing.assert_allclose(a.theta, b.theta, atol=1e-9)
    assert (a.choice == b.choice + 1).all()
    assert np.isfinite(sampled.value(through, sampled.equal(), None, None))  # uniform over what is open


def test_the_value_of_a_policy_in_the_sampled_model():
    """Against the occupancy of the sampled chain, solved as (I - gamma F')^-1."""
    sampled, through = toy(6), bellman.Through(np.eye(6), 6)
    w = sampled.equal()
    solution = sampled.solve(through, w)
    F = np.zeros((6, 6))
    for n, a in enumerate(solution.choice):
        np.add.at(F[n % 6], sampled.phi.index[n, a], w[n] * sampled.phi.weight[n, a])
    f0 = np.zeros(6)
    for n in range(4):
        scores = (sampled.phi.weight[n] * solution.theta[sampled.phi.index[n]]).sum(axis=1)
        np.add.at(f0, sampled.phi.index[n, scores.argmax()], sampled.phi.weight[n, scores.argmax()] / 4)
    occupancy = np.linalg.solve(np.eye(6) - 0.9 * F.T, 0.1 * f0)
    assert sampled.value(through, w, solution.theta, solution.choice) == pytest.approx(occupancy @ sampled.r)
    assert sampled.value(through, w, None, None) < occupancy @ sampled.r


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


# The stopping rule.


@pytest.mark.parametrize(
    ("wish", "target"), [(0.02, 0.02), ("0.02", 0.02), ("5%", 0.05 * 0.5), (" 5 % ", 0.05 * 0.5)]
)
def test_accuracies(wish, target):
    assert Accuracy.of(wish).target(0.5) == pytest.approx(target)
    assert PlugIn(epsilon=wish).settings()["epsilon"] in (0.02, "5%")  # one spelling: a resume compares them
    assert Accuracy.of(None) is None


@pytest.mark.parametrize("wish", [0, -1, 1.0, "100%", "x", True, "nan", "%", [1]])
def test_accuracies_that_are_none(wish):
    with pytest.raises(InputError, match="accuracy"):
        PlugIn(epsilon=wish)


@pytest.mark.parametrize("N", [8, 12, 16, 20, 28, 96])
@pytest.mark.parametrize("shared", [False, True])
def test_halves(shared, N):
    halves = [w.reshape(N, 5) for w in half_weights(np.random.default_rng(0), N, 5, shared)]
    assert len(halves) == (4 if shared else 8)
    one, two, three, four = (w > 0 for w in halves[:4])
    for w in halves:
        np.testing.assert_allclose(w.sum(axis=0), 1.0)
        np.testing.assert_allclose(w[w > 0], 2 / N)
    assert (one != two).all() and (three != four).all()
    assert (np.abs((one & three).sum(axis=0) - N / 4) <= max(1, N / 12)).all()  # the splits cross
    assert (one == one[:, :1]).all() == shared
    if shared and N in (12, 16, 96):  # quarters or sixths stay together
        for w in (one, three):
            assert (
                w.reshape(4 if N == 16 else 6, -1, 5) == w.reshape(4 if N == 16 else 6, -1, 5)[:, :1]
            ).all()


def test_sizes():
    """Doubling with a budget; towards an accuracy a step between; the cap at the end, whatever was solved before."""
    problem = coreplan.make("river-linear")
    setup = Setup.of(problem, CoreSet.of(problem), 2000)
    for planner, sizes in (
        (PlugIn(noise="independent"), [16, 32, 64, 100]),
        (PlugIn(noise="independent", epsilon=0.01), [16, 24, 32, 48, 64, 96, 100]),
        (PlugIn(samples=20, epsilon=0.01), [8, 12, 16, 20]),
    ):
        resolved = planner.resolve(setup)
        assert [resolved._target(N) for N in [0, *sizes[:-1]]] == sizes
        assert resolved._target(13) == min(16, sizes[-1])
    assert [before(N) for N in (8, 12, 16, 24, 20, 25)] == [6, 8, 12, 16, 16, 24]


def test_halves_see_noisy_rewards():
    """Two actions that differ by .1 in reward only: at once if it is certain, later if it is drawn (deviation .5)."""
    phi = np.eye(2)[None]  # one state, two actions
    needed = []
    for drawn in (False, True):

        def step(rng, x, a, drawn=drawn):
            mean = 0.45 + 0.1 * a
            return (rng.random(len(x)) < mean) * 1.0 if drawn else mean, np.zeros(len(x), dtype=int)

        model = FunctionModel(2, lambda rng, n: np.zeros(n, dtype=int), step)
        problem = Problem(model, FunctionFeatures(lambda x: phi[x], 2, 2, 1.0), 0.5)
        core = CoreSet(np.zeros(2, dtype=int), np.arange(2))
        needed.append(np.mean([plan(problem, core, epsilon="10%", seed=s).queries / 2 for s in range(20)]))
    assert needed[0] == 16 and needed[1] > 50


def test_half_samples_tell_the_loss():
    """Mean over 20 fixed seeds: what halves tell and the true loss agree within a factor of 2 (of 100 others: 1.02)."""
    problem = coreplan.make("river-linear")
    truth, told = [], []
    for seed in range(20):
        run = plan(problem, planner=PlugIn(samples=32, noise="independent"), budget=1000, seed=seed)
        s = run.stored
        order = np.arange(640).reshape(20, 32).T.ravel()
        next_phi = Sparse(s.next_features.index[order], s.next_features.weight[order])
        sampled = bellman.Sampled(next_phi, s.rewards, s.initial_features, 0.95)
        through = bellman.Through(s.core_features, 20)
        solution = sampled.solve(through, sampled.equal())
        np.testing.assert_allclose(solution.theta, run.policy.theta, atol=1e-9)
        rewards = np.broadcast_to(s.rewards, (32, 20))
        lost, scale = losses(sampled, through, solution, rewards, np.random.default_rng(seed), False)
        assert (lost >= -1e-9).all()  # nothing beats the optimum of the model it is measured in
        truth.append(coreplan.evaluate(problem, run.policy).sub)
        told.append(lost.mean() / scale)
    assert 0.5 < np.mean(told) / np.mean(truth) < 2.0


def test_an_accuracy_instead_of_a_budget():
    problem = coreplan.make("river-linear")
    run = plan(problem, epsilon="1%")
    assert run.planner.name == "plug-in" and run.status is Status.FINISHED
    assert "statistical error only" in run.reason
    assert (
        run.queries - REPEATED in (480, 640, 960, 1280, 1920)
        and coreplan.evaluate(problem, run.policy).sub <= 0.01
    )
    short = plan(problem, epsilon=1e-6, budget=1000)
    assert short.status is Status.NOT_REACHED and "Raise the budget above 1,000" in short.reason
    assert coreplan.evaluate(problem, short.policy).sub < 0.05  # the best found all the same
    tiny = plan(problem, epsilon=0.1, budget=100)
    assert tiny.status is Status.NOT_REACHED and f"raise the budget to {160 + REPEATED}" in tiny.reason
    assert plan(problem, epsilon=0.1, budget=160 + REPEATED).status is Status.FINISHED  # that is enough
    few, fixed = (plan(problem, planner=PlugIn(samples=n, epsilon=1e-6), budget=1000) for n in (4, 20))
    assert "raise `samples` to 8" in few.reason and "Raise `samples` above 20" in fixed.reason
    with pytest.raises(InputError, match="the queries to spend at most, or epsilon"):
        plan(problem)
    with pytest.raises(InputError, match="takes a budget and no epsilon"):
        plan(problem, planner=coreplan.PrimalDual(K=5), epsilon=0.1)


@pytest.mark.parametrize("epsilon", [0.5, "99%"])
@pytest.mark.parametrize("without", ["all", "uniform"])
def test_an_accuracy_that_cannot_be_estimated_is_not_reached(monkeypatch, epsilon, without):
    """Systems that have no solution give nan, which is no small number, and the budget is not what is missing."""
    value = bellman.Sampled.value

    def no_value(self, through, w, theta, choice):
        return np.nan if without == "all" or theta is None else value(self, through, w, theta, choice)

    monkeypatch.setattr(bellman.Sampled, "value", no_value)
    run = plan(coreplan.make("river-linear"), epsilon=epsilon, budget=400)
    if without == "uniform" and epsilon == 0.5:  # an accuracy in values needs no comparison with uniform
        assert run.status is Status.FINISHED
        return
    assert run.status is Status.NOT_REACHED and run.queries == 320 + REPEATED
    assert "cannot be estimated" in run.reason and "nan" not in run.reason


def test_the_command_line_plans_by_default(monkeypatch, capsys):
    def record(*arguments):
        monkeypatch.setattr(sys, "argv", ["coreplan", "plan", *arguments, "--json"])
        with pytest.raises(SystemExit):
            main()
        return json.loads(capsys.readouterr().out)

    default, loose = record("river-swim"), record("river-swim", "--epsilon", "0.1")
    assert default["planner"] == loose["planner"] == "plug-in"
    assert default["sub"] < 0.01 and default["queries"] == 96 + REPEATED and default["status"] == "finished"
    assert record("river-swim", "--epsilon", "0.00001%", "--budget", "50")["status"] == "accuracy not reached"
    assert record("river-linear", "--budget", "2000", "--set", "noise=independent")["queries"] == 2000


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


def test_samples_that_show_nothing_are_not_believed_at_once():
    """With seed 1 all actions of `hard-linear` look alike on 8 shared points, and 70% would be lost; where they are alike in
    truth, a run ends all the same."""
    problem = coreplan.make("hard-linear")
    run = plan(problem, planner=PlugIn(noise="sobol"), epsilon="1%", seed=1)
    assert run.queries > 8 * 11 + REPEATED and coreplan.evaluate(problem, run.policy).sub < 0.02
    base = coreplan.make("river-swim")
    alike = dataclasses.replace(
        base,
        model=FunctionModel(2, base.model.initial, lambda rng, x, a: (np.full(len(x), 0.5), x)),
        tabular=None,
    )
    run = plan(alike, epsilon="1%")
    assert run.status is Status.FINISHED and run.queries == plug_in.BLIND * 12
    short = plan(alike, epsilon="1%", budget=1000)
    assert short.status is Status.NOT_REACHED and "no policy from the uniform one" in short.reason


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
