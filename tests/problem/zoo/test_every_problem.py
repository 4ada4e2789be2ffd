"""What holds of every problem of the zoo: simulators follow their tables, declarations hold, bad parameters are refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import coreplan
from coreplan.problem import Sparse, checked
from coreplan.simulate import Guard
from helpers.zoo import ENUMERABLE

ALL = [
    *ENUMERABLE,
    "mountain-car:grid=11",
    "random-linear:states=10**15,lazy=true",
    "random-linear:compiled=false",
]


@pytest.mark.parametrize("spec", ALL)
def test_same_name_same_problem(spec):
    a, b = coreplan.make(spec), coreplan.make(spec)
    x = a.model.initial(np.random.default_rng(0), 50)
    actions = np.arange(50) % a.n_actions
    for p in (a, b):
        assert (p.model.initial(np.random.default_rng(0), 50) == x).all()
    one = a.model.step(np.random.default_rng(1), x, actions)
    two = b.model.step(np.random.default_rng(1), x, actions)
    assert (one[0] == two[0]).all() and (one[1] == two[1]).all()
    checked(a.features, one[1])


@pytest.mark.parametrize(
    "spec",
    [
        "inventory",
        "hard-linear",
        "queue-network-cut",
        "queue-network-cut:features=polynomial",
        "queue:buffer=30",
        "frozen-lake",
        "taxi",
    ],
)
def test_simulators_follow_their_tables(spec):
    """Next states of some pairs: exact support and a chi-square at 1e-9 each (a false alarm is rarer than 1e-7)."""
    problem = coreplan.make(spec)
    table = problem.tabular()
    states = np.asarray(table.states)
    number = {tuple(np.atleast_1d(s)): x for x, s in enumerate(states)}
    rng = np.random.default_rng(3)
    low, high = problem.reward_range
    for x in {0, table.n_states - 1, table.n_states // 2, table.n_states // 3}:
        a = x % problem.n_actions
        n = 5000
        rewards, y = problem.model.step(rng, np.repeat(states[x : x + 1], n, axis=0), np.full(n, a))
        np.testing.assert_allclose((rewards - low) / (high - low), table.r[x, a], atol=1e-12)
        p = np.asarray(
            table.P[x * problem.n_actions + a].todense()
            if hasattr(table.P, "todense")
            else table.P[x * problem.n_actions + a]
        ).ravel()
        counts = np.bincount([number[tuple(np.atleast_1d(s))] for s in y], minlength=table.n_states)
        assert counts[p == 0].sum() == 0
        big = p * n >= 5
        statistic = ((counts[big] - n * p[big]) ** 2 / (n * p[big])).sum()
        assert statistic < stats.chi2.ppf(1 - 1e-9, max(big.sum() - 1, 1))
    start = problem.model.initial(rng, 5000)
    counts = np.bincount([number[tuple(np.atleast_1d(s))] for s in start], minlength=table.n_states)
    assert counts[table.nu0 == 0].sum() == 0
    big = table.nu0 * 5000 >= 5
    assert ((counts[big] - 5000 * table.nu0[big]) ** 2 / (5000 * table.nu0[big])).sum() < stats.chi2.ppf(
        1 - 1e-9, big.sum()
    )


SPECS = [
    "queue:buffer=40", "queue:buffer=40,features=cubic", "queue", "queue-network:buffer=21", "queue-network:features=hat",
    "queue-network-cut", "inventory", "perishable-inventory", "perishable-inventory:features=fourier",
    "perishable-inventory:life=3,lead=1",
    "perishable-inventory:life=1,lead=1,limit=2.5,features=fourier", "pendulum",
    "pendulum:features=rbf,actions=2", "cart-pole:grid=5", "cart-pole:features=polynomial", "acrobot",
    "acrobot:features=grid,grid=5", "mountain-car:grid=5", "mountain-car:features=rbf",
    "frozen-lake:map=8x8", "taxi", "tetris", "tetris:rows=5,columns=4,lines=false", "navigation", "navigation:walls=3",
    "masses", "masses:masses=3,noise=0.3", "masses:features=grid,grid=3,driven=2,actions=2",
]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), sticky=st.booleans())
def test_declarations_hold_everywhere(spec, seed, sticky):
    """Walks under random or stubborn actions, from the start and from core states, which lie at the edges: states finite,
    rewards in their range, features within the radius."""
    problem = coreplan.make(spec)
    rng = np.random.default_rng(seed)
    guard = Guard(problem)  # raises on states that are not finite and rewards out of range
    states = guard.initial(rng, 20)
    if problem.core_pairs is not None:
        states[:10] = rng.choice(problem.core_pairs[0], 10)
    actions = rng.integers(0, problem.n_actions, 20)
    for _ in range(60):
        if not sticky:
            actions = rng.integers(0, problem.n_actions, 20)
        rewards, states = guard.step(rng, states, actions)
        assert ((rewards >= -1e-9) & (rewards <= 1 + 1e-9)).all()
    phi = checked(problem.features, states)  # raises where the radius is exceeded
    weights = phi.weight if isinstance(phi, Sparse) else phi
    assert np.linalg.norm(weights, axis=2).max() <= problem.features.radius * (1 + 1e-9)


BOUNDS = {
    "mountain-car": ([-1.2, -0.07], [0.6, 0.07]),
    "pendulum": ([-np.pi, -8], [np.pi, 8]),
    "cart-pole": ([-2.4, -3, -np.pi / 15, -3.5], [2.4, 3, np.pi / 15, 3.5]),
    "acrobot": ([-np.pi, -np.pi, -4 * np.pi, -9 * np.pi], [np.pi, np.pi, 4 * np.pi, 9 * np.pi]),
    "navigation": ([0, 0], [1, 1]),
    "masses": ([-2] * 4, [2] * 4),
    "masses:masses=3": ([-2] * 6, [2] * 6),
    "inventory": ([0, 0], [30, 30]),
    "perishable-inventory": ([-10, 0, 0], [10, 10, 10]),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_only(name):
    """`features=none` leaves the simulator as it is; `Refine` plans with the bounds, and its policy acts."""
    given, spec = coreplan.make(name), f"{name}{',' if ':' in name else ':'}features=none"
    problem = coreplan.make(spec)
    np.testing.assert_allclose([problem.bounds.low, problem.bounds.high], BOUNDS[name])
    assert problem.core_pairs is None and problem.has_ends == given.has_ends
    turning = {"pendulum": [0], "acrobot": [0, 1]}.get(name, [])
    whole = {"inventory": [0, 1], "perishable-inventory": [1, 2]}.get(name, [])
    assert np.flatnonzero(problem.bounds.periodic).tolist() == turning
    assert np.flatnonzero(problem.bounds.whole).tolist() == whole
    x = given.model.initial(np.random.default_rng(0), 20)
    a = np.arange(20) % given.n_actions
    one, two = (p.model.step(np.random.default_rng(1), x, a) for p in (given, problem))
    assert (one[0] == two[0]).all() and (one[1] == two[1]).all()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", coreplan.CoverageWarning
        )  # speeds and spins of cart-pole have no bounds
        result = coreplan.plan(problem, planner="refine", budget=4_000, reality=0)
    assert result.queries <= 4_000 and result.policy.act(x).shape == (20,)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("queue:features=quartic", "hat, cubic"),
        ("queue:buffer=0", "from 1 to 10^9"),
        ("queue-network:buffer=5", "from 21"),
        ("queue-network:features=3", "a word"),
        ("perishable-inventory:grid=1", "grid from 2 to 100"),
        ("perishable-inventory:features=spline", "grid, fourier"),
        ("perishable-inventory:life=0", "life=...` must be from 1 to 6, got 0"),
        ("perishable-inventory:lead=7", "from 1 to 6"),
        ("perishable-inventory:orders=0", "from 1 to 1000"),
        ("perishable-inventory:mean=11", "from 0 to 10, got 11"),
        ("perishable-inventory:std=0", "from 0.01"),
        ("perishable-inventory:most=nan", "got nan"),
        ("perishable-inventory:limit=-1", "from 0"),
        ("perishable-inventory:holding=-1", "from 0"),
        ("perishable-inventory:purchase=0,holding=0,backlog=0,disposal=0,lost=0", "needs a cost"),
        ("perishable-inventory:life=6,lead=6", "coarser"),
        ("pendulum:actions=1", "from 2 to 1000, got 1"),
        ("pendulum:discount=1.0", "strictly between 0 and 1"),
        ("cart-pole:grid=1000", "from 2 to 40"),
        ("cart-pole:degree=0", "from 1 to 10"),
        ("cart-pole:features=cubic", "grid, polynomial, none"),
        ("acrobot:features=cubic", "quadratic, grid"),
        ("acrobot:grid=100", "from 2 to 40"),
        ("mountain-car:features=tiles", "grid, rbf"),
        ("mountain-car:centres=1", "got 1"),
        ("navigation:walls=9", "from 0 to 6 walls"),
        ("navigation:features=rbf", "grid, none"),
        ("navigation:gap=1.0", "a number from 0.02 to 0.98, got 1"),
        ("navigation:noise=-1", "from 0 to 0.5"),
        ("navigation:noise=nan", "got nan"),
        ("navigation:step=0", "from 0.001 to 1"),
        ("navigation:goal=2", "from 0.3 to 1"),
        ("navigation:actions=2", "3 to 360 directions"),
        ("navigation:grid=1", "2 to 1000"),
        ("masses:masses=7", "from 1 to 6, got 7"),
        ("masses:driven=3", "at most 2, got 3"),
        ("masses:actions=1", "2 to 21 forces"),
        ("masses:force=0", "from 0.001 to 100"),
        ("masses:spring=-1", "from 0 to 100"),
        ("masses:damper=inf", "got inf"),
        ("masses:noise=2", "from 0 to 1"),
        ("masses:grid=100", "2 to 40"),
        ("masses:masses=6,features=grid,grid=9", "coarser"),
        ("masses:features=cubic", "quadratic, grid, none"),
        ("mountain-car:features=none,horizon=9", "needs features"),
        ("frozen-lake:map=5x5", "4x4, 8x8"),
        ("frozen-lake:slippery=maybe", "true or false"),
        ("tetris:columns=3", "from 4 to 32 columns"),
        ("tetris:rows=1000", "rows=1000"),
        ("inventory:features=cubic", "grid, quadratic"),
        ("queue-network-cut:features=3", "a word"),
        ("hard-linear:delta=0.2", "(1 - discount) / 2"),
        ("hard-linear:actions=2", "at least 3"),
    ],
)
def test_bad_parameters(spec, words):
    with pytest.raises(coreplan.InputError) as caught:
        coreplan.make(spec)
    assert words in str(caught.value)
