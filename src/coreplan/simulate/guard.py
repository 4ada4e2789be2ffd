"""Checks of everything a simulator returns, whether to a run or to a judge.

An invalid answer raises an error that names the pair and the value; nothing is repaired by guessing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numba import njit

from ..base import (
    CoreplanError,
    FloatArray,
    InputError,
    IntArray,
    ReproducibilityWarning,
    SimulatorError,
    Snapshot,
    States,
    changed_input,
    native,
    plain,
    read_only,
    shown,
    snapshot,
    text_of,
)
from ..problem import CompiledModel, Problem, ScalarModel, gathered
from .sources import Sources, drawn_warning

_SLACK = 1e-9  # how far a reward may leave its range, relative to the range's width: rounding only


REPEATED = 4  # pairs that are simulated twice, to check that a simulator is a function of its noise


Told: TypeAlias = tuple[tuple[float, Any], Snapshot]  # one answer, and where the stream stands after it


_MADE = (
    " With bounds and no features a planner asks about states anywhere within the bounds: if the process never comes to "
    "this one, narrow the box instead."
)


class Guard:
    """Calls a problem's model and checks shapes, dtypes, finiteness and the reward range; maps rewards to [0, 1]."""

    def __init__(self, problem: Problem, like: States | None = None) -> None:
        """States must have the shape and dtype of `like [m, ...]`; without it, those of the first initial states."""
        self.problem, self.like, self.free = problem, like, like is None
        self.model: Any = problem.model  # or what stands in for it, where workers simulate
        # Whether states come in arrays that the model makes anew for each call. Others may be overwritten by the next call.
        self.fresh = isinstance(problem.model, (CompiledModel, ScalarModel))
        self.repeated = 0  # pairs that were simulated again with the same noise; those are queries too
        self.refused = 0  # answers of the last call that came and were not accepted
        self.sources = Sources()
        low, high = problem.reward_range
        slack = _SLACK * (high - low)
        self.limits = (low - slack, high + slack, low, high - low)

    def initial(self, rng: np.random.Generator, n: int) -> States:
        """`n` initial states, checked."""
        return self._states("initial", self._call("initial", rng, n), n)

    def step(
        self, rng: np.random.Generator, states: States, actions: IntArray, told: list[Told] | None = None
    ) -> tuple[FloatArray, States]:
        """One transition from each pair, checked; rewards mapped to [0, 1].

        If the model simulates pair by pair (`each`), its answers are also appended to `told` as they come, so that those
        before a faulty pair are not lost: see `good`.
        """
        each, function = getattr(self.model, "each", None), None
        if each is not None and told is not None:

            def function(rng: np.random.Generator, states: States, actions: IntArray) -> Any:
                for n, answer in enumerate(each(rng, states, actions)):
                    told.append((answer, snapshot(rng)))
                    if not self.limits[0] <= answer[0] <= self.limits[1]:  # before more is simulated in vain
                        self.raise_bad_reward(states[n], int(actions[n]), answer[0])
                return gathered("step", [answer for answer, _ in told])

        answer = self._call("step", rng, states, actions, function=function)
        return self._accepted(answer, states, actions, "step")

    def _accepted(
        self, answer: Any, states: States, actions: IntArray, name: str
    ) -> tuple[FloatArray, States]:
        """`_checked`, with `refused` telling how many answers have come and are not accepted."""
        self.refused = len(actions)
        checked = self._checked(answer, states, actions, name)
        self.refused = 0
        return checked

    def good(
        self, told: list[Told], states: States, actions: IntArray
    ) -> tuple[FloatArray, States, Snapshot | None]:
        """As many of the first answers as are valid, `[k]` and `[k, ...]`, and where the stream stands after them."""
        good, bad = 0, len(told) + 1
        found = np.empty(0), states[:0]
        while bad - good > 1:
            k = (good + bad) // 2
            try:
                answer = gathered("step", [answer for answer, _ in told[:k]])
                found, good = self._checked(answer, states[:k], actions[:k]), k
            except CoreplanError:
                bad = k
        return *found, told[good - 1][1] if good else None

    def as_given(self, answer: Any, states: States, actions: IntArray) -> tuple[FloatArray, States] | None:
        """What the model returned, with rewards `[n]` in its own units; None if it is not valid."""
        try:
            _, next_states = self._checked(answer, states, actions)
            return _as_float(plain("step's rewards", answer[0], SimulatorError)), next_states
        except CoreplanError:
            return None

    def as_answered(self, states: States) -> States:
        """Next states that were answered before, checked again."""
        return self._states("step", states, len(states))

    def step_with(self, states: States, actions: IntArray, noise: FloatArray) -> tuple[FloatArray, States]:
        """`step` with the given noise `[n, noise_dimension]`, with the same checks.

        A few pairs of the first batch are simulated twice, which `repeated` counts: quasi-random noise makes sense only
        for a model that is a function of its noise.
        """
        if getattr(self.problem.model, "noise_dimension", None) is None:
            raise InputError(
                f"{type(self.problem.model).__name__} is not a function of its noise: it declares no noise_dimension. "
                "NoiseModel makes one, or CompiledModel with a noise_kernel."
            )
        answer = self._call("step_with", states, actions, noise)
        rewards, next_states = self._accepted(answer, states, actions, "step_with")
        if not self.repeated:
            x, a, u = states[:REPEATED], actions[:REPEATED], noise[:REPEATED]
            self.refused = len(actions)  # lost if the repetition fails
            function = getattr(self.model, "step_again", None)
            again = self._checked(self._call("step_with", x, a, u, function=function), x, a, "step_with")
            self._compare(x, a, (rewards, next_states), again)
            self.repeated, self.refused = len(a), 0
        return rewards, next_states

    def _compare(self, states: States, actions: IntArray, one: Any, two: Any) -> None:
        for n in range(len(actions)):
            if one[0][n] != two[0][n] or one[1][n].tobytes() != two[1][n].tobytes():
                raise SimulatorError(
                    f"step gave two answers to {self.problem.names.pair_said(states[n], actions[n])} with one noise. "
                    "Take all randomness from `noise` and keep nothing between calls, or use FunctionModel."
                )

    def _checked(
        self, answer: Any, states: States, actions: IntArray, name: str = "step"
    ) -> tuple[FloatArray, States]:
        n = len(actions)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise SimulatorError(f"{name} must return (rewards, next_states), got {_kind(answer)}.")
        rewards = plain(f"{name}'s rewards", answer[0], SimulatorError)
        if rewards.shape != (n,) or rewards.dtype.kind not in "fiub":
            raise SimulatorError(
                f"{name} was given {n} pairs and must return {n} real rewards in an array of shape ({n},); "
                f"got {_kind(answer[0])}."
            )
        next_states = self._states(name, answer[1], n)
        rewards = _as_float(rewards)
        at = first_bad_reward(rewards, self.limits)
        if at >= 0:
            self.raise_bad_reward(states[at], int(actions[at]), float(rewards[at]))
        to_unit(rewards, self.limits)
        return rewards, next_states

    def _call(self, name: str, *arguments: Any, function: Callable[..., Any] | None = None) -> Any:
        before = self.sources.look(name)
        try:
            answer = (function or getattr(self.model, name))(*map(read_only, arguments))
            drawn = self.sources.drawn(before)
            if drawn:
                self.sources.stop()
                warnings.warn(drawn_warning(name, drawn), ReproducibilityWarning, stacklevel=3)
            return answer
        except CoreplanError:
            raise
        except (Exception, SystemExit) as error:
            in_place = changed_input(f"The simulator's {name}", error)
            if in_place:
                raise SimulatorError(in_place) from error
            text = text_of(error).splitlines()
            raise SimulatorError(
                f"The simulator's {name} raised {type(error).__name__}: {text[0] if text else ''}"
                f"{'' if text and text[0].endswith('.') else '.'} {self._batch(arguments)} "
                "Call it on such a batch yourself to find the line."
            ) from error

    def _batch(self, arguments: tuple[Any, ...]) -> str:
        """What a function of the model was called with, in words."""
        if len(arguments) == 2:
            return f"It was asked for {arguments[1]} initial states."
        states, actions = arguments[:2] if isinstance(arguments[0], np.ndarray) else arguments[1:]
        first = self.problem.names.pair_said(states[0], actions[0])
        return f"The batch held {len(actions)} pairs, the first with {first}."

    def _states(self, name: str, states: Any, n: int) -> States:
        states = self._array(name, states)
        if self.like is None and states.ndim > 0:
            self.like = states
        like = self.like
        assert like is not None
        if states.shape != (n, *like.shape[1:]):
            one = "" if self.free or not like.size else f", each like {shown(np.asarray(like[0]))}"
            raise SimulatorError(
                f"{name} must return {n} states in an array of shape {(n, *like.shape[1:])}, like the core "
                f"set's states{one}; got shape {states.shape}."
            )
        if states.dtype.kind != like.dtype.kind and not np.can_cast(states.dtype, like.dtype, "same_kind"):
            raise SimulatorError(
                f"{name} must return states of the core set's dtype {like.dtype}, got {states.dtype}. "
                "Convert them, or give the core set the dtype of the simulator."
            )
        if self.free:  # states are stored together, so all must have the dtype of the first
            if states.dtype.kind not in "fiub":
                raise SimulatorError(
                    f"{name} returned states of dtype {states.dtype}, and here states are stored, so they must be real "
                    "numbers. Number them, or write them as rows of numbers."
                )
            if not np.can_cast(states.dtype, like.dtype, "same_kind" if like.dtype.kind == "f" else "safe"):
                raise SimulatorError(
                    f"{name} returned states of dtype {states.dtype} and the first initial states had {like.dtype}. States "
                    "must be numbers of one dtype that holds them all: convert them in both functions."
                )
            states = states.astype(like.dtype, copy=False)
        at = -1
        if states.size and states.dtype.kind == "f":
            at = first_not_finite(states)
        elif states.size and states.dtype.kind == "c" and not np.isfinite(states).all():
            at = int(np.argmin(np.isfinite(states).reshape(n, -1).all(axis=1)))
        if at >= 0:
            self.raise_bad_state(name, states[at])
        return states

    def _array(self, name: str, value: Any) -> States:
        """States as a contiguous array of its own, of a dtype that compiled code knows if they are numbers."""
        array = plain(f"{name}'s states", value, SimulatorError)
        if array.dtype.hasobject:
            raise SimulatorError(f"{name}'s states must be an array of numbers, got {_kind(array)}.")
        array = native(f"{name}'s states", array, SimulatorError)
        return array if self.fresh else np.array(array, order="C")

    def raise_bad_state(self, name: str, state: Any) -> NoReturn:
        """Raise the error for a state with NaN or infinity."""
        raise SimulatorError(
            f"The simulator's {name} returned the state {self.problem.names.state_said(state)}, which is not finite."
        )

    def raise_bad_reward(self, state: Any, action: int, reward: float) -> NoReturn:
        """Raise the error for a reward that is not finite or outside its range; it names the pair and the value."""
        low, high = self.problem.reward_range
        pair = self.problem.names.pair_said(state, action)
        if not np.isfinite(reward):
            raise SimulatorError(
                f"The simulator returned the reward {reward} for {pair}; rewards must be finite."
            )
        raise SimulatorError(
            f"The simulator returned the reward {reward:.9g} for {pair}, outside the declared range "
            f"[{low:g}, {high:g}]. Declare Problem(reward_range=(lowest, highest)) so that it holds every reward."
            f"{_MADE if self.problem.bounds is not None else ''}"
        )


