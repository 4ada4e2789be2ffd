"""Compiled simulators that break their word once in 2,000 queries: deep inside a compiled chunk."""

from __future__ import annotations

import numpy as np
from numba import njit

import coreplan


@njit
def _initial(rng, data, states):
    for n in range(states.shape[0]):
        states[n, 0] = rng.random()


@njit
def _step(rng, data, states, actions, rewards, next_states):
    fault, threshold = data
    for n in range(states.shape[0]):
        u = rng.random()
        rewards[n] = 7.0 if fault == 1 and u > threshold else u
        next_states[n, 0] = (
            np.nan if fault == 2 and u > threshold else 5.0 if fault == 3 and u > threshold else u
        )


@njit
def _features(data, states, out):
    for n in range(states.shape[0]):
        for a in range(2):
            out[n, a, 0] = states[n, 0] if a == 0 else 1.0 - states[n, 0]
            out[n, a, 1] = 0.0


@njit
def _wrong(rng, states):
    pass


def problem(kind: str) -> coreplan.Problem:
    """`kind` is none, reward, state or features (a next state whose features are too long)."""
    return _make(_step, ["none", "reward", "state", "features"].index(kind))


@njit
def _forgets(rng, data, states, actions, rewards, next_states):
    for n in range(states.shape[0]):
        if actions[n] == 0:
            rewards[n] = 0.5
        next_states[n, 0] = rng.random()


@njit
def _half(data, states, out):
    for n in range(states.shape[0]):
        out[n, 0, 0] = 0.5


@njit
def _raises(data, states, out):
    raise ValueError("no such state")


def unwritten(part: str) -> coreplan.Problem:
    """Kernels that leave part of their output as it was."""
    return _make(_forgets, 0) if part == "step" else _make(_step, 0, _half)


def raising_features() -> coreplan.Problem:
    return _make(_step, 0, _raises)


def wrong_signature() -> coreplan.Problem:
    return _make(_wrong, 0)


def _make(step, fault, features=None):
    model = coreplan.CompiledModel(
        2, _initial, step, (fault, 0.9995), state_shape=(1,), state_dtype=np.float64
    )
    features = coreplan.CompiledFeatures(
        features or _features, 2, 2, 1.0, state_shape=(1,), state_dtype=np.float64
    )
    core = (np.array([[0.0], [0.0]]), np.array([0, 1]))
    return coreplan.Problem(model, features, 0.9, core_pairs=core)
