"""`inventory`: two products, lost sales, one fixed cost per order for both together."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numba import njit

from ...base import FloatArray, IntArray, States, as_choice
from ...features import Features, interpolation, polynomial
from ..model import CompiledModel
from ..problem import Problem
from ..tables import Tabular, cumulate, first_above
from .bounds import bounds_only

_CAP = 30
_ORDERS = np.array(list(itertools.product((0, 6, 12), repeat=2)))  # [A, 2]
_MEAN, _CUT = (4.0, 6.0), 15
_PRICE, _COST, _HOLDING, _ORDER_COST = (4.0, 3.0), (2.0, 1.2), (0.1, 0.08), 6.0


@njit(cache=True, nogil=True)
def _initial(rng, data, states):
    cap = data[4]
    for n in range(states.shape[0]):
        stock = 0.0 if rng.random() < 0.5 else float(cap)
        states[n, 0], states[n, 1] = stock, stock


@njit(cache=True, nogil=True)
def _transition(data, states, actions, n, u, v, rewards, next_states):
    """Answer query n of the batch; the uniforms u and v draw the two demands."""
    r, demand1, demand2, orders, cap = data
    s1, s2, a = int(states[n, 0]), int(states[n, 1]), actions[n]
    rewards[n] = r[s1, s2, a]
    d1 = first_above(demand1, 0, demand1.shape[0], u)
    d2 = first_above(demand2, 0, demand2.shape[0], v)
    next_states[n, 0] = max(min(s1 + orders[a, 0], cap) - d1, 0)
    next_states[n, 1] = max(min(s2 + orders[a, 1], cap) - d2, 0)


@njit(cache=True, nogil=True)
def _step(rng, data, states, actions, rewards, next_states):
    for n in range(states.shape[0]):
        u, v = rng.random(), rng.random()
        _transition(data, states, actions, n, u, v, rewards, next_states)


@njit(cache=True, nogil=True)
def _step_with(data, states, actions, noise, rewards, next_states):
    for n in range(states.shape[0]):
        _transition(data, states, actions, n, noise[n, 0], noise[n, 1], rewards, next_states)


def _demand(mean: float) -> FloatArray:
    p = np.array([mean**k / math.factorial(k) for k in range(_CUT + 1)])
    return p / p.sum()


def _one_product(i: int) -> tuple[FloatArray, FloatArray]:
    """Of product i: transitions `[S, S]` from the stock after delivery, and expected sales minus holding cost `[S]`."""
    P, gain = np.zeros((_CAP + 1, _CAP + 1)), np.zeros(_CAP + 1)
    for stock in range(_CAP + 1):
        for demand, p in enumerate(_demand(_MEAN[i])):
            left = max(stock - demand, 0)
            P[stock, left] += p
            gain[stock] += p * (_PRICE[i] * (stock - left) - _HOLDING[i] * left)
    return P, gain


def order_up_to(states: States) -> IntArray:
    """If a product has come down to its lower level, order both up to their upper ones, as nearly as 0, 6 or 12 can.

    The levels, 3 and 5, 11 and 18, are the best of 144 that were tried on the exact table.
    """
    stock = np.asarray(states)
    units = np.clip(np.rint((np.array([11.0, 18.0]) - stock) / 6.0), 0, 2)  # [n, 2]
    units[(stock > [3.0, 5.0]).all(axis=1)] = 0
    return np.asarray(3 * units[:, 0] + units[:, 1], dtype=np.int64)


def inventory(features: str = "grid", grid: int = 7, discount: float = 0.95) -> Problem:
    """Two products, lost sales: stock 0..30 each, orders from {0, 6, 12}^2 arrive at once, stock capped at 30.

    Demands are Poisson(4) and Poisson(6), truncated at 15; prices 4 and 3; unit costs 2 and 1.2 for what fits into stock;
    holding costs 0.1 and 0.08 per unit left over; 6 for any order. The reward is the expected one. Both products start
    empty or both full, with probability 1/2 each. `features=grid`: multilinear interpolation on grid x grid nodes
    (d = m = 441, exact core set); `features=quadratic`: polynomials of degree 2 (d = 54), without a core set;
    `features=none`: bounds only, of whole numbers. The optimum is 0.6497; the uniform policy has value 0.5155,
    and ordering up to a level, the baseline, 0.6479.
    """
    as_choice("inventory", ("grid", "quadratic", "none"), features=features)
    (P1, gain1), (P2, gain2) = _one_product(0), _one_product(1)
    stock = np.arange(_CAP + 1)
    after = np.minimum(stock[:, None] + [0, 6, 12], _CAP)  # [S, 3]
    r = np.empty((_CAP + 1, _CAP + 1, len(_ORDERS)))
    for a, (o1, o2) in enumerate(_ORDERS):
        t1, t2 = after[:, o1 // 6], after[:, o2 // 6]
        one, two = gain1[t1] - _COST[0] * (t1 - stock), gain2[t2] - _COST[1] * (t2 - stock)
        r[:, :, a] = one[:, None] + two[None, :] - (_ORDER_COST if o1 + o2 else 0.0)
    low, high = float(r.min()), float(r.max())

    def tabular() -> Tabular:
        states = np.array(list(itertools.product(stock, stock)), dtype=np.float64)  # [X, 2]
        X, A = len(states), len(_ORDERS)
        P = np.empty((X, A, X))
        for a, (o1, o2) in enumerate(_ORDERS):
            P[:, a] = np.kron(P1[after[:, o1 // 6]], P2[after[:, o2 // 6]])
        nu0 = np.zeros(X)
        nu0[0] = nu0[-1] = 0.5
        return Tabular(states, ((r - low) / (high - low)).reshape(X, A), nu0, P=P.reshape(X * A, X))

    box = ([0.0, 0.0], [float(_CAP)] * 2)
    phi: Features = bounds_only(*box, 9, whole=(True, True))
    if features != "none":
        phi = interpolation(*box, [grid, grid], 9) if features == "grid" else polynomial(*box, 2, 9)
    data = (r, cumulate(_demand(_MEAN[0])), cumulate(_demand(_MEAN[1])), _ORDERS, _CAP)
    return Problem(
        model=CompiledModel(
            len(_ORDERS),
            _initial,
            _step,
            data,
            state_shape=(2,),
            state_dtype=np.float64,
            noise_kernel=_step_with,
            noise_dimension=2,
        ),
        features=phi,
        discount=discount,
        reward_range=(low, high),
        tabular=tabular,
        baseline=("order up to a level", order_up_to),
        state_names=("stock of product 1", "stock of product 2"),
        action_names=[f"order {o1} and {o2}" for o1, o2 in _ORDERS],
        reward_name="profit",
    )
