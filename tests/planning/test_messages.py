"""Likely mistakes in the first lines that a person writes: each is named, with what to write instead."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan.problem import NoiseModel, Problem, fourier, interpolation, polynomial, radial, simplicial


def line(**more):
    model = coreplan.FunctionModel(2, lambda rng, n: rng.random((n, 1)), lambda rng, x, a: (x[:, 0], x))
    return Problem(model, interpolation([0.0], [1.0], [3], 2), 0.9, **more)


def test_a_planner_class_or_a_planner_in_place_of_the_core():
    for words, call in (
        (r"the class CoreMirror; write CoreMirror\(\)", lambda: coreplan.plan(line(), planner=coreplan.CoreMirror)),
        (r"second argument.*planner=CoreMirror\(\)", lambda: coreplan.plan(line(), coreplan.CoreMirror)),
        (r"second argument.*planner=PlugIn\(\)", lambda: coreplan.plan(line(), coreplan.PlugIn())),
        ("got the class dict", lambda: coreplan.plan(line(), dict)),
        ("got tuple", lambda: coreplan.plan(line(), (np.zeros((1, 1)), np.zeros(1)))),
    ):  # fmt: skip
        with pytest.raises(coreplan.InputError, match=words):
            call()


@pytest.mark.parametrize("make", [interpolation, simplicial, polynomial, fourier, radial])
def test_a_grid_of_one_coordinate_takes_lists_too(make):
    with pytest.raises(coreplan.InputError, match=r"in a list, even for a single coordinate.*got 0.0"):
        make(0.0, 1.0, 5, 2)
    if make in (interpolation, simplicial):
        with pytest.raises(coreplan.InputError, match="one per coordinate of the state, here 1, got 5"):
            make([0.0], [1.0], 5, 2)


def test_a_mask_that_forbids_everything():
    with pytest.raises(coreplan.FeatureError, match=r"forbids every action of state.*CAN be taken"):
        line(mask=lambda states: np.zeros((len(states), 2), dtype=bool))
    wall = line(mask=lambda states: np.repeat(states < 0.9, 2, axis=1))  # one closed node is no mistake
    assert len(wall.core_pairs[1]) == 4


def still(states, actions, noise):
    return noise[:, 0], states


@pytest.mark.parametrize(
    ("initial", "k0", "words"),
    [
        (lambda noise: noise, None, r"called as initial\(rng, n\).*initial_noise_dimension=k0"),
        (
            lambda rng, n: rng.random((n, 1)),
            1,
            r"called as initial\(noise\).*leave `initial_noise_dimension` out",
        ),
        (np.zeros((1, 1)), None, "must be a function"),
    ],
)
def test_how_a_noise_model_begins(initial, k0, words):
    with pytest.raises(coreplan.InputError, match=words):
        NoiseModel(2, initial, still, 1, k0)


def test_noise_models_that_begin_well():
    for initial, k0 in (
        (lambda rng, n: rng.random((n, 1)), None),
        (lambda *both: both[0].random((both[1], 1)), None),
        (lambda noise, more=0: noise, 1),
    ):
        model = NoiseModel(2, initial, still, 1, k0)
        assert model.initial(np.random.default_rng(0), 3).shape == (3, 1)


def test_a_plan_in_place_of_its_policy():
    problem = coreplan.make("river-swim")
    made = coreplan.plan(problem, budget=2_000)
    core = coreplan.CoreSet.of(problem)
    direct, through = (coreplan.certify(problem, core, p, queries=4_000) for p in (made.policy, made))
    assert direct == through
    assert coreplan.evaluate(problem, made) == coreplan.evaluate(problem, made.policy)
    with pytest.raises(coreplan.InputError, match="got dict"):
        coreplan.evaluate(problem, {})
    with pytest.raises(coreplan.InputError, match="or a Plan; got dict"):
        coreplan.certify(problem, core, {}, queries=4_000)
