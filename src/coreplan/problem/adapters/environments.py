"""Models that step one Gymnasium environment, pair by pair: by setting its state, or by keeping copies of it.

Both draw noise from the Generator that is passed in: it becomes the environment's `np_random`.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...base import FloatArray, InputError, IntArray, SimulatorError, States, as_states, shown
from ...features import ended, terminated
from ..model import Model, gathered
from .masking import Told

_WALK = 100  # steps of the random walk on which an adapter is tested

CURES = (
    "Three cures: give get_state=... and set_state=... that read and write ALL of its state; "
    "use the functional form of the environment (gymnasium's FuncEnv), if there is one; or give copy=True, which keeps "
    "a deep copy of the environment for every state (slow, bounded, and a run cannot be resumed)."
)


class StateModel:
    """For each pair: sets the environment's state, steps once, reads the state.

    States are rows of the state's numbers and the terminal column, `[n, D + 1]`.
    """

    block = 64  # queries per call at most: each is a Python call

    def __init__(
        self,
        env: Any,
        values: Sequence[Any],
        get_state: Callable[[Any], Any],
        set_state: Callable[[Any, Any], None],
    ) -> None:
        self.env, self.values, self.n_actions = env, values, len(values)
        self.get_state, self.set_state = get_state, set_state
        env.reset(seed=0)
        first = np.array(get_state(env))  # a copy, since an environment may change its state in place
        if first.dtype.kind not in "fiub" or first.size == 0:
            raise InputError(f"The state must be an array of real numbers, got {shown(first)}. {CURES}")
        self.first, self.shape, self.columns = first, first.shape, first.size
        self.told: Told | None = None  # where the environment says which actions it allows

    def initial(self, rng: np.random.Generator, n: int) -> States:
        """`n` resets, `[n, D + 1]`."""
        states = np.zeros((n, self.columns + 1))
        self.env.unwrapped.np_random = rng
        for i in range(n):
            _, info = self.env.reset()
            states[i, :-1] = self._read()
            if self.told is not None:
                self.told.see(states[i, :-1], info)
        return states

    def step(self, rng: np.random.Generator, states: States, actions: IntArray) -> tuple[FloatArray, States]:
        """One transition from each pair. Truncation by the environment is ignored: the episode goes on."""
        return gathered("step", list(self.each(rng, states, actions)))

    def each(
        self, rng: np.random.Generator, states: States, actions: IntArray
    ) -> Iterator[tuple[float, FloatArray]]:
        """`step`, pair by pair."""
        states = as_states(states, (self.columns + 1,), np.float64, "The environment")
        over = terminated(self.columns)
        self.env.unwrapped.np_random = rng
        for state, action, dead in zip(states, actions, ended(states), strict=True):
            if dead:
                yield 0.0, over
                continue
            self.set_state(self.env, state[:-1].reshape(self.shape))
            _, reward, done, _, info = self.env.step(self.values[action])
            row = over if done else np.append(self._read(), 0.0)
            if self.told is not None and not done:
                self.told.see(row[:-1], info)
            yield float(reward), row

    def _read(self) -> FloatArray:
        state = np.asarray(self.get_state(self.env), dtype=np.float64)
        if state.shape != self.shape:
            raise SimulatorError(f"get_state returned shape {state.shape} and before {self.shape}.")
        return state.ravel()

    def check_round_trip(self) -> None:
        """Raise InputError unless setting a state that was read, after a reset to another one, reads back unchanged."""
        first = self.initial(np.random.default_rng(1), 1)[0, :-1]
        self.initial(np.random.default_rng(2), 1)
        self.set_state(self.env, first.reshape(self.shape))
        again = self._read()
        if not np.array_equal(first, again):
            raise InputError(
                f"After set_state({shown(first)}) get_state returned {shown(again)}: the state does not "
                "round-trip. get_state and set_state must use the same numbers, in the same order."
            )


class CopyModel:
    """Keeps a deep copy of the environment for each state it returns; a state is (number, observation, terminal).

    At most `most` copies are kept: the least recently used is forgotten, and a step from a forgotten one is an error.
    """

    block = 64  # queries per call at most: each is a Python call
    repeatable = False  # states are numbered as they come, so that no answer is given twice

    def __init__(self, env: Any, values: Sequence[Any], most: int) -> None:
        self.env, self.values, self.n_actions, self.most = env, values, len(values), most
        self.copies: OrderedDict[int, Any] = OrderedDict()
        self.made = 0
        observation, _ = env.reset(seed=0)
        self.columns = 1 + self._flat(observation).size
        self.told: Told | None = None

    def initial(self, rng: np.random.Generator, n: int) -> States:
        """`n` resets, `[n, D + 1]`."""
        states = np.zeros((n, self.columns + 1))
        for i in range(n):
            env = copy.deepcopy(self.env)
            env.unwrapped.np_random = rng
            observation, info = env.reset()
            states[i, :-1] = self._keep(env, observation)
            if self.told is not None:
                self.told.see(states[i, :-1], info)
        return states

    def step(self, rng: np.random.Generator, states: States, actions: IntArray) -> tuple[FloatArray, States]:
        """One transition from each pair; each steps a fresh copy of the copy that its state names."""
        return gathered("step", list(self.each(rng, states, actions)))

    def each(
        self, rng: np.random.Generator, states: States, actions: IntArray
    ) -> Iterator[tuple[float, FloatArray]]:
        """`step`, pair by pair."""
        states = as_states(states, (self.columns + 1,), np.float64, "The environment")
        over = terminated(self.columns)
        for state, action, dead in zip(states, actions, ended(states), strict=True):
            if dead:
                yield 0.0, over
                continue
            env = copy.deepcopy(self._recall(int(state[0])))
            env.unwrapped.np_random = rng
            observation, reward, done, _, info = env.step(self.values[action])
            row = over if done else np.append(self._keep(env, observation), 0.0)
            if self.told is not None and not done:
                self.told.see(row[:-1], info)
            yield float(reward), row

    def _keep(self, env: Any, observation: Any) -> FloatArray:
        env.unwrapped.np_random = None  # the run's generator is not part of the state
        number, self.made = self.made, self.made + 1
        self.copies[number] = env
        if len(self.copies) > self.most:
            self.copies.popitem(last=False)
        return np.concatenate([[number], self._flat(observation)])

    def _recall(self, number: int) -> Any:
        if number not in self.copies:
            why = "was forgotten" if 0 <= number < self.made else "was never made by this model"
            raise SimulatorError(
                f"The copy of the environment for state number {number} {why}; at most {self.most} are kept. "
                "Raise max_copies, or give get_state and set_state, which need no copies."
            )
        self.copies.move_to_end(number)
        return self.copies[number]

    def _flat(self, observation: Any) -> FloatArray:
        return np.asarray(observation, dtype=np.float64).ravel()


def check_repeatable(
    model: Model, name: str, skip: int = 0, mask: Callable[[States], Any] | None = None
) -> None:
    """Raise InputError unless every pair of a random walk, asked again in reverse order with the same noise, answers the
    same.

    This catches a state that does not capture everything (a clock, a velocity, a source of randomness of its own),
    unless the walk of 100 steps never meets it. The first `skip` columns are not compared; the walk keeps to the mask.
    """
    rng = np.random.default_rng(0)
    states = model.initial(np.random.default_rng(1), 1)
    again = model.initial(np.random.default_rng(1), 1)
    if not np.array_equal(states[:, skip:], again[:, skip:]):
        raise InputError(
            f"Two resets of {name} with the same seed gave {shown(states[0])} and {shown(again[0])}: it draws "
            "from a source of its own. Let it draw from self.np_random only."
        )
    walk = []
    for t in range(_WALK):
        action = _allowed_action(rng, model.n_actions, states, mask)
        answer = model.step(np.random.default_rng(t), states, action)
        walk.append((t, states, action, answer))
        states = answer[1] if not ended(answer[1])[0] else model.initial(rng, 1)
    for t, states, action, (reward, after) in reversed(walk):
        reward_again, after_again = model.step(np.random.default_rng(t), states, action)
        if reward != reward_again or not np.array_equal(after[:, skip:], after_again[:, skip:]):
            raise InputError(
                f"{name} from state {shown(states[0])} with action {int(action[0])} and the same seed gave once "
                f"{shown(after[0])} (reward {float(reward[0]):g}) and once {shown(after_again[0])} (reward "
                f"{float(reward_again[0]):g}): the state does not capture everything, or the environment does not "
                f"draw from self.np_random. {CURES}"
            )


def _allowed_action(
    rng: np.random.Generator, n_actions: int, states: States, mask: Callable[[States], Any] | None
) -> IntArray:
    """A random action `[1]` for a living state, among those that the mask of living states allows."""
    if mask is None:
        return rng.integers(n_actions, size=1)
    allowed = np.flatnonzero(np.asarray(mask(states[:, :-1]), dtype=bool).reshape(-1)[:n_actions])
    if not len(allowed):
        raise InputError(
            f"The mask allows no action in the state {shown(states[0])}; every living state needs one."
        )
    return rng.choice(allowed, size=1)
