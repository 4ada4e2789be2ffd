"""Names that other libraries' environments do not tell: of Gymnasium's classic control and toy text, by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_CART = ("push left", "push right")
_CAR = ("push left", "do nothing", "push right")
_TORQUES = ("torque -1", "torque 0", "torque 1")
_STATES: dict[str, Sequence[str]] = {
    "CartPoleEnv": ("position", "speed", "angle", "spin"),
    "MountainCarEnv": ("position", "velocity"),
    "Continuous_MountainCarEnv": ("position", "velocity"),
    "AcrobotEnv": ("first angle", "second angle", "first speed", "second speed"),
    "PendulumEnv": ("angle", "speed"),
    "FrozenLakeEnv": ("cell",),
    "CliffWalkingEnv": ("cell",),
    "TaxiEnv": ("scene",),
}
_ACTIONS: dict[str, Sequence[str]] = {
    "CartPoleEnv": _CART,
    "CartPole-v1": _CART,
    "MountainCarEnv": _CAR,
    "MountainCar-v0": _CAR,
    "AcrobotEnv": _TORQUES,
    "Acrobot-v1": _TORQUES,
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "TaxiEnv": ("down", "up", "right", "left", "pick up", "drop"),
}


def state_names(kind: str, count: int) -> Sequence[str] | None:
    """The names of the `count` numbers of a state in an environment of this class or name; None if unknown."""
    names = _STATES.get(kind)
    return names if names is not None and len(names) == count else None


def action_names(kind: str, values: Any, given: Any = None) -> Sequence[str] | None:
    """The names of actions: where the caller gave their values, different numbers, these; else the known ones or None."""
    if given is None:
        names = _ACTIONS.get(kind)
        return names if names is not None and len(names) == len(values) else None
    if any(np.size(value) != 1 for value in values):
        return None
    texts = [f"{np.asarray(value).item()}" for value in values]
    return (
        texts if len(set(texts)) == len(texts) and all(t.isprintable() and t.strip() for t in texts) else None
    )
