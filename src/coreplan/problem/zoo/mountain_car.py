"""`mountain-car`: Gymnasium's MountainCar with interpolation features and their exact core set, or with radial features."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from ...base import InputError, as_choice
from ...features import (
    CompiledFeatures,
    Features,
    Formula,
    describes,
    formula_by,
    interpolation,
    radial,
    radial_into,
)
from ..model import CompiledModel
from ..problem import Problem
from .bounds import bounds_only
from .ends import own_end, own_feature

_LOW, _HIGH = (-1.2, -0.07), (0.6, 0.07)  # position, velocity
_GOAL = 0.5
_FORCE, _GRAVITY = 0.001, 0.0025


@njit(cache=True, nogil=True)
def _initial(rng, data, states):
    for n in range(states.shape[0]):
        states[n, 0] = -0.6 + 0.2 * rng.random()
        states[n, 1] = 0.0


@njit(cache=True, nogil=True)
def _step(rng, data, states, actions, rewards, next_states):
    for n in range(states.shape[0]):
        position, velocity = states[n, 0], states[n, 1]
        if position >= _GOAL:  # absorbed: pays 0 for ever
            rewards[n] = 0.0
            next_states[n, 0], next_states[n, 1] = 0.6, 0.07
            continue
        velocity += (actions[n] - 1) * _FORCE - math.cos(3.0 * position) * _GRAVITY
        velocity = min(max(velocity, -0.07), 0.07)
        position = min(max(position + velocity, -1.2), 0.6)
        if position <= -1.2 and velocity < 0.0:
            velocity = 0.0
        if position >= _GOAL:
            position, velocity = 0.6, 0.07
        rewards[n] = -1.0
        next_states[n, 0], next_states[n, 1] = position, velocity


@njit(cache=True, nogil=True)
def _bumps(data, states, out):
    """Radial features, plus one feature for the car that has arrived."""
    radial_into(data, states, out)
    for n in range(states.shape[0]):
        if states[n, 0] >= _GOAL:
            own_feature(out, n, out.index.shape[2])


@describes(_bumps)
def _bumps_formula(data: Any, A: int) -> Formula:
    below = float(np.nextafter(_GOAL, 0.0))  # above it is at the goal or beyond
    return own_end(formula_by(radial_into, data, A), 0, below, len(data[2]))


def _rbf(centres: int) -> CompiledFeatures:
    base = radial(_LOW, _HIGH, [centres, centres], 3)
    return CompiledFeatures(
        _bumps, 3, base.dimension + 3, 1.0, nonzeros=base.nonzeros, data=base.data, name="radial with an end",
        state_shape=(2,), state_dtype=np.float64,
    )  # fmt: skip


def mountain_car(grid: int = 61, discount: float = 0.99, features: str = "grid", centres: int = 8) -> Problem:
    """MountainCar with multilinear interpolation on grid x grid nodes: d = m = 3 grid^2, 4 nonzeros, R = 1.

    Gymnasium's dynamics: actions push left, do nothing, push right; reward -1 per step until the car reaches
    position 0.5, then 0 for ever. A car that arrives is put at the grid's corner (0.6, 0.07), a node that
    nothing else can reach, so the terminal state has its own features and core pairs.
    In normalised units the value is E[discount^(steps to the goal)]; about 100 steps are needed. Pushing in the direction of
    the velocity, the baseline, takes 119 (0.301).

    `features=rbf`: normalised Gaussian bumps on centres x centres points and one feature for the car that has arrived, one
    copy of all per action (d = 3 (centres^2 + 1) = 195); there is no core set. `features=none`: bounds only.
    """
    as_choice("mountain-car", ("grid", "rbf", "none"), features=features)
    for name, value in (("grid", grid), ("centres", centres)):
        if not 2 <= value <= 1000:
            raise InputError(f"`mountain-car:{name}=...` must be from 2 to 1000 nodes per side, got {value}.")
    phi: Features = bounds_only(_LOW, _HIGH, 3)
    if features != "none":
        phi = interpolation(_LOW, _HIGH, (grid, grid), 3) if features == "grid" else _rbf(centres)
    return Problem(
        model=CompiledModel(3, _initial, _step, state_shape=(2,), state_dtype=np.float64),
        features=phi,
        discount=discount,
        reward_range=(-1.0, 0.0),
        ends=lambda states: states[:, 0] >= _GOAL,
        baseline=("push with the velocity", lambda states: 2 * (states[:, 1] >= 0.0).astype(np.int64)),
        state_names=("position", "velocity"),
        action_names=("push left", "do nothing", "push right"),
    )
