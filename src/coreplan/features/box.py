"""`Box`, the bounds of a state's coordinates; and whether the states of a run lie in the box that features were made for.

Features that clip treat every state beyond an edge like the edge itself: a planner cannot notice that it has left the
box, and its policy there is that of the edge. So a run looks at the first states it meets and warns once if they lie
outside, and how far.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import CoverageWarning, FloatArray, InputError, States, plain, shown
from .grids import as_box
from .periodic import Flags, as_flags, open_box
from .protocol import Features

_PROBE = 10_000  # number of states after which a run stops looking
_SQUEEZE = 711.0  # arcsinh of the largest number
_FINE = (
    2.0**16
)  # steps of floating-point numbers that a box must be wide, so that places within it can be told apart
_LARGEST_WHOLE = 2.0**53
_ROUNDING = 1e-6  # of the box's width: not reported, since some simulators compute in single precision


@dataclass(frozen=True, eq=False)
class Box:
    """The bounds of a state of D coordinates, low < high, for problems that come without features.

    Parameters
    ----------
    low, high: `[D]`, the bounds. Where one is infinite, `Refine` finds it by rollouts.
    periodic: `[D]`, True for a coordinate that counts modulo high - low, such as an angle; by default none.
    whole: `[D]`, True for a coordinate that takes whole numbers only; its bounds must be whole. By default none.
    """

    low: FloatArray
    high: FloatArray
    periodic: Flags = None  # type: ignore[assignment]  # an array once it is made, as `whole`
    whole: Flags = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        low, high = as_box("Box", self.low, self.high, finite=False)
        whole = as_flags("Box", self.whole, len(low), "whole")
        fields = {
            "low": low,
            "high": high,
            "periodic": as_flags("Box", self.periodic, len(low)),
            "whole": whole,
        }
        most = np.maximum(np.abs(low), np.abs(high))
        with np.errstate(over="ignore", invalid="ignore"):
            wide, fine = np.isfinite(high - low) | np.isinf(most), high - low > _FINE * np.spacing(most)
        for i in np.flatnonzero(~wide | ~(fine | np.isinf(most))):
            raise InputError(
                f"`Box`: coordinate {i} goes from {low[i]:.17g} to {high[i]:.17g}, which is too "
                f"{'narrow' if wide[i] else 'wide'} for numbers of 64 bits. Give the coordinate in other units."
            )
        for i in np.flatnonzero(fields["periodic"] & ~np.isfinite(high - low)):
            raise InputError(
                f"`Box(periodic=...)`: coordinate {i} is periodic, and goes from {low[i]:g} to {high[i]:g}. Give one "
                "period, such as -pi to pi for an angle."
            )
        for i in np.flatnonzero(whole & np.isfinite(most) & (most > _LARGEST_WHOLE)):
            raise InputError(
                f"`Box(whole=...)`: coordinate {i} goes from {low[i]:g} to {high[i]:g}, and above 2^53 numbers of 64 bits "
                "skip whole ones. Count from another zero, or leave it out of `whole`."
            )
        for i in np.flatnonzero(whole & (_fraction(low) | _fraction(high))):
            raise InputError(
                f"`Box(whole=...)`: coordinate {i} takes whole numbers, and its bounds are {low[i]:g} and {high[i]:g}. "
                "Give whole bounds."
            )
        for name, value in fields.items():
            value = value.copy()
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    @property
    def dimension(self) -> int:
        """D, the number of coordinates."""
        return len(self.low)

    @property
    def width(self) -> FloatArray:
        """`[D]`, high - low."""
        return self.high - self.low

    @property
    def finite(self) -> Flags:
        """`[D]`, whether both bounds of a coordinate are known."""
        return np.isfinite(self.low) & np.isfinite(self.high)

    @property
    def edges(self) -> tuple[FloatArray, FloatArray]:
        """Low and high, infinite for a periodic coordinate, which is never outside."""
        return open_box(self.low, self.high, self.periodic)

    def contains(self, other: Box) -> bool:
        """Whether another box is this one, with finite bounds where this one has none."""
        if self.dimension != other.dimension:
            return False
        same = [
            (np.isinf(a) & np.isfinite(b)) | (a == b)
            for a, b in ((self.low, other.low), (self.high, other.high))
        ]
        flags = (self.periodic == other.periodic) & (self.whole == other.whole)
        return bool((same[0] & same[1] & flags).all())

    def unit(self, states: States) -> FloatArray:
        """States `[n, D]` in the unit cube: periodic coordinates modulo 1, the others clipped; NaN stays NaN.

        A coordinate without bounds is squeezed into [-1, 1] instead, so that no value is lost.
        """
        x = np.asarray(states, dtype=np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            u = (x - self.low) / self.width
            u = np.where(self.periodic, u - np.floor(u), np.clip(u, 0.0, 1.0))
            return np.where(self.finite, u, np.arcsinh(x) / _SQUEEZE)

    def states(self, unit: FloatArray) -> FloatArray:
        """The states `[n, D]` at places of the unit cube; whole coordinates are rounded."""
        u = np.asarray(unit)
        with np.errstate(invalid="ignore", over="ignore"):
            x = np.clip(self.low + u * self.width, self.low, self.high)
            x = np.where(self.finite, x, np.sinh(np.where(self.finite, 0.0, u) * _SQUEEZE))
        return np.where(self.whole, np.rint(x), x)


def _fraction(x: FloatArray) -> Flags:
    """Which bounds are no whole numbers; infinite ones are bounds to be found."""
    return np.isfinite(x) & (np.where(np.isfinite(x), x, 0.0) % 1 != 0)


@dataclass(frozen=True)
class OutsideBox:
    """How far states lie outside a box: counts, and the state and coordinate that exceed it most, relative to its width."""

    outside: int  # number of states outside
    total: int  # number of states
    coordinate: int  # the coordinate in which the worst state lies outside
    value: float  # that state's value in it
    low: float  # the box's edges in it
    high: float
    clips: bool  # whether the features clip states to the box
    observed: bool = False  # whether the coordinate is of what the features observe, and not of the state

    @property
    def excess(self) -> float:
        """The distance from the box along that coordinate, in the state's own units."""
        return max(self.low - self.value, self.value - self.high)

    @property
    def relative(self) -> float:
        """The same distance as a fraction of the box's width."""
        return self.excess / (self.high - self.low)

    def __str__(self) -> str:
        return self.said()

    def said(self, names: Sequence[str] | None = None) -> str:
        """All of this in words; `names [D]` are those of the state's coordinates."""
        known = names and not self.observed and self.coordinate < len(names)
        coordinate = f"coordinate {self.coordinate}" + (
            f", {names[self.coordinate]}" if known and names else ""
        )
        effect = (
            "The features clip there: beyond an edge all states look like the edge."
            if self.clips
            else "The features do not clip there: their formula continues, where nothing was fitted."
        )
        return (
            f"{self.outside} of {self.total} states lie outside the features' box, by up to {self.excess:.3g} in "
            f"{coordinate} ({self.value:.6g}, where the box goes from {self.low:g} to {self.high:g}: "
            f"{self.relative:.2%} of its width). {effect} Widen the box if those states matter."
        )


