"""The models behind docs/choosing-features.md are what the page says, and its first rows come out again."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from helpers.places import ROOT, benchmark


@pytest.fixture(scope="module")
def bench():
    return benchmark("choosing_features")


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
        for worse in itertools.product((0, 1), repeat=5):  # 32 outcomes
            noise = np.where(worse, bench.WEAR - 1e-9, bench.WEAR + 1e-9)[None]
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


def short(x, digits=4):
    """.0417: a number below 1 as the page writes it."""
    return f"{x:.{digits}f}".removeprefix("0")


def quoted(results):
    """The rows of the page's tables, as they follow from the results."""
    by = {
        part: {row[key]: row for row in results[part]}
        for part, key in (("square", "nodes"), ("queue", "nodes"))
    }
    stock = {row["nodes"]: row for row in results["inventory"]}
    for n, name in ((4, "4"), (7, "7"), (11, "11"), (31, "31, one per unit")):
        row = stock[n]
        yield f"| {name} | {row['size']:,} | {row['queries']:,.0f} | {short(row['sub'])} |"
    for n, name in (("5 x 5", "a square with three walls, 5 x 5 nodes"), ("21 x 21", "the same, 21 x 21"),
                    ("41 x 41", "the same, 41 x 41: one per cell")):  # fmt: skip
        yield believed_row(name, by["square"][n])
    yield believed_row("inventory, 4 nodes per axis", stock[4])
    yield believed_row("the same, 11 nodes", stock[11])
    machines = results["machines"]
    yield believed_row("five machines, 2 nodes per axis", machines[0])
    names = ("2 nodes per axis", "3", "5", "polynomials of degree 2, `Grow`")
    for name, row in zip(names, machines, strict=False):
        spent = f"{row['size']:,} | {row['queries']:,.0f} | {row['seconds']:.1f} s"
        yield f"| {name} | {spent} | {short(row['sub'])} |"
    for end in (10, 20, 40, 199):
        yield f"| 11, evenly from 0 to {end} | {short(by['queue'][f'11 evenly from 0 to {end}']['sub'])} |"
    yield f"| 13, unevenly: 0, 1, 2, 3, 5, 8, 13, ..., 144, 199 | {short(results['queue'][-1]['sub'])} |"
    yield from angle_rows(results)
    season = {(row["stock"], row["time"]): row for row in results["season"]}
    for at in ((21, 21), (21, 11), (21, 6), (21, 2), (11, 21), (6, 21), (6, 6)):
        yield f"| {at[0]} | {at[1]} | {season[at]['size']:,} | {short(season[at]['sub'])} |"


def angle_rows(results):
    swings = {(r["nodes"], r["speeds"], r["interpolation"], r["angles"]): r for r in results["acrobot"]}
    wide, narrow = "12.6, 28.3", "5, 8"

    def played(n, *at):
        return f"{swings[n, *at]['episodes']:.0f}"

    for n in (5, 7, 9, 11, 13):
        size = swings[n, wide, "multilinear", "cut"]["size"]
        found = [
            played(n, box, kind, "cut") for box in (wide, narrow) for kind in ("multilinear", "simplicial")
        ]
        yield f"| {n} | {size:,} | " + " | ".join(found) + " |"
    pendulum = {(r["nodes"], r["angles"]): r for r in results["pendulum"]}
    for n in (9, 13, 21, 31):
        both = [f"{pendulum[n, angles]['returns']:.1f}" for angles in ("cut", "joined")]
        yield f"| {n} | {pendulum[n, 'cut']['size']:,} | " + " | ".join(both) + " |"
    for n in (5, 7, 9, 11):
        found = [
            played(n, box, "multilinear", angles) for box in (wide, narrow) for angles in ("cut", "joined")
        ]
        yield f"| {n} | " + " | ".join(found) + " |"


def believed_row(name, row):
    return f"| {name} | " + " | ".join(short(row[key], 3) for key in ("believed", "earned", "optimum")) + " |"


def test_the_page_quotes_the_results():
    results = json.loads((ROOT / "benchmarks" / "results" / "choosing_features.json").read_text())
    text = (ROOT / "docs" / "choosing-features.md").read_text()
    assert [row for row in quoted(results) if row not in text] == []


def test_the_results_page_is_that_of_the_numbers(bench):
    results = json.loads((ROOT / "benchmarks" / "results" / "choosing_features.json").read_text())
    assert (ROOT / "benchmarks" / "results" / "choosing_features.md").read_text() == bench.page(results)
