"""Action masks: which actions can be taken at a state. Masks travel with the features, see `features.UNAVAILABLE`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import (
    CoreplanError,
    FeatureError,
    InputError,
    IntArray,
    States,
    changed_input,
    plain,
    read_only,
    shown,
    text_of,
)
from .batch import Phi, forbid
from .given import as_batch
from .protocol import CompiledFeatures, Features, as_phi, every_action_forbidden

Mask = Callable[[States], NDArray[np.bool_]]


@dataclass(frozen=True)
class MaskedFeatures:
    """Features with an action mask: `mask(states)` is bool `[n, A]`, True where the action is available.

    The features of forbidden pairs are marked as unavailable. Runs with a mask use the NumPy loop, not the compiled one.
    A core set that `features` carries loses its forbidden pairs. What remains is exact for one-hot features, and for
    aggregation if all states of a group have the same mask. For interpolation it is exact only if an action that is
    available at a state is available at every node of the state's cell; otherwise pass `core_pairs` of your own.
    Two masks whose functions have the same name have the same fingerprint.
    """

    features: Features
    mask: Mask

    @property
    def n_actions(self) -> int:
        return self.features.n_actions

    @property
    def dimension(self) -> int:
        return self.features.dimension

    @property
    def radius(self) -> float:
        """R, for the available pairs."""
        return self.features.radius

    @property
    def nonzeros(self) -> int | None:
        return self.features.nonzeros

    @property
    def name(self) -> str:
        return f"masked {getattr(self.features, 'name', type(self.features).__name__)}"

    @property
    def box(self) -> Any:
        return getattr(self.features, "box", None)

    @property
    def clips(self) -> bool:
        return bool(getattr(self.features, "clips", False))

    @property
    def core(self) -> Callable[[], tuple[States, IntArray]] | None:
        carried = getattr(self.features, "core", None)
        return None if carried is None else lambda: self._available_pairs(*carried())

    def _available_pairs(self, states: States, actions: IntArray) -> tuple[States, IntArray]:
        keep = self.allowed(states)[np.arange(len(actions)), actions]
        if (
            len(states) and not keep.any()
        ):  # some may be closed, such as nodes inside a wall, but not all of them
            raise every_action_forbidden(states[0])
        return states[keep], actions[keep]

    def allowed(self, states: States) -> NDArray[np.bool_]:
        """The mask of a batch, bool `[n, A]`, with shape and dtype checked."""
        try:
            mask = plain("the mask", self.mask(read_only(states)), FeatureError)
        except CoreplanError:
            raise
        except (Exception, SystemExit) as error:
            in_place = changed_input("The mask", error)
            if in_place:
                raise FeatureError(in_place) from error
            raise FeatureError(
                f"The mask raised {type(error).__name__}: {text_of(error)} (on a batch of {len(states)} states). "
                "Call it on such a batch yourself to find the line."
            ) from error
        if mask.dtype != bool or mask.shape != (len(states), self.n_actions):
            raise FeatureError(
                f"For a batch of {len(states)} states the mask must return bool of shape "
                f"{(len(states), self.n_actions)}, True where an action is available; got {mask.dtype} {mask.shape}."
            )
        return mask

    def __call__(self, states: States) -> Phi:
        forbidden = ~self.allowed(states)
        phi = self.features(states)
        if not isinstance(self.features, CompiledFeatures):
            phi = as_phi(phi, len(states), self.features)
        return forbid(phi, forbidden)

    def given(self, states: States) -> tuple[States, bool]:
        """States as a batch, and whether ONE was given: as for the features without the mask."""
        return as_batch(self.features, states)

    @property
    def description(self) -> Mapping[str, Any]:
        name = getattr(self.mask, "__qualname__", type(self.mask).__name__)
        return {"kind": "MaskedFeatures", "features": dict(self.features.description), "mask": name}


def check_core(features: MaskedFeatures, states: States, actions: IntArray) -> None:
    """Raise InputError if the mask forbids a core pair. `CoreSet` reports everything else that may be wrong with one."""
    states, actions = np.asarray(states), np.asarray(actions)
    if states.ndim == 0 or actions.shape != states.shape[:1] or actions.dtype.kind not in "iu":
        return
    allowed = features.allowed(states)
    for j, action in enumerate(actions):
        if 0 <= action < features.n_actions and not allowed[j, action]:
            raise unavailable_core(states[j], int(action), j)


def unavailable_core(state: Any, action: int, number: int) -> InputError:
    """The error for a core pair that a mask forbids."""
    return InputError(
        f"Core pair {number}, state {shown(np.asarray(state))} and action {action}, is unavailable: the mask forbids "
        "it, and a simulator cannot be asked for it. Leave it out of the core set."
    )