def outside_box(features: Features, states: States) -> OutsideBox | None:
    """How far states `[n, D]` lie outside the features' box; None if none does, or if there is no box."""
    observed = False
    while hasattr(features, "covered"):  # a wrapper, such as TerminalFeatures
        observed = observed or getattr(features, "observe", None) is not None
        features, states = features.covered(states)
    box: Any = getattr(features, "box", None)
    states = plain("the states of `outside_box`", states, InputError)
    if box is None or states.size == 0:
        return None
    if states.ndim == 0 or states.dtype.kind not in "fiub":
        raise InputError(
            f"`outside_box(states=...)` must be a batch of states, numbers [n, D]; got {shown(states)}."
        )
    low, high = np.asarray(box[0], dtype=float), np.asarray(box[1], dtype=float)
    states = np.asarray(states, dtype=float).reshape(len(states), -1)  # [n, D]
    if states.shape[1] != len(low):
        raise InputError(f"The features' box has {len(low)} dimensions, and states have {states.shape[1]}.")
    excess = np.maximum(low - states, states - high)
    outside = (excess > _ROUNDING * (high - low)).any(axis=1)
    if not outside.any():
        return None
    width = np.where(
        np.isfinite(high - low), high - low, 1.0
    )  # nothing exceeds an edge at infinity, whatever the width
    n, i = np.unravel_index(np.argmax(excess / width), excess.shape)
    clips = bool(getattr(features, "clips", False))
    return OutsideBox(
        outside=int(outside.sum()), total=len(states), coordinate=int(i), value=float(states[n, i]), low=float(low[i]),
        high=float(high[i]), clips=clips, observed=observed,
    )  # fmt: skip


class BoxWatch:
    """Checks the states of a run against the features' box, until it has warned once or has seen 10,000 states."""

    def __init__(self, features: Features, names: Sequence[str] | None = None) -> None:
        """`names` are those of the state's coordinates, for the warning."""
        self.features, self.names = features, names
        base: Any = features
        while hasattr(base, "base"):  # a wrapper, such as TerminalFeatures
            base = base.base
        self.left = _PROBE if getattr(base, "box", None) is not None else 0

    def see(self, *batches: States) -> None:
        """Warn if states of these batches lie outside the box. Does nothing once the watch is over."""
        if self.left <= 0:
            return
        states = np.concatenate(batches)
        self.left -= len(states)
        found = outside_box(self.features, states)
        if found is not None:
            self.left = 0
            warnings.warn(found.said(self.names), CoverageWarning, stacklevel=2)
