"""Core sets (Assumption 1, `ass:Core_SA_approx`): the m pairs that a planner queries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..base import (
    FileError,
    InputError,
    IntArray,
    States,
    as_kind,
    as_path,
    as_whole,
    files,
    native,
    plain,
    shown,
)
from ..features import Features, Phi, available, checked, rows_of, stack, unavailable_core
from ..problem import Problem

VERSION = 1
KIND = "coreplan core set"
CORE_FILE = "core.npz"  # the name in a run's folder
EVERY = 100_000  # the most pairs of a core set of all pairs
_NUMBERS = 1 << 22  # the most numbers in a batch of features


@dataclass(frozen=True)
class CoreSet:
    """m core state-action pairs: states `[m, ...]` and actions `[m]`, all distinct.

    The paper assumes that every feature vector is (nearly) a convex combination of the core features.
    """

    states: States  # [m, ...]
    actions: IntArray  # [m]

    def __post_init__(self) -> None:
        states, actions = as_pairs("`CoreSet`", self.states, self.actions)
        seen: dict[bytes, int] = {}
        for j in range(len(actions)):
            first = seen.setdefault(states[j].tobytes() + actions[j].tobytes(), j)
            if first != j:
                raise InputError(
                    f"Core pairs {first} and {j} are the same: state {shown(states[j])}, action {actions[j]}. "
                    "Each core pair must be given once; drop the copy."
                )
        states.flags.writeable = actions.flags.writeable = (
            False  # everybody who asks for them gets these arrays
        )
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "actions", actions)

    @classmethod
    def of(cls, problem: Problem) -> CoreSet:
        """The core set that comes with the problem."""
        as_kind("CoreSet.of", Problem, "a Problem", problem=problem)
        if problem.core_pairs is None:
            raise InputError(
                f"The problem '{problem.name}' brings no core set. Give one: CoreSet(states, actions), or "
                "Problem(..., core_pairs=(states, actions)); or plan with Grow (--planner grow), which needs none."
            )
        return cls(*problem.core_pairs)

    @classmethod
    def distinct(cls, states: States, actions: IntArray) -> CoreSet:
        """These pairs without duplicates, in the order of their first appearance."""
        states, actions = as_pairs("`CoreSet.distinct`", states, actions)
        flat = states.reshape(len(actions), -1)
        columns = [np.ascontiguousarray(x).view(np.uint8).reshape(len(actions), -1) for x in (flat, actions)]
        _, first = np.unique(np.hstack(columns), axis=0, return_index=True)
        first.sort()
        return cls(states[first], actions[first])

    @classmethod
    def every(cls, problem: Problem) -> CoreSet:
        """Every pair of a problem whose states can be enumerated, state by state."""
        as_kind("CoreSet.every", Problem, "a Problem", problem=problem)
        table = None if problem.tabular is None else problem.tabular()
        if table is None or table.r.size > EVERY:
            why = "cannot be enumerated" if table is None else f"make {table.r.size:,} pairs with its actions"
            raise InputError(
                f"Every pair of the problem '{problem.name}' is needed, and its states {why}; at most {EVERY:,} pairs can "
                "be. Take a problem with a table, or a planner that needs a core set only."
            )
        return _all_at(problem, table.states)

    def completed(self, problem: Problem) -> CoreSet:
        """All available actions at the states of these pairs, state by state."""
        as_kind("CoreSet.completed", Problem, "a Problem", problem=problem)
        return _all_at(problem, _distinct_states(self.states)[0])

    def save(self, path: str | Path) -> None:
        """Write the pairs to `path` (a `.npz` of numbers), atomically. A file that is there is replaced."""
        meta = {"format": KIND, "version": VERSION}
        files.write_npz(
            as_path("CoreSet.save", path=path), {"states": self.states, "actions": self.actions}, meta
        )

    @classmethod
    def load(cls, path: str | Path) -> CoreSet:
        """Read what `save` wrote."""
        arrays, _ = files.read_npz(as_path("CoreSet.load", path=path), KIND, VERSION)
        if arrays.keys() != {"states", "actions"}:
            raise FileError(f"{path} is damaged: it holds {', '.join(arrays)} instead of states and actions.")
        try:
            return cls(arrays["states"], arrays["actions"])
        except InputError as error:
            raise FileError(f"{path} is damaged: {error}") from None

    def __len__(self) -> int:
        return len(self.actions)

    def features(self, features: Features) -> Phi:
        """Phi~, the core feature matrix: `[m, d]`, or Sparse with `[m, k]`."""
        as_kind("CoreSet.features", Features, "a feature map", features=features)
        return pair_features(features, self.states, self.actions, "Core pair")


@dataclass(frozen=True)
class CoreStates:
    """The states of core pairs: the features of all their actions, `[S, A, ...]`, and which one each pair has, `[m]`."""

    features: Phi
    of: IntArray

    @classmethod
    def at(cls, core: CoreSet, features: Features) -> CoreStates:
        """Those of a core set."""
        states, of = _distinct_states(core.states)
        return cls(_features(features, states), of)


def _distinct_states(states: States) -> tuple[States, IntArray]:
    """The distinct states in the order of their first appearance, and the number of each one's state, `[m]`."""
    number: dict[bytes, int] = {}
    of = np.array([number.setdefault(x.tobytes(), len(number)) for x in states], dtype=np.int64)
    _, first = np.unique(of, return_index=True)
    return states[first], of


