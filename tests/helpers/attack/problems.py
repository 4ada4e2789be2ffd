"""One tiny problem in every form that coreplan takes, each with a place where a fault can strike.

A state is (position, noise), both in [0, 1]; action 1 moves right and action 0 left, and the reward is the position.
`Fault` decides at which call what happens; `healthy` is the fault that never strikes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit

from coreplan import (
    CompiledFeatures,
    CompiledModel,
    FunctionFeatures,
    FunctionModel,
    NoiseModel,
    Problem,
    ScalarModel,
)

CORE = (np.array([[0.0, 0.5], [1.0, 0.5], [0.0, 0.5], [1.0, 0.5]]), np.array([0, 0, 1, 1]))
MODELS = ("function", "scalar", "noise", "compiled")
FEATURES = ("dense", "sparse", "compiled")
DISCOUNT = 0.8


@dataclass
class Fault:
    """Does `act(what was to be returned, the arguments)` in place of a return, at the calls of `part` that it is due at.

    `part` is initial, step, features or mask. `at` is the first call at which it strikes, and `again` whether it strikes
    at every later one; `where` makes it depend on the states instead.
    """

    part: str = ""
    act: Callable[[Any, tuple[Any, ...]], Any] | None = None
    at: int = 0
    again: bool = False
    where: Callable[[Any], bool] | None = None
    calls: dict[str, int] = field(default_factory=dict)
    returned: int = 0  # pairs that `step` has answered as it should
    struck: int = 0

    def __call__(
        self, part: str, value: Callable[[], Any], arguments: tuple[Any, ...], pairs: int = 0
    ) -> Any:
        call = self.calls[part] = self.calls.get(part, -1) + 1
        due = self.act is not None and part == self.part
        if due and self.where is not None:
            due = self.where(arguments)
        elif due:
            due = call == self.at or (self.again and call > self.at)
        if due:
            self.struck += 1
            assert self.act is not None
            return self.act(value(), arguments)
        answer = value()
        self.returned += pairs
        return answer


def moved(states: Any, actions: Any, u: Any) -> tuple[Any, Any]:
    """One step: rewards `[n]` and next states `[n, 2]` from noise `u [n]`."""
    x = np.clip(states[..., 0] + np.where(actions == 1, 0.1, -0.1) + 0.1 * (u - 0.5), 0.0, 1.0)
    return states[..., 0].copy(), np.stack([x, u], axis=-1)


def first(u: Any) -> Any:
    """Initial states `[n, 2]` from noise `u [n]`."""
    return np.stack([0.2 * u, u], axis=-1)


def dense(states: Any) -> Any:
    """Features `[n, 2, 4]`: (1 - position, position) in the block of the action."""
    x, out = states[:, 0], np.zeros((len(states), 2, 4))
    out[:, 0, 0] = out[:, 1, 2] = 1 - x
    out[:, 0, 1] = out[:, 1, 3] = x
    return out


def sparse(states: Any) -> Any:
    """The same as index and weight, both `[n, 2, 2]`."""
    x = np.repeat(states[:, None, 0], 2, axis=1)
    index = np.broadcast_to(np.array([[0, 1], [2, 3]]), (len(states), 2, 2)).copy()
    return index, np.stack([1 - x, x], axis=-1)


def model_of(kind: str, fault: Fault, block: int) -> Any:
    """The simulator in one of the forms of `MODELS`, with a fault."""
    if kind == "compiled":
        return CompiledModel(
            2, _initial, _step, fault_data(fault), state_shape=(2,), state_dtype=np.float64,
            noise_kernel=_step_with, noise_dimension=1,
        )  # fmt: skip

    def initial(rng: Any, n: int) -> Any:
        return fault("initial", lambda: first(rng.random(n)), (n,))

    def step(rng: Any, states: Any, actions: Any) -> Any:
        u = rng.random(len(actions))
        return fault("step", lambda: moved(states, actions, u), (states, actions), len(actions))

    def step_with(states: Any, actions: Any, noise: Any) -> Any:
        return fault("step", lambda: moved(states, actions, noise[:, 0]), (states, actions), len(actions))

    def one_initial(rng: Any) -> Any:
        return fault("initial", lambda: first(rng.random()), (1,))

    def one_step(rng: Any, state: Any, action: int) -> Any:
        u = rng.random()
        return fault("step", lambda: moved(state, action, u), (state, action), 1)

    if kind == "scalar":
        return ScalarModel(2, one_initial, one_step)
    if kind == "noise":
        return NoiseModel(2, initial, step_with, 1)
    return FunctionModel(2, initial, step, block=block)


def features_of(kind: str, fault: Fault) -> Any:
    """The feature map in one of the forms of `FEATURES`, with a fault."""
    if kind == "compiled":
        return CompiledFeatures(
            _features, 2, 4, 1.0, state_shape=(2,), state_dtype=np.float64, name="attacked",
        )  # fmt: skip
    make = dense if kind == "dense" else sparse

    def function(states: Any) -> Any:
        return fault("features", lambda: make(states), (states,))

    return FunctionFeatures(function, 2, 4, 1.0, nonzeros=None if kind == "dense" else 2, name="attacked")


def problem_of(model: str, features: str, fault: Fault, block: int = 64, **more: Any) -> Problem:
    """The problem in one of its forms, with a fault."""
    if features == "box":
        return Problem(
            model_of(model, fault, block), None, DISCOUNT, box=([0.0, 0.0], [1.0, 1.0]), name="attacked", **more
        )  # fmt: skip
    return Problem(
        model_of(model, fault, block), features_of(features, fault), DISCOUNT, core_pairs=CORE, name="attacked", **more
    )  # fmt: skip


# The same, compiled. What a compiled fault does is decided by numbers, so that one compilation serves all faults. The
# features are told by the state, since their data are part of what a resumed run must agree with.

KINDS = {
    "": 0, "step: NaN reward": 1, "step: reward 7": 2, "step: NaN state": 3, "step: infinite state": 4, "step: raises": 5,
    "step: state 5": 6, "initial: NaN state": 7, "initial: raises": 8, "features: NaN": 9, "features: too long": 10,
    "features: raises": 11,
}  # fmt: skip


def fault_data(fault: Fault) -> tuple[int, int, Any]:
    """What the kernels are told: which fault, at which pair, and a counter of pairs."""
    kind = KINDS.get(fault.part, 0)
    return kind, fault.at, np.zeros(1, dtype=np.int64)


@njit(cache=True)
def _strikes(data):
    data[2][0] += 1
    return data[2][0] > data[1]


@njit(cache=True)
def _initial(rng, data, states):
    for n in range(states.shape[0]):
        u = rng.random()
        states[n, 0], states[n, 1] = 0.2 * u, u
        if 7 <= data[0] <= 8 and _strikes(data):
            if data[0] == 8:
                raise ValueError("no initial state")
            states[n, 1] = np.nan


@njit(cache=True)
def _one(data, states, actions, n, u, rewards, next_states):
    rewards[n] = states[n, 0]
    x = states[n, 0] + (0.1 if actions[n] == 1 else -0.1) + 0.1 * (u - 0.5)
    next_states[n, 0], next_states[n, 1] = min(max(x, 0.0), 1.0), u
    kind = data[0]
    if kind > 0 and kind != 7 and kind != 8 and _strikes(data):
        if kind == 1:
            rewards[n] = np.nan
        elif kind == 2:
            rewards[n] = 7.0
        elif kind == 3:
            next_states[n, 0] = np.nan
        elif kind == 4:
            next_states[n, 1] = np.inf
        elif kind == 5:
            raise ValueError("no such pair")
        elif kind == 6:
            next_states[n, 0] = 5.0
        else:
            next_states[n, 1] = float(kind)


@njit(cache=True)
def _step(rng, data, states, actions, rewards, next_states):
    for n in range(states.shape[0]):
        _one(data, states, actions, n, rng.random(), rewards, next_states)


@njit(cache=True)
def _step_with(data, states, actions, noise, rewards, next_states):
    for n in range(states.shape[0]):
        _one(data, states, actions, n, noise[n, 0], rewards, next_states)


@njit(cache=True)
def _features(data, states, out):
    for n in range(states.shape[0]):
        x = states[n, 0]
        out[n, :, :] = 0.0
        out[n, 0, 0] = out[n, 1, 2] = 1.0 - x
        out[n, 0, 1] = out[n, 1, 3] = x
        if states[n, 1] == 9.0:
            out[n, 0, 1] = np.nan
        elif states[n, 1] == 10.0:
            out[n, 1, 3] = 3.0
        elif states[n, 1] == 11.0:
            raise ValueError("no such features")
