"""Whether the states of a run lie in the box that the features were made for.

Features that clip treat all that lies beyond an edge like the edge itself: a planner cannot see that it has left, and its
policy is the edge's. So a run looks at the first states it meets and says once, as a warning, how far they are out.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import CoverageWarning, InputError, States
from .protocol import Features

_PROBE = 10_000  # states that a run looks at before it trusts the box


@dataclass(frozen=True)
class OutsideBox:
    """How far states lie outside of a box; `excess` is the largest distance, along one coordinate."""

    outside: int  # how many of the states
    total: int
    coordinate: int  # where the excess is largest, relative to the box's width
    value: float  # the state's coordinate there
    low: float  # the box's edges there
    high: float
    clips: bool

    @property
    def excess(self) -> float:
        """How far beyond the edge, in the state's own units."""
        return max(self.low - self.value, self.value - self.high)

    @property
    def relative(self) -> float:
        """The same as a part of the box's width."""
        return self.excess / (self.high - self.low)

    def __str__(self) -> str:
        effect = (
            "The features clip there: beyond an edge all states look like the edge."
            if self.clips
            else "The features do not clip there: they go on as their formula does, where nothing was fitted."
        )
        return (
            f"{self.outside} of {self.total} states lie outside the features' box, by up to {self.excess:.3g} in coordinate "
            f"{self.coordinate} ({self.value:.6g}, where the box goes from {self.low:g} to {self.high:g}: "
            f"{self.relative:.2%} of its width). {effect} Widen the box if those states matter."
        )


def outside_box(features: Features, states: States) -> OutsideBox | None:
    """How far states `[n, D]` leave the box of the features; None if none does, or if there is no box."""
    if hasattr(features, "covered"):  # a wrapper
        features, states = features.covered(states)
    box: Any = getattr(features, "box", None)
    if box is None or len(states) == 0:
        return None
    low, high = np.asarray(box[0], dtype=float), np.asarray(box[1], dtype=float)
    states = np.asarray(states, dtype=float).reshape(len(states), -1)  # [n, D]
    if states.shape[1] != len(low):
        raise InputError(f"The features' box has {len(low)} dimensions, and states have {states.shape[1]}.")
    excess = np.maximum(low - states, states - high)
    outside = (excess > 1e-9 * (high - low)).any(axis=1)  # rounding is no news
    if not outside.any():
        return None
    n, i = np.unravel_index(np.argmax(excess / (high - low)), excess.shape)
    clips = bool(getattr(features, "clips", False))
    return OutsideBox(
        outside=int(outside.sum()), total=len(states), coordinate=int(i), value=float(states[n, i]), low=float(low[i]),
        high=float(high[i]), clips=clips,
    )  # fmt: skip


class BoxWatch:
    """Looks at the states of a run until it has warned once, or has seen enough to trust the box."""

    def __init__(self, features: Features) -> None:
        self.features = features
        base = getattr(features, "base", features)
        self.left = _PROBE if getattr(base, "box", None) is not None else 0

    def see(self, *batches: States) -> None:
        """Warn if states of these batches are outside. Costs nothing once it is over."""
        if self.left <= 0:
            return
        states = np.concatenate(batches)
        self.left -= len(states)
        found = outside_box(self.features, states)
        if found is not None:
            self.left = 0
            warnings.warn(str(found), CoverageWarning, stacklevel=2)
