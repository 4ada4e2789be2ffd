"""What an environment shows of its state, found out by one reset, so that policies can act on raw observations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...base import FloatArray, States
from ...features import Spoken

_CLOSE = 1e-5  # environments show in single precision what they compute in double


def _angle(cosine: FloatArray, sine: FloatArray) -> FloatArray:
    return np.arctan2(sine, cosine)


def _acrobot(shown: FloatArray) -> FloatArray:
    return np.column_stack([_angle(shown[:, 0], shown[:, 1]), _angle(shown[:, 2], shown[:, 3]), shown[:, 4:]])


def _pendulum(shown: FloatArray) -> FloatArray:
    return np.column_stack([_angle(shown[:, 0], shown[:, 1]), shown[:, 2:]])


# Environments that show cosines and sines of the angles in their state; an angle is taken within [-pi, pi].
_ANGLES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "AcrobotEnv": _acrobot,
    "Acrobot-v1": _acrobot,
    "PendulumEnv": _pendulum,
    "Pendulum-v1": _pendulum,
}


def spoken(
    name: str,
    kind: str,
    first: Callable[[], tuple[Any, FloatArray]],
    observe: Callable[[States], Any] | None,
    values: Any,
    hidden: int = 0,
) -> Spoken | None:
    """How an environment speaks; `first()` resets it, and returns what it shows and its state `[D]`.

    `kind` names its class, `hidden` counts the columns of a state that nobody sees. None where nothing can be found out.
    """
    found: dict[str, Any] = {"actions": _own_actions(values)}
    try:
        observation, state = first()
        shape = np.shape(observation)
        row = np.asarray(observation, dtype=np.float64).ravel()
    except (
        Exception
    ):  # an observation of other things than numbers, or an environment that somebody else reports on
        return Spoken(name, (), **found, known=False)
    state = np.asarray(state, dtype=np.float64).ravel()[hidden:]
    if _close(row, state):
        return Spoken(name, shape, **found)
    if observe is not None and not hidden and _observed(observe, state, row):
        return Spoken(name, shape, seen=True, **found)
    inverse = _ANGLES.get(kind)
    if (
        inverse is not None
        and row.size > state.size
        and _close(_turned(inverse(row[None])[0]), _turned(state))
    ):
        return Spoken(name, shape, states=inverse, **found)
    return Spoken(name, shape, known=False, **found)


def _own_actions(values: Any) -> Any:
    """The environment's values of actions, `[A, ...]`; None where they are the numbers 0, 1, ..."""
    try:
        actions = np.stack([np.asarray(value) for value in values])
    except ValueError:  # values of several shapes, such as tuples of a number and a vector
        actions = np.empty(len(values), dtype=object)
        actions[:] = list(values)
    return (
        None if actions.dtype.kind in "iu" and np.array_equal(actions, np.arange(len(actions))) else actions
    )


def _observed(observe: Callable[[States], Any], state: FloatArray, row: FloatArray) -> bool:
    try:
        return _close(np.asarray(observe(state[None]), dtype=np.float64).ravel(), row)
    except (
        Exception
    ):  # a function of the user's, which is called again, and reported on, where its answer matters
        return False


def _turned(x: FloatArray) -> FloatArray:
    return np.concatenate([np.cos(x), np.sin(x)])


def _close(a: FloatArray, b: FloatArray) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=_CLOSE, atol=_CLOSE))
