"""`navigation`: across a square with walls, by steps that are not quite exact."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import numpy as np
from numba import njit

from ...base import FloatArray, InputError, IntArray, States, as_choice
from ...features import interpolation
from ..model import CompiledModel
from ..problem import Problem
from .bounds import between, bounds_only, normals

_START = 0.2  # starts are uniform on [0, 0.2]^2, or as far as the first wall
_HALF = 0.03  # half a wall's thickness


@njit(cache=True, nogil=True)
def crosses(x0, x1, y0, y1, wall):
    """Whether the segment from (x0, x1) to (y0, y1) meets the inside of the rectangle wall = (left, right, low, high)."""
    enter, leave = 0.0, 1.0  # the part of the segment that lies inside, from one slab to the next
    for i in range(2):
        x, y = (x0, y0) if i == 0 else (x1, y1)
        low, high = wall[2 * i], wall[2 * i + 1]
        if x == y:
            if not low < x < high:
                return False
            continue
        s, t = (low - x) / (y - x), (high - x) / (y - x)
        enter, leave = max(enter, min(s, t)), min(leave, max(s, t))
    return enter < leave


@njit(cache=True, nogil=True)
def _initial(rng, data, states):
    for n in range(states.shape[0]):
        states[n, 0], states[n, 1] = data[4] * rng.random(), _START * rng.random()


@njit(cache=True, nogil=True)
def _transition(data, states, actions, n, u, v, rewards, next_states):
    """Answer query n of the batch; the uniforms u and v are the noise."""
    moves, walls, noise, goal, _ = data
    x0, x1 = states[n, 0], states[n, 1]
    next_states[n, 0], next_states[n, 1] = x0, x1
    if x0 >= goal and x1 >= goal:  # arrived: pays 0 for ever
        rewards[n] = 0.0
        return
    rewards[n] = -1.0
    first, second = normals(u, v)
    y0 = min(max(x0 + moves[actions[n], 0] + noise * first, 0.0), 1.0)
    y1 = min(max(x1 + moves[actions[n], 1] + noise * second, 0.0), 1.0)
    for k in range(walls.shape[0]):
        if crosses(x0, x1, y0, y1, walls[k]):
            return
    next_states[n, 0], next_states[n, 1] = y0, y1


@njit(cache=True, nogil=True)
def _step(rng, data, states, actions, rewards, next_states):
    for n in range(states.shape[0]):
        u, v = (rng.random(), rng.random()) if data[2] > 0.0 else (0.0, 0.0)
        _transition(data, states, actions, n, u, v, rewards, next_states)


@njit(cache=True, nogil=True)
def _step_with(data, states, actions, noise, rewards, next_states):
    for n in range(states.shape[0]):
        u, v = (noise[n, 0], noise[n, 1]) if noise.shape[1] == 2 else (0.0, 0.0)
        _transition(data, states, actions, n, u, v, rewards, next_states)


def _walls(number: int, gap: float) -> FloatArray:
    """(left, right, low, high) of each wall `[number, 4]`: evenly spaced, with a gap above the first, below the second..."""
    middle = np.arange(1, number + 1) / (number + 1)
    above = np.arange(number) % 2 == 0
    # A wall reaches beyond the square, so that nothing passes along its edge.
    low, high = np.where(above, -1.0, gap), np.where(above, 1.0 - gap, 2.0)
    return np.stack([middle - _HALF, middle + _HALF, low, high], axis=1)


def _sees(x: FloatArray, y: FloatArray, walls: FloatArray) -> bool:
    return not any(crosses(x[0], x[1], y[0], y[1], wall) for wall in walls)


def round_the_corners(moves: FloatArray, walls: FloatArray, goal: float) -> Callable[[States], IntArray]:
    """The rule: go towards the next corner of the shortest way to the goal, in the direction nearest to it.

    Corners are kept at a distance of half a step. Of the directions whose exact step no wall stops, the one that comes
    nearest to the aim is taken.
    """
    clear = 0.5 * float(np.linalg.norm(moves[0]))
    points = [np.array([goal, goal])]
    for left, right, low, high in walls:
        y = high + clear if low < 0.0 else low - clear
        points += [np.array([left - clear, y]), np.array([right + clear, y])]
    rest = _ways(points, walls)  # [k] from each point to the goal

    def distances(x: FloatArray, after: FloatArray) -> FloatArray:
        """Of the places after each action, from the goal if it is in sight, else from the next corner `[A]`."""
        if _sees(x, np.maximum(x, goal), walls):
            return np.asarray(np.linalg.norm(np.maximum(goal - after, 0.0), axis=1))
        seen = [k for k, p in enumerate(points) if np.linalg.norm(p - x) > clear and _sees(x, p, walls)]
        aim = min(seen, key=lambda k: float(np.linalg.norm(points[k] - x)) + rest[k], default=0)
        return np.asarray(np.linalg.norm(after - points[aim], axis=1))

    def act(states: States) -> IntArray:
        actions = np.zeros(len(states), dtype=np.int64)
        for n, x in enumerate(np.asarray(states)[:, :2]):
            after = np.clip(x + moves, 0.0, 1.0)  # [A, 2]
            stopped = [not _sees(x, y, walls) for y in after]
            actions[n] = np.argmin(distances(x, after) + np.where(stopped, 10.0, 0.0))
        return actions

    return act


def _ways(points: list[FloatArray], walls: FloatArray) -> FloatArray:
    """The length of the shortest way from each point to the first, over points that see each other (Dijkstra)."""
    rest = np.full(len(points), np.inf)
    queue = [(0.0, 0)]
    while queue:
        length, k = heapq.heappop(queue)
        if length >= rest[k]:
            continue
        rest[k] = length
        for j, p in enumerate(points):
            if _sees(points[k], p, walls):
                heapq.heappush(queue, (length + float(np.linalg.norm(p - points[k])), j))
    return rest


def navigation(
    features: str = "grid", grid: int = 21, walls: int = 2, gap: float = 0.25, noise: float = 0.005, step: float = 0.05,
    goal: float = 0.9, actions: int = 8, discount: float = 0.98,
) -> Problem:  # fmt: skip
    """Across a square with walls: state (x, y) in [0, 1]^2, steps of 0.05 in 8 directions, noise, from corner to corner.

    A step moves by `step` in direction 2 pi a / actions, plus normal noise of standard deviation `noise` in each coordinate,
    and is clipped to the square. A step that would meet a wall does not happen: the state stays as it was. Walls are
    upright, 0.06 thick and evenly spaced; the first leaves a gap of height `gap` above it, the second below it, and so on.
    The start is uniform on [0, 0.2]^2, before the first wall. Every step pays -1 until x and y are both at least `goal`,
    then 0 for ever. In normalised units the value is E[discount^(steps to the goal)].

    Value iteration on 401 x 401 nodes gives 0.3887 as the optimum, and its greedy policy earns 0.3878 (0.3873 to 0.3886);
    the uniform policy earns 0. The baseline goes straight to the next corner of the shortest way, and earns 0.378.

    `features=grid`: interpolation on grid x grid nodes (d = m = 8 grid^2, exact core set); `features=none`: bounds only.
    """
    as_choice("navigation", ("grid", "none"), features=features)
    if not 2 <= grid <= 1000:
        raise InputError(f"`navigation:grid=...` must be from 2 to 1000 nodes per side, got {grid}.")
    if not 0 <= walls <= 6:
        raise InputError(f"`navigation:walls=...` must be from 0 to 6 walls, got {walls}.")
    if not 3 <= actions <= 360:
        raise InputError(f"`navigation:actions=...` must be from 3 to 360 directions, got {actions}.")
    gap, noise = between("navigation", 0.02, 0.98, gap=gap), between("navigation", 0.0, 0.5, noise=noise)
    step, goal = between("navigation", 1e-3, 1.0, step=step), between("navigation", 0.3, 1.0, goal=goal)
    angle = 2.0 * math.pi * np.arange(actions) / actions
    moves, barriers = step * np.stack([np.cos(angle), np.sin(angle)], axis=1), _walls(walls, gap)
    low, high, start = (0.0, 0.0), (1.0, 1.0), min(_START, float(barriers[:1, 0].min(initial=1.0)))
    return Problem(
        model=CompiledModel(
            actions,
            _initial,
            _step,
            (moves, barriers, noise, goal, start),
            state_shape=(2,),
            state_dtype=np.float64,
            noise_kernel=_step_with,
            noise_dimension=2 if noise > 0.0 else 0,
        ),
        features=interpolation(low, high, (grid, grid), actions)
        if features == "grid"
        else bounds_only(low, high, actions),
        discount=discount,
        reward_range=(-1.0, 0.0),
        ends=lambda states: (states >= goal).all(axis=1),
        baseline=("round the corners", round_the_corners(moves, barriers, goal)),
        state_names=("x", "y"),
        action_names=[f"{360.0 * a / actions:.6g} degrees" for a in range(actions)],
    )
