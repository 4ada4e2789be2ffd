"""Stock, of goods that keep and of goods that perish: known numbers, and dynamic programming against published costs."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from scipy import stats

import coreplan
from coreplan.problem.zoo.perishable import perishable_inventory
from helpers.mutants import mutant
from helpers.zoo import known, module

# Two goods that keep.


def test_inventory_numbers():
    problem = coreplan.make("inventory")
    _, best, uniform, _ = known(problem)
    assert best == pytest.approx(0.6497, abs=5e-5) and uniform == pytest.approx(0.5155, abs=5e-5)
    assert problem.features.dimension == 441 and len(coreplan.CoreSet.of(problem)) == 441
    assert coreplan.make("inventory:features=quadratic").features.dimension == 54
    assert coreplan.make("inventory:features=quadratic").core_pairs is None


def test_inventory_draws_as_it_always_did():
    """Two uniforms a query in the order of the batch, inverted by hand."""
    problem = coreplan.make("inventory")
    states, actions = problem.core_pairs
    states = np.floor(states)
    rng = np.random.default_rng(3)
    _, after = problem.model.step(rng, states, actions)
    u = np.random.default_rng(3).random((len(actions), 2))
    _, demand1, demand2, orders, cap = problem.model.data
    for i, cumulative in enumerate((demand1, demand2)):
        demand = np.searchsorted(cumulative, u[:, i], side="right")
        want = np.maximum(np.minimum(states[:, i] + orders[actions, i], cap) - demand, 0)
        np.testing.assert_array_equal(after[:, i], want)


# Perishable stock.


DEMAND = stats.truncnorm(-2.5, 2.5, loc=5, scale=2)


def test_demand_is_a_truncated_normal():
    u = np.concatenate([np.linspace(0, 1 - 1e-12, 999), [0.5, 1e-300]])
    np.testing.assert_allclose([module("perishable")._demand(v) for v in u], DEMAND.ppf(u), atol=1e-13)


@functools.cache
def perishable_plan(h=0.5, K=400):
    """Dynamic programming with s0 on a net of width h, the demand at K quantiles; whole orders make s1, s2 whole numbers."""
    s0, s1 = np.arange(-10, 10 + h / 2, h)[:, None, None], np.arange(11.0)[None, :, None]
    D, n = DEMAND.ppf((np.arange(K) + 0.5) / K), round(20 / h) + 1
    left = s1 - np.maximum(D - s0, 0)  # [n, 11, K]
    short = np.maximum(D - s0 - s1, 0)
    c = 2 * np.maximum(left, 0) + 10 * short + 5 * np.maximum(s0 - D, 0) + 100 * np.maximum(short - 10, 0)
    z = (np.maximum(left, -10) + 10) / h
    cell = np.minimum(z.astype(int), n - 2)
    T = np.zeros((n * 11, n))
    row = np.arange(n * 11)[:, None]
    for side, weight in ((0, cell + 1 - z), (1, z - cell)):
        np.add.at(T, (row, (cell + side).reshape(n * 11, K)), weight.reshape(n * 11, K) / K)
    V = np.zeros((n, 11, 11))
    for _ in range(250):  # 0.95^250 of at most 30,000 is left
        Q = c.mean(axis=2)[:, :, None, None] + 20 * 0.95**2 * np.arange(11.0)
        Q = Q + 0.95 * (T @ V.reshape(n, 121)).reshape(n, 11, 11, 11)  # [s0, s1, s2, a]
        V = Q.min(axis=3)
    return V, Q


def check_perishable(factory, V, Q, h=0.5):
    """The plan's policy in the simulator: its cost is the plan's, and lies where the published bounds say.

    The standard error is about 1.4; the window is five of them and the net's error of about 1.5.
    """
    problem, n = factory(), 8000
    rng = np.random.default_rng(4)
    x, cost = problem.model.initial(rng, n), np.zeros(n)
    np.testing.assert_array_equal(x, 5.0)
    for t in range(180):
        z = (x[:, 0] + 10) / h
        cell = np.minimum(z.astype(int), len(Q) - 2)
        s1, s2, up = x[:, 1].astype(int), x[:, 2].astype(int), (z - cell)[:, None]
        q = (1 - up) * Q[cell, s1, s2] + up * Q[cell + 1, s1, s2]
        rewards, x = problem.model.step(rng, x, q.argmin(axis=1))
        cost -= 0.95**t * rewards
    rest = 0.95**180 * 110 / 0.05  # about 110 a step
    assert cost.std() / math.sqrt(n) < 1.6
    assert abs(cost.mean() + rest - V[round(15 / h), 5, 5]) < 8.5
    assert 2003.4 < cost.mean() + rest < 2081.6


def test_perishable_inventory_against_the_published_costs():
    """Bounds 2003.4 (no policy is cheaper) and 2056.4 (self-guided ALP); the optimum for whole orders is 2050.6."""
    V, Q = perishable_plan()
    assert 2003.4 < V[30, 5, 5] < 2056.4
    check_perishable(perishable_inventory, V, Q)


def test_perishable_reward_range_is_attained():
    problem = coreplan.make("perishable-inventory")
    rng = np.random.default_rng(0)
    n = 200_000
    rewards, _ = problem.model.step(rng, np.tile([-10.0, 0, 0], (n, 1)), np.full(n, 10))
    low, high = problem.reward_range
    assert high == 0.0 and low == -1380.5
    assert low <= rewards.min() < low + 1.5  # the worst of n demands is within 0.02 of 10, at 110 a unit
    rewards, _ = problem.model.step(rng, np.tile([0.0, 5, 5], (n, 1)), np.zeros(n, dtype=int))
    assert -1e-3 < rewards.max() <= 0.0


def test_a_fault_in_the_perishable_costs_is_noticed(tmp_path, monkeypatch):
    broken = mutant(
        module("perishable"), "_HOLDING * max(left, 0.0)", "_HOLDING * left", tmp_path, monkeypatch
    )
    V, Q = perishable_plan()
    with pytest.raises(AssertionError):
        check_perishable(broken.perishable_inventory, V, Q)
