"""Numbers of every dtype at the door: converted exactly, or refused with a sentence; masked arrays are refused."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest

import coreplan
from coreplan import CoreSet, FunctionFeatures, FunctionModel, Problem
from coreplan.base import as_states
from coreplan.core import Pool
from coreplan.problem import ScalarModel
from coreplan.simulate import Guard
from helpers.runs import plan

RIVER = coreplan.make("river-swim")


def whole(states):
    return np.asarray(states).astype(np.float64).astype(np.int64)


def river(state=np.int64, reward=np.float64, phi=np.float64, core=None, change=lambda x: x):
    """river-swim in NumPy whose states, rewards and features have the given dtypes; `change` is done to next states."""

    def step(rng, states, actions):
        rewards, after = RIVER.model.step(rng, whole(states), actions)
        return np.round(rewards * 4).astype(reward), change(after.astype(state))

    def features(states):
        return (phi_of(states)).astype(phi)

    def phi_of(states):
        index, weight = RIVER.features(whole(states))
        dense = np.zeros((len(states), 2, RIVER.features.dimension))
        np.put_along_axis(dense, index, weight, axis=2)
        return dense

    states, actions = RIVER.core_pairs
    model = FunctionModel(2, lambda rng, n: RIVER.model.initial(rng, n).astype(state), step)
    f = FunctionFeatures(features, 2, RIVER.features.dimension, 1.0)
    pairs = (states.astype(state if core is None else core), actions)
    return Problem(model, f, RIVER.discount, (0, 4), core_pairs=pairs)


def theta(problem, name):
    return plan(problem, planner=name, budget=600).policy.theta.tobytes()


@functools.cache
def ordinary(name):
    return theta(river(), name)


@pytest.mark.parametrize("name", ["plug-in", "grow"])
@pytest.mark.parametrize("dtype", [">f8", ">f4", "f2", "f4", np.longdouble, ">i8", "i1", "u2", "u8"])
def test_states_of_every_kind_of_number(dtype, name):
    """Today's Numba knows neither foreign byte orders, nor float16, nor longdouble: each was a typing error."""
    assert theta(river(state=dtype), name) == ordinary(name)


@pytest.mark.parametrize("dtype", ["i8", "?", "f2", "f4", np.longdouble, ">f8", ">i4"])
def test_rewards_of_every_kind_of_number(dtype):
    one, two = (river(reward=d) for d in (dtype, np.float64))
    if dtype == "?":
        two = dataclasses.replace(two, model=dataclasses.replace(two.model, step=_truth(two.model.step)))
    assert theta(one, "plug-in") == theta(two, "plug-in")


def _truth(step):
    def changed(rng, states, actions):
        rewards, after = step(rng, states, actions)
        return (rewards != 0).astype(float), after

    return changed


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f8", "i8", "?", np.longdouble])
def test_features_of_every_kind_of_number(dtype):
    assert theta(river(phi=dtype), "plug-in") == ordinary("plug-in")


@pytest.mark.parametrize("dtype", ["c16", "U4", "M8[s]", "m8[s]", "i8,f8"])
def test_states_that_are_no_numbers_are_refused_where_they_must_be_stored(dtype):
    guard = Guard(river())
    with pytest.raises(coreplan.SimulatorError, match="must be real numbers"):
        guard._states("initial", np.zeros(3, dtype=dtype), 3)


def test_longdouble_states_that_float64_does_not_hold():
    third = np.full(3, np.longdouble(1) / 3)
    if third.astype(float).astype(np.longdouble)[0] == third[0]:
        pytest.skip("here longdouble is float64")
    with pytest.raises(coreplan.SimulatorError, match="numbers that float64 cannot"):
        Guard(river())._states("initial", third, 3)
    with pytest.raises(coreplan.InputError, match="numbers that float64 cannot"):
        CoreSet(third, [0, 1, 2])


class Broken:
    def __array__(self, dtype=None, copy=None):
        raise KeyError("the licence has expired")


