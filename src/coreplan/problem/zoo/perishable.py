"""`perishable-inventory`: one product that arrives late and does not keep (Lin, Nadarajah & Soheili 2020)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import njit
from scipy.special import ndtri

from ...base import InputError, IntArray, States, as_choice
from ...features import Features, fourier, interpolation
from ..model import CompiledModel
from ..problem import Problem
from .bounds import between, bounds_only


@njit(cache=True, nogil=True)
def _demand(u, mean, std, most):
    """The quantile at u in [0, 1) of a normal demand truncated to [0, most], by Newton's method from the mean.

    To the right of the mean the distribution function is concave, so the steps approach the quantile from below and
    never leave the interval; the left half is its mirror image.
    """
    scale = std * math.sqrt(2.0)
    left, right = mean / scale, (most - mean) / scale
    mass, skew = 0.5 * (math.erf(right) + math.erf(left)), 0.5 * (math.erf(right) - math.erf(left))
    place = skew + (2.0 * u - 1.0) * mass  # erf of the signed distance sought
    target, end = abs(place), right if place >= 0.0 else left
    t = 0.0
    for _ in range(60):
        step = (target - math.erf(t)) * math.sqrt(math.pi) / 2.0 * math.exp(t * t)
        t = min(t + step, end)
        if step <= 1e-15:
            break
    distance = t * scale
    return mean + (distance if place >= 0.0 else -distance)


@njit(cache=True, nogil=True)
def _initial(rng, data, states):
    states[:] = data[2]


@njit(cache=True, nogil=True)
def _period(data, x, a, u, y):
    """One period with the demand's quantile u: the next state in y, and the reward."""
    costs, demand, _, life, limit = data
    purchase, holding, backlog, disposal, lost = costs
    D = len(x)
    d = _demand(u, demand[0], demand[1], demand[2])
    open_ = max(d - x[0], 0.0)  # demand and backlog that the oldest stock does not serve
    kept = 0.0
    for i in range(1, life):  # the next oldest serves what is open, and is a period older afterwards
        left = max(x[i] - open_, 0.0)
        open_ = max(open_ - x[i], 0.0)
        y[i - 1] = left
        kept += left
    for i in range(life, D):  # what is on its way is a period closer
        y[i - 1] = x[i]
    y[D - 1] = a
    y[0] -= min(open_, limit)
    cost = purchase * a + holding * kept + backlog * open_
    return -(cost + (disposal * max(x[0] - d, 0.0) + lost * max(open_ - limit, 0.0)))


@njit(cache=True, nogil=True)
def _step(rng, data, states, actions, rewards, next_states):
    for n in range(states.shape[0]):
        rewards[n] = _period(data, states[n], float(actions[n]), rng.random(), next_states[n])


@njit(cache=True, nogil=True)
def _step_with(data, states, actions, noise, rewards, next_states):
    for n in range(states.shape[0]):
        rewards[n] = _period(data, states[n], float(actions[n]), noise[n, 0], next_states[n])


def base_stock(level: int, orders: int) -> Callable[[States], IntArray]:
    """The rule: order what brings stock, minus backlog, and all that is on its way up to `level`; at most `orders`."""

    def act(states: States) -> IntArray:
        missing = np.rint(level - np.asarray(states).sum(axis=1))
        return np.asarray(np.clip(missing, 0, orders), dtype=np.int64)

    return act


def level_of(lead: int, mean: float, std: float, holding: float, backlog: float, disposal: float) -> int:
    """The base-stock level by the rule for one order: a fractile of the demand until it has been sold, lead + 1 periods.

    Too little costs `backlog` per unit, too much `holding` and `disposal`; the demand of several periods is taken as normal.
    """
    fractile = backlog / max(backlog + holding + disposal, 1e-12)
    z = float(ndtri(min(max(fractile, 0.01), 0.99)))
    return round((lead + 1) * mean + z * std * math.sqrt(lead + 1))


