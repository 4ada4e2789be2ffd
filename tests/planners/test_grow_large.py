"""`Grow` where d is large: no d x d matrix; the same numbers as with one; leverages from below; kills and damage."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan import FunctionModel, Grow, Problem
from coreplan.base.files import read_npz, write_npz
from coreplan.features import tile_coding, with_constant
from coreplan.planners.grow import kernels
from coreplan.problem import Sparse
from coreplan.run.folder import KIND, VERSION
from coreplan.sampled import Equations, WeightedSamples, systems
from helpers.runs import plan

N, GAMMA = 600, 0.9


def tiles(D=2, shape=6, tilings=4, n_actions=2):
    return tile_coding([0.0] * D, [1.0] * D, [shape] * D, tilings, n_actions)


def samples(features, seed=0):
    """Random pairs in the unit box, next states nearby; the reward is smooth, and action 1 pays more on the right."""
    rng = np.random.default_rng(seed)
    D = features.state_shape[0]
    x, a = rng.random((N, D)), rng.integers(0, 2, N)
    y = np.clip(x + 0.2 * rng.standard_normal((N, D)), 0, 1)
    here, there = (with_constant(features(z), features.dimension) for z in (x, y))
    pair = Sparse(here.index[np.arange(N), a], here.weight[np.arange(N), a])
    return WeightedSamples(pair, 0.5 * x[:, 0] * a + 0.3 * (1 - a), there, rng.choice([0.25, 1.0], N))


@pytest.mark.parametrize("ridge", [1e-1, 1e-2])
def test_both_forms_give_the_same_values(ridge, monkeypatch):
    """The form with products, its penalty included, against matrices that are written down and solved."""
    features = tiles()
    s, d = samples(features), features.dimension
    monkeypatch.setattr(systems, "LARGE", d)
    monkeypatch.setattr(systems, "TOLERANCE", 1e-12)
    large = Equations(s, d, ridge)
    assert isinstance(large.system, systems.Products)
    F = np.zeros((N, d + 1))
    np.put_along_axis(F, s.phi.index.astype(np.int64), s.phi.weight, axis=1)
    w = s.w / s.w.sum()
    G = F.T @ (w[:, None] * F)
    size = np.diag(G)[:d]
    g = size[size > 0].mean()
    one = (1 - 1 / 4) * size / np.maximum((F[:, :d] != 0).sum(axis=0), 1)
    penalty = np.append(np.maximum(ridge * np.sqrt(np.maximum(size, 1e-6 * g) * g), one), 0.0)
    theta = large.evaluate(np.zeros(d + 1), GAMMA)
    Y = np.zeros((N, d + 1))
    np.put_along_axis(Y, s.next_phi.index[:, 0].astype(np.int64), s.next_phi.weight[:, 0], axis=1)
    exact = np.linalg.solve(G - GAMMA * F.T @ (w[:, None] * Y) + np.diag(penalty), F.T @ (w * s.rewards))
    np.testing.assert_allclose(theta, exact, atol=1e-8 * np.abs(exact).max())
    assert (theta[~large.sampled] == 0.0).all() and not large.sampled.all()


def test_a_single_nonzero_needs_no_further_penalty(monkeypatch):
    """One tiling: the penalty is the ridge's alone, and the mean of the rewards in a tile is found."""
    features = tiles(tilings=1)
    monkeypatch.setattr(systems, "LARGE", 1)
    s = samples(features)
    few = Equations(s, features.dimension, 1e-9)
    theta = few.evaluate(np.zeros(features.dimension + 1), 0.0)
    own = s.phi.index[:, 0] == s.phi.index[0, 0]
    mean = np.average(s.rewards[own], weights=s.w[own])
    assert theta[s.phi.index[0, 0]] + theta[-1] == pytest.approx(mean, abs=1e-4)


def test_gmres_solves_and_gives_up_in_time():
    rng = np.random.default_rng(0)
    M = np.eye(50) + 0.3 * rng.standard_normal((50, 50))
    b, asked = rng.standard_normal(50), []

    def product(x):
        asked.append(1)
        return M @ x

    x = systems.gmres(product, b, np.zeros(50))
    assert np.linalg.norm(M @ x - b) <= 1.01 * systems.TOLERANCE * np.linalg.norm(b) and len(asked) <= 55
    asked.clear()
    assert (systems.gmres(product, b, x) == x).all() and len(asked) == 1  # it begins with what it is given
    hard = np.eye(400, k=1) + np.eye(400, k=-399)  # a cycle: nothing is gained before the 400th product
    asked.clear()
    x = systems.gmres(lambda x: (asked.append(1), hard @ x)[1], np.eye(400)[0], np.zeros(400))
    assert np.isfinite(x).all() and len(asked) == systems.RESTARTS * (systems.BASIS + 1)