def _all_at(problem: Problem, states: States) -> CoreSet:
    """All available actions at these states."""
    x, a = np.nonzero(available(_features(problem.features, states)))
    return CoreSet(states[x], a)


def _features(features: Features, states: States) -> Phi:
    """The features of many states, `[S, A, ...]`, computed in batches."""
    batch = max(1, _NUMBERS // (features.n_actions * (features.nonzeros or features.dimension)))
    return stack([checked(features, states[a : a + batch]) for a in range(0, len(states), batch)])


def as_pairs(who: str, states: Any, actions: Any) -> tuple[States, IntArray]:
    """States `[m, ...]` and actions `[m]`, m >= 1, as arrays of their own; InputError about `who` if they are not that.

    States are without -0.0, actions int64.
    """
    actions = as_whole(f"the actions of {who}", actions, InputError)
    what = f"the states of {who}"
    states = native(what, plain(what, states, InputError), InputError)
    if states.dtype.hasobject:
        raise InputError(f"{what} must be an array of numbers, got Python objects.")
    if actions.ndim != 1 or len(actions) == 0 or states.ndim == 0 or len(states) != len(actions):
        raise InputError(
            f"{who} needs m >= 1 states and as many actions, got states of shape {states.shape} and actions of shape "
            f"{actions.shape}."
        )
    states = np.array(states, order="C")
    return states + 0.0 if states.dtype.kind == "f" else states, actions


def pair_features(features: Features, states: States, actions: IntArray, what: str = "Pair") -> Phi:
    """The features of n pairs: `[n, d]`, or Sparse `[n, k]`. `what` names a pair in error messages.

    Computed in batches, since a feature map computes all actions of a state.
    """
    bad = np.flatnonzero((actions < 0) | (actions >= features.n_actions))
    if len(bad):
        raise InputError(
            f"{what} {bad[0]} has action {actions[bad[0]]}; actions run from 0 to {features.n_actions - 1}."
        )
    batch = max(1, _NUMBERS // (features.n_actions * (features.nonzeros or features.dimension)))
    parts = [
        _checked_rows(
            checked(features, states[a : a + batch]), states[a : a + batch], actions[a : a + batch], a
        )
        for a in range(0, len(actions), batch)
    ]
    return stack(parts)


def _checked_rows(phi: Phi, states: States, actions: IntArray, start: int) -> Phi:
    """From features of all actions `[n, A, ...]` the row of one action per state, which must be available."""
    bad = np.flatnonzero(~available(phi)[np.arange(len(actions)), actions])
    if len(bad):
        raise unavailable_core(states[bad[0]], int(actions[bad[0]]), start + int(bad[0]))
    return rows_of(phi, actions)