class Places:
    """Each place at which an array comes in; `wrap` makes something of it that is no plain array."""

    def __init__(self, wrap):
        self.wrap = wrap

    def rewards(self):
        model = FunctionModel(2, RIVER.model.initial, lambda rng, x, a: (self.wrap(np.zeros(len(x))), x))
        Guard(dataclasses.replace(river(), model=model)).step(None, np.zeros(3, int), np.zeros(3, int))

    def states(self):
        model = FunctionModel(
            2, RIVER.model.initial, lambda rng, x, a: (np.zeros(len(x)), self.wrap(x.copy()))
        )
        guard = Guard(dataclasses.replace(river(), model=model), np.zeros(1, int))
        guard.step(None, np.zeros(3, int), np.zeros(3, int))

    def initial(self):
        model = FunctionModel(2, lambda rng, n: self.wrap(np.zeros(n, int)), RIVER.model.step)
        Guard(dataclasses.replace(river(), model=model)).initial(None, 3)

    def scalar(self):
        model = ScalarModel(2, lambda rng: 0, lambda rng, x, a: (0.0, self.wrap(np.zeros(()))))
        Guard(dataclasses.replace(river(), model=model), np.zeros(1)).step(
            None, np.zeros(2), np.zeros(2, int)
        )

    def features(self):
        phi = FunctionFeatures(lambda x: self.wrap(np.ones((len(x), 2, 1))), 2, 1, 1.0)
        coreplan.SoftmaxPolicy.uniform(phi).probabilities(np.zeros(3))

    def mask(self):
        dataclasses.replace(river(), mask=lambda x: self.wrap(np.ones((len(x), 2), bool)))

    def ends(self):
        dataclasses.replace(river(), ends=lambda x: self.wrap(np.zeros(len(x), bool))).ended(np.zeros(3))

    def core_states(self):
        CoreSet(self.wrap(np.arange(3.0)), np.zeros(3, int))

    def core_actions(self):
        CoreSet(np.arange(3.0), self.wrap(np.zeros(3, int)))

    def pool(self):
        Pool(np.arange(3.0), np.zeros(3, int), np.eye(3), self.wrap(np.ones(3)))

    def baseline(self):
        coreplan.plan(river(), budget=600, baseline=lambda x: self.wrap(np.zeros(len(x), int)))

    def policy(self):
        coreplan.SoftmaxPolicy.uniform(river().features).act(self.wrap(np.zeros(3)), 0)


PLACES = [name for name in vars(Places) if not name.startswith("_")]


@pytest.mark.parametrize("place", PLACES)
def test_masked_arrays_are_refused(place):
    """np.asarray would drop the mask and use what lies under it."""

    def masked(array):
        return np.ma.masked_array(array, mask=np.ones(array.shape, bool))

    with pytest.raises(coreplan.CoreplanError) as caught:
        getattr(Places(masked), place)()
    assert "masked" in str(caught.value) and len(str(caught.value)) < 600


@pytest.mark.parametrize("place", PLACES)
def test_arrays_that_raise_when_they_are_read(place):
    with pytest.raises(coreplan.CoreplanError) as caught:
        getattr(Places(lambda array: Broken()), place)()
    assert len(str(caught.value)) < 600


def test_a_list_of_masked_arrays_is_refused():
    with pytest.raises(coreplan.InputError, match="masked"):
        CoreSet([np.ma.masked_array([1.0], mask=[True]), np.ma.masked_array([2.0], mask=[False])], [0, 0])


@pytest.mark.parametrize(
    "actions", [[0.0, 1.0], np.array([0, 1], "m8[s]"), [True, False], ["0", "1"], [0, 2**64]]
)
def test_core_actions_that_are_no_whole_numbers(actions):
    with pytest.raises(coreplan.InputError, match="whole numbers"):
        CoreSet([0, 1], actions)


def test_core_actions_that_do_not_fit():
    with pytest.raises(coreplan.InputError, match=r"below 2\^63"):
        CoreSet([0, 1], np.array([0, 2**63], dtype=np.uint64))


@pytest.mark.parametrize("dtype", [">i8", "i1", "u8", ">u2"])
def test_core_actions_of_every_kind_of_whole_number(dtype):
    core = CoreSet([0, 1], np.array([0, 1], dtype=dtype))
    assert core.actions.dtype == np.int64 and core.actions.tolist() == [0, 1]


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_matrices_and_strided_arrays_are_plain_arrays():
    matrix = np.matrix([[1.0, 2.0], [3.0, 4.0]])
    core = CoreSet(matrix, [0, 0])
    assert type(core.states) is np.ndarray and core.states.tolist() == matrix.tolist()
    strided = np.arange(12.0).reshape(3, 4)[:, ::2]
    states = Guard(river(), np.zeros((1, 2)))._states("step", strided, 3)
    assert states.flags.c_contiguous and states.tolist() == strided.tolist()


def test_states_without_numbers():
    """Shape (n, 0) is strange, but it is a shape."""
    guard = Guard(river(), np.zeros((1, 0)))
    assert guard._states("step", np.zeros((3, 0)), 3).shape == (3, 0)
    with pytest.raises(coreplan.SimulatorError, match="3 states"):
        guard._states("step", np.float64(1.0), 3)
    with pytest.raises(coreplan.SimulatorError, match="3 real rewards"):
        guard._checked((np.float64(1.0), np.zeros((3, 0))), np.zeros((3, 0)), np.zeros(3, int))


def test_compiled_code_gets_no_state_that_its_dtype_cannot_hold():
    with pytest.raises(coreplan.InputError, match=r"does not hold the state 300"):
        as_states(np.array([1, 300]), (), np.int8, "The model")
    assert as_states(np.array([1, 100]), (), np.int8, "The model").tolist() == [1, 100]


def test_complex_states_that_are_not_finite():
    with pytest.raises(coreplan.SimulatorError, match="not finite"):
        Guard(river(), np.zeros(1, dtype=complex))._states("step", np.array([1.0, np.nan + 1j, 0.0]), 3)
