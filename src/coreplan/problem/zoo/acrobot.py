"""`acrobot`: Gymnasium's Acrobot, two links of which only the joint between them is driven, with an explicit end state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from ...base import InputError, as_choice
from ...features import (
    Features,
    Formula,
    copied,
    describes,
    ended,
    formula_by,
    interpolate_periodic_into,
    interpolation,
    polynomial,
    polynomial_into,
)
from ..model import CompiledModel
from ..problem import Problem
from .bounds import bounds_only
from .ends import own_end, own_feature, shared_end, shared_feature, with_end

_GRAVITY, _DT = (
    9.8,
    0.2,
)  # links of length and mass 1, their centres of mass in the middle, moments of inertia 1
_SPEED_1, _SPEED_2 = 4.0 * math.pi, 9.0 * math.pi  # speeds are clipped to these
_LOW, _HIGH = (-math.pi, -math.pi, -_SPEED_1, -_SPEED_2), (math.pi, math.pi, _SPEED_1, _SPEED_2)
_TURNS = (True, True, False, False)


@njit(cache=True, nogil=True)
def _initial(rng, data, states):
    for n in range(states.shape[0]):
        for i in range(4):
            states[n, i] = 0.2 * rng.random() - 0.1
        states[n, 4] = 0.0


@njit(cache=True, nogil=True)
def _rates(x1, x2, v1, v2, torque):
    """The two angular accelerations, by the equations of Sutton and Barto's book."""
    c2, s2 = math.cos(x2), math.sin(x2)
    d1 = 0.25 + (1.0 + 0.25 + c2) + 2.0
    d2 = 0.25 + 0.5 * c2 + 1.0
    phi2 = 0.5 * _GRAVITY * math.cos(x1 + x2 - math.pi / 2.0)
    phi1 = -0.5 * v2 * v2 * s2 - v2 * v1 * s2 + 1.5 * _GRAVITY * math.cos(x1 - math.pi / 2.0) + phi2
    a2 = (torque + d2 / d1 * phi1 - 0.5 * v1 * v1 * s2 - phi2) / (1.25 - d2 * d2 / d1)
    return -(d2 * a2 + phi1) / d1, a2


@njit(cache=True, nogil=True)
def _moved(x1, x2, v1, v2, torque):
    """One step of the classical Runge-Kutta method over 0.2 s."""
    h = _DT / 2.0
    a1, a2 = _rates(x1, x2, v1, v2, torque)
    b1, b2 = _rates(x1 + h * v1, x2 + h * v2, v1 + h * a1, v2 + h * a2, torque)
    p1, p2 = v1 + h * a1, v2 + h * a2  # the speeds at the four stages: v, p, q, s
    c1, c2 = _rates(x1 + h * p1, x2 + h * p2, v1 + h * b1, v2 + h * b2, torque)
    q1, q2 = v1 + h * b1, v2 + h * b2
    d1, d2 = _rates(x1 + _DT * q1, x2 + _DT * q2, v1 + _DT * c1, v2 + _DT * c2, torque)
    s1, s2 = v1 + _DT * c1, v2 + _DT * c2
    return (
        x1 + _DT / 6.0 * (v1 + 2.0 * p1 + 2.0 * q1 + s1),
        x2 + _DT / 6.0 * (v2 + 2.0 * p2 + 2.0 * q2 + s2),
        v1 + _DT / 6.0 * (a1 + 2.0 * b1 + 2.0 * c1 + d1),
        v2 + _DT / 6.0 * (a2 + 2.0 * b2 + 2.0 * c2 + d2),
    )


@njit(cache=True, nogil=True)
def _step(rng, data, states, actions, rewards, next_states):
    for n in range(states.shape[0]):
        next_states[n] = 0.0
        next_states[n, 4] = 1.0
        rewards[n] = 0.0
        if states[n, 4] > 0.0:  # it has arrived: pays 0 for ever
            continue
        x1, x2, v1, v2 = _moved(
            states[n, 0], states[n, 1], states[n, 2], states[n, 3], float(actions[n]) - 1.0
        )
        if -math.cos(x1) - math.cos(x1 + x2) > 1.0:
            continue
        rewards[n] = -1.0
        next_states[n, 0] = (x1 + math.pi) % (2.0 * math.pi) - math.pi
        next_states[n, 1] = (x2 + math.pi) % (2.0 * math.pi) - math.pi
        next_states[n, 2] = min(max(v1, -_SPEED_1), _SPEED_1)
        next_states[n, 3] = min(max(v2, -_SPEED_2), _SPEED_2)
        next_states[n, 4] = 0.0


