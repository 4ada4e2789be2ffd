"""`frozen-lake` and `taxi`: two of Gymnasium's small games, with one absorbing state to which every end of a game leads."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np

from ...base import FloatArray, as_choice
from ...features import one_hot
from ..problem import Problem
from ..tables import Tabular, tabular_model

_LAKES = {
    "4x4": "SFFF FHFH FFFH HFFG",
    "8x8": "SFFFFFFF FFFFFFFF FFFHFFFF FFFFFHFF FFFHFFFF FHHFFFHF FHFFHFHF FFFHFFFG",
}
_HEADINGS = ((0, -1), (1, 0), (0, 1), (-1, 0))  # left, down, right, up


def frozen_lake(map: str = "4x4", slippery: bool = True, discount: float = 0.99) -> Problem:
    """Cross a frozen lake to the goal without falling into a hole: 4x4 or 8x8 cells and the end, 4 actions, one-hot.

    Actions go left, down, right, up; on slippery ice a step goes that way or to either side, with probability 1/3 each;
    walls stop it. Reaching the goal pays 1. Goal and holes lead to the absorbing end state, numbered last, which pays 0.
    (As in Gymnasium, except that a move that ends the game leads to the end state at once, so the goal's own number is
    never visited.)

    Known: on slippery ice with discount 0.99 the optimal E[discount^(steps - 1); goal] is 0.5420 on 4x4 and
    0.4146 on 8x8; values here are (1 - discount) times that.
    """
    as_choice("frozen-lake", tuple(_LAKES), map=map)
    lake = _LAKES[map].split()
    rows, columns = len(lake), len(lake[0])
    S = rows * columns
    P, r = np.zeros((S + 1, 4, S + 1)), np.zeros((S + 1, 4))
    P[S, :, S] = 1.0
    for (i, j), a in itertools.product(np.ndindex(rows, columns), range(4)):
        s = i * columns + j
        if lake[i][j] in "GH":
            P[s, a, S] = 1.0
            continue
        headings = [(a - 1) % 4, a, (a + 1) % 4] if slippery else [a]
        for di, dj in (_HEADINGS[h] for h in headings):
            k, l = min(max(i + di, 0), rows - 1), min(max(j + dj, 0), columns - 1)
            P[s, a, S if lake[k][l] in "GH" else k * columns + l] += 1 / len(headings)
            r[s, a] += (lake[k][l] == "G") / len(headings)
    problem = _with_table(P, r, np.eye(S)[0], (0.0, 1.0), discount)
    return dataclasses.replace(problem, state_names=("cell",), action_names=("left", "down", "right", "up"))


_STANDS = ((0, 0), (0, 4), (4, 0), (4, 3))  # red, green, yellow, blue
_WALLS = {(0, 1), (1, 1), (3, 0), (4, 0), (3, 2), (4, 2)}  # (row, column) with a wall on its right


def _drive(row: int, column: int, action: int) -> tuple[int, int]:
    if action < 2:
        return (min(row + 1, 4), column) if action == 0 else (max(row - 1, 0), column)
    if action == 2:
        return (row, column) if (row, column) in _WALLS else (row, min(column + 1, 4))
    return (row, column) if (row, column - 1) in _WALLS else (row, max(column - 1, 0))


def _serve(at: tuple[int, int], passenger: int, goal: int, action: int) -> tuple[int, float, bool]:
    """Actions pick up (4) and drop (5): where the passenger is afterwards (4 = in the taxi), the reward, whether it ends."""
    if action == 4:
        return (4, -1.0, False) if passenger < 4 and at == _STANDS[passenger] else (passenger, -10.0, False)
    if passenger == 4 and at in _STANDS:
        stand = _STANDS.index(at)
        return (stand, 20.0, True) if stand == goal else (stand, -1.0, False)
    return passenger, -10.0, False


def taxi(discount: float = 0.99) -> Problem:
    """Fetch a passenger and drop them at their goal: 5 x 5 cells, 500 states and the end, 6 actions, one-hot.

    The state is ((row * 5 + column) * 5 + passenger) * 4 + goal; passenger and goal are stands 0..3, and passenger 4 is in
    the taxi. Actions: drive down, up, right, left, pick up, drop. Each step pays -1, except 20 for the right drop, which
    ends the game, and -10 for a pick-up or drop where none is possible; the end state, number 500, pays 0. Transitions are
    deterministic; the start is any cell, with the passenger and the goal at any two different stands. (As in Gymnasium.)

    Known: the shortest way earns 7.93 on average, undiscounted.
    """
    P, r, nu0 = np.zeros((501, 6, 501)), np.zeros((501, 6)), np.zeros(500)
    P[500, :, 500] = 1.0
    for row, column, passenger, goal in itertools.product(range(5), range(5), range(5), range(4)):
        s = ((row * 5 + column) * 5 + passenger) * 4 + goal
        nu0[s] = passenger < 4 and passenger != goal
        for a in range(6):
            at, rider, reward, over = (row, column), passenger, -1.0, False
            if a < 4:
                at = _drive(row, column, a)
            else:
                rider, reward, over = _serve(at, passenger, goal, a)
            P[s, a, 500 if over else ((at[0] * 5 + at[1]) * 5 + rider) * 4 + goal] = 1.0
            r[s, a] = reward
    problem = _with_table(P, r, nu0 / nu0.sum(), (-10.0, 20.0), discount)
    names = ("down", "up", "right", "left", "pick up", "drop")
    return dataclasses.replace(problem, state_names=("scene",), action_names=names)


def _with_table(
    P: FloatArray, r: FloatArray, nu0: FloatArray, reward_range: tuple[float, float], discount: float
) -> Problem:
    """The problem of P `[X, A, X]`, r `[X, A]`: one-hot features over the states and the end; r in the game's own units."""
    X, A = r.shape
    low, high = reward_range
    table = Tabular(np.arange(X), (r - low) / (high - low), np.append(nu0, 0.0), P=P.reshape(X * A, X))
    model = tabular_model(table)
    start, _, *moves = model.data
    return Problem(
        model=dataclasses.replace(model, data=(start, r, *moves)),
        features=one_hot(X, A),
        discount=discount,
        reward_range=reward_range,
        tabular=lambda: table,
    )
