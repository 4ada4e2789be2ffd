"""Navigation among walls: its steps against a naive simulation, its shortest ways against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

import coreplan
from coreplan.problem.zoo.navigation import crosses, navigation, round_the_corners
from helpers.mutants import mutant
from helpers.zoo import module

FINE = 4001


def meets(x, y, wall):
    """Whether some of many points of the segment lie inside the wall."""
    t = np.linspace(0, 1, FINE)[:, None]
    p = (1 - t) * x + t * y
    left, right, low, high = wall
    return bool(((p[:, 0] > left) & (p[:, 0] < right) & (p[:, 1] > low) & (p[:, 1] < high)).any())


def test_segments_meet_walls_as_their_points_do():
    """What many points of a segment meet, it meets; and where they meet nothing, it misses a slightly smaller wall."""
    rng = np.random.default_rng(0)
    wall, hits = np.array([0.4, 0.5, 0.3, 0.8]), 0
    inner = wall + np.array([2e-3, -2e-3, 2e-3, -2e-3])
    for x, y in rng.random((2_000, 2, 2)):
        found = crosses(*x, *y, wall)
        hits += found
        assert found if meets(x, y, wall) else not crosses(*x, *y, inner)
    assert 400 < hits < 1_600
    for x, y in (([0.4, 0.0], [0.4, 1.0]), ([0.0, 0.8], [1.0, 0.8]), ([0.45, 0.9], [0.45, 0.95])):
        assert not crosses(*x, *y, wall)  # along an edge, and above
    assert crosses(0.45, 0.1, 0.45, 0.9, wall) and crosses(0.45, 0.5, 0.46, 0.5, wall)


def check_steps(factory):
    """Uniforms to normal numbers, moves, edges, walls, goal and rewards, one query at a time."""
    problem = factory()
    walls = [(1 / 3 - 0.03, 1 / 3 + 0.03, -9, 0.75), (2 / 3 - 0.03, 2 / 3 + 0.03, 0.25, 9)]
    rng = np.random.default_rng(1)
    x, a, u = rng.random((800, 2)), rng.integers(0, 8, 800), rng.random((800, 2))
    x[:20] = 0.9 + 0.1 * rng.random((20, 2))
    rewards, y = problem.model.step_with(x, a, u)
    again = problem.model.step(np.random.default_rng(5), x, a)
    np.testing.assert_array_equal(
        again[1], problem.model.step_with(x, a, np.random.default_rng(5).random((800, 2)))[1]
    )
    stayed = 0
    for n in range(800):
        angle, spread = 2 * math.pi * a[n] / 8, math.sqrt(-2 * math.log(1 - u[n, 0]))
        noise = 0.005 * spread * np.array([math.cos(2 * math.pi * u[n, 1]), math.sin(2 * math.pi * u[n, 1])])
        want = np.clip(x[n] + 0.05 * np.array([math.cos(angle), math.sin(angle)]) + noise, 0, 1)
        there = (x[n] >= 0.9).all()
        if there or any(meets(x[n], want, wall) for wall in walls):
            want = x[n]
            stayed += not there
        assert rewards[n] == (0 if there else -1)
        np.testing.assert_allclose(y[n], want, atol=1e-12)
    assert 20 < stayed < 400  # walls were met


def test_steps_are_those_of_a_naive_simulation():
    check_steps(navigation)


FAULTS = {
    "walls can be jumped over": ("enter, leave = max(enter, min(s, t)), min(leave, max(s, t))",
                                 "enter, leave = 0.0, 1.0 if low < y < high else 0.0"),
    "noise has twice the spread": ("noise * first", "2.0 * noise * first"),
    "the goal is the upper edge": ("x0 >= goal and x1 >= goal", "x1 >= goal"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(fault, tmp_path, monkeypatch):
    broken = mutant(module("navigation"), *FAULTS[fault], tmp_path, monkeypatch)
    with pytest.raises(AssertionError):
        check_steps(broken.navigation)


def rule_of(problem):
    moves, walls, _, goal, _ = problem.model.data
    return round_the_corners(moves, walls, goal)


def steps_to_goal(problem, x, limit=400):
    rule, rng, steps = rule_of(problem), np.random.default_rng(2), np.zeros(len(x))
    for _ in range(limit):
        steps += ~problem.ended(x)
        _, x = problem.model.step(rng, x, rule(x))
    assert problem.ended(x).all()
    return steps


def test_without_walls_the_rule_takes_the_fewest_steps():
    """Four directions and no noise: each coordinate needs ceil((goal - x) / step) steps of its own."""
    problem = coreplan.make("navigation:walls=0,noise=0,actions=4,step=0.0625,goal=0.875")  # no rounding
    x = np.random.default_rng(3).random((50, 2))
    want = np.ceil(np.maximum(0.875 - x, 0) / 0.0625).sum(axis=1)
    np.testing.assert_array_equal(steps_to_goal(problem, x), want)
    value = coreplan.evaluate(problem, rule_of(problem), rollouts=200, seed=1)
    assert value.value == pytest.approx(
        0.98**24, rel=0.05
    )  # starts need 12 steps in each coordinate, or a few less


@pytest.mark.parametrize("walls", [1, 2, 3, 5])
def test_the_rule_finds_the_way_round_every_wall(walls):
    """Not much longer than the way round the corners: eight directions make a way up to 8.3% longer than a straight one."""
    problem = coreplan.make(f"navigation:walls={walls},features=none")
    x = problem.model.initial(np.random.default_rng(4), 40)
    corners = []
    for left, right, low, high in problem.model.data[1]:
        y = high if low < 0 else low
        corners += [(left, y), (right, y)]
    way = np.array([*corners, (0.9, 0.9)])
    length = np.linalg.norm(x - way[0], axis=1) + np.linalg.norm(np.diff(way, axis=0), axis=1).sum()
    steps = steps_to_goal(problem, x)
    assert (steps >= 0.9 * length / 0.05).all()
    assert steps.mean() < 1.15 * length.mean() / 0.05 + 3 * walls
