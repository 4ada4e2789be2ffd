"""`Problem`: a model, features, a discount and a reward range; optionally a core set, a mask and an exact table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import InputError, IntArray, SimulatorError, States
from ..features import CompiledFeatures, Features, Mask, MaskedFeatures, check_core, ended, has_terminal
from .model import CompiledModel, Model
from .tables import Tabular


@dataclass(frozen=True)
class Problem:
    """A planning problem: maximise the normalised discounted return (1 - gamma) E sum gamma^t r_t.

    Parameters
    ----------
    model: the batched simulator.
    features: the feature map phi, for the model's states and with the model's number of actions.
    discount: gamma in (0, 1).
    reward_range: (lowest, highest) reward the simulator may return. Internally rewards are mapped to
        [0, 1], as the paper assumes, and every report maps values back.
    core_pairs: `(states [m, ...], actions [m])`, the core set that comes with the problem; by default the one that its
        features carry by construction (one-hot, aggregation, interpolation), if any.
    name: the name used in reports; for a built-in problem, the name that builds it again.
    tabular: a function that enumerates the problem exactly, if that is possible. Only judges use it:
        a planner sees samples and features.
    mask: `mask(states)` is bool `[n, A]`, True where an action can be taken; each state needs at least one. The features
        are wrapped in `MaskedFeatures`, and no policy ever takes a forbidden action.
    ends: `ends(states)` is bool `[n]`, True where the process has ended: it stays there whatever the action and pays 0, so
        rollouts stop. By default the terminal column of the features tells (adapters add one), if there is one.
    """

    model: Model
    features: Features
    discount: float
    reward_range: tuple[float, float] = (0.0, 1.0)
    core_pairs: tuple[States, IntArray] | None = field(default=None, repr=False)
    name: str = "problem"
    tabular: Callable[[], Tabular] | None = field(default=None, repr=False)
    mask: Mask | None = field(default=None, repr=False)
    ends: Callable[[States], Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise InputError(
                f"`Problem(model=...)` needs n_actions, initial(rng, n) and step(rng, states, actions); "
                f"{type(self.model).__name__} has not all three. FunctionModel makes a model from two functions."
            )
        if not isinstance(self.features, Features):
            needs = ("n_actions", "dimension", "radius", "nonzeros", "description", "__call__")
            missing = [name for name in needs if not hasattr(self.features, name)]
            raise InputError(
                f"`Problem(features=...)` must be a feature map; {type(self.features).__name__} has no "
                f"{', '.join(missing)}. FunctionFeatures makes one from a function."
            )
        discount = _number("discount", self.discount)
        if not 0.0 < discount < 1.0:
            raise InputError(
                f"`Problem(discount=...)` must lie strictly between 0 and 1, got {self.discount!r}."
            )
        if not isinstance(self.reward_range, (tuple, list)) or len(self.reward_range) != 2:
            raise InputError(
                f"`Problem(reward_range=...)` must be (lowest, highest), got {self.reward_range!r}."
            )
        low, high = (_number("reward_range", v) for v in self.reward_range)
        if not low < high:
            raise InputError(
                f"`Problem(reward_range=...)` must be (lowest, highest), got {self.reward_range!r}."
            )
        if self.model.n_actions != self.features.n_actions:
            raise InputError(
                f"The model has {self.model.n_actions} actions and the features {self.features.n_actions}; "
                "they must agree."
            )
        if self.compiled and self.model.state_shape != self.features.state_shape:  # type: ignore[attr-defined]
            raise InputError(
                f"The model's states have shape {self.model.state_shape} each and the features "  # type: ignore[attr-defined]
                f"need {self.features.state_shape}."  # type: ignore[attr-defined]
            )
        if self.mask is not None:
            self._apply_mask(self.mask)
        if self.ends is not None and not callable(self.ends):
            raise InputError(
                f"`Problem(ends=...)` must be a function: ends(states) -> bool [n]; got {self.ends!r}."
            )
        if self.has_ends and not self.reward_range[0] <= 0.0 <= self.reward_range[1]:
            raise InputError(
                "A process that ends pays 0 afterwards, so `Problem(reward_range=...)` must contain 0; got "
                f"{self.reward_range}."
            )
        carried = getattr(self.features, "core", None)
        if self.core_pairs is None and carried is not None:
            object.__setattr__(self, "core_pairs", carried())
        object.__setattr__(self, "discount", discount)
        object.__setattr__(self, "reward_range", (low, high))

    def _apply_mask(self, mask: Mask) -> None:
        if not callable(mask):
            raise InputError(
                f"`Problem(mask=...)` must be a function: mask(states) -> bool [n, A]; got {mask!r}."
            )
        features, tabular = self.features, self.tabular
        # Not if they are masked already, as in a copy made by dataclasses.replace.
        if not isinstance(features, MaskedFeatures) or features.mask is not mask:
            carried = getattr(features, "core", None)
            given = self.core_pairs
            if carried and given and all(map(np.array_equal, carried(), given)):
                object.__setattr__(self, "core_pairs", None)  # taken from the masked features instead
            features = MaskedFeatures(features, mask)
            object.__setattr__(self, "features", features)
        if tabular is not None:
            object.__setattr__(self, "tabular", lambda: masked_table(tabular(), features))
        if self.core_pairs is not None:
            check_core(features, *self.core_pairs)

    @property
    def n_actions(self) -> int:
        """A, the number of actions."""
        return self.model.n_actions

    @property
    def compiled(self) -> bool:
        """Whether simulator and features are both Numba functions, so that a whole run can be compiled."""
        return isinstance(self.model, CompiledModel) and isinstance(self.features, CompiledFeatures)

    @property
    def has_ends(self) -> bool:
        """Whether the problem says in which states its process has ended."""
        return self.ends is not None or has_terminal(self.features)

    def ended(self, states: States) -> NDArray[np.bool_]:
        """In which states of a batch the process has ended, `[n]`; nowhere if the problem does not say."""
        if self.ends is None:
            return ended(states) if has_terminal(self.features) else np.zeros(len(states), dtype=bool)
        try:
            answer = np.asarray(self.ends(states))
        except Exception as error:
            raise SimulatorError(
                f"`Problem(ends=...)` raised {type(error).__name__}: {error} (on a batch of {len(states)} states)."
            ) from error
        if answer.shape != (len(states),) or answer.dtype != bool:
            raise SimulatorError(
                f"For a batch of {len(states)} states `Problem(ends=...)` must return bool of shape ({len(states)},), got "
                f"{answer.dtype} {answer.shape}."
            )
        return answer

    @property
    def end_reward(self) -> float:
        """The normalised reward per step after the end: the image of reward 0."""
        low, high = self.reward_range
        return -low / (high - low)

    def to_reward_units(self, value: float) -> float:
        """A normalised value in [0, 1] as a discounted average in the user's own reward units."""
        low, high = self.reward_range
        return low + (high - low) * value

    def to_return_units(self, value: float) -> float:
        """A normalised value in [0, 1] as the expected discounted sum of the user's own rewards.

        Inside, a reward r is u = (r - low) / (high - low), and a value is v = (1 - gamma) E sum_t gamma^t u_t. Since
        sum_t gamma^t = 1 / (1 - gamma), putting r = low + (high - low) u into the sum gives

            E sum_t gamma^t r_t = (low + (high - low) v) / (1 - gamma).

        Ends need no case of their own: an ended process goes on for ever and pays u(0) = -low / (high - low), the image
        of reward 0, which the formula maps back to 0. So the sum is over the rewards until the end.
        """
        return self.to_reward_units(value) / (1.0 - self.discount)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not np.isfinite(value):
        raise InputError(f"`Problem({name}=...)` must be made of finite numbers, got {value!r}.")
    return float(value)


def masked_table(table: Tabular, features: MaskedFeatures) -> Tabular:
    """The table with the features' mask added, so that optima and exact values respect it."""
    allowed = features.allowed(table.states)
    return replace(table, available=allowed if table.available is None else allowed & table.available)
