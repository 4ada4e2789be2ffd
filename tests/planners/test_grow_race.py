"""The race of `Grow`: rollouts choose among its fits where there is no noise, against naive rollouts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import coreplan
from coreplan import FunctionFeatures, FunctionModel, Grow, Problem
from coreplan.planners.grow import planner as grow_planner
from coreplan.planners.grow import race
from coreplan.planners.grow.state import OVER, RACE, samples
from helpers.mutants import mutant

GAMMA, BUDGET = 0.8, 750


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


def states_of(problem, seed=10, budget=BUDGET):
    return [step.state for step in coreplan.steps(problem, Grow(), budget=budget, seed=seed)]


def naive(problem, theta, x, steps):
    """The discounted returns `[n]` of the greedy policy from states `[n, 1]`, by their definition."""
    total, policy = np.zeros(len(x)), coreplan.SoftmaxPolicy(theta[:-1], np.inf, problem.features)
    rng = np.random.default_rng(0)
    for t in range(steps):
        r, x = problem.model.step(rng, x, policy.act(x))
        total += GAMMA**t * r
    return total + GAMMA**steps / (1 - GAMMA) * 0.9 * (x[:, 0] >= 1.0)


def heats(run):
    """The last state of every heat, and the one after it."""
    pairs = [(a, b) for a, b in itertools.pairwise(run) if a.phase == RACE]
    return [(a, b) for a, b in pairs if b.counts.max() > a.counts.max()]


def test_heats_choose_as_whole_rollouts_would_and_the_best_is_returned():
    problem = walk()
    run = states_of(problem)
    last, pool = run[-1], next(s.pool_states for s in run if s.phase == RACE)
    assert last.phase == OVER and last.raced > 0 and len(last.rivals) > 3
    assert last.filled + last.raced <= BUDGET
    every = [naive(problem, theta, pool, 40) for theta in last.rivals]  # 40 steps leave at most .0007 to come
    assert len(heats(run)) > 1
    for s in (s for s in run if s.phase == RACE and s.run_step == 0):
        new = s.counts[s.run_live[0]] + s.run_start  # initial states that no heat has had yet
        assert (s.run_states == pool[new]).all()
    early, cut = 0, 0.0  # cut: how far the scores of heats before may be from whole rollouts
    for a, b in heats(run):
        n = b.counts.max()  # the heats so far have had the first n initial states
        steps, live = a.run_step + 1, a.run_live
        low, high = race.bounds(a, GAMMA)
        for q, least, most in zip(live, low, high, strict=True):
            assert b.counts[q] == n
            assert least - cut - 1e-3 * n <= sum(every[q][:n]) <= most + cut + 1e-3 * n
            # the middle of what may follow is at most half of this off
            slack = a.run_done.shape[1] * GAMMA**steps / (1 - GAMMA)
            assert abs(b.scores[q] - sum(every[q][:n])) <= slack / 2 + cut + 1e-3 * n
        kept, out = b.run_live, np.setdiff1d(live, b.run_live)
        half = (len(live) + 1) // 2
        assert len(kept) in (1, half)  # one, where another heat as long cannot be paid
        if steps < race.LONGEST / (1 - GAMMA) - 1 and len(kept) == half:
            early += 1  # decided by bounds: whole rollouts would say the same
            assert (
                min(sum(every[q][:n]) for q in kept)
                >= max(sum(every[q][:n]) for q in out) - 2 * cut - 1e-3 * n
            )
        cut += slack / 2
    assert early
    means = last.scores / last.counts
    assert (last.theta == last.rivals[last.run_live[np.argmax(means[last.run_live])]]).all()


def test_when_a_heat_is_over():
    a, _ = heats(states_of(walk()))[0]
    zero, rest = (
        np.zeros(len(a.scores)),
        GAMMA**a.run_step / (1 - GAMMA),
    )  # the most that a rollout may still earn

    def over(done, running, spent=0, left=10**6):
        """Rivals with the returns `done`, of which the last `running` go on."""
        n, start = len(done), np.zeros(running, dtype=np.int64)
        heat = a._replace(
            run_live=np.arange(n), scores=zero, run_done=np.array(done)[:, None], run_start=start, began=a.raced - spent,
            run_rival=np.arange(n - running, n),
        )  # fmt: skip
        return race.heat_over(heat, left, GAMMA)

    assert over([1.1 + rest, 1.0], 1)  # the other cannot win any more, and is not played to its end
    assert not over([1.0 + 0.5 * rest, 1.0], 1)
    assert over([1.0 + 0.5 * rest, 1.0], 1, left=0)  # cannot be paid
    assert over([1.0, 1.0], 0)  # all have ended
    many = 2 * a.run_step  # the half of four rivals, for another heat as long
    best, low = [1.1 + rest, *[1.0] * 3], [1.1 - rest, *[1.0] * 3]
    assert not over(best, 3, spent=many, left=many + 1)  # which rival is the second best?
    assert over(
        best, 3, spent=many + 1, left=many + 1
    )  # it has cost half of what was left, and one is the best
    assert not over(low, 3, spent=many + 1, left=many + 1)  # one has arrived, and any other may be better
    assert over([1.1 + rest, 1.1 + rest, 1.0, 1.0], 2, left=many)  # the better half is known
    assert not over(
        [1.1 + rest, 1.1 + rest, 1.0, 1.0], 4, left=many - 1
    )  # the best is asked for: no heat follows


def test_bounded_fits_weigh_the_rim_less():
    """Weights fall with phi' (sum phi phi' + .01 g I)^-1 phi, to the power of .3; samples of weight 0 stay out."""
    state = states_of(walk())[-1]
    s = samples(state, state.solved)
    n = len(s.w)
    phi = np.zeros((n, 9))
    np.put_along_axis(phi, s.phi.index.astype(np.int64), s.phi.weight.astype(float), axis=1)
    G = phi.T @ phi
    S = np.linalg.inv(G + 0.01 * np.diag(G)[:-1].mean() / n * np.eye(9))
    w = np.where(s.w > 0, np.einsum("ni,ij,nj->n", phi, S, phi) ** (-race.INFLUENCE / 2), 0.0)
    got = race.bounded_influence(state, s).w
    assert (got[s.w == 0] == 0).all() and got.max() > 1.5 * got[got > 0].min()
    np.testing.assert_allclose(got / got.sum(), w / w.sum(), rtol=1e-4)


def test_noise_leaves_no_race():
    last = states_of(walk(noise=0.05))[-1]
    assert last.random == 1 and last.raced == 0 and last.filled > 0.97 * BUDGET


def test_a_larger_budget_goes_on_and_races_again(tmp_path):
    problem = walk()
    coreplan.plan(problem, planner=Grow(), budget=BUDGET, seed=7, out=tmp_path, reality=0)
    more = coreplan.plan(
        problem, planner=Grow(), budget=3 * BUDGET, seed=7, out=tmp_path, resume=True, reality=0
    )
    assert 2 * BUDGET < more.queries <= 3 * BUDGET


FAULTS = {
    "the worse half goes on": ("np.argsort(-scores[live], kind", "np.argsort(scores[live], kind"),
    "an end pays nothing": ("discount ** (state.run_step + 1) * tail", "0.0 * tail"),
    "no discount": ("discount**state.run_step * answers.rewards", "answers.rewards"),
    "the same initial states again": ("first = int(state.counts[live[0]])", "first = 0"),
    "what may follow is forgotten": ("rest * rewards.max()", "0.0 * rest"),
    "a heat ends when one is the best": ("spent >= left else", "spent >= 0 else"),
    "a heat is cut among equals": ("half * state.run_step <= left", "half <= left"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(fault, tmp_path, monkeypatch):
    broken = mutant(race, *FAULTS[fault], tmp_path, monkeypatch)
    for name in ("begun", "scored", "stepped", "heat_over", "bounds", "survivors"):
        monkeypatch.setattr(race, name, getattr(broken, name))
        if hasattr(grow_planner, name):
            monkeypatch.setattr(grow_planner, name, getattr(broken, name))
    with pytest.raises(AssertionError):
        test_heats_choose_as_whole_rollouts_would_and_the_best_is_returned()
        test_when_a_heat_is_over()
