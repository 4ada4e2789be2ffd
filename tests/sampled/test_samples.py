"""Stored samples: what a run keeps of them, and what another planner makes of them."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan import CoreSet, OptimisticPrimalDual, PlugIn, SampledLP, plan
from coreplan.features import arrays
from coreplan.planners import CoreSetup, sampled_lp
from coreplan.problem import one_hot
from coreplan.simulate import REPEATED
from helpers.stored_samples import sampled


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


def test_batches_are_the_samples_of_one_ask(monkeypatch):
    """SampledLP in batches: the simulator is a function of its stream, one row after the other, and theta the same."""
    problem = coreplan.make("random-linear")
    whole = plan(problem, planner=SampledLP(), budget=800, seed=3)
    monkeypatch.setattr(sampled_lp, "BATCH", 90)
    parts = plan(problem, planner=SampledLP(), budget=800, seed=3)
    assert parts.policy.theta.tobytes() == whole.policy.theta.tobytes()
    assert parts.initial_draws == whole.initial_draws == 100


@pytest.mark.parametrize("spec", ["random-linear", "river-linear"])
@pytest.mark.parametrize(
    "solve", [SampledLP().on, lambda s: OptimisticPrimalDual().on(s, 5)], ids=["lp", "optimistic"]
)
def test_solving_changes_no_sample(spec, solve):
    """Also where features are sparse, with zeros between the other weights: others solve on the same samples later."""
    stored = sampled(coreplan.make(spec), 5, 0)

    def bits():
        return [a.tobytes() for phi in (stored.next_features, stored.initial_features) for a in arrays(phi)]

    before = bits()
    first, second = solve(stored), solve(stored)
    assert bits() == before
    assert str(first) == str(second)


@pytest.mark.parametrize(("spec", "d", "actions"), [("random-linear", 8, 4), ("river-linear", 20, 3)])
def test_the_setup_is_that_of_the_samples(spec, d, actions):
    setup = CoreSetup.of_stored(sampled(coreplan.make(spec), 20, 0))
    assert (setup.dimension, setup.n_actions, setup.m, setup.radius) == (d, actions, d, 1.0)


@pytest.mark.parametrize("source", [PlugIn(samples=4), SampledLP(samples=4)], ids=lambda p: p.name)
def test_the_dimension_of_sparse_features_is_kept(source):
    """The last state is never seen and has no core pair: no stored index says that d = 6, and theta has 6 entries."""
    core = coreplan.CoreSet(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))
    model = coreplan.FunctionModel(
        2, lambda rng, n: np.zeros(n, dtype=int), lambda rng, x, a: (a / 2, rng.integers(0, 2, len(x)))
    )
    problem = coreplan.Problem(model, one_hot(3, 2), 0.9)
    stored = coreplan.plan(problem, core, source, budget=100).stored
    assert stored.next_features.index.max() == 3 and stored.dimension == 6
    for theta in (SampledLP().on(stored)[0].theta, OptimisticPrimalDual().on(stored, 5).theta):
        assert theta.shape == (6,) and (theta[4:] == 0).all()
