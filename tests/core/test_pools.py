"""Pools of pairs: copies are merged, rollouts follow the occupancy, forbidden pairs stay out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import coreplan
from coreplan import FunctionFeatures, FunctionModel, InputError, Problem
from coreplan.core import CoreSet, Pool, pools, rollout_pool, uniform_pool
from coreplan.problem import Sparse, one_hot
from coreplan.theory import Enumerated
from helpers.mutants import mutant


def test_copies_are_merged():
    pool = Pool(
        [[0.0], [1.0], [-0.0], [0.0]], [1, 0, 1, 0], np.arange(8.0).reshape(4, 2), [1.0, 2.0, 4.0, 8.0]
    )
    assert pool.states.tolist() == [[0.0], [1.0], [0.0]] and pool.actions.tolist() == [1, 0, 0]
    assert pool.visits.tolist() == [5.0, 2.0, 8.0] and pool.features.tolist() == [[0, 1], [2, 3], [6, 7]]
    assert pool.weights.sum() == 1.0 and len(pool) == 3


@pytest.mark.parametrize("name", ["random-linear", "mountain-car:grid=5"])
def test_features_are_the_problems(name):
    problem = coreplan.make(name)
    pool = rollout_pool(problem, None, 500, actions="all", seed=1)
    ours, theirs = pool.features, CoreSet(pool.states, pool.actions).features(problem.features)
    for a, b in zip(*((x if isinstance(x, Sparse) else [x]) for x in (ours, theirs)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_uniform_pools():
    problem = coreplan.make("mountain-car:grid=5")
    low, high = np.array([-1.2, -0.07]), np.array([0.5, 0.07])
    pool = uniform_pool(problem, 200, box=(low, high), actions="all", seed=3)
    assert len(pool) == 200 * problem.n_actions and pool.queries == 0
    assert (pool.states >= low).all() and (pool.states <= high).all()
    again = uniform_pool(
        problem, 200, sampler=lambda rng, n: rng.uniform(low, high, size=(n, 2)), actions="all", seed=3
    )
    np.testing.assert_array_equal(pool.states, again.states)
    whole = uniform_pool(coreplan.make("river-swim"), 1000, box=(0, 5))
    assert set(whole.states.tolist()) == set(range(6)) and whole.visits.sum() == 1000


class Right:
    def act(self, states, rng):
        return np.ones(len(states), dtype=int)


def rollouts_right(gather):
    """Visits follow (1/T) sum_t rho_t, rho_t = gamma rho_{t-1} P + (1 - gamma) nu0: the walkers' law, computed exactly.

    10,000 independent walkers of T = 200 steps: the visits to a state are a mean of 10,000 independent numbers in [0, 1],
    so by Hoeffding one of 6 states is off by more than 0.029 with probability 12 exp(-2e4 0.029^2) < 6e-7; seeded.
    """
    problem = coreplan.make("river-swim")
    e = Enumerated.of(problem)
    pool = gather(problem, Right(), 2_000_000, seed=4)
    P = e.P.toarray()[1::2] if sparse.issparse(e.P) else e.P[1::2]  # of action 1
    rho = total = e.nu0
    for _ in range(199):
        rho = e.discount * rho @ P + (1 - e.discount) * e.nu0
        total = total + rho
    visits = np.zeros(len(rho))
    visits[pool.states] = pool.weights
    assert (pool.actions == 1).all() and np.abs(visits - total / 200).max() < 0.029


def test_rollouts_follow_the_occupancy():
    rollouts_right(rollout_pool)


def test_rollouts_count_queries_and_repeat():
    base = coreplan.make("river-swim")
    asked = []

    def step(rng, states, actions):
        asked.append(len(actions))
        return base.model.step(rng, states, actions)

    model = coreplan.FunctionModel(base.n_actions, base.model.initial, step)
    problem = coreplan.Problem(model, base.features, base.discount, reward_range=base.reward_range)
    pool = rollout_pool(problem, None, 5000, seed=5)
    assert pool.queries == sum(asked) and 0.9 * 5000 < pool.queries < 5000 and pool.visits.sum() == 5000
    again, other = (rollout_pool(problem, None, 5000, seed=seed) for seed in (5, 6))
    np.testing.assert_array_equal(pool.visits, again.visits)
    assert pool.visits.tolist() != other.visits.tolist()
    both = rollout_pool(problem, Right(), 5000, actions="all", seed=5)
    assert set(both.actions[both.visits > 0]) == {1} and set(both.actions) == {0, 1}
    assert both.visits.sum() == 5000


def test_a_wrong_policy_is_named():
    class Wrong:
        def act(self, states, rng):
            return np.full(len(states), 7)

    with pytest.raises(InputError, match=r"policy\.act must return"):
        rollout_pool(coreplan.make("river-swim"), Wrong(), 10)


@pytest.mark.parametrize(
    ("old", "new"),
    [("rng.random(walkers) < problem", "rng.random(walkers) >= problem"), ("played[-1][on]", "0 * played[-1][on]")],
)  # fmt: skip
def test_rollout_faults_are_noticed(old, new, tmp_path, monkeypatch):
    broken = mutant(pools, old, new, tmp_path, monkeypatch)
    with pytest.raises(AssertionError):
        rollouts_right(broken.rollout_pool)


def test_sparse_features_that_repeat_a_coordinate_are_refused():
    rows = Sparse(np.array([[0, 1], [2, 2]]), np.array([[1.0, 0.0], [0.5, 0.5]]))
    with pytest.raises(coreplan.InputError, match="twice"):
        Pool(np.arange(2), np.zeros(2, dtype=np.int64), rows)


def test_pools_and_checks_keep_to_the_mask():
    """Forbidden pairs are neither simulated nor put into a pool."""

    def mask(states):
        return np.stack([states % 2 == 0, np.ones(len(states), dtype=bool)], axis=1)

    def step(rng, states, actions):
        assert mask(states)[np.arange(len(states)), actions].all()
        return rng.random(len(states)), rng.integers(0, 6, len(states))

    model = coreplan.FunctionModel(2, lambda rng, n: rng.integers(0, 6, n), step)
    problem = coreplan.Problem(model, one_hot(6, 2), 0.9, mask=mask)
    for pool in (
        rollout_pool(problem, None, 200, actions="all"),
        rollout_pool(problem, None, 200),
        uniform_pool(problem, 50, box=(0, 5)),
        uniform_pool(problem, 50, box=(0, 5), actions="all"),
    ):
        assert mask(pool.states)[np.arange(len(pool)), pool.actions].all()
    assert coreplan.check(problem, queries=2000)["hull error"].light == "green"


def test_a_box_needs_every_end_in_order():
    problem = coreplan.make("mountain-car")
    for low, high in (([0.0, 1.0], [1.0, 0.0]), ([0.0, np.nan], [1.0, 1.0]), ([0.0, 0.0], [1.0, np.inf])):
        with pytest.raises(coreplan.InputError, match="low <= high"):
            uniform_pool(problem, 10, box=(np.array(low), np.array(high)))


def test_sparse_features_of_a_pool_need_good_indices():
    index, weight = np.zeros((3, 2), dtype=np.int64), np.ones((3, 2))
    for bad in (index[:2], index - 1, index.astype(float)):
        with pytest.raises(coreplan.InputError, match="indices not negative"):
            pools._features(Sparse(bad, weight), 3)


def test_a_rollout_needs_a_problem():
    with pytest.raises(InputError, match="a Problem"):
        rollout_pool("river-swim", None, 10)


def test_a_rollout_asks_for_no_initial_states_when_no_walker_restarts():
    """The simulator is somebody's, and may fail on an empty batch. With discount .999, 30 pairs of one walker."""
    asked = []

    def initial(rng, n):
        asked.append(n)
        return np.zeros(n)

    model = FunctionModel(1, initial, lambda rng, s, a: (np.zeros(len(s)), s + 1.0))
    features = FunctionFeatures(lambda s: np.ones((len(s), 1, 1)), 1, 1, 1.0)
    pool = rollout_pool(Problem(model, features, 0.999), None, 30)
    assert min(asked) > 0 and pool.visits.sum() == 30
