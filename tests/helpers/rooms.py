"""A square with a wall: on a coarse grid it looks open, so that a planner believes in a way through it."""

from __future__ import annotations

import numpy as np

import coreplan
from coreplan.problem import interpolation

WALL, DOOR = (0.48, 0.52), (0.86, 0.94)  # the wall's place in x, and its door in y
GOAL = 0.85  # x and y above it: the goal
STEP = 0.06


def _moved(states, actions, noise):
    """One step of length STEP in one of eight directions; what would cross the wall stays where it is."""
    angle = 2 * np.pi * actions / 8
    to = np.clip(states + STEP * np.stack([np.cos(angle), np.sin(angle)], axis=1) + noise, 0.0, 1.0)
    # A step is shorter than the wall is thick, so whoever crosses it has a position inside it.
    inside = (to[:, 0] > WALL[0] - 0.02) & (to[:, 0] < WALL[1] + 0.02)
    door = (to[:, 1] > DOOR[0]) & (to[:, 1] < DOOR[1])
    crossed = (states[:, 0] < 0.5) != (to[:, 0] < 0.5)
    return np.where(((inside | crossed) & ~door)[:, None], states, to)


def rooms(nodes, discount=0.95):
    """Start in the left room at the bottom; every step at the goal, at the bottom right, pays 1."""

    def initial(rng, n):
        return np.stack([0.1 + 0.1 * rng.random(n), 0.1 + 0.1 * rng.random(n)], axis=1)

    def step(rng, states, actions):
        goal = (states[:, 0] > GOAL) & (states[:, 1] < 1 - GOAL)
        return goal.astype(float), _moved(states, actions, 0.005 * rng.standard_normal(states.shape))

    return coreplan.Problem(
        coreplan.FunctionModel(8, initial, step), interpolation((0.0, 0.0), (1.0, 1.0), (nodes, nodes), 8), discount,
        name="rooms",
    )  # fmt: skip
