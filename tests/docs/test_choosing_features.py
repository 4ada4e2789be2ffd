"""The models behind docs/choosing-features.md are what the page says, and its first rows come out again."""

from __future__ import annotations

import importlib.util
import itertools

import numpy as np
import pytest

from helpers.places import ROOT


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("choosing", ROOT / "benchmarks" / "choosing_features.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_acrobot_is_gymnasiums(bench):
    gymnasium = pytest.importorskip("gymnasium")
    env, rng = gymnasium.make("Acrobot-v1").unwrapped, np.random.default_rng(0)
    env.reset(seed=0)
    ends = 0
    for _ in range(200):
        state, action = rng.uniform(-1, 1, 4) * bench.REACH, int(rng.integers(3))
        env.state = state.copy()
        _, reward, over, _, _ = env.step(action)
        rewards, states = bench.swing(rng, np.append(state, 0.0)[None], np.array([action]))
        assert rewards[0] == reward and bool(states[0, 4]) == over
        if not over:
            np.testing.assert_allclose(states[0, :4], env.state, atol=1e-9)
        ends += over
    assert 0 < ends < 200


def test_an_ended_acrobot_stays_ended(bench):
    over = np.array([[0.0, 0, 0, 0, 1]] * 3)
    rewards, states = bench.swing(None, over, np.arange(3))
    assert not rewards.any() and np.array_equal(states, over)


def test_the_square_is_its_table(bench):
    table, A = bench.square_table(), 4
    states, actions = np.repeat(table.states, A, axis=0), np.tile(np.arange(A), len(table.states))
    rewards, next_states = bench.walk(None, states, actions)
    np.testing.assert_array_equal(rewards, table.r.ravel())
    np.testing.assert_array_equal(table.expect(table.states @ [bench.SIDE, 1]), next_states @ [bench.SIDE, 1])
    crossed = (states[:, 0] == 9) & (next_states[:, 0] == 10)
    assert set(states[crossed, 1]) == {37, 38}  # the passage


def test_the_season_is_its_table(bench):
    """On a midpoint grid of noise the model's mean reward is the table's up to the width of the grid."""
    table, n = bench.season_table(), 4000
    noise = (np.arange(n)[:, None] + 0.5) / n
    for x in (0, 5 * 21 + 3, 20 * 21, 20 * 21 + 19, 20 * 21 + 20):  # stock, time
        for a in range(5):
            rewards, states = bench.sell(np.tile(table.states[x], (n, 1)), np.full(n, a), noise)
            top = bench.MOST * bench.PRICES.max()
            assert rewards.mean() / top == pytest.approx(table.r[x, a], abs=2 * bench.MOST / n)
            reached = table.P[x * 5 + a].toarray()[0]
            assert states[:, 0].mean() == pytest.approx(reached @ table.states[:, 0], abs=2 * bench.MOST / n)
            assert set(states[:, 1]) == {min(table.states[x, 1] + 1, bench.SEASON)}


def test_the_machines_are_their_tensors(bench):
    judge, rng = bench.Machines(), np.random.default_rng(0)
    V = rng.random(len(judge.states))
    Q = judge.backed_up(V)
    powers = 9 ** np.arange(4, -1, -1)
    for x, a in itertools.product(rng.integers(len(V), size=20), range(6)):
        expected = 0.0
        for worse in itertools.product((0, 1), repeat=5):  # 32 outcomes; noise just inside or outside
            noise = np.where(worse, 0.0, 1 - 1e-9)[None]
            rewards, after = bench.wear(judge.states[[x]], np.array([a]), noise)
            chance = np.where(worse, bench.WEAR, 1 - bench.WEAR).prod()
            expected += chance * V[int(after[0] @ powers)]
        assert Q[x, a] == pytest.approx((rewards[0] + 0.5) / 5.5 + 0.95 * expected, abs=1e-12)
    assert judge.uniform < judge.optimum


def test_nodes_at_the_walls_find_the_way_and_a_coarse_grid_does_not(bench):
    fitted, coarse = bench.square_part(quick=True)
    assert fitted["size"] == 360 and fitted["sub"] < 1e-6
    assert coarse["earned"] < 1e-6 and coarse["believed"] > 1.5 * coarse["optimum"]


def test_every_part_makes_a_page(bench):
    results = {name: bench.PARTS[name](quick=True) for name in ("season", "inventory")}
    text = bench.page(results)
    assert text.count("\n## ") == 2 and "| 7 | 5 | 441 |" in text
    assert set(bench.ABOUT) == set(bench.PARTS)
