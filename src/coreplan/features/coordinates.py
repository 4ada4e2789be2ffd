"""`Coordinates`: the features of a problem that has none. They say where a state is, and are the same for every action."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..base import FeatureError, FloatArray, InputError, States, as_count, as_kind, digest, plain, shown
from .box import Box
from .given import known_width
from .protocol import Features


@dataclass(frozen=True)
class Coordinates:
    """phi(x, a) = the place of x in the unit cube of its box, and 1 if x lies outside of it, `[D + 1]`, for every action a.

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
        return self.bounds.dimension + 1

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
        rows, D = states, self.bounds.dimension
        if rows.ndim != 2 or rows.shape[1] != D or rows.dtype.kind not in "fiub":
            raise FeatureError(
                f"The box has {D} coordinates, and a state has shape {states.shape[1:]} and dtype {states.dtype}. A state "
                f"must be {D} numbers, shape ({D},): give bounds for each, and let the simulator return them in one row."
            )
        self._require_whole(rows)
        low, high = self.bounds.edges
        slack = 1e-6 * np.where(self.bounds.finite, self.bounds.width, 0.0)  # single precision is no excess
        outside = np.any((rows < low - slack) | (rows > high + slack), axis=1).reshape(-1, 1)
        phi = np.concatenate([self.bounds.unit(rows), outside], axis=1)
        return np.repeat(phi[:, None, :], self.n_actions, axis=1)

    def _require_whole(self, rows: States) -> None:
        wrong = np.argwhere(self.bounds.whole & (np.abs(rows - np.rint(rows)) > 1e-6))
        if len(wrong):
            n, i = wrong[0]
            raise FeatureError(
                f"Coordinate {i} was declared whole, and a state has {rows[n, i]:g} there: {shown(rows[n])}. Leave it out "
                "of `whole`, or let the simulator return whole numbers."
            )

    def given(self, states: States) -> tuple[States, bool]:
        """States as a batch, and whether ONE was given: see `as_batch`."""
        return known_width(states, self.bounds.dimension, "The box")

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


def box_of(owner: str, box: Any, periodic: Any = None, whole: Any = None) -> Box:
    """A `Box`, or (low, high) with its flags, as a Box; else an InputError."""
    if isinstance(box, Box):
        if periodic is not None or whole is not None:
            raise InputError(
                f"`{owner}(box=...)`: a Box has its own `periodic` and `whole`; leave the others out."
            )
        return box
    if not isinstance(box, (tuple, list)) or len(box) != 2:
        raise InputError(f"`{owner}(box=...)` must be a Box or (low [D], high [D]), got {shown(box)}.")
    return Box(box[0], box[1], periodic, whole)


def with_features(features: Any, own: Features) -> Any:
    """A feature map that is `Coordinates`, or wraps them, with the map `own` in their place."""
    if isinstance(features, Coordinates):
        return own
    name = "features" if hasattr(features, "features") else "base"
    return replace(features, **{name: with_features(getattr(features, name), own)})


def bounds_of(features: Features) -> Box | None:
    """The box of a feature map that is `Coordinates`, or wraps them (a mask, a terminal column); else None."""
    inner: Any = features
    while inner is not None and not isinstance(inner, Coordinates):
        inner = getattr(inner, "features", getattr(inner, "base", None))
    return None if inner is None else inner.bounds
