"""Wrappers that change what a Gymnasium environment shows.

A model that sets the environment's state reads the state, not the observation: whatever a wrapper does to observations is
bypassed, while what it does to actions and rewards is not, since steps go through it. Such a wrapper is named in a warning
that says how to honour it, or refused where its observations depend on more than the state.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ...base import CoreplanWarning, InputError

# Wrappers whose observation depends on more than the current state, and what to do instead.
_STACK = "Stack the past states into the state by get_state=... and set_state=..., or give copy=True"
_REMEMBER = {
    "NormalizeObservation": "Its statistics move with every step. Give the environment without it, and freeze them: "
    "observe=lambda states: (states - mean) / scale, with mean = env.obs_rms.mean.copy() and scale = "
    "np.sqrt(env.obs_rms.var + env.epsilon). Or scale the features' box instead",
    "TimeAwareObservation": "Put the time into the state by get_state=... and set_state=..., give copy=True, or leave the "
    "wrapper out: a discounted problem needs no clock",
    "FrameStackObservation": _STACK,
    "FrameStack": _STACK,
    "DelayObservation": _STACK,
    "MaxAndSkipObservation": "Repeat actions by RepeatAction, which changes no observation, or give copy=True",
}


def observing(gym: Any, env: Any) -> list[Any]:
    """The layers of an environment that change observations, the outermost first."""
    layers = []
    while env is not env.unwrapped:
        if isinstance(env, gym.ObservationWrapper) or _memory(env) or _differs(env):
            layers.append(env)
        env = env.env
    return layers


def require_observed(gym: Any, env: Any, given: Any, name: str, state: Any, own: bool) -> None:
    """Warn of wrappers whose observations the features will not see; refuse those that no function of the state honours.

    `given` is the environment as the caller knows it, and `state` the state after a reset with seed 0; `own` says that the
    caller reads and writes the state, and so may have included what a wrapper remembers.
    """
    layers = observing(gym, env)
    if not layers:
        return
    names = " and ".join(type(layer).__name__ for layer in layers)
    remembering = [layer for layer in layers if _memory(layer)]
    if remembering and not own:
        first = _memory(remembering[0])
        raise InputError(
            f"{name} is wrapped in {first}, whose observation depends on more than the environment's state. coreplan sets "
            f"states and would bypass it. {_REMEMBER[first]}."
        )
    warnings.warn(
        f"{name} is wrapped in {names}, which changes observations, and the features do not see that: coreplan sets and "
        f"reads the environment's state. To give them what the wrapper shows, pass {_honours(layers, given, state)}. The "
        "policy then still acts on states, that is on what the environment shows without the wrapper.",
        CoreplanWarning,
        stacklevel=4,
    )


def refuse_moving(gym: Any, env: Any, name: str) -> None:
    """Refuse a wrapper that shows one state differently in every copy of the environment."""
    for layer in observing(gym, env):
        if _memory(layer) == "NormalizeObservation" and getattr(layer, "update_running_mean", True):
            raise InputError(
                f"{name} is wrapped in NormalizeObservation, and every copy would keep statistics of its own, so that one "
                "observation means different things. Set env.update_running_mean = False once it has seen enough, or "
                "leave the wrapper out."
            )


def _memory(layer: Any) -> str:
    """The name of Gymnasium's wrapper with a memory that this layer is, or inherits from; else ''."""
    return next((kind.__name__ for kind in type(layer).__mro__ if kind.__name__ in _REMEMBER), "")


def _differs(layer: Any) -> bool:
    """Whether a layer shows another first observation than what it wraps. One that cannot be reset is not judged here."""
    try:
        inner, outer = layer.env.reset(seed=0)[0], layer.reset(seed=0)[0]
        return not np.array_equal(np.asarray(inner, dtype=float), np.asarray(outer, dtype=float))
    except Exception:  # observations that are not numbers, or an environment that the caller reports on
        return False


def _honours(layers: list[Any], given: Any, state: Any) -> str:
    """The `observe=` that shows to features what the layers show."""
    shown = "x"
    for layer in reversed(layers):
        path = _path(given, layer)
        if not path or not hasattr(layer, "observation"):
            shown = ""
            break
        shown = f"{path}.observation({shown})"
    first = np.asarray(given.unwrapped.reset(seed=0)[0]) if shown else np.empty(0)
    if shown and first.size == np.size(state) and np.allclose(first.ravel(), np.ravel(state), atol=1e-6):
        return f"observe=lambda states: np.stack([{shown} for x in states])"
    return "observe=..., a function of states [n, D] that computes it from them"


def _path(given: Any, layer: Any) -> str:
    """How the caller reaches a layer of the environment `given`: env, env.env, ..."""
    path = "env"
    while given is not layer:
        if not hasattr(given, "env"):
            return ""
        given, path = given.env, f"{path}.env"
    return path