@njit(cache=True, nogil=True)
def first_bad_reward(rewards, limits):
    """The position of the first reward that lies outside [limits[0], limits[1]] or is NaN; else -1."""
    for n in range(rewards.shape[0]):
        if not limits[0] <= rewards[n] <= limits[1]:
            return n
    return -1


@njit(cache=True, nogil=True)
def to_unit(rewards, limits):
    """Map rewards to [0, 1], in place; limits[2] is the lowest reward and limits[3] the width of the range."""
    for n in range(rewards.shape[0]):
        rewards[n] = min(max((rewards[n] - limits[2]) / limits[3], 0.0), 1.0)


@njit(cache=True, nogil=True)
def first_not_finite(states):
    """The position of the first state with NaN or infinity, else -1."""
    flat = states.reshape(states.shape[0], -1)
    for n in range(flat.shape[0]):
        for i in range(flat.shape[1]):
            if not np.isfinite(flat[n, i]):
                return n
    return -1


def _as_float(rewards: Any) -> FloatArray:
    """Rewards as float64, always a copy; extended precision is rounded, and what does not fit is infinite."""
    if rewards.dtype.itemsize <= 8:
        return rewards.astype(np.float64)
    with np.errstate(over="ignore"):
        return rewards.astype(np.float64)


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    return (
        f"a {type(value).__name__} of {len(value)}"
        if isinstance(value, (tuple, list))
        else type(value).__name__
    )
