"""`pendulum`: Gymnasium's Pendulum with a few torques instead of a continuous range."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numba import njit

from ...base import FloatArray, InputError, IntArray, States, as_choice
from ...features import Features, interpolation, radial
from ..model import CompiledModel
from ..problem import Problem
from .bounds import bounds_only

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


def _swing_and_hold(torques: FloatArray) -> Callable[[States], IntArray]:
    """The rule: push with the speed while there is less energy than upright, against it while there is more; near the top
    push back, proportionally to angle and speed. The nearest of the torques is taken."""

    def act(states: States) -> IntArray:
        angle, speed = np.asarray(states)[:, 0], np.asarray(states)[:, 1]
        # Of the rod, relative to rest upright: (1/2) (1/3) speed^2 + (gravity / 2) (cos(angle) - 1).
        energy = speed**2 / 6.0 + 0.5 * _GRAVITY * (np.cos(angle) - 1.0)
        pump = np.where(energy < 0.0, _TORQUE, -_TORQUE) * np.where(speed >= 0.0, 1.0, -1.0)
        wish = np.where(np.abs(angle) + 0.2 * np.abs(speed) < 0.5, -12.0 * angle - 3.0 * speed, pump)
        return np.asarray(np.abs(wish[:, None] - torques).argmin(axis=1), dtype=np.int64)

    return act


def pendulum(
    features: str = "grid", grid: int = 31, actions: int = 5, centres: int = 8, discount: float = 0.99,
    periodic: bool = False,
) -> Problem:  # fmt: skip
    """Swing a pendulum up and hold it: state (angle in [-pi, pi), speed in [-8, 8]), torques evenly spaced from -2 to 2.

    Gymnasium's dynamics and reward -(angle^2 + 0.1 speed^2 + 0.001 torque^2), where angle 0 is upright; the angle is
    kept wrapped. The start is Gymnasium's: any angle, speed in [-1, 1]. Good policies lose about 140 in 200 steps on
    average. The baseline pumps energy until the pendulum stands, then pushes back: -145 (0.922; the uniform policy 0.624).

    `features=grid`: interpolation on grid x grid nodes (exact core set, d = m = 5 grid^2). The grid is not joined at
    -pi = pi: the two are separate nodes for one place, each used from its own side, which costs a column of nodes
    but no exactness. `features=rbf`: normalised bumps on centres x centres points (d = 320), without a core set and
    not joined at -pi = pi either. `periodic=true` joins both there. `features=none`: bounds only, joined there.
    """
    as_choice("pendulum", ("grid", "rbf", "none"), features=features)
    for name, value in (("grid", grid), ("actions", actions), ("centres", centres)):
        if not 2 <= value <= 1000:
            raise InputError(f"`pendulum:{name}=...` must be from 2 to 1000, got {value}.")
    torques = np.linspace(-_TORQUE, _TORQUE, actions)
    turns = (periodic, False)
    phi: Features = bounds_only(_LOW, _HIGH, actions, periodic=(True, False))
    if features == "grid":
        phi = interpolation(_LOW, _HIGH, [grid, grid], actions, periodic=turns)
    elif features == "rbf":
        phi = radial(_LOW, _HIGH, [centres, centres], actions, periodic=turns)
    return Problem(
        model=CompiledModel(actions, _initial, _step, (torques,), state_shape=(2,), state_dtype=np.float64),
        features=phi,
        discount=discount,
        reward_range=(-(math.pi**2 + 0.1 * _SPEED**2 + 0.001 * _TORQUE**2), 0.0),
        baseline=("energy, then hold", _swing_and_hold(torques)),
        state_names=("angle", "speed"),
        action_names=[f"torque {torque:.6g}" for torque in torques],
    )
