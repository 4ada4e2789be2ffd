"""Models: batched simulators of a Markov decision process (the paper's generative model).

A `Model` is anything with `n_actions`, `initial(rng, n)` and `step(rng, states, actions)`. States
are arrays whose first axis is the batch, of any shape and dtype; coreplan never looks inside them.
A model whose step is a deterministic function of uniform noise declares it by `noise_dimension` and
`step_with(states, actions, noise)`: a planner may then choose the noise, for instance quasi-random (Sobol) points.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numba.extending import is_jitted
from numpy.typing import NDArray

from ..base import (
    FloatArray,
    InputError,
    IntArray,
    SimulatorError,
    States,
    as_count,
    as_dtype,
    as_function,
    as_shape,
    as_states,
    fenced,
    overrun,
    settle,
    shown,
)

# Queries that share a stream of noise, and the most per call, for a model without a `block` of its own.
BLOCK = 65_536


@runtime_checkable
class Model(Protocol):
    """A batched simulator.

    An optional attribute `block` limits the number of queries per call; the noise is drawn in blocks of that size. A model
    that simulates pair by pair may offer `each(rng, states, actions)`, an iterator of (reward, next_state): should it fail,
    the answers before the faulty pair are kept.
    """

    @property
    def n_actions(self) -> int:
        """A, the number of actions."""

    def initial(self, rng: np.random.Generator, n: int) -> States:
        """`n` independent draws from the initial distribution nu0. Returns states `[n, ...]`."""

    def step(self, rng: np.random.Generator, states: States, actions: IntArray) -> tuple[FloatArray, States]:
        """One transition from each pair. Returns rewards `[n]` and next states `[n, ...]`.

        Rewards may be random; return a sample. If all noise is drawn from `rng`, in the order of the
        batch, a run is reproducible to the last bit.
        """


@dataclass(frozen=True)
class FunctionModel:
    """A model from two NumPy functions, `initial(rng, n)` and `step(rng, states, actions)`."""

    n_actions: int
    initial: Callable[[np.random.Generator, int], States]
    step: Callable[[np.random.Generator, States, IntArray], tuple[FloatArray, States]]
    block: int = BLOCK  # queries per call at most

    def __post_init__(self) -> None:
        settle(self, as_count, "n_actions", "block")
        settle(self, as_function, "initial", form="initial(rng, n) -> states [n, ...]")
        settle(self, as_function, "step", form="step(rng, states, actions) -> (rewards, next_states)")


class ScalarModel:
    """A model from plain functions of one state.

    `initial(rng) -> state`; `step(rng, state, action) -> (reward, next_state)`. States are numbers or arrays of one
    fixed shape. This is the quickest model to write and the slowest to run: with one Python call per query it answers a
    few hundred thousand queries per second at best, batched functions answer millions.
    """

    block: int = 64  # queries per call at most: each is a Python call

    def __init__(
        self,
        n_actions: int,
        initial: Callable[[np.random.Generator], Any],
        step: Callable[[np.random.Generator, Any, int], tuple[float, Any]],
    ) -> None:
        self.n_actions = as_count("ScalarModel", n_actions=n_actions)
        self._initial = as_function("ScalarModel", "initial(rng) -> state", initial=initial)
        self._step = as_function("ScalarModel", "step(rng, state, action) -> (reward, next_state)", step=step)

    def initial(self, rng: np.random.Generator, n: int) -> States:
        """`n` draws from nu0, `[n, ...]`."""
        states = []
        for _ in range(n):
            drawn = self._initial(rng)
            state = _numeric(drawn)
            if state is None:
                raise SimulatorError(
                    f"initial(rng) returned {shown(drawn)}. It must return one state: a number, or an array of numbers."
                )
            states.append(state)
            if state.shape != states[0].shape:
                break  # refused below
        return _stack("initial", states)

    def step(self, rng: np.random.Generator, states: States, actions: IntArray) -> tuple[FloatArray, States]:
        """One transition from each pair: rewards `[n]`, next states `[n, ...]`."""
        return gathered("step", list(self.each(rng, states, actions)))

    def each(
        self, rng: np.random.Generator, states: States, actions: IntArray
    ) -> Iterator[tuple[float, NDArray[Any]]]:
        """`step`, pair by pair: the reward and the next state of each pair, when it has been simulated."""
        states = np.array(states)  # a copy, since the user's step may change its state in place
        for state, action in zip(states, map(int, actions), strict=True):
            yield _one_answer(self._step(rng, state, action), state, action)


def _one_answer(answer: Any, state: Any, action: int) -> tuple[float, NDArray[Any]]:
    """The reward and a copy of the next state in what a user's step of one state returned; else a SimulatorError."""
    reward = after = None
    if isinstance(answer, tuple) and len(answer) == 2:
        reward, after = _numeric(answer[0]), _numeric(answer[1])
        if reward is not None and reward.ndim == 0 and after is not None and after.shape == state.shape:
            return float(reward), after
    raise _not_an_answer(answer, reward, after, state, action)


