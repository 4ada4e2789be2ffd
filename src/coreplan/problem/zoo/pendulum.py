"""`pendulum`: Gymnasium's Pendulum with a few torques instead of a continuous range."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ...base import InputError, as_choice
from ...features import interpolation, radial
from ..model import CompiledModel
from ..problem import Problem

_SPEED, _TORQUE, _DT = 8.0, 2.0, 0.05
_GRAVITY, _MASS, _LENGTH = 10.0, 1.0, 1.0
_LOW, _HIGH = (-math.pi, -_SPEED), (math.pi, _SPEED)


@njit(cache=True, nogil=True)
def _initial(rng, data, states):
    for n in range(states.shape[0]):
        states[n, 0] = math.pi * (2.0 * rng.random() - 1.0)
        states[n, 1] = 2.0 * rng.random() - 1.0


@njit(cache=True, nogil=True)
def _step(rng, data, states, actions, rewards, next_states):
    torques = data[0]
    for n in range(states.shape[0]):
        angle, speed, u = states[n, 0], states[n, 1], torques[actions[n]]
        rewards[n] = -(angle**2 + 0.1 * speed**2 + 0.001 * u**2)
        pull = 3.0 * _GRAVITY / (2.0 * _LENGTH) * math.sin(angle) + 3.0 / (_MASS * _LENGTH**2) * u
        speed = min(max(speed + pull * _DT, -_SPEED), _SPEED)
        next_states[n, 0] = (angle + speed * _DT + math.pi) % (2.0 * math.pi) - math.pi
        next_states[n, 1] = speed


def pendulum(
    features: str = "grid", grid: int = 31, actions: int = 5, centres: int = 8, discount: float = 0.99,
    periodic: bool = False,
) -> Problem:  # fmt: skip
    """Swing a pendulum up and hold it: state (angle in [-pi, pi), speed in [-8, 8]), torques evenly spaced from -2 to 2.

    Gymnasium's dynamics and reward -(angle^2 + 0.1 speed^2 + 0.001 torque^2), where angle 0 is upright; the angle is
    kept wrapped. The start is Gymnasium's: any angle, speed in [-1, 1]. Good policies lose about 140 in 200 steps on
    average.

    `features=grid`: interpolation on grid x grid nodes (exact core set, d = m = 5 grid^2). The grid is not joined at
    -pi = pi: the two are separate nodes for one place, each used from its own side, which costs a column of nodes
    but no exactness. `features=rbf`: normalised bumps on centres x centres points (d = 320), without a core set and
    not joined at -pi = pi either. `periodic=true` joins both there.
    """
    as_choice("pendulum", ("grid", "rbf"), features=features)
    for name, value in (("grid", grid), ("actions", actions), ("centres", centres)):
        if not 2 <= value <= 1000:
            raise InputError(f"`pendulum:{name}=...` must be from 2 to 1000, got {value}.")
    torques = np.linspace(-_TORQUE, _TORQUE, actions)
    turns = (periodic, False)
    phi = (
        interpolation(_LOW, _HIGH, [grid, grid], actions, periodic=turns)
        if features == "grid"
        else radial(_LOW, _HIGH, [centres, centres], actions, periodic=turns)
    )
    return Problem(
        model=CompiledModel(actions, _initial, _step, (torques,), state_shape=(2,), state_dtype=np.float64),
        features=phi,
        discount=discount,
        reward_range=(-(math.pi**2 + 0.1 * _SPEED**2 + 0.001 * _TORQUE**2), 0.0),
    )
