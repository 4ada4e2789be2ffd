"""CoreMirror: every iterate against a naive loop, whole sweeps, resumes, and doubts where they are few."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import coreplan
from coreplan import CoreMirror, CoreSet, Status
from coreplan.base import planner_stream
from coreplan.core import frame
from coreplan.features import dense
from coreplan.planners import CoreSetup
from coreplan.planners.core_mirror import kernels as core_mirror_kernels
from coreplan.planners.core_mirror import planner as core_mirror
from coreplan.problem import available, from_pairs
from coreplan.run import Interrupt, PythonLoop, make_loop
from coreplan.simulate import Ask, Simulator
from coreplan.theory import Enumerated, occupancy
from helpers.mutants import mutant
from helpers.runs import plan

SPECS = ["random-linear", "river-linear:L=4,states=40"]


def loop_for(problem, *, python=True, seed=0, core=None, **settings):
    core = core or CoreSet.of(problem)
    setup = CoreSetup.with_core(problem, core, 10**9)
    planner = CoreMirror(**settings).resolve(setup)
    simulator, rng = Simulator(problem, core, seed), planner_stream(seed)
    return PythonLoop(planner, simulator, rng) if python else make_loop(planner, simulator, rng)


def dense_phi(phi, d):
    """`[n, A, d]`"""
    if isinstance(phi, np.ndarray):
        return phi
    n, A, _ = phi.weight.shape
    return dense(type(phi)(*(x.reshape(n * A, -1) for x in phi)), d).reshape(n, A, d)


def naive(problem, T, beta=None, seed=0):
    """theta_1..theta_T in NumPy, from the formulas, on the simulator's own answers (even allocation, coefficients <= 1)."""
    core = CoreSet.of(problem)
    simulator, d, gamma = Simulator(problem, core, seed), problem.features.dimension, problem.discount
    Phi, H = dense(core.features(problem.features), d), 1 / (1 - problem.discount)
    theta, thetas = np.zeros(d), []
    for t in range(1, T + 1):
        answers = simulator.answer(Ask(core_index=np.arange(len(core)), n_initial=1, sweep=t - 1))
        phi, allowed = dense_phi(answers.next_features, d), available(answers.next_features)
        k = np.arange(1, t)
        if beta is not None:
            logits = beta * (phi @ np.sum(thetas, axis=0)) if thetas else np.zeros(phi.shape[:2])
            p = np.where(
                allowed, np.exp(logits - np.where(allowed, logits, -np.inf).max(1, keepdims=True)), 0.0
            )
            p /= p.sum(1, keepdims=True)
            V = np.clip((p * np.where(allowed, phi @ theta, 0.0)).sum(1), 0, H)
        elif thetas:  # W_t - W_{t-1} over the weight t - 1, with W the largest weighted sum
            W = [
                np.where(allowed, phi @ (k[: len(s)] @ s), -np.inf).max(1) if len(s) else np.zeros(len(phi))
                for s in (np.array(thetas), np.array(thetas[:-1]))
            ]
            V = (W[0] - W[1]) / (t - 1)
        else:
            V = np.zeros(len(phi))
        target = np.linalg.lstsq(Phi, answers.rewards + gamma * V, rcond=1e-10)[0]
        step = 1.0 if beta is not None else min(1.0, math.sqrt(H / t))
        theta = theta + step * (target - theta)
        thetas.append(theta)
    return np.array(thetas)


def difference(problem, T=40, **settings):
    loop, want, worst = loop_for(problem, **settings), naive(problem, T, settings.get("beta")), 0.0
    for theta in want:
        loop.advance(loop.simulator.queries + 1, 10**9, Interrupt())
        worst = max(worst, float(np.abs(loop.state.theta - theta).max()))
    return worst


@pytest.mark.parametrize("beta", [None, 0.3])
@pytest.mark.parametrize("spec", SPECS)
def test_every_iterate_equals_the_naive_loop(spec, beta):
    assert difference(coreplan.make(spec), beta=beta) < 1e-9


