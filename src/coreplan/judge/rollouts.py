"""Rollouts of policies, the one way in which judges see what a policy earns.

With any function V and d_t = r_t + gamma V(x_{t+1}) - V(x_t), a policy is worth V^pi(x_0) = V(x_0) + E sum_t gamma^t d_t.
V = 0 gives plain discounted returns; a V close to V^pi makes the d_t small, so that few steps tell the value. Where the
problem says that a process has ended, V is known: the rollout stops there, and costs no more queries.

Several policies are rolled out side by side with common random numbers: the same initial states, and the same noise for
rollout i at step t. So differences between policies are seen through much less noise than their values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base import (
    FloatArray,
    InputError,
    IntArray,
    Lane,
    States,
    changed_input,
    plain,
    read_only,
    shown,
    text_of,
)
from ..features import available, checked
from ..policy import SoftmaxPolicy
from ..problem import Problem
from ..sampled import Beliefs
from ..simulate import Simulator

KEEP = 20_000  # steps of the first policy, about, whose states are kept: all steps of the first rollouts


class Rule:
    """Something that acts: a `SoftmaxPolicy`, a function of a batch of states that returns actions, or one fixed action."""

    def __init__(self, problem: Problem, acts: Any, name: str = "policy") -> None:
        acts = getattr(acts, "policy", acts)  # a plan is taken by its policy
        whole = isinstance(acts, (int, np.integer)) and not isinstance(acts, bool)
        if whole and not 0 <= acts < problem.n_actions:
            raise InputError(
                f"`{name}={shown(acts)}` is no action: actions are 0 to {problem.n_actions - 1}."
            )
        if not whole and not isinstance(acts, SoftmaxPolicy) and not callable(acts):
            raise InputError(
                f"`{name}` must be a policy, a function of states that returns actions [n], or an action; got "
                f"{type(acts).__name__}."
            )
        self.problem, self.name = problem, name
        self.acts: Any = (lambda states: np.full(len(states), acts)) if whole else acts

    def act(self, states: States, rng: np.random.Generator) -> IntArray:
        """One action per state, `[n]`, checked."""
        if isinstance(self.acts, SoftmaxPolicy):
            return self.acts.act(states, rng)
        return self._checked(self._called(states), states)

    def probabilities(self, states: States) -> FloatArray:
        """pi(a|x), `[n, A]`."""
        if isinstance(self.acts, SoftmaxPolicy):
            return self.acts.probabilities(states)
        return np.eye(self.problem.n_actions)[self._checked(self._called(states), states)]

    def _called(self, states: States) -> Any:
        try:
            return plain(f"the actions of `{self.name}`", self.acts(read_only(states)), InputError)
        except InputError:
            raise
        except (Exception, SystemExit) as error:
            in_place = changed_input(f"`{self.name}`", error)
            if in_place:
                raise InputError(in_place) from error
            raise InputError(
                f"`{self.name}` raised {type(error).__name__}: {text_of(error)} (on a batch of {len(states)} states). It "
                "must take states [n, ...] and return actions [n]."
            ) from error

    def _checked(self, actions: Any, states: States) -> IntArray:
        n, A = len(states), self.problem.n_actions
        if actions.shape != (n,) or actions.dtype.kind not in "iu":
            raise InputError(
                f"For a batch of {n} states `{self.name}` must return {n} whole numbers in an array of shape ({n},); got "
                f"{actions.dtype} {actions.shape}."
            )
        if n and not (actions.min() >= 0 and actions.max() < A):
            at = int(np.argmax((actions < 0) | (actions >= A)))
            state = self.problem.names.state_said(states[at])
            raise InputError(
                f"`{self.name}` returned the action {actions[at]} for state {state}; actions are 0 to {A - 1}."
            )
        if self.problem.mask is not None:
            allowed = available(checked(self.problem.features, states))[np.arange(n), actions]
            if not allowed.all():
                at = int(np.argmin(allowed))
                names = self.problem.names
                raise InputError(
                    f"`{self.name}` returned the action {names.action_said(actions[at])} for state "
                    f"{names.state_said(states[at])}, which the mask forbids there."
                )
        return actions.astype(np.int64)


class Values:
    """V `[n]` of a batch of states, in units of sum_t gamma^t r_t: what a planner believes of its policy, or nothing at all.

    Without beliefs it is one number for all living states: the value of a process that has ended, or 0.
    """

    def __init__(
        self, problem: Problem, policy: SoftmaxPolicy | None = None, beliefs: Beliefs | None = None
    ) -> None:
        self.problem, self.policy, self.beliefs = problem, policy, beliefs
        self.top = 1.0 / (1.0 - problem.discount)
        self.flat = self.top * problem.end_reward if problem.has_ends and policy is not None else 0.0

    def __call__(self, states: States, ended: Any) -> FloatArray:
        """V; where the process has ended (bool `[n]`), it is known."""
        if self.beliefs is None or self.policy is None:
            V = np.full(len(states), self.flat)
        else:
            phi = checked(self.problem.features, states)
            V = self.beliefs.values(phi, self.policy.probabilities(states))
            V = np.clip(V, 0.0, self.top)  # no policy is worth more or less
        return np.where(ended, self.top * self.problem.end_reward, V) if ended.any() else V

    def known(self, states: States) -> FloatArray:
        """V, with ended states found out."""
        return self(states, self.problem.ended(states))


class Walks(NamedTuple):
    """n rollouts of each of k policies."""

    start: FloatArray  # [n] (1 - gamma) V(x_0)
    sums: FloatArray  # [k, n] sum over t of weights[t] d_t
    ended: FloatArray  # [k, n] 1 where the rollout ended, so that its sum is complete


class Rollouts:
    """Rolls policies out side by side, wave after wave; no noise is used twice."""

    def __init__(
        self,
        problem: Problem,
        rules: Sequence[Rule],
        *,
        key: int,
        lane: Lane,
        values: Values | None = None,
    ) -> None:
        """`values`: V, by default 0 for living states."""
        self.problem, self.rules, self.V = problem, tuple(rules), values or Values(problem)
        self.simulators = [Simulator(problem, seed=key, lane=lane) for _ in rules]
        self.streams = [np.random.default_rng([key, lane]) for _ in rules]
        self.kept: list[tuple[States, FloatArray]] = []  # states that the first policy met, and their d_t
        self.lived = 0  # steps of the first policy before the end of its process
        self._left = math.ceil(KEEP * (1.0 - problem.discount))  # rollouts whose steps are still to be kept

    @property
    def queries(self) -> int:
        """The queries of all policies."""
        return sum(s.queries for s in self.simulators)

    def go(self, lengths: IntArray, weights: FloatArray) -> Walks:
        """One wave: rollout i has at most `lengths[i]` steps, and d_t has weight `weights[t]`."""
        n, k = len(lengths), len(self.rules)
        x = [simulator.initial(n) for simulator in self.simulators]
        over = np.array([self.problem.ended(states) for states in x])  # [k, n]
        V = [self.V(states, ended) for states, ended in zip(x, over, strict=True)]
        start, sums = (1.0 - self.problem.discount) * V[0], np.zeros((k, n))
        for t in range(int(lengths.max(initial=0))):
            # A rollout goes on for all policies until it has ended for all, so that its noise stays common to them.
            rows = np.flatnonzero((t < lengths) & ~over.all(axis=0))
            if not len(rows):
                break
            for i in range(k):
                d = self._step(i, x[i], V[i], over[i], rows)
                sums[i, rows] += weights[t] * d
        self._left = max(self._left - n, 0)
        return Walks(start=start, sums=sums, ended=over.astype(float))

    def _step(self, i: int, x: States, V: FloatArray, over: Any, rows: IntArray) -> FloatArray:
        """One step of policy i in the given rows: changes `x`, `V` and `over` in place, and returns d `[len(rows)]`."""
        here = x[rows]
        rewards, y = self.simulators[i].step(here, self.rules[i].act(here, self.streams[i]))
        was, over[rows] = over[rows], over[rows] | self.problem.ended(y)
        V_next = self.V(y, over[rows])
        d = np.where(was, 0.0, rewards + self.problem.discount * V_next - V[rows])
        if i == 0:
            self.lived += int((~was).sum())
            first = rows < self._left
            if first.any():
                self.kept.append((here[first], d[first]))
        x[rows], V[rows] = y, V_next
        return d
