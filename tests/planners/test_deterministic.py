"""PlugIn queries a deterministic simulator once per core pair, and is not taken in by one that is random rarely."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import coreplan
from coreplan import FunctionFeatures, FunctionModel, NoiseModel, PlugIn, Problem, SimulatorError, Status
from coreplan.features import one_hot
from coreplan.planners.plug_in import planner as plug_in
from coreplan.sampled import repeated_pairs, repeats, share_below
from coreplan.simulate import REPEATED
from helpers.mutants import mutant
from helpers.runs import plan

STATES, M = 100, 200  # core pairs: every state with two actions


def ahead(x, a):
    """A ring: action 1 goes on, action 0 stays; every tenth place pays."""
    return (x % 10 == 0) * 1.0, (x + a) % STATES


def ring(step=lambda rng, x, a: ahead(x, a), features=None):
    model = FunctionModel(2, lambda rng, n: rng.integers(STATES, size=n), step)
    pairs = (np.arange(STATES).repeat(2), np.tile([0, 1], STATES))
    return Problem(model, features or one_hot(STATES, 2), 0.9, core_pairs=pairs)


def noisy(chance, where=slice(None), draws=None):
    """The ring with a jump back to 0 by chance, at the pairs `where`; random numbers from `draws`, else the stream."""
    inside = np.zeros(M, dtype=bool)
    inside[where] = True

    def step(rng, x, a):
        rewards, y = ahead(x, a)
        back = (draws or rng).random(len(x)) < chance
        return rewards, np.where(back & inside[2 * x + a], 0, y)

    return ring(step)


def test_one_query_per_pair_and_some_repeats():
    """The policy is that of 16 samples per pair, which are all the same; with a budget the run ends as early."""
    whole = plan(ring(), planner=PlugIn(samples=16), budget=16 * M)
    for wish in ({"epsilon": "1%"}, {"budget": 5100}, {"budget": M + 100}):
        run = plan(ring(), **wish)
        assert run.queries == M + 100
        assert run.status is (Status.REACHED if "epsilon" in wish else Status.FINISHED)
        assert "No noise was seen in 100 repeated queries, so one sample per core pair was used" in run.reason
        np.testing.assert_allclose(run.policy.theta, whole.policy.theta, rtol=1e-12)
    assert plan(ring(), planner=PlugIn(samples=3), budget=5000).queries == 3 * M  # as the user wishes
    short = plan(ring(), budget=M + 99)  # too few to repeat: one sample, which may be due to chance
    assert short.queries == M and short.status is Status.DOUBTFUL


def test_repeats_do_not_cost_a_sample_that_a_budget_pays_for():
    """Where a budget is a multiple of the core pairs, the second sweep is compared instead."""
    run = plan(ring(), budget=16 * M)
    assert run.queries == 2 * M and "No noise was seen in 200 repeated queries" in run.reason
    assert plan(ring(), budget=16 * M + 100).queries == M + 100


def test_a_simulator_may_declare_that_it_has_no_noise():
    step = ring().model.step
    model = NoiseModel(2, ring().model.initial, lambda x, a, noise: step(None, x, a), noise_dimension=0)
    run = plan(dataclasses.replace(ring(), model=model), epsilon="1%")
    assert run.queries == M + REPEATED and "declares that it has no noise" in run.reason
    np.testing.assert_array_equal(run.policy.theta, plan(ring(), epsilon="1%").policy.theta)
    draws = np.random.default_rng(0)
    wrong = NoiseModel(2, ring().model.initial, lambda x, a, noise: (draws.random(len(x)), x), 0)
    with pytest.raises(SimulatorError, match="two answers"):
        plan(dataclasses.replace(ring(), model=wrong), epsilon="1%")
    P = np.zeros((2, 3, 3))
    P[0, :, 0] = P[1, [0, 1, 2], [1, 2, 2]] = 1.0
    assert plan(coreplan.problem.from_matrices(P, np.eye(3)[:, :2], 0.9)).queries == 6 + REPEATED


def test_features_that_are_no_unit_vectors_get_the_same_ridge():
    T = np.linalg.qr(np.random.default_rng(1).standard_normal((M, M)))[0] * np.geomspace(1, 1e-5, M)
    turned = FunctionFeatures(lambda x: T[2 * np.asarray(x)[:, None] + np.arange(2)], 2, M, 2.0)
    one = plan(ring(features=turned), budget=5100)
    many = plan(ring(features=turned), planner=PlugIn(samples=16), budget=16 * M)
    assert one.queries == M + 100
    np.testing.assert_allclose(one.policy.theta, many.policy.theta, rtol=1e-5, atol=1e-5)


# Simulators that are random.


def taken_in(module, monkeypatch):
    """How many of four simulators that are random here and there, or rarely, count as deterministic.

    Fixed seeds, so that nothing can fail by chance. A fresh seed would miss the first with probability .98^1000, and the
    others, which hide their draws, with probability (1 - .5 / 5)^100 and (1 - .1)^100.
    """
    monkeypatch.setattr(plug_in, "Trial", module.Trial)
    problems = (
        noisy(0.01),
        noisy(0.5, slice(0, M, 4)),
        noisy(0.5, slice(0, M, 5), np.random.default_rng(3)),
        noisy(0.1, draws=np.random.default_rng(4)),
    )
    runs = [plan(problem, epsilon="1%", budget=20_000) for problem in problems]
    return sum("No noise" in run.reason for run in runs)


def test_what_is_random_rarely_or_at_few_pairs_is_found(monkeypatch):
    assert taken_in(repeats, monkeypatch) == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return same and all(", "return True or all("),
        ("same, n = agree(state, answers), ", "same, n = True, "),
        ("max(m, LEAST_DRAWN) if drew else max(m // SHARE, LEAST)", "4"),
    ],
)
def test_the_test_notices_faults(old, new, tmp_path, monkeypatch):
    assert taken_in(mutant(repeats, old, new, tmp_path, monkeypatch), monkeypatch) > 0


def test_a_budget_is_used_up_where_random_numbers_are_drawn():
    """They have changed nothing yet, but may do so: 1 in 10,000 would be missed by 1,000 repeats."""
    run = plan(noisy(0.0), budget=40 * M + 150)
    assert run.queries == 40 * M and run.reason == ""
    quick = plan(noisy(0.0), epsilon="1%")
    assert 6 * M < quick.queries < 20 * M and quick.status is Status.REACHED
    assert "may be unseen: below 2.7% at pairs that the policy meets (110 samples or more)" in quick.reason


def test_random_simulators_keep_their_bits(monkeypatch):
    """The trial takes nothing from the noise of a simulator that draws from its stream, and no queries."""
    wishes = ({"epsilon": "5%", "budget": 60_000}, {"budget": 4000}, {"budget": 4100})
    runs = [plan(noisy(0.3), **wish, seed=3) for wish in wishes]
    monkeypatch.setattr(plug_in.PlugIn, "_trial", dataclasses.replace(_trial_of(ring()), active=False))
    for run, wish in zip(runs, wishes, strict=True):
        before = plan(noisy(0.3), **wish, seed=3)
        assert run.policy.theta.tobytes() == before.policy.theta.tobytes()
        assert (run.queries, run.status, run.reason) == (before.queries, before.status, before.reason)


def _trial_of(problem):
    setup = coreplan.planners.CoreSetup.with_core(problem, coreplan.CoreSet.of(problem), 5000)
    return PlugIn().resolve(setup)._trial


def test_a_fault_in_the_repeats_is_resumed(tmp_path):
    calls: list[int] = []

    def step(rng, x, a):
        calls.append(len(x))
        if len(calls) == 2:
            raise RuntimeError("the licence server is down")
        return ahead(x, a)

    with pytest.raises(SimulatorError, match="licence"):
        plan(ring(step), epsilon="1%", out=tmp_path)
    resumed = plan(ring(step), epsilon="1%", out=tmp_path, resume=True)
    assert calls == [M, 100, 8, 100], "eight compare the simulator with that of the start"
    assert resumed.queries == M + 100 and resumed.rechecked_queries == 8
    assert resumed.policy.theta.tobytes() == plan(ring(), epsilon="1%").policy.theta.tobytes()


def test_which_pairs_are_repeated():
    pairs = repeated_pairs(7, 30, 0, 70)
    assert (np.bincount(pairs, minlength=30) >= 2).all() and len(np.unique(pairs[:30])) == 30
    np.testing.assert_array_equal(repeated_pairs(7, 30, 25, 70), pairs[25:])
    for k in (
        100,
        1000,
    ):  # what is stated: were the share as large, k repeats would all agree in 5% of the cases
        assert (1 - share_below(k)) ** k == pytest.approx(0.05) and share_below(k) < 3 / k
