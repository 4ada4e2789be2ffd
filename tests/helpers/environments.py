"""Features and a functional environment that more than one file gives to the adapters; the benchmark's functions."""

from __future__ import annotations

import runpy
from typing import NamedTuple

import numpy as np
from gymnasium import spaces

from coreplan.problem import FunctionFeatures, interpolation
from helpers.places import ROOT

BENCH = runpy.run_path(str(ROOT / "benchmarks" / "mountain_car_adapters.py"))
LOW, HIGH = BENCH["LOW"], BENCH["HIGH"]
GRID = interpolation(LOW, HIGH, (5, 4), 3)


def constant(n_actions):
    """Features for tests of models only."""
    return FunctionFeatures(
        lambda states: np.ones((len(states), n_actions, 1)), n_actions, 1, 1.0, name="one"
    )


class Position(NamedTuple):
    x: float
    cell: np.ndarray


class NumpyFunctional:
    """A functional environment of an old signature (`terminal(state)`), with a structured state."""

    action_space = spaces.Discrete(3)

    def initial(self, rng):
        return {"place": Position(rng.random(), np.array([3, 2**40])), "t": 0}

    def transition(self, state, action, rng):
        place = state["place"]
        return {"place": Position(place.x + rng.random(), place.cell + action), "t": state["t"] + 1}

    def reward(self, state, action, next_state):
        assert isinstance(state["t"], int) and state["place"].cell.dtype == np.int64
        return next_state["place"].x - state["place"].x

    def terminal(self, state):
        return state["place"].x > 1.5
