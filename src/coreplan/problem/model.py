"""Models: batched simulators of a Markov decision process (the paper's generative model).

A `Model` is anything with `n_actions`, `initial(rng, n)` and `step(rng, states, actions)`. States
are arrays whose first axis is the batch, of any shape and dtype; coreplan never looks inside them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numba.extending import is_jitted
from numpy.typing import NDArray

from ..errors import InputError, require_count

States = NDArray[Any]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@runtime_checkable
class Model(Protocol):
    """A batched simulator."""

    @property
    def n_actions(self) -> int:
        """A, the number of actions."""

    def initial(self, rng: np.random.Generator, n: int) -> States:
        """`n` independent draws from the initial distribution nu0. Returns states `[n, ...]`."""

    def step(self, rng: np.random.Generator, states: States, actions: IntArray) -> tuple[FloatArray, States]:
        """One transition from each pair. Returns rewards `[n]` and next states `[n, ...]`.

        Rewards may be random; their sample is used. Draw noise from `rng` only, in the order of the
        batch, and a run is reproducible to the last bit.
        """


@dataclass(frozen=True)
class FunctionModel:
    """A model from two NumPy functions, `initial(rng, n)` and `step(rng, states, actions)`."""

    n_actions: int
    initial: Callable[[np.random.Generator, int], States]
    step: Callable[[np.random.Generator, States, IntArray], tuple[FloatArray, States]]

    def __post_init__(self) -> None:
        require_count("FunctionModel", n_actions=self.n_actions)


@dataclass(frozen=True)
class CompiledModel:
    """A model of two Numba functions that fill arrays; a run with one is compiled as a whole.

    `initial_kernel(rng, data, states)` fills `states [n, ...]`;
    `step_kernel(rng, data, states, actions, rewards, next_states)` fills `rewards [n]` and
    `next_states [n, ...]`. Both take their arrays through the tuple `data` instead of closing over
    them, else Numba cannot cache what it compiles. Decorate with `@numba.njit(cache=True)`.
    """

    n_actions: int
    initial_kernel: Callable[..., None]
    step_kernel: Callable[..., None]
    data: tuple[Any, ...] = field(repr=False, default=())
    state_shape: tuple[int, ...] = ()
    state_dtype: Any = np.int64

    def __post_init__(self) -> None:
        require_count("CompiledModel", n_actions=self.n_actions)
        for name in ("initial_kernel", "step_kernel"):
            if not is_jitted(getattr(self, name)):
                raise InputError(
                    f"`CompiledModel({name}=...)` must be a Numba function, got {getattr(self, name)!r}. "
                    "Decorate it with @numba.njit(cache=True), or use FunctionModel for NumPy functions."
                )

    def empty_states(self, n: int) -> States:
        """A batch of `n` states to be filled."""
        return np.zeros((n, *self.state_shape), dtype=self.state_dtype)

    def initial(self, rng: np.random.Generator, n: int) -> States:
        """`n` draws from nu0, `[n, ...]`."""
        states = self.empty_states(n)
        self.initial_kernel(rng, self.data, states)
        return states

    def step(self, rng: np.random.Generator, states: States, actions: IntArray) -> tuple[FloatArray, States]:
        """One transition from each pair: rewards `[n]`, next states `[n, ...]`."""
        states = as_states(states, self.state_shape, self.state_dtype, "The model")
        actions = np.ascontiguousarray(actions, dtype=np.int64)
        rewards = np.empty(len(states))
        next_states = self.empty_states(len(states))
        self.step_kernel(rng, self.data, states, actions, rewards, next_states)
        return rewards, next_states


def as_states(states: Any, shape: tuple[int, ...], dtype: Any, who: str) -> States:
    """States as the contiguous array that a compiled kernel may read without looking, or an error."""
    states = np.asarray(states)
    if states.ndim == 0 or states.shape[1:] != shape:
        raise InputError(
            f"{who} needs states of shape {('n', *shape)}, got {states.shape}.".replace("'n'", "n")
        )
    if states.dtype != dtype and not np.can_cast(states.dtype, dtype, "same_kind"):
        raise InputError(f"{who} needs states of dtype {np.dtype(dtype)}, got {states.dtype}.")
    return np.ascontiguousarray(states, dtype=dtype)