FAULTS = {
    "discount dropped": ("rewards[i] + hyper.gamma * V", "rewards[i] + V"),
    "equal weights": ("weight = 2.0 / (t + 1.0)", "weight = 1.0 / t"),
    "no smaller steps": ("    return min(most, np.sqrt(", "    return max(most, np.sqrt("),
    "half the sum": ("S = 0.5 * t * value", "S = 0.25 * t * value"),
    "the last theta twice": ("S - value(phi, i, a, theta)", "S - 2.0 * value(phi, i, a, theta)"),
    "greedy value": ("return now - before", "return now"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_naive_loop_notices(fault, tmp_path, monkeypatch):
    monkeypatch.setattr(
        core_mirror, "kernels", mutant(core_mirror_kernels, *FAULTS[fault], tmp_path, monkeypatch)
    )
    assert difference(coreplan.make("random-linear")) > 1e-6


@pytest.mark.parametrize(
    "settings", [{}, {"beta": 0.1, "output": "random"}, {"allocation": "occupancy"}], ids=str
)
@pytest.mark.parametrize("spec", SPECS)
def test_compiled_and_python_loops_give_the_same_bits(spec, settings):
    problem = coreplan.make(spec)
    loops = [loop_for(problem, python=python, **settings) for python in (True, False)]
    for loop in loops:
        while loop.simulator.queries < 8 * 100:
            loop.advance(8 * 100, 10**9, Interrupt())
    for x, y in zip(loops[0].state, loops[1].state, strict=True):
        assert x.tobytes() == y.tobytes()
    assert loops[0].simulator.mark() == loops[1].simulator.mark()


def mixed(problem, M):
    """The same problem with features Phi M: an invertible M changes theta, and nothing else."""
    d = problem.features.dimension
    features = coreplan.FunctionFeatures(lambda x: problem.features(x) @ M, problem.n_actions, d, 100.0)
    return dataclasses.replace(problem, features=features, name="mixed")


def test_a_change_of_coordinates_changes_nothing():
    """pinv(Phi~) against unit vectors: the values of theta at every pair agree, and so do the coefficients watched."""
    problem = coreplan.make("random-linear:compiled=false")
    M = np.random.default_rng(0).normal(size=(8, 8))
    a, b = (loop_for(p, seed=3) for p in (problem, mixed(problem, M)))
    for loop in (a, b):
        while loop.simulator.queries < 8 * 60:
            loop.advance(8 * 60, 10**9, Interrupt())
    np.testing.assert_allclose(M @ b.state.theta, a.state.theta, atol=1e-9)
    np.testing.assert_allclose(M @ b.state.mean, a.state.mean, atol=1e-9)
    assert b.state.seen[0] == pytest.approx(1.0, abs=1e-9)
    assert b.planner.verdict(b.state) is None
    policies = [loop.planner.policy(loop.state) for loop in (a, b)]
    assert policies[0].scale == pytest.approx(policies[1].scale, rel=1e-9)


def test_the_required_accuracy_with_the_default_setting():
    """Mean over seeds 0 to 9; benchmarks/core_mirror.py has the larger problems."""
    for spec, budget, target in (("random-linear", 1_500, 0.001), ("river-linear", 7_000, 0.001)):
        problem, subs = coreplan.make(spec), []
        for seed in range(10):
            result = plan(problem, planner=CoreMirror(), budget=budget, seed=seed)
            judged = coreplan.evaluate(problem, result.policy)
            subs.append(judged.gap / (judged.optimum - judged.uniform))
            assert result.status is Status.FINISHED and result.reason == ""
        assert np.mean(subs) <= target


# Rewards and values.


def test_the_scale_of_rewards_does_not_matter():
    base = coreplan.make("random-linear:compiled=false")

    def step(rng, states, actions):
        rewards, y = base.model.step(rng, states, actions)
        return 1024.0 * rewards - 512.0, y

    model = coreplan.FunctionModel(4, base.model.initial, step)
    other = dataclasses.replace(base, model=model, reward_range=(-512.0, 512.0), tabular=None, name="mine")
    a, b = (plan(p, planner=CoreMirror(), budget=800, seed=1).policy for p in (base, other))
    np.testing.assert_allclose(a.theta, b.theta, atol=1e-9)


def test_equal_values_give_a_uniform_policy_and_no_nan():
    """Rewards of zero: the span is zero for ever."""
    base = coreplan.make("random-linear:compiled=false")

    def step(rng, states, actions):
        return np.zeros(len(states)), base.model.step(rng, states, actions)[1]

    model = coreplan.FunctionModel(4, base.model.initial, step)
    result = plan(
        dataclasses.replace(base, model=model, tabular=None, name="mine"), planner=CoreMirror(), budget=800
    )
    np.testing.assert_allclose(result.policy.probabilities(np.arange(5)), 0.25)


@pytest.mark.parametrize("settings", [{}, {"allocation": "occupancy"}], ids=str)
def test_masks_are_respected(settings):
    rng = np.random.default_rng(0)
    allowed = np.array([[True, False, True], [False, True, False], [True, True, True]])
    P, r = rng.dirichlet(np.ones(3), size=(3, 3)), rng.random((3, 3))
    x, a = np.nonzero(allowed)
    problem = from_pairs(r[x, a], P[x, a], 0.8, x, a)
    result = plan(problem, planner=CoreMirror(**settings), budget=7 * 400, seed=2)
    p = result.policy.probabilities(np.arange(3))
    assert (p[~allowed] == 0).all() and np.isfinite(p).all()
    judged = coreplan.evaluate(problem, result.policy)
    assert judged.gap < 0.01 * judged.optimum


# Doubts.


def test_fewer_sweeps_than_the_horizon_are_doubtful():
    result = plan(coreplan.make("river-linear"), planner=CoreMirror(), budget=20 * 15)
    assert (
        result.status is Status.DOUBTFUL and "15 sweeps" in result.reason and "400 queries" in result.reason
    )


def test_large_coefficients_shorten_the_step():
    planner = loop_for(coreplan.make("random-linear")).planner
    state = planner.init(planner_stream(0))
    for seen, want in ((1.0, 1.0), (4.0, 1.0), (40.0, 0.1)):
        state.seen[0] = seen
        assert core_mirror_kernels.step_of(1, state, planner._hyper) == pytest.approx(want)


# Queries: whole sweeps, allocation, resumes.


def test_whole_sweeps_and_read_outs():
    problem = coreplan.make("random-linear")
    runs = {o: plan(problem, planner=CoreMirror(output=o), budget=807, seed=2) for o in ("softmax", "greedy")}
    assert all(r.queries == 800 and r.initial_draws == 100 for r in runs.values())
    assert runs["greedy"].policy.scale == math.inf and runs["softmax"].policy.scale > 1e4
    np.testing.assert_array_equal(runs["greedy"].policy.theta, runs["softmax"].policy.theta)
    kept = plan(problem, planner=CoreMirror(beta=0.1, output="random"), budget=800, seed=2).policy
    sums = np.vstack([np.zeros(8), np.cumsum(naive(problem, 99, beta=0.1, seed=2), axis=0)])
    assert np.abs(sums - kept.theta).max(axis=1).min() < 1e-9 and kept.scale == 0.1


def test_allocation_has_the_stated_mean():
    """Systematic rounding over a grid of uniforms: the mean number of queries of pair j is 1 - k + k m lam_j."""
    loop = loop_for(coreplan.make("random-linear"), allocation="occupancy")
    lam = np.random.default_rng(0).dirichlet(np.ones(8))
    loop.state.mean_lam[:], loop.state.sweeps[0] = lam, 10**6
    counts, core_index, N = np.zeros(8), np.empty(8, dtype=np.int64), 20_000
    for u in (np.arange(N) + 0.5) / N:
        core_mirror_kernels.ask(np.array([u]), loop.state, loop.planner._hyper, core_index)
        counts += np.bincount(core_index, minlength=8)
    np.testing.assert_allclose(counts / N, 0.5 + 0.5 * 8 * lam, atol=1e-3)


def test_occupancy_is_learned():
    """lam-bar against the exact core occupancy B' mu of the last policy; 3,000 sweeps leave 0.02 at most (seeded)."""
    problem = coreplan.make("random-linear")
    loop = loop_for(problem, python=False, allocation="occupancy")
    while loop.simulator.queries < 24_000:
        loop.advance(24_000, 10**9, Interrupt())
    e = Enumerated.of(problem)
    want = e.Phi.T @ occupancy(e, e.softmax(*loop.planner.policy(loop.state)))
    np.testing.assert_allclose(loop.state.mean_lam, want, atol=0.02)


@pytest.mark.parametrize(
    "settings", [{}, {"allocation": "occupancy"}, {"beta": 0.1, "output": "random"}], ids=str
)
def test_faults_and_raised_budgets_resume_to_the_last_bit(tmp_path, settings):
    base = coreplan.make("random-linear:compiled=false")
    calls = {"n": 0}

    def step(rng, states, actions):
        calls["n"] += 1
        if calls["n"] == 30:
            raise RuntimeError("out of memory")
        return base.model.step(rng, states, actions)

    model = coreplan.FunctionModel(4, base.model.initial, step)
    problem = dataclasses.replace(base, model=model)
    whole = plan(base, planner=CoreMirror(**settings), budget=800, seed=6)
    with pytest.raises(coreplan.SimulatorError):
        plan(problem, planner=CoreMirror(**settings), budget=400, seed=6, out=tmp_path)
    plan(problem, planner=CoreMirror(**settings), budget=400, seed=6, out=tmp_path, resume=True)
    again = plan(problem, planner=CoreMirror(**settings), budget=800, seed=6, out=tmp_path, resume=True)
    assert again.policy.theta.tobytes() == whole.policy.theta.tobytes()
    assert (again.policy.scale, again.queries) == (whole.policy.scale, whole.queries)


# Bad input.


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"output": "last"}, "softmax, greedy, random"),
        ({"output": "random"}, "give `beta` too"),
        ({"beta": 0.0}, "beta"),
        ({"step": 1.5}, "at most 1"),
        ({"step": float("nan")}, "step"),
        ({"allocation": "smart"}, "even, occupancy"),
    ],
)
def test_bad_settings(settings, words):
    with pytest.raises(coreplan.InputError, match=words):
        CoreMirror(**settings)


