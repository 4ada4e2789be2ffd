"""Kernels that write beyond the arrays they are given are refused instead of harming the process."""

import numpy as np
import pytest
from numba import njit

import coreplan
from coreplan import CompiledFeatures, CompiledModel, FeatureError, Problem, SimulatorError
from coreplan.base import fenced, overrun


@njit
def _initial(rng, data, states):
    for n in range(states.shape[0]):
        for i in range(data[0]):
            states[n, i] = 0.25


@njit
def _step(rng, data, states, actions, rewards, next_states):
    for n in range(states.shape[0]):
        rewards[n] = 0.5
        for i in range(data[0]):
            next_states[n, i] = 0.25


@njit
def _features(data, states, out):
    for n in range(states.shape[0]):
        for a in range(out.shape[1]):
            for i in range(data[0]):
                out[n, a, i] = 0.5


def _model(writes: int) -> CompiledModel:
    return CompiledModel(2, _initial, _step, (writes,), state_shape=(2,), state_dtype=np.float64)


def _map(writes: int) -> CompiledFeatures:
    return CompiledFeatures(_features, 2, 2, 1.0, data=(writes,), state_shape=(2,), state_dtype=np.float64)


def test_fences_show_what_was_written_beyond():
    for shape in ((3,), (2, 2), (0, 4)):
        array = fenced(shape, np.float64)
        assert array.shape == shape and not array.any() and array.flags.c_contiguous and array.flags.aligned
        array[...] = 1.0
        assert not overrun(array)
        array.base[-1000] = 0
        assert overrun(array)


def test_a_model_that_writes_what_it_declares_is_heard():
    rewards, states = _model(2).step(np.random.default_rng(0), np.zeros((3, 2)), np.zeros(3, dtype=np.int64))
    assert (rewards == 0.5).all() and (states == 0.25).all()


@pytest.mark.parametrize("planner", ["plug-in", "core-mirror"])  # the Python loop, and the compiled one
def test_a_model_that_writes_more_than_it_declares_is_refused(planner):
    core = (np.zeros((2, 2)), np.arange(2))
    good = Problem(_model(2), _map(2), 0.5, core_pairs=core)
    coreplan.plan(good, planner=planner, budget=400, seed=0)
    with pytest.raises(SimulatorError, match="state_shape"):
        coreplan.plan(Problem(_model(3), _map(2), 0.5, core_pairs=core), planner=planner, budget=400, seed=0)


def test_features_that_write_more_than_they_declare_are_refused():
    with pytest.raises(FeatureError, match="dimension 2"):
        _map(3)(np.zeros((4, 2)))
