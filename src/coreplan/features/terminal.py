"""Episodes that end: the state gets one last column, 0 while the episode is alive and 1 once it has terminated.

The terminated state is absorbing, pays reward 0 for ever, and has a feature and a core pair of its own.
The declared reward range is widened to contain 0: coreplan maps all rewards to [0, 1] by one shift and scale, and
a terminated process must go on paying the image of 0; otherwise the shift would reward or punish termination and
change the best policy. All terminated states are the same row, zeros and a 1, so that one core pair serves them all.
Truncation (a time limit) is not termination: it is a property of the experiment, not of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base import (
    FeatureError,
    FloatArray,
    InputError,
    IntArray,
    States,
    as_array,
    as_whole,
    plain,
    read_only,
    shown,
)
from .batch import Phi, Sparse, put
from .protocol import Features, checked, fingerprint


def alive(states: Any) -> States:
    """Append the terminal column, 0, to states `[n, D]`: `[n, D + 1]`, float64. `[n]` counts as `[n, 1]`.

    A policy that was planned through an adapter acts on `alive(observation[None])`.
    """
    flat = as_rows("alive", states)
    return np.concatenate([flat, np.zeros((len(flat), 1))], axis=1)


def as_rows(who: str, states: Any) -> FloatArray:
    """States as rows of float64, `[n, D]`, n >= 1; `[n]` counts as `[n, 1]`. Else an InputError about `who`."""
    array = as_array(who, "a batch of states, numbers [n, ...]", finite=False, states=states)
    if array.ndim == 0 or array.size == 0:
        raise InputError(
            f"`{who}`: states come in batches: the first axis is the batch. For one state x give x[None]; got shape "
            f"{array.shape}."
        )
    return array.astype(np.float64).reshape(len(array), -1)


def terminated(columns: int) -> States:
    """The terminated state `[D + 1]`: D zeros and a 1."""
    return np.append(np.zeros(columns), 1.0)


def ended(states: States) -> Any:
    """Which states of a batch `[n, D + 1]` are terminated, bool `[n]`."""
    return states[:, -1] != 0.0


def has_terminal(features: Features) -> bool:
    """Whether a feature map, or the map that it wraps, was made by `with_terminal`: then states have a terminal column."""
    inner: Any = features
    while inner is not None:
        if isinstance(inner, TerminalFeatures):
            return True
        inner = getattr(inner, "features", getattr(inner, "base", None))
    return False


def widened(reward_range: tuple[float, float]) -> tuple[float, float]:
    """The reward range, widened to contain 0; (0, 0), a problem without rewards, becomes (0, 1)."""
    form = "(lowest, highest), two finite numbers"
    ends = as_array("widened", form, 1, reward_range=reward_range)
    if len(ends) != 2:
        raise InputError(f"`widened(reward_range=...)` must be {form}, got {shown(reward_range)}.")
    low, high = min(float(ends[0]), 0.0), max(float(ends[1]), 0.0)
    return (low, high) if low < high else (0.0, 1.0)


def terminal_pairs(states: States, actions: IntArray) -> tuple[States, IntArray]:
    """Core pairs of living states, with the terminal column appended and (terminated, action 0) added as the last pair."""
    living, actions = alive(states), as_whole("the actions of `terminal_pairs`", actions, InputError)
    if actions.shape != (len(living),):
        raise InputError(
            f"`terminal_pairs` needs as many actions as states, here {len(living)}; got shape {actions.shape}."
        )
    return np.vstack([living, terminated(living.shape[1] - 1)]), np.append(actions, 0)


@dataclass(frozen=True)
class TerminalFeatures:
    """What `with_terminal` returns: the features of `base` for living states, e_d for the terminated one."""

    base: Features
    observe: Callable[[States], Any] | None = None
    columns: int | None = field(
        default=None, compare=False
    )  # D; None: as many as the base map says, if it does
    hidden: int = field(
        default=0, compare=False
    )  # the first columns that the features do not see, such as a number
    spoken: Any = field(
        default=None, compare=False, repr=False
    )  # a `Spoken`: how the environment speaks that an adapter reads

    @property
    def n_actions(self) -> int:
        return self.base.n_actions

    @property
    def dimension(self) -> int:
        return self.base.dimension + 1

    @property
    def radius(self) -> float:
        return max(self.base.radius, 1.0)

    @property
    def nonzeros(self) -> int | None:
        return self.base.nonzeros

    @property
    def name(self) -> str:
        return f"{getattr(self.base, 'name', type(self.base).__name__)} with terminal"

    @property
    def core(self) -> Callable[[], tuple[States, IntArray]] | None:
        """The base's core set plus the terminal pair; None with `observe`, since the base's core then lists observations."""
        carried = getattr(self.base, "core", None)
        if carried is None or self.observe is not None:
            return None
        return lambda: terminal_pairs(*carried())

    def covered(self, states: States) -> tuple[Features, States]:
        """For the check of the box: the base map, and the living states as the base map sees them."""
        return self.base, np.asarray(self._seen(states[~ended(states), :-1]))

    def __call__(self, states: States) -> Phi:
        states = np.asarray(states)
        if states.ndim != 2 or states.shape[1] < 2:
            raise FeatureError(
                f"Features with a terminal column need states of shape (n, D + 1), the last column 0 (alive) or 1 "
                f"(terminated); got {states.shape}. coreplan.problem.alive(states) appends the column."
            )
        self._require_column(states)
        living = ~ended(states)
        phi = self._terminal(len(states))
        if living.any():
            known = checked(self.base, self._seen(states[living, :-1]))
            put(phi, living, known)
        return phi

    def of_seen(self, seen: States) -> Phi:
        """phi of living states that are given as the base map sees them: what `observe` returns."""
        phi = self._terminal(len(seen))
        put(phi, np.ones(len(seen), dtype=bool), checked(self.base, seen))
        return phi

    def _require_column(self, states: States) -> None:
        wrong = np.flatnonzero(~np.isin(states[:, -1], (0.0, 1.0)))
        if len(wrong):
            D = self.width
            raw = f"{D} numbers without the column are taken for a living state. " if D else ""
            raise InputError(
                f"The last column of a state is the terminal column, 0 (alive) or 1 (ended), and here it is "
                f"{states[wrong[0], -1]:.6g}, in the state {shown(states[wrong[0]])}. The policy was planned with that "
                f"column: append it by coreplan.problem.alive(states). {raw}Where an environment's observation is not its "
                "state, give the state."
            )

    @property
    def width(self) -> int | None:
        """D, the numbers of a living state without the terminal column; None if it is not known."""
        if self.columns is not None:
            return self.columns
        if self.observe is not None:  # the base map then knows the observation only
            return None
        shape, box = getattr(self.base, "state_shape", None), getattr(self.base, "box", None)
        return int(np.prod(shape)) if shape is not None else None if box is None else len(box[0])

    def given(self, states: States) -> tuple[States, bool]:
        """States as a batch of rows `[n, D + 1]`, and whether ONE was given: see `as_batch`.

        Rows of D numbers are living states, such as an environment's raw observations. Columns that the features do not see
        may be left out too. A base map whose states have more to say (a clock) answers by `whole` instead.
        """
        whole = getattr(self.base, "whole", None)
        if whole is not None:
            return whole(states)
        D, shape = self.width, getattr(self.base, "state_shape", None)
        if D is None:  # rows of D + 1 numbers, whatever D is
            return (states[None], True) if states.ndim == 1 else (states, False)
        widths = {D + 1, D, D - self.hidden}
        if states.ndim == 2 and states.shape[1] in widths:
            return self._rows(states), False
        if states.ndim == 1 and len(states) in widths:
            return self._rows(states[None]), True
        if self.observe is None and shape is not None and states.size:
            if states.shape == shape:
                return self._rows(states.reshape(1, -1)), True
            if states.shape[1:] == shape:
                return self._rows(states.reshape(len(states), -1)), False
        raise InputError(
            f"The policy was planned for states of {D} numbers and a terminal column, 0 (alive) or 1 (ended): give one "
            f"state of {D} or {D + 1} numbers, or a batch of shape (n, {D}) or (n, {D + 1}); got {states.shape}. Where an "
            "environment's observation is not its state, give the state."
        )

    def _rows(self, states: States) -> FloatArray:
        """States `[n, D + 1]` of rows that may lack the hidden and the terminal columns."""
        D = self.width
        assert D is not None
        if states.shape[1] == D + 1:
            return states
        hidden = np.zeros((len(states), D - states.shape[1]))
        return alive(np.concatenate([hidden, states], axis=1))

    def _terminal(self, n: int) -> Phi:
        """Features of `n` terminated states."""
        last = self.base.dimension
        if self.nonzeros is None:
            phi = np.zeros((n, self.n_actions, last + 1))
            phi[:, :, last] = 1.0
            return phi
        shape = (n, self.n_actions, self.nonzeros)
        weight = np.zeros(shape)
        weight[:, :, 0] = 1.0
        return Sparse(np.full(shape, last), weight)

    def _seen(self, columns: States) -> States:
        """Living states `[n, D]` in the form that the base map expects: observed, in its shape and dtype."""
        if self.observe is not None:
            return plain("the observations", self.observe(read_only(columns)), FeatureError)
        shape = getattr(self.base, "state_shape", None)
        if shape is None:
            return columns
        if int(np.prod(shape)) != columns.shape[1]:
            raise FeatureError(
                f"The features '{getattr(self.base, 'name', '')}' need states of {int(np.prod(shape))} columns; "
                f"these have {columns.shape[1]}, besides the terminal one."
            )
        columns = columns.reshape(len(columns), *shape)
        whole = np.dtype(self.base.state_dtype).kind in "iu"  # type: ignore[attr-defined]
        return np.rint(columns).astype(np.int64) if whole else columns

    @property
    def description(self) -> Mapping[str, Any]:
        return {
            "kind": "TerminalFeatures",
            "n_actions": int(self.n_actions),
            "dimension": int(self.dimension),
            "radius": float(self.radius),
            "nonzeros": None if self.nonzeros is None else int(self.nonzeros),
            "base": fingerprint(self.base),
            "observe": "" if self.observe is None else getattr(self.observe, "__qualname__", "function"),
        }


def with_terminal(
    features: Features,
    observe: Callable[[States], Any] | None = None,
    columns: int | None = None,
    hidden: int = 0,
    spoken: Any = None,
) -> TerminalFeatures:
    """`features` of the state's first D columns, plus one feature for the terminated state: dimension d + 1.

    phi(terminated, a) = e_d for every action. Sparse features stay sparse with the same k, the radius becomes at
    least 1, and a core set that the features carry gets the terminal column and one more pair. With
    `observe(states [n, D])` the features are computed from what it returns instead of the state; a carried core
    set then consists of observations, not states, and is dropped. `columns` is D, for features that do not say it, so that
    a policy can tell one state from a batch and a raw observation from a state; the first `hidden` of them are not seen by
    `observe`, and an observation lacks them. `spoken` says how the environment speaks from which the states come.
    """
    if isinstance(features, TerminalFeatures):
        raise InputError(
            "These features have a terminal column already; give the map over the living states."
        )
    if not isinstance(features, Features):
        raise InputError(
            f"`with_terminal(features)` needs a feature map, got {type(features).__name__}. FunctionFeatures "
            "makes one from a function, coreplan.problem has ready ones (interpolation, tile_coding, ...)."
        )
    return TerminalFeatures(features, observe=observe, columns=columns, hidden=hidden, spoken=spoken)
