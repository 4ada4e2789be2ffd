"""PlugIn's stopping rule: accuracies, halves, sizes, what it sees and what it says where it cannot tell."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import coreplan
from coreplan import CoreSet, FunctionFeatures, FunctionModel, InputError, PlugIn, Problem, Status
from coreplan.core import Lift
from coreplan.planners import CoreSetup
from coreplan.problem import Sparse
from coreplan.sampled import Accuracy, before, losses
from coreplan.sampled import policy_iteration as bellman
from coreplan.sampled.loss import half_weights
from coreplan.simulate import REPEATED
from helpers.runs import plan, same


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


def samples(pair):
    """A model in which nothing counts but the pairs of its rows."""
    n = len(pair)
    phi = Sparse(np.zeros((n, 1, 1), dtype=int), np.ones((n, 1, 1)))
    return bellman.SampledModel.of_rows(phi, np.zeros(n), pair, pair.max() + 1, phi, 0.9)


@pytest.mark.parametrize("shared", [False, True])
def test_halves_of_unequal_numbers(shared):
    """Every half has half of every pair's samples; with shared noise, pairs with as many samples are split alike."""
    pair = np.random.default_rng(3).permutation(np.repeat(np.arange(4), [8, 24, 24, 17]))
    for v in half_weights(np.random.default_rng(0), samples(pair), shared):
        inside = v > 0
        np.testing.assert_allclose(np.bincount(pair, v), 1.0)
        assert (np.abs(np.bincount(pair[inside]) - np.array([4, 12, 12, 8.5])) <= 0.5).all()
        assert (inside[pair == 1] == inside[pair == 2]).all() == shared


@pytest.mark.parametrize("N", [8, 12, 16, 20, 28, 96])
@pytest.mark.parametrize("shared", [False, True])
def test_halves(shared, N):
    halves = [
        w.reshape(N, 5) for w in half_weights(np.random.default_rng(0), samples(np.arange(5 * N) % 5), shared)
    ]
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
    setup = CoreSetup.with_core(problem, CoreSet.of(problem), 2000)
    for planner, sizes in (
        (PlugIn(noise="independent"), [16, 32, 64, 100]),
        (PlugIn(noise="independent", epsilon=0.01), [16, 24, 32, 48, 64, 96, 100]),
        (PlugIn(samples=20, epsilon=0.01), [8, 12, 16, 20]),
    ):
        resolved = planner.resolve(setup)
        state = resolved.init(np.random.default_rng(0))._replace(random=True)
        assert [resolved._target(state._replace(solved=N)) for N in [0, *sizes[:-1]]] == sizes
        assert resolved._target(state._replace(solved=13)) == min(16, sizes[-1])
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
        sampled = bellman.SampledModel(next_phi, s.rewards, s.initial_features, 0.95)
        lift = Lift(s.frame)
        solution = sampled.solve(lift, sampled.equal())
        np.testing.assert_allclose(solution.theta, run.policy.theta, atol=1e-9)
        lost, scale = losses(sampled, lift, solution, np.random.default_rng(seed), False)
        assert (lost >= -1e-9).all()  # nothing beats the optimum of the model it is measured in
        truth.append(coreplan.evaluate(problem, run.policy).sub)
        told.append(lost.mean() / scale)
    assert 0.5 < np.mean(told) / np.mean(truth) < 2.0


def test_an_accuracy_instead_of_a_budget():
    problem = coreplan.make("river-linear")
    run = plan(problem, epsilon="1%")
    assert run.planner.name == "plug-in" and run.status is Status.REACHED
    assert "statistical error only" in run.reason
    assert 20 * 60 < run.queries < 20 * 128 and coreplan.evaluate(problem, run.policy).sub <= 0.01
    assert "rarer than 3/N per pair may be unseen: below" in run.reason
    short = plan(problem, epsilon=1e-6, budget=1000)
    assert short.status is Status.NOT_REACHED and "Raise the budget above 1,000" in short.reason
    assert coreplan.evaluate(problem, short.policy).sub < 0.05  # the best found all the same
    tiny = plan(problem, epsilon=0.1, budget=100)
    assert tiny.status is Status.NOT_REACHED and f"raise the budget to {160 + REPEATED}" in tiny.reason
    little = plan(problem, epsilon=0.1, budget=160 + REPEATED)  # it can be told, but not what else may happen
    assert little.status is Status.NOT_REACHED and "leave room for outcomes that none" in little.reason
    assert plan(problem, epsilon=0.1, budget=1500).status is Status.REACHED  # that is enough
    few, fixed = (plan(problem, planner=PlugIn(samples=n, epsilon=1e-6), budget=1000) for n in (4, 20))
    assert "raise `samples` to 8" in few.reason and "Raise `samples` above 20" in fixed.reason
    same(plan(problem), run)  # without a budget, too, 1% is asked for
    with pytest.raises(InputError, match="takes a budget and no epsilon"):
        plan(problem, planner=coreplan.PrimalDual(K=5), epsilon=0.1)


@pytest.mark.parametrize("epsilon", [0.5, "99%"])
@pytest.mark.parametrize("without", ["all", "uniform"])
def test_an_accuracy_that_cannot_be_estimated_is_not_reached(monkeypatch, epsilon, without):
    """Systems that have no solution give nan, which is no small number, and the budget is not what is missing."""
    value = bellman.SampledModel.value

    def no_value(self, lift, w, theta, choice, **known):
        return np.nan if without == "all" or theta is None else value(self, lift, w, theta, choice, **known)

    monkeypatch.setattr(bellman.SampledModel, "value", no_value)
    run = plan(coreplan.make("river-linear"), epsilon=epsilon, budget=400)
    if without == "uniform" and epsilon == 0.5:  # an accuracy in values needs no comparison with uniform
        assert run.status is Status.REACHED
        return
    assert run.status is Status.NOT_REACHED and run.queries == 400
    assert "cannot be estimated" in run.reason and "nan" not in run.reason


def test_samples_that_show_nothing_are_not_believed_at_once():
    """With seed 1 all actions of `hard-linear` look alike on 8 shared points, and 70% would be lost; where they are alike in
    truth, a run ends all the same."""
    problem = coreplan.make("hard-linear")
    run = plan(problem, planner=PlugIn(noise="sobol"), epsilon="1%", seed=1)
    assert run.queries > 8 * 11 + REPEATED and coreplan.evaluate(problem, run.policy).sub < 0.02
    base = coreplan.make("river-swim")
    alike = dataclasses.replace(
        base,
        model=FunctionModel(2, base.model.initial, lambda rng, x, a: (0.5 + 0 * rng.random(len(x)), x)),
        tabular=None,
    )
    run = plan(alike, epsilon="1%")
    assert run.status is Status.REACHED and run.queries > 8 * 12 + REPEATED
    short = plan(alike, epsilon="1%", budget=300)
    assert short.status is Status.NOT_REACHED and "no policy from the uniform one" in short.reason
