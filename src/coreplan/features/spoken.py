"""How an environment speaks: its own observations and actions, in place of a problem's states and numbers of actions.

An adapter that reads an environment's state knows whether what the environment shows is that state. So a policy can act on
raw observations where this is so, or where the state can be computed from what is shown, and can say why where it cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import FloatArray, InputError, IntArray, States, plain, shown
from .batch import Phi
from .clock import TimeFeatures, at_time
from .given import as_batch
from .protocol import Features, checked
from .terminal import TerminalFeatures, alive


@dataclass(frozen=True)
class Spoken:
    """An environment's own language; see `TerminalFeatures.spoken`.

    Parameters
    ----------
    name: of the environment, for messages.
    shape: of one observation.
    states: from observations `[n, k]` to states `[n, D]`; None where an observation is the state.
    seen: whether an observation is what the features see: `observe(states)` has made it.
    known: whether observations can be read at all.
    actions: `[A, ...]`, the environment's values of actions 0, 1, ...; None for the numbers themselves.
    """

    name: str
    shape: tuple[int, ...]
    states: Callable[[FloatArray], FloatArray] | None = None
    seen: bool = False
    known: bool = True
    actions: Any = None

    def batch(self, observations: States) -> tuple[States, bool]:
        """Observations as rows `[n, k]`, and whether ONE was given."""
        if observations.shape == self.shape:
            return observations.reshape(1, -1), True
        if observations.ndim and observations.shape[1:] == self.shape:
            return observations.reshape(len(observations), -1), False
        raise InputError(
            f"`predict` takes observations of {self.name}, of shape {self.shape} each, or a batch of them; got "
            f"{observations.shape}."
        )


def spoken_of(features: Features | None) -> Spoken | None:
    """How the environment speaks from which these features, or those that they wrap, were made; None if nobody knows."""
    inner: Any = features
    while inner is not None:
        if isinstance(inner, TerminalFeatures) and inner.spoken is not None:
            return inner.spoken
        inner = getattr(inner, "features", getattr(inner, "base", None))
    return None


def clock_of(features: Features) -> TimeFeatures | None:
    """The features by time of a problem with a horizon; None without one."""
    base = getattr(features, "base", None)
    return base if isinstance(features, TerminalFeatures) and isinstance(base, TimeFeatures) else None


def numbers_of(observation: Any) -> States:
    """An observation, or a batch of them, as one array: the parts of a dict or tuple one after the other, flattened."""
    if not isinstance(observation, (dict, tuple)):
        return plain("the observation", observation, InputError)
    parts = [plain("a part of the observation", part, InputError) for part in _parts(observation)]
    rows = {len(part) for part in parts if part.ndim > 1}
    if not rows:  # parts without an axis to spare: one observation
        return np.concatenate([part.ravel() for part in parts])
    if len(rows) > 1 or any(part.shape[:1] != (next(iter(rows)),) for part in parts):
        raise InputError(
            f"The parts of the observation have shapes {shown([part.shape for part in parts])}: give one observation with "
            "vectors and numbers as parts, or a batch whose parts all begin with the axis of the batch."
        )
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


def seen_features(features: Features, observation: Any, steps: Any) -> tuple[Phi, bool]:
    """phi of raw observations `[n, A, d]`, and whether ONE was given; `steps` are their times, for a horizon."""
    given, spoken, times = numbers_of(observation), spoken_of(features), clock_of(features)
    base: Features = features if times is None else times.base
    rows, one = _rows(base, given, spoken, times)
    if rows is None:  # the features see the observation itself
        assert spoken is not None
        batch, one = spoken.batch(given)
        return _of_seen(features, batch, spoken), one
    if times is not None and rows.shape[1:] == (times.rows.columns,):
        rows = at_time(rows, _clock(steps, len(rows), times.steps))
    return checked(features, rows), one


def _rows(
    base: Features, given: States, spoken: Spoken | None, times: TimeFeatures | None
) -> tuple[States | None, bool]:
    """Observations as states; as rows without clock and end where there is a clock that they lack. None: see `_of_seen`."""
    if spoken is not None and not spoken.known:
        raise InputError(
            f"What {spoken.name} shows is not its state, and coreplan does not know how to compute one from the other, so "
            "`predict` cannot read its observations. Use act(states, rng) with the state, or plan with "
            "`observe=...`, a function of states that returns what the environment shows."
        )
    if spoken is not None and spoken.states is not None:
        batch, one = spoken.batch(given)
        given = plain("the states", spoken.states(batch), InputError)
        given = given[0] if one else given
    if times is not None:
        # One number and its step look like two numbers; but real ones are no states where states are whole.
        whole = np.dtype(times.rows.dtype).kind in "iu" and given.dtype.kind == "f"
        vector = given.ndim == 1 and (times.rows.shape != () or whole)
        extra = given.shape[-1] - times.rows.columns if given.ndim == 2 or vector else 0
        if given.ndim <= 2 and extra in (1, 2):  # with the step, and with the column for the end
            rows = np.atleast_2d(given)
            return (rows if extra == 2 else alive(rows)), given.ndim == 1
        states, one = as_batch(base, given)
        return times.rows.write(states), one
    if spoken is not None and spoken.seen:
        return None, False
    return as_batch(base, given)


def _of_seen(features: Features, batch: States, spoken: Spoken) -> Phi:
    if not isinstance(features, TerminalFeatures):
        raise InputError(
            f"The policy's mask needs the state of {spoken.name}, and its observations are not its state: use "
            "act(states, rng) with the state."
        )
    return features.of_seen(batch)


def begun(steps: Any, begins: Any) -> Any:
    """The steps `[n]` of the episodes, 0 where one begins anew (bool `[n]`); None if nothing is known of them."""
    if steps is None or begins is None:
        return steps
    steps, new = np.asarray(steps), np.asarray(begins)
    if new.dtype.kind not in "biuf" or new.shape not in ((), steps.shape):
        raise InputError(
            f"`predict(episode_start=...)` must be True or False for each episode, of shape {steps.shape}; got "
            f"{shown(begins)}."
        )
    return np.where(new.astype(bool), 0, steps)


def _clock(steps: Any, n: int, horizon: int) -> IntArray:
    """The step of each of n observations, at most the last one."""
    clock = np.zeros(n, dtype=np.int64) if steps is None else np.asarray(steps)
    if clock.shape != (n,) or clock.dtype.kind not in "iu" or (clock < 0).any():
        raise InputError(
            f"`predict(state=...)` must be what the last call returned, the next step of each of {n} episodes, or None "
            f"at the start; got {shown(steps)}."
        )
    return np.minimum(clock, horizon - 1)


def _parts(observation: Any) -> Iterator[Any]:
    if isinstance(observation, dict):
        for part in observation.values():
            yield from _parts(part)
    elif isinstance(observation, tuple):
        for part in observation:
            yield from _parts(part)
    else:
        yield observation
