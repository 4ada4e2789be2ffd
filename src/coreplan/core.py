"""Core sets (Assumption 1, `ass:Core_SA_approx`): the m pairs that a planner queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .errors import InputError
from .problem import Features, Phi, Problem, Sparse, available, checked
from .problem.masks import unavailable_core
from .problem.model import IntArray, States


@dataclass(frozen=True)
class CoreSet:
    """m core state-action pairs: states `[m, ...]` and actions `[m]`, all distinct.

    The paper assumes that every feature vector is (nearly) a convex combination of the core features.
    """

    states: States  # [m, ...]
    actions: IntArray  # [m]

    def __post_init__(self) -> None:
        states, actions = np.ascontiguousarray(self.states), np.asarray(self.actions)
        if actions.ndim != 1 or len(actions) == 0 or states.ndim == 0 or len(states) != len(actions):
            raise InputError(
                f"`CoreSet(states, actions)` needs m >= 1 states and as many actions, got states of shape "
                f"{states.shape} and actions of shape {actions.shape}."
            )
        if not np.issubdtype(actions.dtype, np.integer):
            raise InputError(f"`CoreSet(actions=...)` must be whole numbers, got dtype {actions.dtype}.")
        if states.dtype.hasobject:
            raise InputError("`CoreSet(states=...)` must be an array of numbers, got Python objects.")
        if states.dtype.kind == "f":
            states = states + 0.0  # -0.0 is 0.0
        actions = actions.astype(np.int64)
        seen: dict[bytes, int] = {}
        for j in range(len(actions)):
            first = seen.setdefault(states[j].tobytes() + actions[j].tobytes(), j)
            if first != j:
                raise InputError(
                    f"Core pairs {first} and {j} are the same: state {states[j].tolist()}, action {actions[j]}. "
                    "Each core pair must be given once; drop the copy."
                )
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "actions", actions)

    @classmethod
    def of(cls, problem: Problem) -> CoreSet:
        """The core set that the problem brings."""
        if problem.core_pairs is None:
            raise InputError(
                f"The problem '{problem.name}' brings no core set. Give one: CoreSet(states, actions), or "
                "Problem(..., core_pairs=(states, actions))."
            )
        return cls(*problem.core_pairs)

    @classmethod
    def distinct(cls, states: States, actions: IntArray) -> CoreSet:
        """The distinct ones of these pairs, in the order of their first appearance."""
        flat = np.ascontiguousarray(states).reshape(len(actions), -1)
        keys = np.concatenate([flat + 0.0 if flat.dtype.kind == "f" else flat, actions[:, None]], axis=1)
        _, first = np.unique(keys, axis=0, return_index=True)
        first.sort()
        return cls(states[first], actions[first])

    def __len__(self) -> int:
        return len(self.actions)

    def features(self, features: Features) -> Phi:
        """Phi~, the core feature matrix: `[m, d]`, or Sparse with `[m, k]`."""
        bad = np.flatnonzero((self.actions < 0) | (self.actions >= features.n_actions))
        if len(bad):
            raise InputError(
                f"Core pair {bad[0]} has action {self.actions[bad[0]]}; actions run from 0 to {features.n_actions - 1}."
            )
        phi = checked(features, self.states)
        rows = np.arange(len(self))
        bad = np.flatnonzero(~available(phi)[rows, self.actions])
        if len(bad):
            raise unavailable_core(self.states[bad[0]], int(self.actions[bad[0]]), int(bad[0]))
        if isinstance(phi, Sparse):
            return Sparse(
                np.ascontiguousarray(phi.index[rows, self.actions]),
                np.ascontiguousarray(phi.weight[rows, self.actions]),
            )
        return np.ascontiguousarray(phi[rows, self.actions])
