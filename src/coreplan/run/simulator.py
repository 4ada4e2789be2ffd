"""The simulator's side of a run: blocks of noise, the one counter of queries, and every check.

A *block* is opened at the start of an ask; an ask larger than a block is cut into several, smaller asks
share one until it has served `block` queries. Each block has its own Philox stream, so noise depends
on the seed and the position in the sequence of queries, never on who simulates.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numba import njit

from ..core import CoreSet
from ..errors import SimulatorError
from ..planners import Answers, Ask
from ..problem import Phi, Problem, checked
from ..problem.model import FloatArray, IntArray, States
from ..seeds import restore, simulator_stream, state_of

BLOCK = 65_536
_SLACK = 1e-9  # a reward may leave its range by rounding only, relative to the range


class Simulator:
    """Answers what planners ask; counts `queries` and `initial_draws`, and nothing else counts them."""

    def __init__(self, problem: Problem, core: CoreSet, seed: int, block: int = BLOCK) -> None:
        self.problem, self.core, self.seed, self.block = problem, core, seed, block
        self.queries = 0
        self.initial_draws = 0
        self.block_number = 0
        self.used = 0  # queries served by the current block
        self.stream = simulator_stream(seed, 0)
        low, high = problem.reward_range
        slack = _SLACK * (high - low)
        self.limits = (low - slack, high + slack, low, high - low)

    def open_block(self, n: int) -> None:
        """Before an ask of `n` queries: a fresh block if this one is used up, or if `n` needs its own."""
        if self.used >= self.block or (n > self.block and self.used > 0):
            self._next_block()

    def _next_block(self) -> None:
        self.block_number += 1
        self.used = 0
        self.stream = simulator_stream(self.seed, self.block_number)

    def served(self, n: int, n_initial: int) -> None:
        """Count `n` answered queries, all of the current block, and `n_initial` draws from nu0."""
        self.queries += n
        self.used += n
        self.initial_draws += n_initial

    def mark(self) -> dict[str, Any]:
        """Where the simulator stands, as JSON types; `return_to` goes back there to the last bit."""
        return {
            "queries": self.queries,
            "initial_draws": self.initial_draws,
            "block_number": self.block_number,
            "used": self.used,
            "stream": state_of(self.stream),
        }

    def return_to(self, mark: dict[str, Any]) -> None:
        """Put back what `mark` returned."""
        self.queries, self.initial_draws = int(mark["queries"]), int(mark["initial_draws"])
        self.block_number, self.used = int(mark["block_number"]), int(mark["used"])
        self.stream = simulator_stream(self.seed, self.block_number)
        restore(self.stream, mark["stream"])

    def answer(self, ask: Ask) -> Answers:
        """Simulate one ask, check all that comes back, count it."""
        if ask.core_index is not None:
            states, actions = self.core.states[ask.core_index], self.core.actions[ask.core_index]
        else:
            assert ask.states is not None and ask.actions is not None
            states, actions = ask.states, ask.actions
        self.open_block(len(actions))
        initial_phi = None
        if ask.n_initial:
            x0 = self._call("initial", self.stream, ask.n_initial)
            initial_phi = self.features(self._checked_states("initial", x0, ask.n_initial))
        self.served(0, ask.n_initial)
        parts = []
        for start in range(0, len(actions), self.block):
            if start:
                self._next_block()
            piece = slice(start, start + self.block)
            parts.append(self._step(states[piece], actions[piece]))
            self.served(len(parts[-1][0]), 0)
        rewards, next_states = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        return Answers(ask, rewards, next_states, self.features(next_states), initial_phi)

    def _step(self, states: States, actions: IntArray) -> tuple[FloatArray, States]:
        n = len(actions)
        answer = self._call("step", self.stream, states, actions)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise SimulatorError(f"step must return (rewards, next_states), got {_kind(answer)}.")
        rewards = np.asarray(answer[0])
        if rewards.shape != (n,) or rewards.dtype.kind not in "fiub":
            raise SimulatorError(
                f"step was given {n} pairs and must return {n} real rewards in an array of shape ({n},); "
                f"got {_kind(answer[0])}."
            )
        next_states = self._checked_states("step", answer[1], n)
        rewards = rewards.astype(np.float64)
        at = first_bad_reward(rewards, self.limits)
        if at >= 0:
            self.raise_bad_reward(states[at], int(actions[at]), float(rewards[at]))
        to_unit(rewards, self.limits)
        return rewards, next_states

    def _call(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self.problem.model, name)(*arguments)
        except Exception as error:
            raise SimulatorError(
                f"The simulator's {name} raised {type(error).__name__}: {error}"
                f"{'' if str(error).endswith('.') else '.'} {_batch(arguments)} "
                "Call it on such a batch yourself to find the line."
            ) from error

    def _checked_states(self, name: str, states: Any, n: int) -> States:
        states = np.asarray(states)
        like = self.core.states
        if states.shape != (n, *like.shape[1:]):
            raise SimulatorError(
                f"{name} must return {n} states in an array of shape {(n, *like.shape[1:])}, like the core "
                f"set's states; got shape {states.shape}."
            )
        if states.dtype.kind != like.dtype.kind and not np.can_cast(states.dtype, like.dtype, "same_kind"):
            raise SimulatorError(
                f"{name} must return states of the core set's dtype {like.dtype}, got {states.dtype}. "
                "Convert them, or give the core set the dtype of the simulator."
            )
        at = first_not_finite(states) if states.dtype.kind == "f" else -1
        if at >= 0:
            self.raise_bad_state(name, states[at])
        return states

    def raise_bad_state(self, name: str, state: Any) -> NoReturn:
        """A state with NaN or infinity."""
        raise SimulatorError(
            f"The simulator's {name} returned the state {np.asarray(state).tolist()}, which is not finite."
        )

    def raise_bad_reward(self, state: Any, action: int, reward: float) -> NoReturn:
        """A reward that is not finite or out of its range; names the pair and the value."""
        low, high = self.problem.reward_range
        pair = f"state {np.asarray(state).tolist()} and action {action}"
        if not np.isfinite(reward):
            raise SimulatorError(
                f"The simulator returned the reward {reward} for {pair}; rewards must be finite."
            )
        raise SimulatorError(
            f"The simulator returned the reward {reward:.9g} for {pair}, outside the declared range [{low:g}, {high:g}]. "
            "Declare Problem(reward_range=(lowest, highest)) so that it holds every reward."
        )

    def features(self, states: States) -> Phi:
        """The features of a batch, checked."""
        return checked(self.problem.features, states)


# Checks and the map to [0, 1], shared by the compiled loop.


@njit(cache=True, nogil=True)
def first_bad_reward(rewards, limits):
    """The position of the first reward outside limits[0:2], or not a number; else -1."""
    for n in range(rewards.shape[0]):
        if not limits[0] <= rewards[n] <= limits[1]:
            return n
    return -1


@njit(cache=True, nogil=True)
def to_unit(rewards, limits):
    """Map rewards to [0, 1] in place."""
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


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    return (
        f"a {type(value).__name__} of {len(value)}"
        if isinstance(value, (tuple, list))
        else type(value).__name__
    )


def _batch(arguments: tuple[Any, ...]) -> str:
    if len(arguments) == 2:
        return f"It was asked for {arguments[1]} initial states."
    _, states, actions = arguments
    return f"The batch held {len(actions)} pairs, the first with state {states[0].tolist()} and action {actions[0]}."
