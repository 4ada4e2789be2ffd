"""PlugIn asks core pairs that never vary more rarely, and makes up for it when one varies after all."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import coreplan
from coreplan import FunctionModel, NoiseModel, PlugIn, Problem, Status, plan
from coreplan.features import one_hot
from coreplan.planners import plug_in
from coreplan.sampled import sobol, thinning
from helpers.mutants import mutant

STATES, M = 20, 40  # core pairs: every state with two actions


def ring(chance, loud=4, dense=False):
    """A ring of places. Action 1 goes on, and may slip back by `chance`, a number or one for each place; action 0 stays.

    At the first `loud` places both stay, and pay 1 with probability .5 (action 0) or .6; the others pay nothing.
    """

    def step(states, actions, u):
        on = np.where(u[:, 0] < np.broadcast_to(chance, STATES)[states], states - 1, states + 1) % STATES
        pays = (states < loud) & (u[np.arange(len(u)), actions] < np.where(actions == 1, 0.6, 0.5))
        return pays * 1.0, np.where((actions == 1) & (states >= loud), on, states)

    model = NoiseModel(2, lambda rng, n: rng.integers(STATES, size=n), step, 2)
    features = one_hot(STATES, 2)
    if dense:
        eye = np.eye(M)
        features = coreplan.FunctionFeatures(
            lambda x: eye[2 * np.asarray(x)[:, None] + np.arange(2)], 2, M, 1.0
        )
    pairs = (np.arange(STATES).repeat(2), np.tile([0, 1], STATES))
    return Problem(model, features, 0.9, core_pairs=pairs)


def independent(problem):
    """The same problem as a simulator that draws its own noise."""
    by = problem.model
    model = FunctionModel(2, by.initial, lambda rng, x, a: by.step_with(x, a, rng.random((len(x), 2))))
    return dataclasses.replace(problem, model=model)


def unthinned(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(PlugIn, "_thinning", thinning.Thinning(m=M, first=8, active=False))
        yield


@pytest.mark.parametrize("dense", [False, True])
def test_pairs_that_never_vary_cost_a_quarter(monkeypatch, dense):
    """32 of 40 pairs are steady, and are asked for 8 + (N - 8) / 4 of N samples. The samples, and theta, are the same."""
    problem = ring(0.0, dense=dense)
    run = plan(problem, epsilon="1%", reality=0)
    N = run.stored.n
    assert run.status is Status.REACHED and N > 16 and N % 4 == 0
    assert run.queries == 8 * N + 32 * (8 + (N - 8) // 4) + coreplan.simulate.REPEATED
    for _ in unthinned(monkeypatch):
        whole = plan(problem, epsilon="1%", reality=0)
    assert whole.stored.n == N and whole.queries == M * N + coreplan.simulate.REPEATED
    assert run.policy.theta.tobytes() == whole.policy.theta.tobytes()
    budget = plan(problem, budget=64 * M + 4, reality=0)  # which is to be used
    assert budget.queries == 64 * M + 4


def late(seed):
    """A chance for place 10 to slip that none of the first 8 noise points shows, and the 12th, asked of all pairs, does."""
    rng_seed = plug_in.PlugIn().bind(_setup(ring(0.0))).init(coreplan.base.planner_stream(seed)).seed
    first = sobol(rng_seed, 2, 0, 64)[:, 0]
    return first[11] + 1e-9, first


def _setup(problem):
    return coreplan.planners.CoreSetup.with_core(problem, coreplan.CoreSet.of(problem), 5000)


def _seed_that_shows_late():
    return next(s for s in range(200) if late(s)[1][:8].min() > late(s)[0] < late(s)[1][8:11].min())


def made_up_for(monkeypatch):
    """Whether a run in which a steady pair varies after all ends with the samples of a run that thins nothing."""
    seed = _seed_that_shows_late()
    chance = np.zeros(STATES)
    chance[10] = late(seed)[0]
    problem = ring(chance)
    run = plan(problem, epsilon="5%", seed=seed, reality=0)
    for _ in unthinned(monkeypatch):
        whole = plan(problem, epsilon="5%", seed=seed, reality=0)
    assert run.stored.n == whole.stored.n
    # Place 10's samples are all queried, those of the 31 other steady pairs are thinned.
    N = whole.stored.n
    assert run.queries == 9 * N + 31 * (8 + (N - 8) // 4) + coreplan.simulate.REPEATED
    return run.policy.theta.tobytes() == whole.policy.theta.tobytes()


def test_a_pair_that_varies_late_is_made_up_for(monkeypatch):
    assert made_up_for(monkeypatch)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("overwrite(state, state.owed[:n], answers)", "state"),
        ("varies = self._varies(state, asked, answers)", "varies = np.zeros(self.m, dtype=bool)"),
        ("source[~granted] = self.m + np.arange(len(asked))", "pass"),
    ],
)
def test_the_test_notices_faults(old, new, tmp_path, monkeypatch):
    module = mutant(thinning, old, new, tmp_path, monkeypatch)
    monkeypatch.setattr(plug_in, "Thinning", module.Thinning)
    try:
        assert not made_up_for(monkeypatch)
    except AssertionError as error:
        assert "assert" in str(error)  # fewer or more queries, or samples


@pytest.mark.parametrize("batch", [13, 50, 65_536])
def test_large_core_sets_and_resumes(batch, tmp_path, monkeypatch):
    """Asks that are parts of sweeps, runs with independent noise, and runs that are resumed from a smaller budget."""
    monkeypatch.setattr(plug_in, "BATCH", batch)
    chance = np.where(np.arange(STATES) % 3 == 0, 0.05, 0.0)
    problem = independent(ring(chance))
    whole = plan(problem, epsilon="5%", reality=0, seed=2)
    assert whole.status is Status.REACHED and whole.queries < M * whole.stored.n
    out = tmp_path / "run"
    plan(problem, epsilon="5%", budget=1_000, reality=0, seed=2, out=out)
    again = plan(problem, epsilon="5%", budget=10_000_000, reality=0, seed=2, out=out, resume=True)
    if batch == 13:  # a run with the larger budget from the start makes the same asks
        assert again.policy.theta.tobytes() == whole.policy.theta.tobytes() and again.queries == whole.queries
    optimum = coreplan.plan(
        problem, planner=PlugIn(samples=2_000, noise="independent"), budget=2_000 * M, reality=0
    )
    # Values up to 10 from some 37 samples of rewards 0 or 1: a standard error of .8, and the seed is fixed.
    np.testing.assert_allclose(again.policy.theta, optimum.policy.theta, atol=3.0)


def test_when_no_pair_is_steady_any_more_asks_go_on(monkeypatch):
    """Action 0 slips too, rarely: at the first solve some pairs look steady, later none."""
    base = ring(0.0)

    def step(rng, x, a):
        rewards, y = base.model.step_with(x, a, rng.random((len(x), 2)))
        return rewards, np.where(rng.random(len(x)) < 0.1, 0, y)

    problem = dataclasses.replace(base, model=FunctionModel(2, base.model.initial, step))
    run = plan(problem, planner=PlugIn(epsilon=1e-9), budget=400 * M, reality=0)
    assert run.status is Status.NOT_REACHED and run.stored.n >= 256 and run.queries <= 400 * M
