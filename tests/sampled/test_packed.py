"""Packed samples: the same features, the same solves to the last bit, and small checkpoints."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import coreplan
from coreplan import FunctionFeatures, FunctionModel, PlugIn, Problem
from coreplan.core import Frame, Lift
from coreplan.features import Packed, arrays, interpolation, packed, take_packed, unpacked, with_terminal
from coreplan.problem import Sparse, one_hot
from coreplan.sampled import policy_iteration as bellman
from coreplan.sampled import samples
from coreplan.sampled.loss import half_weights
from helpers.runs import plan

GRID = interpolation((0.0, 0.0), (1.0, 1.0), [4, 3], 5)


def states(n, seed=0):
    return np.random.default_rng(seed).random((n, 2))


@pytest.mark.parametrize(
    "kind", ["grid", "grid with an end", "one-hot", "irregular", "masked", "dense", "one action"]
)
def test_packing_loses_nothing(kind):
    rng = np.random.default_rng(1)
    if kind == "grid":
        phi = GRID(states(20))
    elif kind == "grid with an end":
        x = np.column_stack([states(20), np.arange(20) % 2])
        phi = with_terminal(GRID)(x * (1 - x[:, 2:]) + x * [0, 0, 1])
    elif kind == "one-hot":
        phi = one_hot(7, 3)(np.arange(7))
    elif kind == "dense":
        phi = rng.random((6, 3, 4))
    elif kind == "one action":
        phi = Sparse(rng.integers(0, 9, (6, 1, 2)), rng.random((6, 1, 2)))
    else:
        phi = GRID(states(20))
        if kind == "masked":
            phi.weight[3, 2] = coreplan.features.UNAVAILABLE
        else:
            phi.index[19, 4, 3] = 0
    small = packed(phi)
    assert (small.weight.shape[1] == 1) == (kind in ("grid", "grid with an end", "one-hot", "one action"))
    whole = phi if kind != "dense" else coreplan.features.as_sparse(phi)
    for one, two in zip(arrays(unpacked(small)), arrays(whole), strict=True):
        np.testing.assert_array_equal(one, two)
    few = np.array([5, 0, 3])
    np.testing.assert_array_equal(unpacked(take_packed(small, few)).weight, whole.weight[few])


def models(m=60, N=6, seed=3):
    """One sampled model on the grid (all 60 pairs are core pairs), its features packed and written out."""
    rng = np.random.default_rng(seed)
    phi, initial = GRID(states(N * m, seed)), GRID(states(9, seed + 1))
    r = rng.random(m)
    lift = Lift(Frame(np.eye(m), m))
    return lift, [bellman.SampledModel(p, r, initial, 0.9) for p in (packed(phi), phi)]


def test_solves_are_the_same_to_the_last_bit():
    lift, (small, whole) = models()
    w = np.random.default_rng(0).dirichlet(np.ones(6), size=60).T.ravel()
    one, two = (model.solve(lift, w) for model in (small, whole))
    assert small.rows.weight.shape[1] == 1 and whole.rows.weight.shape[1] == 5
    assert one.theta.tobytes() == two.theta.tobytes() and (one.choice == two.choice).all()
    for theta, choice in ((one.theta, one.choice), (None, None)):
        assert small.value(lift, w, theta, choice) == whole.value(lift, w, theta, choice)


@pytest.mark.parametrize("factored", [10, 100])
def test_mean_features_and_values_against_a_naive_solve(monkeypatch, factored):
    """Iterated or factorised: F added up entry by entry, q from a dense system, one with a warm start and one without."""
    monkeypatch.setattr(bellman, "FACTORED", factored)
    lift, (small, whole) = models()
    w, solution = small.equal(), small.solve(lift, small.equal())
    for choice in (solution.choice, None):
        F = np.zeros((60, 60))
        for n, a in itertools.product(range(360), range(5)):
            share = w[n] / 5 if choice is None else w[n] * (choice[n] == a)
            np.add.at(F[n % 60], whole.phi.index[n, a], share * whole.phi.weight[n, a])
        found = bellman.collected(small.rows, choice, w, (small.order, small.first), lift.place, 60)
        np.testing.assert_allclose(found.toarray(), F, atol=1e-14)
        q = np.linalg.solve(np.eye(60) - 0.9 * F, small.r)
        for guess in (None, q + 0.1):
            np.testing.assert_allclose(small.evaluate(lift, w, choice, guess), q, rtol=1e-10)
    known = small.evaluate(lift, w, solution.choice)
    assert small.value(lift, w, solution.theta, solution.choice) == pytest.approx(
        small.value(lift, w, solution.theta, solution.choice, q=known), abs=1e-12
    )


def test_nearly_deterministic_systems_are_factorised(monkeypatch):
    """A ring of 300 pairs, on which the iteration breaks down: the sparse factors give what the dense system gives."""
    m = 300
    phi = Sparse(((np.arange(m) + 1) % m)[:, None, None], np.ones((m, 1, 1)))
    model = bellman.SampledModel(phi, (np.arange(m) == 0) * 1.0, Sparse(phi.index[:3], phi.weight[:3]), 0.99)
    lift = Lift(Frame(np.eye(m), m))
    monkeypatch.setattr(bellman, "bicgstab", lambda *a, **k: (np.zeros(m), 1))
    monkeypatch.setattr(bellman, "solve", None)  # no dense system
    q = model.evaluate(lift, model.equal(), np.zeros(m, dtype=int))
    away = (m - np.arange(m)) % m
    np.testing.assert_allclose(q, 0.99**away / (1 - 0.99**m), rtol=1e-12)


def test_a_half_is_solved_on_its_own_rows():
    """Leaving rows out gives the same bits as giving them no weight."""
    lift, (small, _) = models()
    for v in half_weights(np.random.default_rng(2), small, shared=False):
        rows = np.flatnonzero(v)
        assert (np.bincount(rows % 60) == 3).all()
        half = small.part(rows)
        assert (half.equal() == v[rows]).all()
        one, two = half.solve(lift, half.equal()), small.solve(lift, v)
        assert one.theta.tobytes() == two.theta.tobytes() and (one.choice == two.choice[rows]).all()


# Runs.


def walk(ends=True):
    """A random walk on the grid; with `ends`, features that cannot be packed are met rarely, near a line."""

    def step(rng, x, a):
        y = np.clip(x + 0.3 * rng.standard_normal(x.shape) + 0.1 * (a[:, None] - 2), 0.0, 1.0)
        return y[:, 0] ** 2, y

    def features(x):
        phi = GRID(x)
        odd = (np.abs(x[:, 0] - 0.41) < 0.0005) & ends
        phi.weight[odd, 1:] = phi.weight[odd, 1:] * 0.5
        return phi

    own = FunctionFeatures(features, 5, 60, 1.0, nonzeros=4)
    model = FunctionModel(5, lambda rng, n: rng.random((n, 2)), step)
    nodes, actions = GRID.core()
    return Problem(model, own, 0.9, core_pairs=(nodes, actions))


@pytest.mark.parametrize("ends", [False, True])
def test_runs_that_are_resumed_and_written_out_give_the_same_bits(tmp_path, monkeypatch, ends):
    problem = walk(ends)
    whole = plan(problem, budget=6000, seed=2)
    parts, forms = [], []
    for budget in (500, 1100, 6000):
        parts.append(plan(problem, budget=budget, seed=2, out=tmp_path, resume=budget > 500))
        with np.load(tmp_path / "checkpoint.npz") as saved:
            forms.append(saved["state.next_weight"].shape)  # no room for more than has come
    B = 5 if ends else 1  # the first part could be packed
    assert [n for n, *_ in forms] == [480, 1100, 6000] and forms[0][1] == 1 and forms[2][1:] == (B, 4)
    assert parts[-1].policy.theta.tobytes() == whole.policy.theta.tobytes()
    assert (
        whole.stored.next_features.weight.shape == (60 * whole.stored.n, 5, 4) and 16 <= whole.stored.n < 100
    )
    monkeypatch.setattr(samples, "packed", lambda phi: Packed(*phi, np.zeros(0), 5))  # never
    never = plan(problem, budget=6000, seed=2)
    assert never.policy.theta.tobytes() == whole.policy.theta.tobytes()
    for run in (whole, parts[-1]):
        for one, two in zip(run.stored.next_features, never.stored.next_features, strict=True):
            np.testing.assert_array_equal(one, two)


def test_a_checkpoint_holds_one_action_of_many(tmp_path):
    """12 bytes for each entry of one action, and 9 for the reward and the step, in each row: nothing else grows."""
    plan(walk(ends=False), planner=PlugIn(samples=50), budget=50 * 60, out=tmp_path)
    assert (tmp_path / "checkpoint.npz").stat().st_size < 3000 * (4 * 12 + 9) + 512 * 5 * 4 * 12 + 20_000


@pytest.mark.parametrize(
    "damage", [{"next_step": 2}, {"next_step": None}, {"next_index": 59}], ids=["step", "short", "index"]
)
def test_damaged_steps_are_refused(damage):
    problem = walk(ends=False)
    run = list(coreplan.steps(problem, PlugIn(samples=2), budget=120))[-1]
    planner = PlugIn(samples=2).resolve(
        coreplan.planners.CoreSetup.with_core(problem, coreplan.CoreSet.of(problem), 120)
    )
    planner.check(run.state)
    ((name, value),) = damage.items()
    old = getattr(run.state, name)
    new = old[:-1] if value is None else np.full_like(old, value)
    with pytest.raises(ValueError):
        planner.check(run.state._replace(**{name: new}))
