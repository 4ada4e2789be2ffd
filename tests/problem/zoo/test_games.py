"""Frozen lake and taxi against Gymnasium's own tables; Tetris, its rules by naive recomputation."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan.judge import optimal_values
from coreplan.judge.exact import normalised
from coreplan.problem import checked
from coreplan.problem.zoo import tetris
from coreplan.problem.zoo.toy_text import frozen_lake, taxi
from helpers.mutants import mutant
from helpers.zoo import module

# Frozen lake and taxi.


def gymnasium_table(env, r_low, r_high):
    """Gymnasium's transitions as matrices, every end of a game leading to one more state."""
    X, A = env.observation_space.n + 1, env.action_space.n
    P, r = np.zeros((X, A, X)), np.zeros((X, A))
    P[-1, :, -1] = 1.0
    for s, actions in env.unwrapped.P.items():
        for a, moves in actions.items():
            for p, y, reward, over in moves:
                P[s, a, -1 if over else y] += p
                r[s, a] += p * reward
    return P, r, (r - r_low) / (r_high - r_low)


LAKES = [("4x4", True), ("8x8", True), ("4x4", False), ("8x8", False)]


def check_toy(problem, env, low, high):
    P, _, r = gymnasium_table(env, low, high)
    table = problem.tabular()
    np.testing.assert_allclose(table.P, P.reshape(table.P.shape), atol=1e-15)
    np.testing.assert_allclose(table.r, r, atol=1e-15)
    np.testing.assert_allclose(table.nu0[:-1], env.unwrapped.initial_state_distrib, atol=1e-15)


def check_lake(factory):
    gymnasium = pytest.importorskip("gymnasium")
    for size, slippery in LAKES:
        env = gymnasium.make("FrozenLake-v1", map_name=size, is_slippery=slippery)
        check_toy(factory(size, slippery), env, 0.0, 1.0)


def check_taxi(factory):
    gymnasium = pytest.importorskip("gymnasium")
    versions = [name for name in ("Taxi-v3", "Taxi-v4") if name in gymnasium.registry]
    check_toy(factory(), gymnasium.make(versions[-1]), -10.0, 20.0)


def test_frozen_lake_is_gymnasiums():
    check_lake(frozen_lake)


def test_taxi_is_gymnasiums():
    check_taxi(taxi)


@pytest.mark.parametrize(
    ("spec", "known"), [("frozen-lake", 0.5420), ("frozen-lake:map=8x8", 0.4146), ("taxi", None)]
)
def test_toy_optimum_against_another_solver(spec, known):
    markov = pytest.importorskip("quantecon.markov")
    problem = coreplan.make(spec)
    table, (low, high) = problem.tabular(), problem.reward_range
    R = low + (high - low) * table.r
    P = np.asarray(table.P).reshape(table.n_states, problem.n_actions, -1)
    other = markov.DiscreteDP(R, P, 0.99).solve(method="policy_iteration").v @ table.nu0
    ours = normalised(table, optimal_values(table, 0.99)[0], 0.99)
    assert problem.to_reward_units(ours) / 0.01 == pytest.approx(other, abs=1e-9)
    if known:
        assert other == pytest.approx(known, abs=5e-5)


def test_taxi_shortest_ways():
    """Undiscounted, the best policy earns 7.93 on average over the starts (known); so it does at a discount near 1."""
    problem = coreplan.make("taxi:discount=0.999999")
    table = problem.tabular()
    V, _ = optimal_values(table, problem.discount)
    value = problem.to_reward_units(normalised(table, V, problem.discount)) / (1 - problem.discount)
    assert value == pytest.approx(7.93, abs=0.01)


# Tetris.


def naive_place(board, cells, column):
    """Drop `cells [h, w]` (row 0 lowest) on `board [rows, columns]`: the new board and the lines, or None if over."""
    rows, (h, w) = len(board), cells.shape
    tall = np.zeros((rows + 4, board.shape[1]), dtype=bool)
    tall[:rows] = board
    y = rows
    while y > 0 and not (tall[y - 1 : y - 1 + h, column : column + w] & cells).any():
        y -= 1
    tall[y : y + h, column : column + w] |= cells
    if tall[rows:].any():
        return None
    kept = [row for row in tall[:rows] if not row.all()]
    lines = rows - len(kept)
    return np.array([*kept, *np.zeros((lines, board.shape[1]), dtype=bool)]), lines


def naive_features(board, lines):
    rows, columns = board.shape
    heights = np.array([max([i + 1 for i in range(rows) if board[i, k]], default=0) for k in range(columns)])
    holes = sum(not board[i, k] and board[i:, k].any() for i in range(rows) for k in range(columns))
    return np.concatenate(
        [heights / rows, np.abs(np.diff(heights)) / rows,
         [heights.max() / rows, holes / (rows * columns), 1.0, lines / 4]]
    )  # fmt: skip


def random_boards(rng, n, rows, columns):
    """Boards as bits with the piece and the flag: rough stacks of random height, no full row."""
    top = rng.integers(0, rows, size=(n, 1, columns))
    filled = (np.arange(rows)[None, :, None] < top) & (rng.random((n, rows, columns)) < 0.9)
    filled[filled.all(axis=2), 0] = False
    bits = filled @ (1 << np.arange(columns))
    return np.c_[bits, rng.integers(0, 7, n), np.zeros(n, dtype=int)]


