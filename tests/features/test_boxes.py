"""States outside the box of the features are counted, measured, and warned of once a run."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numba import njit

import coreplan
from coreplan.base import CoverageWarning
from coreplan.features import dense, outside_box
from coreplan.problem import (
    ZOO,
    fourier,
    interpolation,
    one_hot,
    polynomial,
    radial,
    rectilinear,
    simplicial,
    tile_coding,
)
from helpers.runs import plan

LOW, HIGH = [-1.0, 2.0], [1.0, 6.0]
MAPS = {
    "interpolation": lambda: interpolation(LOW, HIGH, [3, 3], 2),
    "rectilinear": lambda: rectilinear([[-1.0, 0.2, 1.0], [2.0, 6.0]], 2),
    "simplicial": lambda: simplicial(LOW, HIGH, [3, 3], 2),
    "tile coding": lambda: tile_coding(LOW, HIGH, [3, 3], 4, 2),
    "polynomial": lambda: polynomial(LOW, HIGH, 2, 2),
    "fourier": lambda: fourier(LOW, HIGH, 2, 2),
    "radial": lambda: radial(LOW, HIGH, [3, 3], 2),
    "radial, plain": lambda: radial(LOW, HIGH, [3, 3], 2, normalise=False),
}
CLIPS = {"interpolation", "rectilinear", "simplicial", "tile coding", "polynomial"}


@pytest.mark.parametrize("name", MAPS)
def test_maps_say_truly_whether_they_clip(name):
    features = MAPS[name]()
    far = np.array([[-9.0, 4.3], [0.3, 9.0], [7.0, 1.0]])
    edge = np.clip(far, LOW, HIGH)
    same = np.allclose(dense(features(far), features.dimension), dense(features(edge), features.dimension))
    assert same == features.clips == (name in CLIPS)


@pytest.mark.parametrize("name", MAPS)
def test_the_largest_excess_is_measured(name):
    states = np.array([[0.0, 4.0], [1.5, 4.0], [0.0, 1.0], [-1.0, 6.0]])
    found = outside_box(MAPS[name](), states)
    # 0.5 beyond a width of 2 and 1.0 beyond a width of 4 are the same part; the first counts.
    assert (found.outside, found.total, found.coordinate, found.excess, found.relative) == (
        2,
        4,
        0,
        0.5,
        0.25,
    )
    assert found.value == 1.5 and ("do not clip" in str(found)) == (name not in CLIPS)
    assert (
        "2 of 4 states" in str(found) and "coordinate 0" in str(found) and "25.00% of its width" in str(found)
    )
    below = outside_box(MAPS[name](), np.array([[0.0, -6.0]]))
    assert (below.coordinate, below.excess, below.relative) == (1, 8.0, 2.0)


def test_nothing_to_say():
    inside = np.array([LOW, HIGH, [0.0, 3.0]])
    assert outside_box(MAPS["interpolation"](), inside) is None
    assert outside_box(MAPS["interpolation"](), inside * (1 + 1e-12)) is None  # rounding
    single = np.float32(inside)  # as JAX hands states out
    assert outside_box(MAPS["interpolation"](), single * np.float32(1 + 2e-7)) is None
    assert outside_box(MAPS["interpolation"](), np.empty((0, 2))) is None
    assert outside_box(one_hot(3, 2), np.array([0, 7])) is None


@njit
def _initial(rng, data, states):
    for n in range(states.shape[0]):
        states[n, 0] = rng.random()


@njit
def _step(rng, data, states, actions, rewards, next_states):
    for n in range(states.shape[0]):
        rewards[n] = 0.5
        next_states[n, 0] = states[n, 0] + data[0] * rng.random()


def drifting(by, compiled=True, mask=None):
    """States in [0, 1], which drift out of it by up to `by`."""
    model = coreplan.CompiledModel(2, _initial, _step, (by,), state_shape=(1,), state_dtype=np.float64)
    if not compiled:
        model = coreplan.FunctionModel(2, model.initial, model.step)
    return coreplan.Problem(model, interpolation([0.0], [1.0], [3], 2), 0.9, mask=mask)


def warned(problem, **more):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        planner = coreplan.PrimalDual(K=9, eta=1e-3, beta=0.1, alpha=0.05)
        result = plan(problem, planner=planner, budget=2_000, **more)
    return [str(w.message) for w in seen if w.category is CoverageWarning], result


@pytest.mark.parametrize("compiled", [True, False])
def test_a_run_warns_once(compiled):
    messages, result = warned(drifting(0.5, compiled))
    assert (
        len(messages) == 1 and "lie outside the features' box" in messages[0] and "clip there" in messages[0]
    )
    assert result.queries == 2_000
    with warnings.catch_warnings():
        warnings.simplefilter("error", CoverageWarning)
        planner = coreplan.PrimalDual(K=9, eta=1e-3, beta=0.1, alpha=0.05)
        with pytest.raises(CoverageWarning):
            plan(drifting(0.5, compiled), planner=planner, budget=2_000)


def test_a_masked_map_has_the_box_of_what_it_masks():
    assert warned(drifting(0.5, mask=lambda x: np.ones((len(x), 2), dtype=bool)))[0]


@pytest.mark.parametrize("compiled", [True, False])
def test_looking_changes_no_number(compiled, monkeypatch):
    _, one = warned(drifting(0.5, compiled))
    monkeypatch.setattr("coreplan.features.box._PROBE", 0)
    messages, two = warned(drifting(0.5, compiled))
    assert not messages and one.initial_draws == two.initial_draws
    np.testing.assert_array_equal(one.policy.theta, two.policy.theta)


@pytest.mark.parametrize("name", sorted(set(ZOO) - {"hard-linear", "random-linear"}))
def test_the_built_in_problems_stay_in_their_boxes(name):
    problem = coreplan.make(name)
    rng = np.random.default_rng(0)
    states = problem.model.initial(rng, 200)
    for _ in range(100):
        assert outside_box(problem.features, states) is None
        _, states = problem.model.step(rng, states, rng.integers(problem.n_actions, size=200))


def test_a_box_of_ones_own():
    def make(**more):
        return coreplan.FunctionFeatures(lambda x: np.zeros((len(x), 2, 3)), 2, 3, 1.0, **more)

    assert outside_box(make(box=([0.0], [1.0])), np.array([3.0])).excess == 2.0
    assert outside_box(make(), np.array([3.0])) is None
    for box in (([1.0], [0.0]), (0.0, 1.0), ([0.0], [1.0], [2.0])):
        with pytest.raises(coreplan.InputError, match="low < high"):
            make(box=box)
    with pytest.raises(coreplan.InputError, match="box has 1 dimensions, and states have 2"):
        outside_box(make(box=([0.0], [1.0])), np.zeros((3, 2)))
