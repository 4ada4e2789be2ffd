"""Which actions an environment allows: by a function of its state, or as `info["action_mask"]` told with each state."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base import FeatureError, FloatArray, InputError, SimulatorError, States, shown
from ...features import Mask, ended

INFO, KEY = "info", "action_mask"
_MOST = 1_000_000  # states whose masks are remembered


class Told:
    """The masks that an environment told with the states that it has shown, `info["action_mask"]`."""

    def __init__(self, n_actions: int, name: str) -> None:
        self.n_actions, self.name = n_actions, name
        self.masks: OrderedDict[bytes, NDArray[np.bool_]] = OrderedDict()

    def see(self, row: FloatArray, info: Any) -> None:
        """Remember the mask of a living state `[D]`; SimulatorError without one, or if the state had another."""
        mask = np.asarray(info.get(KEY) if isinstance(info, dict) else None)
        if mask.shape != (self.n_actions,) or mask.dtype.kind not in "iub" or not np.isin(mask, (0, 1)).all():
            raise SimulatorError(
                f'{self.name} must tell info["{KEY}"] with every state, {self.n_actions} zeros and ones; for '
                f"{shown(row)} it told {shown(None if mask.dtype.hasobject else mask)}."
            )
        key, allowed = row.tobytes(), mask.astype(bool)
        before = self.masks.setdefault(key, allowed)
        if not np.array_equal(before, allowed):
            raise SimulatorError(
                f"{self.name} told two masks for the state {shown(row)}: {before.astype(int).tolist()} and "
                f"{allowed.astype(int).tolist()}. A mask must be a function of the state: put into it what "
                "the mask depends on."
            )
        if len(self.masks) > _MOST:
            self.masks.popitem(last=False)

    def __call__(self, rows: States) -> NDArray[np.bool_]:
        """The masks of living states `[n, D]`."""
        found = [self.masks.get(row.tobytes()) for row in np.ascontiguousarray(rows)]
        for row, mask in zip(rows, found, strict=True):
            if mask is None:
                raise FeatureError(
                    f"{self.name} has not told which actions the state {shown(row)} allows: it tells so only of states that "
                    "it shows. Core pairs that nobody has met, and resumed runs, need mask=..., a function of states."
                )
        return np.array(found, dtype=bool).reshape(len(rows), self.n_actions)


def as_mask(mask: Any) -> Any:
    """`from_gymnasium(mask=...)`: a function, the word "info", or None; else an InputError."""
    if mask is None or callable(mask) or (isinstance(mask, str) and mask == INFO):
        return mask
    raise InputError(
        '`from_gymnasium(mask=...)` must be a function, mask(states) -> bool [n, A], or "info", which reads '
        f'info["{KEY}"]; got {shown(mask)}.'
    )


def told_of(mask: Any, n_actions: int, name: str) -> Told | None:
    """What remembers an environment's own masks, where `mask` asks for them."""
    return Told(n_actions, name) if isinstance(mask, str) else None


def of_living(mask: Callable[[States], Any], n_actions: int) -> Mask:
    """The mask of states with a terminal column `[n, D + 1]`: the end allows everything."""

    @functools.wraps(mask, updated=())
    def allowed(states: States) -> Any:
        out = np.ones((len(states), n_actions), dtype=bool)
        living = ~ended(states)
        if living.any():
            answer = np.asarray(mask(states[living, :-1]))
            if answer.dtype != bool or answer.shape != (int(living.sum()), n_actions):
                return answer  # whoever asked reports it
            out[living] = answer
        return out

    return allowed


def of_table(mask: Any, env: Any, S: int, A: int, name: str) -> Mask | None:
    """The mask of states 0..S, of which S is the end: a function, or the environment's own `action_mask(state)`."""
    if mask is None:
        return None
    own = getattr(env, KEY, None)
    if mask == INFO and not callable(own):
        raise InputError(
            f'{name} has no action_mask(state) for mask="info": give a function, mask(states) -> bool [n, {A}].'
        )
    told: Any = None
    if mask == INFO and own is not None:
        told = np.array([own(s) for s in range(S)]).astype(bool)

    def allowed(states: States) -> Any:
        out, living = np.ones((len(states), A), dtype=bool), np.asarray(states) < S
        if living.any():
            out[living] = mask(states[living]) if told is None else told[states[living]]
        return out

    return allowed