SHAPES = {  # each piece's four cells (row, column) as it lies, lowest row first
    0: [(0, 0), (0, 1), (0, 2), (0, 3)], 1: [(0, 0), (0, 1), (1, 0), (1, 1)], 2: [(0, 0), (0, 1), (0, 2), (1, 1)],
    3: [(0, 0), (0, 1), (1, 1), (1, 2)], 4: [(0, 1), (0, 2), (1, 0), (1, 1)], 5: [(0, 0), (0, 1), (0, 2), (1, 0)],
    6: [(0, 0), (0, 1), (0, 2), (1, 2)],
}  # fmt: skip


def check_tetris(factory, rows=8, columns=6):
    """Steps and features of random boards against a slow and plain recomputation."""
    problem = factory(rows, columns)
    rng = np.random.default_rng(0)
    x = random_boards(rng, 60, rows, columns)
    phi = checked(problem.features, x)
    seen = {"over": 0, "lines": 0}
    for a in rng.permutation(4 * columns)[:10]:
        rewards, y = problem.model.step(rng, x, np.full(len(x), a))
        for n in range(len(x)):
            cells = np.zeros((4, 4), dtype=bool)
            cells[tuple(zip(*SHAPES[x[n, rows]], strict=True))] = True
            cells = cells[cells.any(axis=1)][:, cells.any(axis=0)]
            for _ in range(a // columns):
                cells = cells.T[::-1]  # a quarter turn
            board = (x[n, :rows, None] >> np.arange(columns)) & 1 == 1
            landed = naive_place(board, cells, min(a % columns, columns - cells.shape[1]))
            if landed is None:
                seen["over"] += 1
                assert rewards[n] == 0 and y[n, rows + 1] == 1 and not y[n, :rows].any()
                assert not phi[n, a].any()
                continue
            after, lines = landed
            seen["lines"] += lines
            assert rewards[n] == lines and y[n, rows + 1] == 0 and 0 <= y[n, rows] < 7
            np.testing.assert_array_equal(y[n, :rows], after @ (1 << np.arange(columns)))
            np.testing.assert_allclose(phi[n, a], naive_features(after, lines), atol=1e-15)
    assert seen["over"] > 20 and seen["lines"] > 20


def test_tetris_rules_and_features():
    check_tetris(tetris)


def test_tetris_worked_example():
    """A well of one column beside three full rows and the standing I: four rows of 4 fill three, three lines go."""
    problem = coreplan.make("tetris:rows=5,columns=4")
    x = np.array([[0b0111, 0b0111, 0b0111, 0, 0, 0, 0]])
    rewards, y = problem.model.step(np.random.default_rng(0), x, np.array([1 * 4 + 3]))
    assert rewards[0] == 3
    np.testing.assert_array_equal(y[0, :5], [0b1000, 0, 0, 0, 0])
    over = np.array([[0b1110, 0b1110, 0b1110, 0b1110, 0b1110, 1, 0]])
    for _ in range(2):  # a square does not fit on the full board; over stays over
        rewards, over = problem.model.step(np.random.default_rng(0), over, np.array([1]))
        assert rewards[0] == 0
        np.testing.assert_array_equal(over[0], [0, 0, 0, 0, 0, 0, 1])
    assert not problem.features(over).any()
    over[0, 5:] = 7, 0
    with pytest.raises(coreplan.FeatureError, match="not finite"):
        checked(problem.features, over)  # there is no piece 7
    assert coreplan.make("tetris:lines=false").features.dimension == 22


def lines_a_game(problem, theta, games):
    rng = np.random.default_rng(0)
    rows = problem.model.state_shape[0] - 2
    policy = coreplan.SoftmaxPolicy.uniform(problem.features)
    if theta is not None:
        policy = coreplan.SoftmaxPolicy(theta, np.inf, problem.features)
    x, lines = problem.model.initial(rng, games), np.zeros(games)
    while not x[:, rows + 1].all():
        rewards, x = problem.model.step(rng, x, policy.act(x, rng))
        lines += rewards
    return lines.mean()


def test_a_hand_made_tetris_player():
    """Weights on heights, differences, holes and lines, as hobbyists tune them: about 100 lines a game on 10 x 10 (and
    580 on 10 x 20), where random placements clear one in hundreds of games."""
    problem = coreplan.make("tetris:rows=10")
    theta = np.concatenate([np.full(10, -5.1), np.full(9, -1.8), [0, -36.0, 1000.0, 3.0]])
    assert lines_a_game(problem, theta, 60) > 40
    assert lines_a_game(problem, None, 500) < 0.1


# The tests above notice faults.


FAULTS = {
    "a wall is missing": ("toy_text", "taxi", ", (4, 2)}", "}", check_taxi),
    "ice slips backwards": ("toy_text", "frozen_lake", "(a - 1) % 4, a,", "(a + 2) % 4, a,", check_lake),
    "lines stay": ("tetris", "tetris", "if row != full:", "if row <= full:", check_tetris),
    "pieces stick out": ("tetris", "tetris", "y + height > rows", "y + height > rows + 1", check_tetris),
    "holes are cells": ("tetris", "tetris", "below = covered & ~board[i]", "below = covered", check_tetris),
    "columns are not clipped": ("tetris", "tetris", "columns - width)", "columns - width + 1)", check_tetris),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(fault, tmp_path, monkeypatch):
    file, name, old, new, check = FAULTS[fault]
    broken = mutant(module(file), old, new, tmp_path, monkeypatch)
    with pytest.raises(AssertionError):
        check(getattr(broken, name))
