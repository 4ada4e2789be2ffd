"""What planners on tables share: which pair and which state a coordinate is, since each pair has one of its own."""

from __future__ import annotations

import numpy as np

from ..base import FloatArray, InputError, IntArray
from ..features import Phi, available, rows_of, single_entries
from .protocol import CoreSetup

_FLOOR = 1e-12  # the least probability that is told apart from zero


class Table:
    """The pairs of a table, in the order of the core set, and their states, numbered from 0."""

    def __init__(self, setup: CoreSetup, name: str) -> None:
        units, places = setup.frame.units, setup.core_states
        if units is None or not self._of_units(places.features):
            raise InputError(
                f"The planner '{name}' works on tables: each pair of a state and an action needs a coordinate of its own "
                "(one-hot features, as those of river-swim and frozen-lake). These features are others. Take a planner "
                "for features, such as PlugIn."
            )
        self.at, self.of = units, places.of  # [m] the coordinate and the state of each pair
        self.m, self.S, self.d = setup.m, int(places.of.max()) + 1, setup.dimension
        self._state = np.zeros(self.d, dtype=np.int64)
        self._state[units] = places.of

    @staticmethod
    def _of_units(phi: Phi) -> bool:
        """Whether the first available action of every state has a unit vector."""
        found = single_entries(_first(phi), 1e-9)
        return found is not None and bool((np.abs(found[1] - 1.0) <= 1e-9).all())

    def states(self, phi: Phi | None) -> IntArray:
        """The numbers of the states with these features, `[n]`."""
        if phi is None:
            return np.zeros(0, dtype=np.int64)
        found = single_entries(_first(phi), 1e-9)
        assert found is not None
        return self._state[found[0]]

    def log_policy(self, mu: FloatArray) -> FloatArray:
        """theta `[d]` with softmax(phi theta) proportional to mu `[m]` within each state."""
        share = mu / np.maximum(np.bincount(self.of, mu, self.S), np.finfo(float).tiny)[self.of]
        theta = np.zeros(self.d)
        theta[self.at] = np.log(np.maximum(share, _FLOOR))
        return theta


def _first(phi: Phi) -> Phi:
    """The features of every state's first available action, `[n, ...]`."""
    return rows_of(phi, available(phi).argmax(axis=1))