def test_bad_runs(monkeypatch):
    problem = coreplan.make("random-linear:compiled=false")
    with pytest.raises(coreplan.InputError, match="below m = 8, one sweep"):
        plan(problem, planner=CoreMirror(), budget=7)
    monkeypatch.setattr(frame, "LARGEST", 10)
    with pytest.raises(coreplan.InputError, match="too large"):
        plan(mixed(problem, np.eye(8) + 0.1), planner=CoreMirror(), budget=80)


def test_one_step_of_the_occupancy():
    """lam' = pinv(Phi~)' [(1-gamma) f0 + gamma sum_j lam_j f(y_j)], f the policy's mean features, made a distribution."""
    problem = coreplan.make("random-linear")
    loop, rng = loop_for(problem, allocation="occupancy"), np.random.default_rng(3)
    state, hyper, m, d = loop.state, loop.planner._hyper, 8, problem.features.dimension
    state.mean[:], state.lam[:], before = rng.normal(size=d), rng.dirichlet(np.ones(m)), state.mean_lam.copy()
    lam, index, b = (
        state.lam.copy(),
        np.append(np.arange(m - 1), 0),
        1.5,
    )  # pair 0 twice, the last one not at all
    scratch = loop.planner._scratch()
    scratch.number[:], scratch.p[:] = np.bincount(index, minlength=m), np.nan
    start, after = rng.dirichlet(np.ones(d), (3, 4)), rng.dirichlet(np.ones(d), (m, 4))  # [n, A, d]

    def mean(phi):
        p = np.exp(b * phi @ state.mean)
        return ((p / p.sum(axis=1, keepdims=True))[..., None] * phi).sum(axis=1)

    weight = lam[index] / np.bincount(index)[index] / lam[:-1].sum()
    f = (1 - problem.discount) * mean(start).mean(axis=0) + problem.discount * weight @ mean(after)
    core_mirror_kernels.follow(4, b, state, hyper, index, start, after, scratch)
    want = np.maximum(np.linalg.pinv(dense(CoreSet.of(problem).features(problem.features), d)).T @ f, 0.0)
    np.testing.assert_allclose(state.lam, want / want.sum(), atol=1e-12)
    np.testing.assert_allclose(state.mean_lam, before + 0.4 * (state.lam - before), atol=1e-12)


def test_even_allocation_follows_no_occupancy():
    loop = loop_for(coreplan.make("random-linear"))
    before = loop.state.lam.copy()
    while loop.simulator.queries < 24:
        loop.advance(24, 10**9, Interrupt())
    assert (loop.state.lam == before).all()