def _not_an_answer(answer: Any, reward: Any, after: Any, state: Any, action: int) -> SimulatorError:
    """The error for what a user's step of one state returned; its parts as numbers, if they are."""
    told = f"step(rng, state, action) returned {shown(answer)} for state {shown(state)} and action {action}"
    right = "It must return (reward, next_state): one number as reward, and a number or an array of numbers as state"
    if not isinstance(answer, tuple) or len(answer) != 2:
        what = f"{type(answer).__name__}" + (f" of {len(answer)}" if isinstance(answer, tuple) else "")
        return SimulatorError(f"{told}, a {what}. {right}.")
    if reward is None or reward.ndim:
        return SimulatorError(f"{told}, whose reward is {shown(answer[0])}, not one number. {right}.")
    if after is None:
        return SimulatorError(
            f"{told}, whose next state is {shown(answer[1])}, not made of numbers. {right}."
        )
    return SimulatorError(
        f"{told}, whose next state has shape {after.shape} where the state has shape {state.shape}. {right}, of the "
        f"shape that it was given: like {shown(state)}."
    )


def _numeric(value: Any) -> NDArray[Any] | None:
    """A copy of the value as an array of numbers, since the user's function may reuse it; None if it is not that."""
    if isinstance(value, np.ma.MaskedArray):
        return None
    try:
        array = np.array(value)
    except Exception:  # rows of different lengths, or an object that cannot be read
        return None
    return array if array.dtype.kind in "fiub" else None


def gathered(name: str, answers: list[tuple[float, Any]]) -> tuple[FloatArray, States]:
    """Answers of single pairs as those of a batch: rewards `[n]`, next states `[n, ...]`."""
    return np.array([reward for reward, _ in answers]), _stack(name, [after for _, after in answers])


def _stack(name: str, states: list[NDArray[Any]]) -> States:
    shapes = {state.shape for state in states}
    if len(shapes) > 1:
        raise SimulatorError(
            f"{name} must return states of one shape, got {' and '.join(map(str, sorted(shapes)[:2]))}."
        )
    return np.stack(states)


class NoiseModel:
    """A model whose step is a deterministic function of uniform noise.

    `step(states, actions, noise) -> (rewards, next_states)` takes noise `[n, k]` in [0, 1), k being `noise_dimension`.
    noise_dimension=0 declares a deterministic step, which planners need to query only once per pair.
    With `initial_noise_dimension` k0, `initial(noise) -> states` takes noise `[n, k0]`; without it, it is
    `initial(rng, n)`, as in FunctionModel. All randomness must come from `noise`, for instance by inverting distribution
    functions; this is checked when a planner first uses it.
    """

    def __init__(
        self,
        n_actions: int,
        initial: Callable[..., States],
        step: Callable[[States, IntArray, FloatArray], tuple[FloatArray, States]],
        noise_dimension: int,
        initial_noise_dimension: int | None = None,
    ) -> None:
        k0 = as_count("NoiseModel", optional=True, initial_noise_dimension=initial_noise_dimension)
        self.n_actions = as_count("NoiseModel", n_actions=n_actions)
        self.noise_dimension = as_count("NoiseModel", least=0, noise_dimension=noise_dimension)
        form = "initial(rng, n) -> states [n, ...]" if k0 is None else "initial(noise) -> states [n, ...]"
        self._initial = as_function("NoiseModel", form, initial=initial)
        self._step = as_function(
            "NoiseModel", "step(states, actions, noise) -> (rewards, next_states)", step=step
        )
        self.initial_noise_dimension = k0
        _require_initial(initial, k0)

    def initial(self, rng: np.random.Generator, n: int) -> States:
        """`n` draws from nu0, `[n, ...]`."""
        if self.initial_noise_dimension is None:
            return self._initial(rng, n)
        return self._initial(rng.random((n, self.initial_noise_dimension)))

    def step(self, rng: np.random.Generator, states: States, actions: IntArray) -> tuple[FloatArray, States]:
        """One transition from each pair, with fresh uniforms as noise: rewards `[n]`, next states `[n, ...]`."""
        return self.step_with(states, actions, rng.random((len(actions), self.noise_dimension)))

    def step_with(self, states: States, actions: IntArray, noise: FloatArray) -> tuple[FloatArray, States]:
        """One transition from each pair with the given noise `[n, k]`."""
        return self._step(states, actions, as_noise(noise, len(actions), self.noise_dimension))


def _require_initial(initial: Callable[..., Any], k0: int | None) -> None:
    """Raise InputError if `initial` cannot be called as NoiseModel will call it."""
    arguments, form = ((0, 0), "initial(rng, n)") if k0 is None else ((0,), "initial(noise)")
    try:
        inspect.signature(initial).bind(*arguments)
    except TypeError:
        cure = (
            "To draw initial states from noise [n, k0], say `initial_noise_dimension=k0`."
            if k0 is None
            else f"It gets noise [n, {k0}] in [0, 1); leave `initial_noise_dimension` out for a function of (rng, n)."
        )
        raise InputError(
            f"`NoiseModel(initial=...)` with initial_noise_dimension={k0} is called as {form} -> states [n, ...], and "
            f"{getattr(initial, '__name__', 'this function')}{inspect.signature(initial)} does not take that. {cure}"
        ) from None
    except ValueError:  # a function without a signature, such as a built-in one
        return


