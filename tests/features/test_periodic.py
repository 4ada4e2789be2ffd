"""Periodic coordinates: no seam, the same map inside the box, exact core sets, and the same files as before without."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coreplan
from coreplan.features import BoxWatch, dense
from coreplan.problem import (
    checked,
    fingerprint,
    fourier,
    interpolation,
    outside_box,
    polynomial,
    radial,
    rectilinear,
    simplicial,
    tile_coding,
)

LOW, HIGH = [-np.pi, 2.0], [np.pi, 5.0]
TURN = HIGH[0] - LOW[0]
AXES = [[LOW[0], -1.0, 0.3, HIGH[0]], [2.0, 3.5, 5.0]]


def maps(periodic=None, joined=0):
    """Every map with `periodic`; with `joined` = 1 the grids have one more node along the first axis."""
    n = 4 + joined
    return {
        "interpolation": interpolation(LOW, HIGH, [n, 3], 2, periodic=periodic),
        "simplicial": simplicial(LOW, HIGH, [n, 3], 2, periodic=periodic),
        "rectilinear": rectilinear(AXES, 2, periodic=periodic),
        "tile coding": tile_coding(LOW, HIGH, [4, 3], 5, 2, periodic=periodic),
        "polynomial": polynomial(LOW, HIGH, 3, 2, periodic=periodic),
        "fourier": fourier(LOW, HIGH, 2, 2, periodic=periodic),
        "radial": radial(LOW, HIGH, [4, 3], 2, periodic=periodic),
        "radial, plain": radial(LOW, HIGH, [4, 3], 2, normalise=False, intercept=True, periodic=periodic),
        "radial, points": radial(LOW, HIGH, np.array([[0.0, 3.0], [3.0, 4.0]]), 2, periodic=periodic),
    }


ANGLES = maps((True, False))
GRIDS = ["interpolation", "simplicial", "rectilinear"]
UNITY = [*GRIDS, "tile coding", "radial", "radial, points"]


def values(features, x):
    return dense(checked(features, np.asarray(x, dtype=float)), features.dimension)


@settings(max_examples=60, deadline=None)
@given(st.floats(-np.pi, np.pi), st.floats(1.0, 6.0), st.integers(-5, 5), st.sampled_from(sorted(ANGLES)))
def test_full_turns_change_nothing(angle, other, turns, name):
    phi = values(ANGLES[name], [[angle, other], [angle + turns * TURN, other]])
    if name == "tile coding":  # a step function: rounding may cross the edge of a tile
        place = (angle + np.pi) / TURN * 4 * 5
        if abs(place - round(place)) < 1e-9:
            return
    np.testing.assert_allclose(phi[0], phi[1], atol=1e-12)


@pytest.mark.parametrize("name", ANGLES)
def test_there_is_no_seam(name):
    y = np.linspace(2.0, 5.0, 7)
    low, high = (np.column_stack([np.full(7, x), y]) for x in (LOW[0], HIGH[0]))
    np.testing.assert_array_equal(values(ANGLES[name], low), values(ANGLES[name], high))
    if name != "tile coding":
        near = high - [1e-9, 0.0]
        np.testing.assert_allclose(values(ANGLES[name], near), values(ANGLES[name], low), atol=1e-7)


def test_without_the_flag_there_is_a_seam():
    """So that the test above can fail: ends of the box are different places then."""
    for name, features in maps().items():
        assert np.abs(np.diff(values(features, [[LOW[0], 3.3], [HIGH[0], 3.3]]), axis=0)).max() > 0.1, name


@pytest.mark.parametrize("name", UNITY)
def test_weights_are_convex(name):
    x = 20 * np.random.default_rng(0).normal(size=(400, 2))
    phi = values(ANGLES[name], x)
    assert phi.min() >= 0.0
    np.testing.assert_allclose(phi.sum(axis=2), 1.0, atol=1e-12)
    assert np.linalg.norm(phi, axis=2).max() <= ANGLES[name].radius * (1 + 1e-9)


@pytest.mark.parametrize("name", GRIDS)
def test_the_core_set_is_exact(name):
    features = ANGLES[name]
    core = coreplan.CoreSet(*features.core())  # which refuses copies
    assert len(core) == features.dimension == (3 if name == "rectilinear" else 4) * 3 * 2
    rows = values(features, core.states)[np.arange(len(core)), core.actions]
    np.testing.assert_allclose(rows, np.eye(len(core)), atol=1e-12)


@pytest.mark.parametrize("name", [*GRIDS, "tile coding"])
def test_inside_the_box_it_is_the_other_map_with_the_ends_added_up(name):
    x = np.array(LOW) + (np.array(HIGH) - LOW) * np.random.default_rng(1).random((300, 2))
    other = values(maps(joined=1)[name], x)  # one more node: the first one again
    cells = {"tile coding": (5, 5, 4), "rectilinear": (1, 4, 3)}.get(name, (1, 5, 3))  # tilings, cells
    split = other.reshape(300, 2, *cells, 2)  # [n, A, tilings, cells, cells, A]
    want = split[:, :, :, :-1].copy()
    want[:, :, :, 0] += split[:, :, :, -1]
    np.testing.assert_array_equal(values(ANGLES[name], x), want.reshape(300, 2, -1))


def test_harmonics_and_points_on_the_circle_in_closed_form():
    x = np.array(LOW) + (np.array(HIGH) - LOW) * np.random.default_rng(2).random((40, 2))
    t, z = x[:, 0] - LOW[0], (x[:, 1] - 2.0) / 3.0
    phi = dense(fourier(LOW, HIGH, 2, 1, periodic=[True, False])(x), 15)[:, 0]
    turns = [np.ones(40), np.cos(t), np.sin(t), np.cos(2 * t), np.sin(2 * t)]
    want = np.array([h * np.cos(np.pi * c * z) for h in turns for c in range(3)])
    np.testing.assert_allclose(phi.T, want, atol=1e-12)
    features = polynomial(LOW, HIGH, 2, 1, periodic=[True, False])
    phi = dense(features(x), features.dimension)[:, 0]
    c, s, v = np.cos(t), np.sin(t), 2 * z - 1
    want = [np.ones(40), c, s, v, c * c, c * s, c * v, s * v, v * v]  # without s * s, which is 1 - c * c
    assert {tuple(np.round(column, 10)) for column in phi.T + 0.0} == {tuple(np.round(w, 10)) for w in want}
    assert np.linalg.matrix_rank(phi) == features.dimension


def test_bumps_are_measured_the_shorter_way_round():
    features = radial([0.0], [10.0], np.array([[0.5], [5.0]]), 1, scale=0.1, normalise=False, periodic=[True])
    phi = dense(features(np.array([[9.5], [4.0]])), 2)[:, 0]
    np.testing.assert_allclose(phi, np.exp([[-0.5, -(4.5**2) / 2], [-(3.5**2) / 2, -0.5]]), atol=1e-12)


def test_all_coordinates_may_be_periodic():
    features = simplicial([0, 0, 0], [1, 2, 3], [2, 2, 5], 1, periodic=[True] * 3)
    x = np.random.default_rng(3).random((50, 3)) * [1, 2, 3]
    np.testing.assert_allclose(values(features, x), values(features, x + np.array([-1, 4, 9])), atol=1e-12)
    assert features.dimension == 20


def test_an_angle_is_never_outside_the_box():
    for features in ANGLES.values():
        assert outside_box(features, np.array([[99.0, 3.0]])) is None
        found = outside_box(features, np.array([[99.0, 3.0], [0.0, 6.5]]))
        assert (found.coordinate, found.excess) == (1, 1.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BoxWatch(ANGLES["interpolation"]).see(np.array([[99.0, 3.0]]))


@pytest.mark.parametrize("name", ANGLES)
def test_states_that_are_no_numbers_are_refused(name):
    for bad in (np.nan, np.inf):
        with pytest.raises(coreplan.FeatureError, match="not finite"):
            checked(ANGLES[name], np.array([[bad, 3.0]]))


def test_fingerprints_tell_periodic_maps_apart_and_others_are_as_they_were():
    """The second list is from before there were periodic maps: saved policies must go on loading."""
    plain = maps()
    for name in plain:
        false = maps([False, False])[name]
        assert fingerprint(false) == fingerprint(plain[name]) != fingerprint(ANGLES[name])
        assert "periodic" in ANGLES[name].name and "periodic" not in plain[name].name
    box = ([-1.0, 2.0], [1.0, 5.0])
    before = {
        "feed66551eb070e9": interpolation(*box, [4, 3], 3),
        "94cdf355553e7a42": simplicial(*box, [4, 3], 3),
        "28a5a31c1c907f22": rectilinear([[-1, 0.2, 1.0], [2, 3.5, 4, 5.0]], 3),
        "e3cd5c7851518d0b": tile_coding(*box, [4, 3], 5, 3),
        "1702c920e498c9f6": polynomial(*box, 3, 3),
        "d8e6c8218841fcc4": fourier(*box, 2, 3),
        "22b16e87ccaa5857": radial(*box, [4, 5], 3),
    }
    assert {fingerprint(features) for features in before.values()} == set(before)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: interpolation(LOW, HIGH, [4, 3], 2, periodic=[True]), "one True or False per coordinate, here 2"),
        (lambda: interpolation(LOW, HIGH, [4, 3], 2, periodic=True), "such as (True, False); got True"),
        (lambda: simplicial(LOW, HIGH, [4, 3], 2, periodic=[1, 0]), "got [1, 0]"),
        (lambda: fourier(LOW, HIGH, 2, 2, periodic="yes"), "got 'yes'"),
        (lambda: polynomial(LOW, [np.inf, 5.0], 2, 2, periodic=(True, False)), "to inf, and a box must be finite"),
        (lambda: radial([0.0], [0.0], [4], 2, periodic=(True,)), "low < high"),
        (lambda: tile_coding([-np.inf], [np.inf], [4], 2, 2, periodic=(True,)), "coordinate 0 goes from -inf to inf"),
        (lambda: rectilinear([[0.0, 1.0]], 2, periodic=(True,)), "Give at least 3"),
        (lambda: interpolation([0.0], [1.0], [1], 2, periodic=(True,)), "at least 2"),
    ],
)  # fmt: skip
def test_bad_input(make, words):
    with pytest.raises(coreplan.InputError) as caught:
        make()
    assert words in str(caught.value)


def test_a_pendulum_on_a_joined_grid_earns_more_at_equal_nodes():
    """On 9 x 9 nodes .92 against .80, each to about .003 with 1,000 rollouts; compiled as a whole, as without."""
    earned = {}
    for joined in (False, True):
        problem = coreplan.make(f"pendulum:grid=9,periodic={joined}")
        assert problem.compiled
        result = coreplan.plan(problem, budget=40_000)
        earned[joined] = coreplan.evaluate(problem, result.policy, rollouts=1000, seed=1).value
    assert earned[True] > earned[False] + 0.05