def leverages(Y, S):
    """max over actions of phi' S phi, by hand."""
    return np.einsum("nad,de,nae->na", Y, S, Y).max(axis=1)


def written(phi, d):
    out = np.zeros((*phi.weight.shape[:-1], d + 1))
    np.put_along_axis(out, phi.index.astype(np.int64), phi.weight, axis=-1)
    return out


@pytest.mark.parametrize("tilings", [1, 4])
def test_leverages_are_bounded_from_below(tilings):
    """The diagonal form by hand; at most the true leverage, and 1/n for a vector that was sampled n times alone."""
    features = tiles(tilings=tilings)
    d, s = features.dimension, samples(features)
    F, Y = written(s.phi, d), written(s.next_phi, d)
    G = F.T @ F
    exact = leverages(Y, kernels.inverse(G, N, tilings + 1))
    small = kernels.inverse(np.diag(G)[:, None].copy(), N, tilings + 1)
    by_hand = np.diag(1.0 / ((tilings + 1) * np.diag(G) + np.diag(G)[:-1].mean() / N))
    found = kernels.measured(s.next_phi, small, np.full(N, np.inf), 0)
    np.testing.assert_allclose(found, leverages(Y, by_hand), rtol=1e-12)
    assert (found <= exact * (1 + 1e-9)).all()
    assert ((exact > 1e3) == (found > 1e3)).mean() > 0.98  # both see the tiles that were never sampled
    one = np.full((7, 3), 1.0)
    S = kernels.inverse((one**2).sum(axis=0)[:, None], 10**9, 3)
    np.testing.assert_allclose(S[:, 0].sum(), 1 / 7, rtol=1e-6)


def test_picks_count_as_sampled():
    features = tiles()
    d, s = features.dimension, samples(features)
    D = np.einsum("nd,nd->d", *[written(s.phi, d)] * 2)[:, None]
    S, Y = kernels.inverse(D, N, 5), written(s.next_phi, d)
    bounds = kernels.measured(s.next_phi, S, np.full(N, np.inf), 0)
    places, inverse = kernels.pick(s.next_phi, S, bounds, 3), 1.0 / S[:, 0]
    assert len(places) == 3
    for place in places:  # several states may lie in the same tiles
        here = leverages(Y, np.diag(1.0 / inverse))
        assert here[place] == pytest.approx(here.max(), rel=1e-12)
        inverse = inverse + 5 * (Y[place] ** 2).sum(axis=0)


def plane(luck=10**9):
    """A point in a box of four dimensions, pushed left or right in the first, should stay in the middle.

    The simulator fails after `luck` calls.
    """
    calls = iter(range(luck))

    def step(rng, x, a):
        if next(calls, None) is None:
            raise ValueError("out of luck")
        y = x + 0.1 * (x - 0.5) + 0.02 * rng.standard_normal(x.shape)
        y[:, 0] += 0.15 * (a - 1)
        return 1.0 - np.abs(x[:, 0] - 0.5), np.clip(y, 0.0, 1.0)

    model = FunctionModel(3, lambda rng, n: 0.3 + 0.4 * rng.random((n, 4)), step)
    return Problem(model, tiles(4, 4, 4, 3), 0.9)


def test_a_large_problem_is_planned_and_resumed(tmp_path):
    problem = plane()
    assert systems.is_large(problem.features.dimension)  # d = 7,500
    whole = coreplan.plan(problem, planner=Grow(), budget=4000, seed=3)
    x = np.full((2, 4), 0.5)
    x[:, 0] = 0.3, 0.7
    assert whole.policy.act(x, 0).tolist() == [2, 0]
    assert whole.earned.value > whole.uniform.value + 0.05
    for luck in (40, 90):
        with pytest.raises(coreplan.SimulatorError, match="out of luck"):
            plan(plane(luck), planner=Grow(), budget=4000, seed=3, out=tmp_path / "part", resume=True)
    again = plan(plane(), planner=Grow(), budget=4000, seed=3, out=tmp_path / "part", resume=True)
    whole = plan(problem, planner=Grow(), budget=4000, seed=3)
    assert again.policy.theta.tobytes() == whole.policy.theta.tobytes() and again.queries == whole.queries
    path = tmp_path / "part" / "checkpoint.npz"
    arrays, meta = read_npz(path, KIND, VERSION)
    assert arrays["state.S"].shape == arrays["state.gram"].shape == (problem.features.dimension + 1, 1)
    write_npz(path, {**arrays, "state.S": 2 * arrays["state.S"]}, meta)
    with pytest.raises(coreplan.FileError, match="damaged"):
        plan(problem, planner=Grow(), budget=5000, seed=3, out=tmp_path / "part", resume=True)