def perishable_inventory(
    features: str = "grid", grid: int = 6, order: int = 2, discount: float = 0.95, life: int = 2, lead: int = 2,
    orders: int = 10, mean: float = 5.0, std: float = 2.0, most: float = 10.0, limit: float = 10.0, purchase: float = 20.0,
    holding: float = 2.0, backlog: float = 10.0, disposal: float = 5.0, lost: float = 100.0,
) -> Problem:  # fmt: skip
    """A perishable product, lead time 2, life 2: state (old stock or backlog, fresh stock, in transit), orders 0..10.

    State (s0, s1, s2), with s0 from -10 to 10 and the others from 0 to 10. Demand D is normal(5, 2) truncated to [0, 10].
    A step with order a costs 20 discount^2 a + 2 (s1 - (D-s0)+)+ + 10 (D-s0-s1)+ + 5 (s0-D)+ + 100 (D-s0-s1-10)+,
    for purchase, holding, backlog, disposal and lost sales. The next state is (max(s1 - (D-s0)+, -10), s2, a).
    The start is (5, 5, 5). One step costs from 0 to 1200 + 200 discount^2.

    Published discounted costs: lower bound 2003.4, self-guided approximate LP 2056.4, approximate LP with 20
    random Fourier bases 2081.6. Dynamic programming on a fine grid gives 2050.6 as the optimum for whole orders.
    A normalised value v is the discounted cost (1 - v) (1200 + 200 discount^2)/(1 - discount). The baseline orders up to a
    level, 16 by the formula for one order (`level_of`), and costs about 2065; the best level, 17, costs as much.

    In general goods are sold for `life` periods, and arrive `lead` periods after their order. The state has life + lead - 1
    numbers: s_0, ..., s_{life-1}, the stock with 1, ..., life periods left, then what arrives in 1, ..., lead - 1 periods.
    The demand, normal(mean, std) truncated to [0, most], is served by the oldest stock first. With u_0 = (D - s_0)+ and
    u_i = (u_{i-1} - s_i)+, i < life, what is left of s_i is l_i = (s_i - u_{i-1})+, and u = u_{life-1} is not served. The
    next state is (l_1, ..., l_{life-1}, s_life, ..., a); of u at most `limit` are taken off its first number, as backlog. A
    step costs purchase discount^lead a + holding sum l_i + backlog u + disposal (s_0 - D)+ + lost (u - limit)+. Orders are
    0..orders; at the start every number of the state is the mean, rounded and at most `orders`.

    `features=grid`: multilinear interpolation on (2 grid - 1) x grid x grid nodes (d = m = 4,356, exact core set);
    `features=fourier`: cosines up to `order` in each coordinate (d = 297), without a core set;
    `features=none`: bounds only; all but s0 are whole numbers (with a life above 2, all but the old stock).
    """
    as_choice("perishable-inventory", ("grid", "fourier", "none"), features=features)
    if not 2 <= grid <= 100 or not 0 <= order <= 20:
        raise InputError(
            f"`perishable-inventory` needs grid from 2 to 100 and order from 0 to 20, got {grid} and {order}."
        )
    for name, value, top in (("life", life, 6), ("lead", lead, 6), ("orders", orders, 1000)):
        if not 1 <= value <= top:
            raise InputError(f"`perishable-inventory:{name}=...` must be from 1 to {top}, got {value}.")
    name = "perishable-inventory"
    most, limit = between(name, 1e-3, 1e6, most=most), between(name, 0.0, 1e6, limit=limit)
    mean, std = between(name, 0.0, most, mean=mean), between(name, 1e-3 * most, 1e3 * most, std=std)
    purchase, holding = between(name, 0.0, 1e6, purchase=purchase), between(name, 0.0, 1e6, holding=holding)
    backlog, disposal = between(name, 0.0, 1e6, backlog=backlog), between(name, 0.0, 1e6, disposal=disposal)
    lost = between(name, 0.0, 1e6, lost=lost)
    A, D, price = orders + 1, life + lead - 1, purchase * discount**lead
    # The worst is the largest demand on top of the largest backlog, or no demand for full shelves.
    worst = price * orders
    worst += max(backlog * (limit + most) + lost * most, (holding * (life - 1) + disposal) * orders)
    if worst <= 0.0:
        raise InputError("`perishable-inventory` needs a cost: purchase, holding, backlog, disposal or lost.")
    low, high = [-limit, *[0.0] * (D - 1)], [float(orders)] * D
    phi: Features = bounds_only(
        [-math.ceil(limit), *low[1:]], high, A, whole=[i >= max(life - 1, 1) for i in range(D)]
    )
    if features == "grid":
        phi = interpolation(low, high, [2 * grid - 1, *[grid] * (D - 1)], A)
    elif features == "fourier":
        phi = fourier(low, high, order, A)
    level = level_of(lead, mean, std, holding, backlog, disposal)
    costs = (price, holding, backlog, disposal, lost)
    data = (costs, (mean, std, most), float(min(round(mean), orders)), life, limit)
    return Problem(
        model=CompiledModel(
            A,
            _initial,
            _step,
            data,
            state_shape=(D,),
            state_dtype=np.float64,
            noise_kernel=_step_with,
            noise_dimension=1,
        ),
        features=phi,
        discount=discount,
        reward_range=(-worst, 0.0),
        baseline=(f"base-stock at {level}", base_stock(level, orders)),
        state_names=_names(life, lead),
        action_names=[f"order {a}" for a in range(A)],
        reward_name="minus cost",
    )


def _names(life: int, lead: int) -> list[str]:
    """Of the stock with 1, ..., life periods left, then of what arrives in 1, ..., lead - 1 periods."""
    stock = [f"stock with {i + 1} period{'s' * (i > 0)} left" for i in range(life)]
    return stock + [f"arrives in {i + 1} period{'s' * (i > 0)}" for i in range(lead - 1)]