@njit(cache=True, nogil=True)
def _grid(data, states, out):
    """Interpolation on angles and speeds, plus one feature per action for the end."""
    interpolate_periodic_into(data, states[:, :4], out)
    base = data[4].max() // out.index.shape[1] + 1  # nodes
    for n in range(states.shape[0]):
        if states[n, 4] > 0.0:
            own_feature(out, n, base)


@njit(cache=True, nogil=True)
def _quadratic(data, states, out):
    """Polynomials in the cosines and sines of the angles and in the speeds, plus one feature for the end."""
    points = np.empty((states.shape[0], 6))
    for n in range(states.shape[0]):
        for i in range(2):
            points[n, 2 * i] = math.cos(states[n, i])
            points[n, 2 * i + 1] = math.sin(states[n, i])
            points[n, 4 + i] = states[n, 2 + i]
    polynomial_into(data, points, out)
    for n in range(states.shape[0]):
        if states[n, 4] > 0.0:
            shared_feature(out, n, out.index.shape[2] * out.index.shape[1])


@describes(_grid)
def _grid_formula(data: Any, A: int) -> Formula:
    return own_end(formula_by(interpolate_periodic_into, data, A), 4, 0.0, int(data[4].max()) // A + 1)


@describes(_quadratic)
def _quadratic_formula(data: Any, A: int) -> Formula:
    angles = {
        "kind": "cos_sin", "low": np.zeros(4), "width": np.full(4, 2.0 * math.pi), "periodic": np.array(_TURNS),
        "base": formula_by(polynomial_into, data, A)["base"],
    }  # fmt: skip
    return shared_end(copied(angles, A), 4, 0.0, len(data[2]) * A)


def acrobot(features: str = "quadratic", grid: int = 9, discount: float = 0.99) -> Problem:
    """Swing two links up, driving the joint between them: state (two angles, two speeds, arrived), torques -1, 0 and 1.

    Gymnasium's dynamics (Runge-Kutta steps of 0.2 s). Angles are in [-pi, pi), (0, 0) hanging down, and kept wrapped; the
    speeds are clipped to 4 pi and 9 pi. Every step pays -1 until the tip is more than one link's length above the fixed
    joint; the step that brings it there pays 0, and from then on the state is (0, 0, 0, 0, 1) and pays 0. Starts have all
    four numbers in [-0.1, 0.1]. Good policies need 70 to 90 steps. There is no limit of 500 steps. The
    baseline pushes the way the second link turns: 88 steps (0.428).

    `features=quadratic`: all monomials up to degree 2 in the cosines and sines of both angles and in both speeds, scaled
    to [-1, 1], one copy per action, and one feature for the end (d = 84 + 1), without a core set. `features=grid`:
    interpolation on grid^4 nodes, joined at -pi = pi, and one feature per action for the end; d = m = 3 (grid^4 + 1),
    exact core set. `features=none`: bounds only, the angles joined at -pi = pi.
    """
    as_choice("acrobot", ("quadratic", "grid", "none"), features=features)
    if not 2 <= grid <= 40:
        raise InputError(f"`acrobot:grid=...` must be from 2 to 40 nodes per side, got {grid}.")
    phi: Features = bounds_only(_LOW, _HIGH, 3, periodic=_TURNS, end=True)
    if features == "grid":
        base = interpolation(_LOW, _HIGH, [grid] * 4, 3, periodic=_TURNS)
        phi = with_end(base, _grid, shared=False)
    elif features == "quadratic":
        low, high = (-1.0, -1.0, -1.0, -1.0, *_LOW[2:]), (1.0, 1.0, 1.0, 1.0, *_HIGH[2:])
        base = polynomial(low, high, 2, 3)
        phi = with_end(base, _quadratic, shared=True, columns=5)
    return Problem(
        model=CompiledModel(3, _initial, _step, state_shape=(5,), state_dtype=np.float64),
        features=phi,
        discount=discount,
        reward_range=(-1.0, 0.0),
        ends=ended,
        baseline=("push with the second link", lambda states: 2 * (states[:, 3] >= 0.0).astype(np.int64)),
        state_names=("first angle", "second angle", "first speed", "second speed", "arrived")[
            : 4 + (features != "none")
        ],
        action_names=("torque -1", "torque 0", "torque 1"),
    )
