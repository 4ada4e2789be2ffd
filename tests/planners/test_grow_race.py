"""The race of `Grow`: rollouts choose among its fits where there is no noise, against naive rollouts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import coreplan
from coreplan import FunctionFeatures, FunctionModel, Grow, Problem
from coreplan.planners.grow import planner as grow_planner
from coreplan.planners.grow import race
from coreplan.planners.grow.state import OVER, RACE
from helpers.mutants import mutant

GAMMA, BUDGET = 0.8, 1500


def walk(noise=0.0):
    """A line from -1 to 1: steps of .1, reward by a bump that three features cannot follow; it ends at the right edge."""

    def step(rng, states, actions):
        x = states[:, 0]
        y = np.clip(x + 0.1 * (2 * actions - 1) + noise * rng.standard_normal(len(x)), -1.0, 1.0)
        end = x >= 1.0
        return np.where(end, 0.9, np.exp(-20 * (x - 0.3) ** 2)), np.where(end, 1.0, y)[:, None]

    def phi(states):
        x = states[:, 0]
        base = np.stack([np.ones_like(x), x, x**2, x >= 1.0], axis=1) / 2
        out = np.zeros((len(x), 2, 8))
        out[:, 0, :4], out[:, 1, 4:] = base, base
        return out

    model = FunctionModel(2, lambda rng, n: rng.uniform(-1, 0.9, (n, 1)), step)
    return Problem(model, FunctionFeatures(phi, 2, 8, 1.1), GAMMA)


def states_of(problem, seed=3, budget=BUDGET):
    return [step.state for step in coreplan.steps(problem, Grow(), budget=budget, seed=seed)]


def naive(problem, theta, x, steps):
    """The discounted return of the greedy policy from one state, by its definition."""
    total, policy = 0.0, coreplan.SoftmaxPolicy(theta[:-1], np.inf, problem.features)
    rng = np.random.default_rng(0)
    for t in range(steps):
        r, y = problem.model.step(rng, x[None], policy.act(x[None]))
        total += GAMMA**t * float(r[0])
        x = y[0]
        if x[0] >= 1.0:
            return total + GAMMA ** (t + 1) * 0.9 / (1 - GAMMA)
    return total


def test_scores_are_those_of_naive_rollouts_and_the_best_is_chosen():
    problem = walk()
    run = states_of(problem)
    last = run[-1]
    assert last.phase == OVER and last.raced > 0 and len(last.rivals) >= 2
    assert last.filled + last.raced <= BUDGET
    pool, steps = next(s.pool_states for s in run if s.phase == RACE), round(race.LONGEST / (1 - GAMMA))
    for q, (score, count) in enumerate(zip(last.scores, last.counts, strict=True)):
        want = sum(naive(problem, last.rivals[q], pool[i], steps) for i in range(count))
        assert score == pytest.approx(
            want, abs=1e-9
        )  # heats have 1, 2, 4, ... initial states, one after the other
    for a, b in itertools.pairwise(run):
        if a.phase == RACE and b.heats > a.heats:  # the better half goes on
            means, out = b.scores / np.maximum(b.counts, 1), np.setdiff1d(a.run_live, b.run_live)
            assert means[b.run_live].min() >= means[out].max()
    means = last.scores / last.counts
    assert (last.theta == last.rivals[last.run_live[np.argmax(means[last.run_live])]]).all()


def test_noise_leaves_no_race():
    last = states_of(walk(noise=0.05))[-1]
    assert last.random == 1 and last.raced == 0 and last.filled > 0.97 * BUDGET


def test_a_larger_budget_goes_on_and_races_again(tmp_path):
    problem = walk()
    coreplan.plan(problem, planner=Grow(), budget=BUDGET, seed=3, out=tmp_path, reality=0)
    more = coreplan.plan(
        problem, planner=Grow(), budget=3 * BUDGET, seed=3, out=tmp_path, resume=True, reality=0
    )
    assert 2 * BUDGET < more.queries <= 3 * BUDGET


def test_a_policy_that_was_lost_is_found_again():
    """On this seed the last fits of Acrobot end at -450, and earlier ones at -90: the race brings one of those back."""
    problem = coreplan.make("acrobot")
    *_, last = states_of(problem, seed=1002, budget=18_000)
    chosen = int(np.flatnonzero((last.rivals == last.theta).all(axis=1))[0])
    assert chosen > 0 and last.scores[chosen] / last.counts[chosen] > 5 * last.scores[0] / last.counts[0] + 5


FAULTS = {
    "the worst half goes on": ("np.argsort(-mean, kind", "np.argsort(mean, kind"),
    "an end pays nothing": ("discount ** (state.run_step + 1) * tail", "0.0 * tail"),
    "no discount": ("discount**state.run_step * answers.rewards", "answers.rewards"),
    "the same initial states again": ("first = 2**state.heats - 1", "first = 0"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(fault, tmp_path, monkeypatch):
    broken = mutant(race, *FAULTS[fault], tmp_path, monkeypatch)
    for name in ("begun", "scored", "stepped"):
        monkeypatch.setattr(race, name, getattr(broken, name))
        if hasattr(grow_planner, name):
            monkeypatch.setattr(grow_planner, name, getattr(broken, name))
    with pytest.raises(AssertionError):
        test_scores_are_those_of_naive_rollouts_and_the_best_is_chosen()
