"""`cart-pole`: Gymnasium's CartPole with interpolation or polynomial features and an explicit end state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from ...base import InputError, as_choice
from ...features import (
    Features,
    Formula,
    describes,
    ended,
    formula_by,
    interpolate_into,
    interpolation,
    polynomial,
    polynomial_into,
)
from ..model import CompiledModel
from ..problem import Problem
from .bounds import bounds_only
from .ends import own_end, own_feature, shared_end, shared_feature, with_end

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


@njit(cache=True, nogil=True)
def _monomials(data, states, out):
    """Polynomials in the first four coordinates, plus one feature, the same for both actions, for the fallen pole."""
    polynomial_into(data, states[:, :4], out)
    for n in range(states.shape[0]):
        if states[n, 4] > 0.0:
            shared_feature(out, n, out.index.shape[2] * out.index.shape[1])


@describes(_features)
def _features_formula(data: Any, A: int) -> Formula:
    return own_end(formula_by(interpolate_into, data, A), 4, 0.0, int(data[2].prod()))


@describes(_monomials)
def _monomials_formula(data: Any, A: int) -> Formula:
    return shared_end(formula_by(polynomial_into, data, A), 4, 0.0, len(data[2]) * A)


def cart_pole(grid: int = 9, discount: float = 0.99, features: str = "grid", degree: int = 2) -> Problem:
    """Keep a pole upright on a cart: state (x, speed, angle, spin, fallen), actions push left and right.

    Gymnasium's dynamics (Euler steps of 0.02 s). Every step pays reward 1, including the one in which the cart leaves
    [-2.4, 2.4] or the pole tilts beyond 12 degrees; after that the state is (0, 0, 0, 0, 1) for ever and pays 0. There is
    no limit of 500 steps: a pole that falls after T steps has value 1 - discount^T, one that never falls has value 1. The
    baseline pushes right where angle + spin > 0: 485 of 500 steps (0.996).

    `features=grid`: interpolation on grid^4 nodes, speed and spin clipped to [-3, 3], and one feature for the fallen
    pole; d = m = 2 (grid^4 + 1), exact core set. On 5^4 nodes, value iteration through the core set already balances the
    pole for nearly 500 steps. `features=polynomial`: all monomials up to `degree` in the four coordinates, clipped in the
    same way, one copy per action, and one feature for the fallen pole (d = 31 at degree 2), without a core set.
    `features=none`: bounds only, speed in [-3, 3] and spin in [-3.5, 3.5].
    """
    as_choice("cart-pole", ("grid", "polynomial", "none"), features=features)
    if not 2 <= grid <= 40:
        raise InputError(f"`cart-pole:grid=...` must be from 2 to 40 nodes per side, got {grid}.")
    if not 1 <= degree <= 10:
        raise InputError(f"`cart-pole:degree=...` must be from 1 to 10, got {degree}.")
    phi: Features = bounds_only((*_LOW[:3], -3.5), (*_HIGH[:3], 3.5), 2, end=True)
    if features == "grid":
        base = interpolation(_LOW, _HIGH, [grid] * 4, 2)
        phi = with_end(base, _features, shared=False)
    elif features == "polynomial":
        base = polynomial(_LOW, _HIGH, degree, 2)
        phi = with_end(base, _monomials, shared=True)
    return Problem(
        model=CompiledModel(2, _initial, _step, state_shape=(5,), state_dtype=np.float64),
        features=phi,
        discount=discount,
        ends=ended,
        baseline=("push where it falls", lambda states: (states[:, 2] + states[:, 3] > 0.0).astype(np.int64)),
        state_names=("position", "speed", "angle", "spin", "fallen")[: 4 + (features != "none")],
        action_names=("push left", "push right"),
        reward_name="steps upright",
    )