@dataclass(frozen=True)
class CompiledModel:
    """A model made of Numba functions that fill arrays; together with CompiledFeatures the whole run is compiled.

    `initial_kernel(rng, data, states)` fills `states [n, ...]`;
    `step_kernel(rng, data, states, actions, rewards, next_states)` fills `rewards [n]` and
    `next_states [n, ...]`. Both take their arrays through the tuple `data` instead of closing over
    them, since otherwise Numba cannot cache what it compiles. Decorate them with `@numba.njit(cache=True)`.
    The optional `noise_kernel(data, states, actions, noise, rewards, next_states)` is the same step as a deterministic
    function of `noise [n, noise_dimension]` in [0, 1). noise_dimension=0 declares that the step is deterministic.
    """

    n_actions: int
    initial_kernel: Callable[..., None]
    step_kernel: Callable[..., None]
    data: tuple[Any, ...] = field(repr=False, default=())
    state_shape: tuple[int, ...] = ()
    state_dtype: Any = np.int64
    noise_kernel: Callable[..., None] | None = None
    noise_dimension: int | None = None

    def __post_init__(self) -> None:
        settle(self, as_count, "n_actions")
        settle(self, as_count, "noise_dimension", least=0)
        settle(self, as_shape, "state_shape")
        settle(self, as_dtype, "state_dtype")
        if (self.noise_kernel is None) != (self.noise_dimension is None):
            raise InputError("`CompiledModel` takes noise_kernel and noise_dimension together, or neither.")
        noise = () if self.noise_kernel is None else ("noise_kernel",)
        for name in ("initial_kernel", "step_kernel", *noise):
            if not is_jitted(getattr(self, name)):
                raise InputError(
                    f"`CompiledModel({name}=...)` must be a Numba function, got {shown(getattr(self, name))}. "
                    "Decorate it with @numba.njit(cache=True), or use FunctionModel for NumPy functions."
                )

    def empty_states(self, n: int) -> States:
        """A batch of `n` states, all zeros, for a kernel to fill."""
        return fenced((n, *self.state_shape), self.state_dtype)

    def initial(self, rng: np.random.Generator, n: int) -> States:
        """`n` draws from nu0, `[n, ...]`."""
        states = self.empty_states(n)
        self.initial_kernel(rng, self.data, states)
        self.require_inside("initial_kernel", states)
        return states

    def step(self, rng: np.random.Generator, states: States, actions: IntArray) -> tuple[FloatArray, States]:
        """One transition from each pair: rewards `[n]`, next states `[n, ...]`."""
        states, actions, rewards, next_states = self._arrays(states, actions)
        self.step_kernel(rng, self.data, states, actions, rewards, next_states)
        self.require_inside("step_kernel", rewards, next_states)
        return rewards, next_states

    def step_with(self, states: States, actions: IntArray, noise: FloatArray) -> tuple[FloatArray, States]:
        """One transition from each pair with the given noise `[n, noise_dimension]`."""
        if self.noise_kernel is None or self.noise_dimension is None:
            raise InputError("This CompiledModel has no noise_kernel: its noise cannot be given.")
        states, actions, rewards, next_states = self._arrays(states, actions)
        noise = np.array(as_noise(noise, len(actions), self.noise_dimension))
        self.noise_kernel(self.data, states, actions, noise, rewards, next_states)
        self.require_inside("noise_kernel", rewards, next_states)
        return rewards, next_states

    def _arrays(self, states: States, actions: IntArray) -> tuple[States, IntArray, FloatArray, States]:
        states = as_states(states, self.state_shape, self.state_dtype, "The model")
        n = len(states)
        return states, np.array(actions, dtype=np.int64), fenced((n,), np.float64), self.empty_states(n)

    def require_inside(self, kernel: str, *filled: NDArray[Any]) -> None:
        """Raise SimulatorError if a kernel wrote beyond arrays from `empty_states` or `fenced`."""
        if overrun(*filled):
            raise SimulatorError(
                f"`{kernel}` of the CompiledModel writes beyond the arrays that it is given, where `state_shape` is "
                f"{self.state_shape} and n is {len(filled[0])}. Declare the shape of the states that it writes, and write n "
                "of them. Memory beyond was changed: start Python anew."
            )


def as_noise(noise: Any, n: int, k: int) -> FloatArray:
    """Noise as a contiguous array `[n, k]` of numbers in [0, 1); raises InputError if it is not that."""
    noise = np.ascontiguousarray(noise, dtype=np.float64)
    if noise.shape != (n, k):
        raise InputError(f"{n} pairs need noise of shape {(n, k)}, got {noise.shape}.")
    if not ((noise >= 0.0) & (noise < 1.0)).all():
        raise InputError("Noise must lie in [0, 1).")
    return noise
