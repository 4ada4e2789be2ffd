"""`river-swim`, `river-swim-long` and `river-linear`: swim upstream for a large reward, or drift for a small one."""

from __future__ import annotations

import numpy as np

from ...base import InputError
from ...features import Sparse, all_pairs, one_hot, table_features
from ..linear import linear_model, linear_tabular
from ..problem import Problem
from ..tables import Tabular, tabular_model


def river_swim(states: int = 6, discount: float = 0.95) -> Problem:
    """RiverSwim, tabular: one-hot features, all pairs are core pairs (m = d = 2 X).

    Action 1 (right) moves right with probability 0.9, stays with 0.05 and slips back with 0.05; at the right end it
    stays with 0.9, slips back with 0.1 and pays 1. Action 0 (left) always moves left, and pays 0.005 at the
    left end, where the swimmer starts.
    """
    if not 2 <= states <= 2000:
        raise InputError(f"`river-swim:states=...` must be from 2 to 2000, got {states}.")
    P = np.zeros((states, 2, states))
    x = np.arange(states)
    P[x, 0, np.maximum(x - 1, 0)] = 1.0
    for to, p in ((np.minimum(x + 1, states - 1), 0.9), (x, 0.05), (np.maximum(x - 1, 0), 0.05)):
        P[x, 1, to] += p  # no pair (x, to) occurs twice in one assignment
    P[-1, 1] = 0.0
    P[-1, 1, -2:] = 0.1, 0.9
    r = np.zeros((states, 2))
    r[0, 0], r[-1, 1] = 0.005, 1.0
    table = Tabular(x, r, np.eye(states)[0], P=P.reshape(-1, states))
    return Problem(
        model=tabular_model(table),
        features=one_hot(states, 2),
        discount=discount,
        tabular=lambda: table,
        state_names=("position",),
        action_names=("left", "right"),
    )


def river_swim_long(states: int = 30, discount: float = 0.99) -> Problem:
    """RiverSwim with 30 states and discount 0.99."""
    return river_swim(states, discount)


def river_linear(L: int = 10, discount: float = 0.95, states: int = 1000, instance: int = 0) -> Problem:
    """A hard instance with an exact core set: a river of L positions seen through interpolating features.

    Core pairs are L positions x 2 pure actions (d = m = 2 L, R = 1). Each state has a real position z in
    [0, L - 1] (the first L states sit on the integers) and 3 actions, each a Beta(1/2, 1/2) mixture of the two
    pure ones (the first two actions of the integer states are pure); phi is linear interpolation in z times the
    mixture. At each position a coin toss fixed which pure action is "down", which always moves one position down;
    "up" moves up with probability 0.6, stays with 0.35 and falls with 0.05. A position's states are those that
    round to it; on entry one of them is drawn uniformly. "Down" at position 0 pays 0.01, "up" at L - 1 pays 1; the start
    is position 0.
    """
    if L < 2 or states < L:
        raise InputError(f"`river-linear` needs L >= 2 and at least L states, got L={L}, states={states}.")
    rng = np.random.default_rng([0x7269766C, instance])
    z = np.concatenate([np.arange(L), rng.uniform(0, L - 1, states - L)])  # [X]
    mixture = rng.beta(0.5, 0.5, size=(states, 3))  # [X, A] weight of pure action 1
    mixture[:L, 0], mixture[:L, 1] = 0.0, 1.0
    down = rng.integers(0, 2, size=L)  # which pure action goes down
    left = np.minimum(z.astype(np.int64), L - 2)
    right_share = z - left
    index = np.empty((states, 3, 4), dtype=np.int64)
    weight = np.empty((states, 3, 4))
    for c, (side, pure) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
        index[:, :, c] = (2 * (left + side) + pure)[:, None]
        place = right_share if side else 1.0 - right_share
        weight[:, :, c] = place[:, None] * (mixture if pure else 1.0 - mixture)
    enter = np.zeros((L, states))  # [L, X] uniform over a position's states
    enter[np.floor(z + 0.5).astype(np.int64), np.arange(states)] = 1.0
    enter /= enter.sum(axis=1, keepdims=True)
    W = np.empty((2 * L, states))
    vartheta = np.zeros(2 * L)
    for p in range(L):
        up, falls = min(p + 1, L - 1), max(p - 1, 0)
        W[2 * p + down[p]] = enter[falls]
        W[2 * p + 1 - down[p]] = 0.6 * enter[up] + 0.35 * enter[p] + 0.05 * enter[falls]
    vartheta[down[0]] = 0.01
    vartheta[2 * (L - 1) + 1 - down[L - 1]] = 1.0
    phi = Sparse(index, weight)
    r = np.einsum("xak,xak->xa", weight, vartheta[index])
    nu0 = np.eye(states)[0]
    return Problem(
        model=linear_model(phi, W, r, nu0),
        features=table_features(phi, 2 * L, 1.0),
        discount=discount,
        core_pairs=all_pairs(L, 2),
        tabular=lambda: linear_tabular(phi, W, r, nu0),
    )
