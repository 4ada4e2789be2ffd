"""A problem as a Gymnasium environment, for libraries that learn from episodes."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ...base import InputError, SimulatorError, States, as_python, plain, shown
from ...features import available, checked, has_terminal
from ..horizon import ClockModel
from ..problem import Problem

_STATES = 10**7  # the most states that a space of whole numbers is made for


class ProblemEnv(gymnasium.Env[Any, Any]):
    """What `Problem.to_gymnasium` returns. `state` is the model's own state, which may be read and set."""

    metadata = {"render_modes": []}  # noqa: RUF012  # Gymnasium's own form

    def __init__(self, problem: Problem, max_steps: int | None = None) -> None:
        self.problem, self.max_steps = problem, max_steps
        self.terminal = has_terminal(problem.features)
        first = self._states("initial", problem.model.initial(np.random.default_rng(0), 1))
        self.state: Any = first[0]
        self.action_space = spaces.Discrete(problem.n_actions)
        self.observation_space = self._space(first)
        self._steps, self._over = 0, True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """A new episode from a draw of the initial distribution; `options` are not used."""
        super().reset(seed=seed)
        self.state = self._states("initial", self.problem.model.initial(self.np_random, 1))[0]
        self._steps, self._over = 0, False
        return self._shown(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step: the observation, the reward in the problem's own units, whether it has ended, or was cut off."""
        number = as_python(action)
        if (
            not isinstance(number, int)
            or isinstance(number, bool)
            or not 0 <= number < self.problem.n_actions
        ):
            raise InputError(
                f"{shown(action)} is no action of {self.problem.name}: actions are 0 to {self.problem.n_actions - 1}."
            )
        if self._over:
            raise InputError("The episode is over: call reset() first.")
        before = np.asarray(self.state)[None]
        if self.problem.mask is not None and not self._info()["action_mask"][number]:
            names = self.problem.names
            raise InputError(
                f"Action {names.action_said(number)} is forbidden in state {names.state_said(before[0])}; "
                'info["action_mask"] says which are not.'
            )
        answer = self.problem.model.step(self.np_random, before, np.array([number]))
        if not isinstance(answer, tuple) or len(answer) != 2 or np.shape(answer[0]) != (1,):
            raise SimulatorError("step was given 1 pair and must return (rewards [1], next_states [1, ...]).")
        self.state = self._states("step", answer[1])[0]
        self._steps += 1
        reward = np.asarray(answer[0], dtype=np.float64)
        model = self.problem.model
        if isinstance(model, ClockModel):
            reward = model.paid(before, reward)
        ended = bool(self.problem.ended(self.state[None])[0])
        cut = not ended and self.max_steps is not None and self._steps >= self.max_steps
        self._over = ended or cut
        return self._shown(), float(reward[0]), ended, cut, self._info()

    def seen(self, states: States) -> States:
        """What is shown of a batch of states: all but the terminal column."""
        return states[:, :-1] if self.terminal else states

    def told(self, states: States) -> dict[str, Any]:
        """What the infos say of a batch of states: which actions they allow, as Gymnasium's libraries read it."""
        if self.problem.mask is None:
            return {}
        return {"action_mask": available(checked(self.problem.features, states)).astype(np.int8)}

    def _shown(self) -> Any:
        return self.seen(np.asarray(self.state)[None])[0].copy()

    def _info(self) -> dict[str, Any]:
        return {name: rows[0] for name, rows in self.told(np.asarray(self.state)[None]).items()}

    def _states(self, name: str, states: Any) -> States:
        array = plain(f"{name}'s states", states, SimulatorError)
        if array.ndim == 0 or len(array) != 1 or array.dtype.kind not in "fiub":
            raise InputError(
                f"An environment of Gymnasium shows numbers, and {name} returned states of shape {array.shape} and dtype "
                f"{array.dtype} for one pair. Write states as numbers, or as rows of numbers."
            )
        return array

    def _space(self, first: States) -> Any:
        table = self.problem.tabular
        if first.ndim == 1 and first.dtype.kind in "iu" and table is not None:
            states = np.asarray(table().states)
            if states.min() >= 0 and states.max() < _STATES:
                return spaces.Discrete(int(states.max()) + 1)
        shape = first.shape[1:] if not self.terminal else (first.shape[1] - 1,)
        low: Any = -np.inf
        high: Any = np.inf
        if first.dtype.kind in "iu":
            low, high = np.iinfo(first.dtype).min, np.iinfo(first.dtype).max
        elif first.dtype.kind == "b":
            low, high = False, True
        box = self.problem.bounds
        if box is not None and shape == (box.dimension,) and not box.periodic.any():
            low, high = box.low.astype(first.dtype), box.high.astype(first.dtype)
        return spaces.Box(low, high, shape=shape, dtype=first.dtype.type)
