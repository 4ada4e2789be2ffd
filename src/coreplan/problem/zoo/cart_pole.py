"""`cart-pole`: Gymnasium's CartPole with interpolation features and an explicit end state."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ...base import InputError, IntArray, States
from ...features import CompiledFeatures, ended, interpolate_into, interpolation
from ..model import CompiledModel
from ..problem import Problem
from .ends import own_feature

_GRAVITY, _CART, _POLE, _HALF = 9.8, 1.0, 0.1, 0.5  # gravity, the two masses, half the pole's length
_FORCE, _DT = 10.0, 0.02
_TRACK, _TILT = 2.4, 12 * 2 * math.pi / 360
# The features' box; the features clip speed and spin to it.
_LOW, _HIGH = (
    (-_TRACK, -3.0, -_TILT, -3.0),
    (_TRACK, 3.0, _TILT, 3.0),
)


@njit(cache=True, nogil=True)
def _initial(rng, data, states):
    for n in range(states.shape[0]):
        for i in range(4):
            states[n, i] = 0.1 * rng.random() - 0.05
        states[n, 4] = 0.0


@njit(cache=True, nogil=True)
def _step(rng, data, states, actions, rewards, next_states):
    total = _CART + _POLE
    for n in range(states.shape[0]):
        next_states[n] = 0.0
        next_states[n, 4] = 1.0
        if states[n, 4] > 0.0:  # fallen: pays 0 for ever
            rewards[n] = 0.0
            continue
        rewards[n] = 1.0
        x, v, angle, w = states[n, 0], states[n, 1], states[n, 2], states[n, 3]
        force = _FORCE if actions[n] == 1 else -_FORCE
        c, s = math.cos(angle), math.sin(angle)
        push = (force + _POLE * _HALF * w * w * s) / total
        spin = (_GRAVITY * s - c * push) / (_HALF * (4.0 / 3.0 - _POLE * c * c / total))
        x, angle = x + _DT * v, angle + _DT * w
        v, w = v + _DT * (push - _POLE * _HALF * spin * c / total), w + _DT * spin
        if abs(x) <= _TRACK and abs(angle) <= _TILT:
            next_states[n, 0], next_states[n, 1], next_states[n, 2], next_states[n, 3] = x, v, angle, w
            next_states[n, 4] = 0.0


@njit(cache=True, nogil=True)
def _features(data, states, out):
    """Interpolation on the first four coordinates, plus one feature for the fallen pole."""
    interpolate_into(data, states[:, :4], out)
    for n in range(states.shape[0]):
        if states[n, 4] > 0.0:
            own_feature(out, n, data[2].prod())


def cart_pole(grid: int = 9, discount: float = 0.99) -> Problem:
    """Keep a pole upright on a cart: state (x, speed, angle, spin, fallen), actions push left and right.

    Gymnasium's dynamics (Euler steps of 0.02 s). Every step pays reward 1, including the one in which the cart leaves
    [-2.4, 2.4] or the pole tilts beyond 12 degrees; after that the state is (0, 0, 0, 0, 1) for ever and pays 0. There is
    no limit of 500 steps: a pole that falls after T steps has value 1 - discount^T, one that never falls has value 1.

    Features: interpolation on grid^4 nodes, speed and spin clipped to [-3, 3], and one feature for the fallen
    pole; d = m = 2 (grid^4 + 1), exact core set. On 5^4 nodes, value iteration through the core set already balances the
    pole for nearly 500 steps.
    """
    if not 2 <= grid <= 40:
        raise InputError(f"`cart-pole:grid=...` must be from 2 to 40 nodes per side, got {grid}.")
    return Problem(
        model=CompiledModel(2, _initial, _step, state_shape=(5,), state_dtype=np.float64),
        features=_with_end(interpolation(_LOW, _HIGH, [grid] * 4, 2)),
        discount=discount,
        ends=ended,
    )


def _with_end(base: CompiledFeatures) -> CompiledFeatures:
    def core() -> tuple[States, IntArray]:
        states, actions = base.core()  # type: ignore[misc]
        states = np.vstack([np.pad(states, ((0, 0), (0, 1))), np.repeat([[0.0, 0, 0, 0, 1]], 2, axis=0)])
        return states, np.append(actions, [0, 1])

    return CompiledFeatures(
        _features, 2, base.dimension + 2, 1.0, nonzeros=base.nonzeros, data=base.data,
        name="interpolation with an end", state_shape=(5,), state_dtype=np.float64, core=core,
    )  # fmt: skip
