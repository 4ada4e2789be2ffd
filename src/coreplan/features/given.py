"""What a policy may be given: one state, or a batch of states whose first axis is the batch.

Which of the two it is follows from the shape of a state, where the feature map knows it: compiled features declare it, and
features with a terminal column know how many numbers a state has. Where the shape is not known nothing is guessed: the
first axis is the batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import InputError, States, plain


def as_batch(features: Any, states: Any) -> tuple[States, bool]:
    """The states as a batch `[n, ...]` that the features can be called with, and whether ONE state was given.

    A feature map may say by a method `given(states)` what it takes (wrappers ask the map that they wrap), or declare the
    shape of its states by an attribute `state_shape`.
    """
    given, shape = getattr(features, "given", None), getattr(features, "state_shape", None)
    states = plain("the states", states, InputError)
    if given is not None:
        return given(states)
    if shape is not None:
        return known_shape(states, tuple(shape), f"The features '{getattr(features, 'name', '')}'")
    return unknown_shape(states)


def unknown_shape(states: States) -> tuple[States, bool]:
    """States of a map that does not say what shape they have: always a batch."""
    if states.ndim == 0:
        raise InputError(
            "States come in batches: the first axis is the batch. For one state x give np.asarray(x)[None]."
        )
    return states, False


def known_shape(states: States, shape: tuple[int, ...], who: str) -> tuple[States, bool]:
    """States of a map whose states have this shape each: `[n, *shape]`, or one state of `shape`."""
    if states.shape == shape:
        return states[None], True
    if states.ndim == len(shape) + 1 and states.shape[1:] == shape:
        return states, False
    raise InputError(
        f"{who} needs states of shape {_batch(shape)}, got {states.shape}; one state may be given too, of shape {shape}."
    )


def known_width(states: States, width: int, who: str) -> tuple[States, bool]:
    """States of a map that knows only that a state has `width` numbers, not how they are arranged.

    A vector of more than one number can then be but one state; a vector of single numbers is a batch, as ever.
    """
    if states.ndim == 1 and states.shape == (width,) and width > 1:
        return states[None], True
    if states.ndim and int(np.prod(states.shape[1:])) != width:
        raise InputError(
            f"{who} needs states of {width} numbers each: a batch of shape {_batch((width,))}; got {states.shape}."
        )
    return unknown_shape(states)


def _batch(shape: tuple[int, ...]) -> str:
    return f"(n, {', '.join(map(str, shape))})" if shape else "(n,)"
