"""`queue`: one queue whose service rate is the control (de Farias & Van Roy 2003)."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from scipy import sparse

from ...base import InputError, as_choice
from ...features import CompiledFeatures, polynomial, rectilinear
from ..model import CompiledModel
from ..problem import Problem
from ..tables import Tabular

_ARRIVAL = 0.2
_RATES = np.array([0.2, 0.4, 0.6, 0.8])  # [A]
_EFFORT = 60.0  # cost of working at rate q: 60 q^3
_START = 0.9  # nu0(x) is proportional to 0.9^x


@njit(cache=True, nogil=True)
def _initial(rng, data, states):
    """Draws from the truncated geometric distribution by inversion, which stores nothing of the size of the buffer."""
    buffer = data[0]
    mass = 1.0 - _START ** (buffer + 1)
    for n in range(states.shape[0]):
        x = math.floor(math.log(1.0 - mass * rng.random()) / math.log(_START))
        states[n, 0] = min(float(x), float(buffer))


@njit(cache=True, nogil=True)
def _step(rng, data, states, actions, rewards, next_states):
    buffer, rates = data
    for n in range(states.shape[0]):
        x, q = states[n, 0], rates[actions[n]]
        rewards[n] = -(x + _EFFORT * q**3)
        u = rng.random()
        if u < _ARRIVAL:
            x = min(x + 1.0, float(buffer))
        elif u < _ARRIVAL + q:
            x = max(x - 1.0, 0.0)
        next_states[n, 0] = x


def queue(features: str = "hat", buffer: int = 49_999, discount: float = 0.98) -> Problem:
    """A queue of at most `buffer` jobs, served at rate 0.2, 0.4, 0.6 or 0.8 (50,000 states, 4 actions).

    One event per step: an arrival with probability 0.2, a completion with the chosen rate q, otherwise nothing. A job that
    arrives at the full buffer is lost. With x jobs a step costs x + 60 q^3. The start is proportional to 0.9^x (the weights
    of the published linear programs). `features=hat`: hat functions on nodes 0, 1, 2, 3, 5, 8, 13... (exact core set,
    d = m = 100); `features=cubic`: the published basis 1, x, x^2, x^3, with x divided by the buffer (d = 16), without a
    core set.

    The best rate is 0.2 for x <= 2, 0.4 for x <= 27 and 0.6 beyond (0.4 again in the last two states, where
    losing jobs pays off); its discounted cost is 389.26, in normalised units 0.99985. At a fixed rate and away from
    the full buffer the cost has a closed form, x/(1-g) + b + c rho^x with g the discount and 0 < rho < 1. Rewards are
    mapped to [0, 1] by the cost at the full buffer, so policies differ by only a few 1e-4 in normalised units; with a
    smaller buffer the same differences are larger.
    """
    as_choice("queue", ("hat", "cubic"), features=features)
    if not 1 <= buffer <= 10**9:
        raise InputError(f"`queue:buffer=...` must be from 1 to 10^9 jobs, got {buffer}.")
    highest = -_EFFORT * float(_RATES.min()) ** 3
    lowest = -(buffer + _EFFORT * float(_RATES.max()) ** 3)
    return Problem(
        model=CompiledModel(
            len(_RATES), _initial, _step, (buffer, _RATES), state_shape=(1,), state_dtype=np.float64
        ),
        features=_features(features, buffer),
        discount=discount,
        reward_range=(lowest, highest),
        tabular=(lambda: _tabular(buffer, lowest, highest)) if buffer < 10**6 else None,
        state_names=("jobs",),
        action_names=[f"serve at rate {rate:g}" for rate in _RATES],
        reward_name="minus cost",
    )


def _features(kind: str, buffer: int) -> CompiledFeatures:
    if kind == "cubic":  # a box around 0 makes the scaled coordinate x / buffer
        return polynomial([-float(buffer)], [float(buffer)], 3, len(_RATES))
    nodes = [0, 1]
    while nodes[-1] < buffer:
        nodes.append(min(nodes[-1] + max(nodes[-2], 1), buffer))
    return rectilinear([nodes], len(_RATES))


def _tabular(buffer: int, lowest: float, highest: float) -> Tabular:
    X, A = buffer + 1, len(_RATES)
    x = np.repeat(np.arange(X), A)  # [X A]
    q = np.tile(_RATES, X)
    row = np.arange(X * A)
    moves = (
        (np.full(X * A, _ARRIVAL), np.minimum(x + 1, buffer)),
        (q, np.maximum(x - 1, 0)),
        (1.0 - _ARRIVAL - q, x),
    )
    entries = (
        np.concatenate([p for p, _ in moves]),
        (np.tile(row, 3), np.concatenate([y for _, y in moves])),
    )
    P = sparse.csr_matrix(entries, shape=(X * A, X))  # repeated entries are added up
    P.data = np.maximum(P.data, 0.0)  # 1 - 0.2 - 0.8 leaves a rounding error
    r = (-(x + _EFFORT * q**3) - lowest) / (highest - lowest)
    nu0 = _START ** np.arange(X)
    return Tabular(np.arange(X, dtype=float)[:, None], np.clip(r, 0, 1).reshape(X, A), nu0 / nu0.sum(), P=P)
