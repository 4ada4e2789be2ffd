"""`perishable-inventory`: one product, lead time and shelf life of two periods (Lin, Nadarajah & Soheili 2020)."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ...base import InputError, as_choice
from ...features import fourier, interpolation
from ..model import CompiledModel
from ..problem import Problem

_MEAN, _STD = 5.0, 2.0  # of the demand, a normal truncated to [0, 10]
_MOST = 10.0  # largest order, largest demand, largest backlog
_PURCHASE, _HOLDING, _BACKLOG, _DISPOSAL, _LOST = 20.0, 2.0, 10.0, 5.0, 100.0
_START = 5.0
_LOW, _HIGH = (-_MOST, 0.0, 0.0), (_MOST, _MOST, _MOST)


@njit(cache=True, nogil=True)
def _demand(u):
    """The quantile of the truncated normal at u in [0, 1), by Newton's method from the mean.

    To the right of the mean the distribution function is concave, so the steps approach the quantile from below and
    never leave the interval; the left half is its mirror image.
    """
    z = _MOST / 2.0 / (_STD * math.sqrt(2.0))
    mass = math.erf(z)
    target = abs(2.0 * u - 1.0) * mass  # erf of the distance sought
    t = 0.0
    for _ in range(30):
        step = (target - math.erf(t)) * math.sqrt(math.pi) / 2.0 * math.exp(t * t)
        t = min(t + step, z)
        if step <= 1e-15:
            break
    distance = t * _STD * math.sqrt(2.0)
    return _MEAN + (distance if u >= 0.5 else -distance)


@njit(cache=True, nogil=True)
def _initial(rng, data, states):
    states[:] = _START


@njit(cache=True, nogil=True)
def _step(rng, data, states, actions, rewards, next_states):
    price = data[0]
    for n in range(states.shape[0]):
        old, fresh, a = states[n, 0], states[n, 1], float(actions[n])
        d = _demand(rng.random())
        left = fresh - max(d - old, 0.0)  # fresh stock serves what the old stock does not, and any backlog
        cost = price * a + _HOLDING * max(left, 0.0) + _BACKLOG * max(d - old - fresh, 0.0)
        cost += _DISPOSAL * max(old - d, 0.0) + _LOST * max(d - old - fresh - _MOST, 0.0)
        rewards[n] = -cost
        next_states[n, 0] = max(left, -_MOST)
        next_states[n, 1] = states[n, 2]
        next_states[n, 2] = a


def perishable_inventory(
    features: str = "grid", grid: int = 6, order: int = 2, discount: float = 0.95
) -> Problem:
    """A perishable product, lead time 2, life 2: state (old stock or backlog, fresh stock, in transit), orders 0..10.

    State (s0, s1, s2), with s0 from -10 to 10 and the others from 0 to 10. Demand D is normal(5, 2) truncated to [0, 10].
    A step with order a costs 20 discount^2 a + 2 (s1 - (D-s0)+)+ + 10 (D-s0-s1)+ + 5 (s0-D)+ + 100 (D-s0-s1-10)+,
    for purchase, holding, backlog, disposal and lost sales. The next state is (max(s1 - (D-s0)+, -10), s2, a).
    The start is (5, 5, 5). One step costs from 0 to 1200 + 200 discount^2.

    Published discounted costs: lower bound 2003.4, self-guided approximate LP 2056.4, approximate LP with 20
    random Fourier bases 2081.6. Dynamic programming on a fine grid gives 2050.6 as the optimum for whole orders.
    A normalised value v is the discounted cost (1 - v) (1200 + 200 discount^2)/(1 - discount).

    `features=grid`: multilinear interpolation on (2 grid - 1) x grid x grid nodes (d = m = 4,356, exact core set);
    `features=fourier`: cosines up to `order` in each coordinate (d = 297), without a core set.
    """
    as_choice("perishable-inventory", ("grid", "fourier"), features=features)
    if not 2 <= grid <= 100 or not 0 <= order <= 20:
        raise InputError(
            f"`perishable-inventory` needs grid from 2 to 100 and order from 0 to 20, got {grid} and {order}."
        )
    A, price = int(_MOST) + 1, _PURCHASE * discount**2
    worst = price * _MOST + _BACKLOG * 2 * _MOST + _LOST * _MOST  # a demand of 10 on top of a backlog of 10
    phi = (
        interpolation(_LOW, _HIGH, [2 * grid - 1, grid, grid], A)
        if features == "grid"
        else fourier(_LOW, _HIGH, order, A)
    )
    return Problem(
        model=CompiledModel(A, _initial, _step, (price,), state_shape=(3,), state_dtype=np.float64),
        features=phi,
        discount=discount,
        reward_range=(-worst, 0.0),
    )
