"""A square with a wall: the only way to the goal is a narrow passage at the far end."""

from __future__ import annotations

import numpy as np

from coreplan import FunctionModel, Problem
from coreplan.problem import interpolation

_MOVES = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
_STEP, _NOISE = 0.09, 0.01
_LEFT, _RIGHT, _TOP = 0.43, 0.57, 0.8  # the wall stands between LEFT and RIGHT and is open above TOP


def _initial(rng, n):
    """The lower left corner."""
    return 0.05 + 0.1 * rng.random((n, 2))


def _in_wall(x):
    return (x[:, 0] > _LEFT) & (x[:, 0] < _RIGHT) & (x[:, 1] < _TOP)


def _step(rng, states, actions):
    """A move into the wall does not happen, nor does one from inside it; each step in the lower right corner pays 1."""
    to = np.clip(states + _STEP * _MOVES[actions] + _NOISE * rng.standard_normal(states.shape), 0.0, 1.0)
    to = np.where((_in_wall(states) | _in_wall(to))[:, None], states, to)
    return ((to[:, 0] > 0.75) & (to[:, 1] < 0.25)).astype(float), to


def square(nodes, discount=0.95):
    """The square with multilinear interpolation on nodes x nodes."""
    return Problem(
        model=FunctionModel(n_actions=4, initial=_initial, step=_step),
        features=interpolation([0.0, 0.0], [1.0, 1.0], [nodes, nodes], 4),
        discount=discount,
        name=f"square:{nodes}",
    )
