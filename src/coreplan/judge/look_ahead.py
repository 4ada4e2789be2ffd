"""What one step of look-ahead would gain: the sign of a policy that is poor although its values seem consistent.

At states x that the policy meets, other actions are simulated once and judged by r + gamma V(y), V being what the planner
believes. Features that are too coarse may believe low values and earn them, so that believed and earned agree; but then the
look-ahead sees better actions that the features cannot tell apart. A rule that deviates to them gains, to first order and as
far as V is the policy's value, the mean of its advantages over the states met (the performance difference lemma).

The maximum of noisy numbers is too large on average, and one state's numbers are noisy. So the rule is simple, and is judged
on other states than those that it was fitted on: the advantage of each action is an affine function of the state, fitted
on three quarters of the states; on the last quarter the rule takes the action with the largest fitted advantage, if one is
positive, and what was sampled there says what it gains. All actions of a state share their noise.
"""

from __future__ import annotations

import numpy as np

from ..base import FloatArray, IntArray, Lane, States
from ..features import available, checked
from ..policy import SoftmaxPolicy
from ..problem import Problem
from ..simulate import Simulator
from .rollouts import Values

_ACTIONS = 9  # the most actions that the policy's own is compared with; of more, some are drawn
_PART = 0.4  # the most of the queries that the look-ahead may take
_LEAST = 16  # states; fewer tell nothing
_FOLDS = 4
_LOOKED = 200  # coordinates among which those are sought that vary; images have more
_COLUMNS = 12  # the most coordinates of a state that a rule looks at
_RIDGE = 0.1  # on slopes, relative to the number of states


def per_state(problem: Problem) -> int:
    """Queries per state: the policy's own action, and those that it is compared with."""
    return 1 + min(problem.n_actions, _ACTIONS)


class LookAhead:
    """Simulates several actions at states that a policy met."""

    def __init__(self, problem: Problem, policy: SoftmaxPolicy, values: Values, key: int) -> None:
        self.problem, self.policy, self.values, self.key = problem, policy, values, key
        self.simulators: list[Simulator] = []

    @property
    def queries(self) -> int:
        """The queries made so far."""
        return sum(simulator.queries for simulator in self.simulators)

    def states_for(self, queries: int) -> int:
        """At how many states it looks ahead, out of `queries` for everything; 0 if these are too few."""
        n = int(_PART * queries) // per_state(self.problem)
        return n if n >= _LEAST and self.problem.n_actions > 1 else 0

    def gains(
        self, met: list[tuple[States, FloatArray]], n: int, rng: np.random.Generator
    ) -> FloatArray | None:
        """What the rule gains at each of `n` of the states met, `[n]`, in normalised value; None if there are too few."""
        states = np.concatenate([states for states, _ in met])
        states = states[~self.problem.ended(states)]
        n = min(n, len(states))
        if n < _LEAST:
            return None
        states = states[rng.choice(len(states), size=n, replace=False)]
        advantage = self._advantages(states, rng)  # [n, k]
        x, fold, gain = _columns(states), np.arange(n) % _FOLDS, np.zeros(n)
        for f in range(_FOLDS):
            here = fold == f
            fitted = x[here] @ _fit(x[~here], advantage[~here])
            best = fitted.argmax(axis=1)[:, None]
            taken = np.take_along_axis(advantage[here], best, axis=1)[:, 0]
            gain[here] = np.where(fitted.max(axis=1) > 0.0, taken, 0.0)
        return gain

    def _advantages(self, states: States, rng: np.random.Generator) -> FloatArray:
        """r + gamma V(y) of other actions minus the same of the policy's own, `[n, k]`; 0 where the mask forbids one."""
        own = self.policy.act(states, rng)
        base = self._judged(states, own)
        others = rng.permutation(self.problem.n_actions)[:_ACTIONS]
        out = np.zeros((len(states), len(others)))
        allowed = None
        if self.problem.mask is not None:
            allowed = available(checked(self.problem.features, states))
        for j, action in enumerate(others):
            where = own != action if allowed is None else (own != action) & allowed[:, action]
            # The policy's own action stands in where this one is not wanted, so that all rows keep their noise.
            judged = self._judged(states, np.where(where, action, own)) if where.any() else base
            out[:, j] = np.where(where, judged - base, 0.0)
        return out

    def _judged(self, states: States, actions: IntArray) -> FloatArray:
        """r + gamma V(y), `[n]`: every call has the same noise."""
        self.simulators.append(Simulator(self.problem, seed=self.key, lane=Lane.AHEAD))
        rewards, y = self.simulators[-1].step(states, actions)
        return rewards + self.problem.discount * self.values.known(y)


def _columns(states: States) -> FloatArray:
    """A constant, and coordinates of the states that vary, standardised: `[n, 1 + D]`."""
    x = np.asarray(states).reshape(len(states), -1)[:, :_LOOKED].astype(float)
    spread = x.std(axis=0)
    used = np.flatnonzero(spread > 0.0)[:_COLUMNS]
    return np.column_stack([np.ones(len(x)), (x[:, used] - x[:, used].mean(axis=0)) / spread[used]])


def _fit(x: FloatArray, y: FloatArray) -> FloatArray:
    """Coefficients `[1 + D, k]` of an affine fit of `y [n, k]`, with a ridge on the slopes."""
    penalty = np.full(x.shape[1], _RIDGE * len(x))
    penalty[0] = 0.0
    return np.asarray(np.linalg.solve(x.T @ x + np.diag(penalty), x.T @ y))
