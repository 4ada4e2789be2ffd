"""`Coordinates`: the features of a problem that has none. They say where a state is, and are the same for every action."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import FeatureError, FloatArray, InputError, States, as_count, as_kind, digest, plain
from .box import Box
from .given import known_width
from .protocol import Features


@dataclass(frozen=True)
class Coordinates:
    """phi(x, a) = the place of x in the unit cube of its box, `[D]`, for every action a.

    No policy can tell actions apart by them. They are there for a planner that makes its own features (`Refine`): from the
    features of an answer it learns where a state is, without looking inside the state.
    """

    bounds: Box
    n_actions: int

    def __post_init__(self) -> None:
        as_kind("Coordinates", Box, "a Box", bounds=self.bounds)
        object.__setattr__(self, "n_actions", as_count("Coordinates", n_actions=self.n_actions))

    @property
    def dimension(self) -> int:
        return self.bounds.dimension

    @property
    def radius(self) -> float:
        return math.sqrt(self.dimension)

    @property
    def nonzeros(self) -> None:
        return None

    @property
    def name(self) -> str:
        return "coordinates"

    @property
    def box(self) -> tuple[FloatArray, FloatArray]:
        """For the watch over states outside."""
        return self.bounds.edges

    @property
    def clips(self) -> bool:
        return True

    def __call__(self, states: States) -> FloatArray:
        states = plain("the states", states, InputError)
        rows = states.reshape(len(states), -1) if states.ndim and states.size else states
        if rows.ndim != 2 or rows.shape[1] != self.dimension or rows.dtype.kind not in "fiub":
            raise FeatureError(
                f"The box has {self.dimension} coordinates, and states have shape {states.shape[1:]} and dtype "
                f"{states.dtype}. Give bounds for every number of a state."
            )
        return np.repeat(self.bounds.unit(rows)[:, None, :], self.n_actions, axis=1)

    def given(self, states: States) -> tuple[States, bool]:
        """States as a batch, and whether ONE was given: see `as_batch`."""
        return known_width(states, self.dimension, "The box")

    @property
    def description(self) -> Mapping[str, Any]:
        b = self.bounds
        return {
            "kind": "Coordinates",
            "n_actions": int(self.n_actions),
            "dimension": self.dimension,
            "radius": self.radius,
            "nonzeros": None,
            "bounds": digest(b.low, b.high, b.periodic, b.whole),
        }


def bounds_of(features: Features) -> Box | None:
    """The box of a feature map that is `Coordinates`, or wraps them (a mask, a terminal column); else None."""
    inner: Any = features
    while inner is not None and not isinstance(inner, Coordinates):
        inner = getattr(inner, "features", getattr(inner, "base", None))
    return None if inner is None else inner.bounds
