"""Pools: state-action pairs from which a core set is chosen, and on which it is measured."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from ..base import (
    CoreplanError,
    FloatArray,
    InputError,
    IntArray,
    Lane,
    States,
    as_choice,
    as_count,
    as_function,
    as_generator,
    as_kind,
    changed_input,
    key_of,
    one_thread,
    plain,
    read_only,
    shown,
    text_of,
)
from ..features import Phi, Sparse, available, checked, from_csr, is_sparse, length, take
from ..problem import Problem
from ..simulate import Simulator
from .coreset import as_pairs, pair_features

_LIVES = 10  # episodes per walker, roughly, so that the bias of the start is small


class Acts(Protocol):
    """Anything that chooses actions: a policy."""

    def act(self, states: States, rng: np.random.Generator) -> IntArray:
        """One action for each state of the batch, `[n]`."""


@dataclass(frozen=True)
class Pool:
    """N distinct state-action pairs with their features and how often each was seen.

    Parameters
    ----------
    states, actions: `[N, ...]` and `[N]`; duplicate pairs are merged, and their visits added up.
    features: `[N, d]`, Sparse `[N, k]`, or a scipy.sparse matrix `[N, d]`; sparse ones stay sparse.
    visits: `[N]` nonnegative weights; 1 each by default.
    queries: the number of simulator queries that gathering the pool took.
    """

    states: States  # [N, ...]
    actions: IntArray  # [N]
    features: Phi  # [N, d] or Sparse [N, k]
    visits: FloatArray = None  # type: ignore[assignment]  # [N]
    queries: int = 0

    def __post_init__(self) -> None:
        states, actions, visits = _pairs(self.states, self.actions, self.visits)
        features = _features(self.features, len(actions))
        states, actions, visits, first = _merge(states, actions, visits)
        if len(first) < length(features):
            features = take(features, first)
        for name, value in (
            ("states", states), ("actions", actions), ("features", features), ("visits", visits),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, problem: Problem, states: Any, actions: Any, visits: Any = None, *, queries: int = 0) -> Pool:
        """A pool of the given pairs, with the problem's features."""
        states, actions, visits, _ = _merge(*_pairs(states, actions, visits))
        return cls(states, actions, pair_features(problem.features, states, actions), visits, queries)

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def weights(self) -> FloatArray:
        """The visits as a distribution, `[N]`."""
        return self.visits / self.visits.sum()


@one_thread
def uniform_pool(
    problem: Problem,
    n: int,
    *,
    box: tuple[Any, Any] | None = None,
    sampler: Callable[[np.random.Generator, int], States] | None = None,
    actions: str = "uniform",
    seed: int | np.random.Generator = 0,
) -> Pool:
    """A pool of n states drawn uniformly from `box = (low, high)`, or by `sampler(rng, n)`; makes no query.

    `actions="uniform"` draws one action per state, `"all"` takes every action. `low` and `high` have the shape of one
    state; if both are whole numbers, the states are too, both ends included.
    """
    as_kind("uniform_pool", Problem, "a Problem", problem=problem)
    n = as_count("uniform_pool", n=n)
    actions = as_choice("uniform_pool", ("uniform", "all"), actions=actions)
    sampler = as_function(
        "uniform_pool", "sampler(rng, n) -> states [n, ...]", optional=True, sampler=sampler
    )
    rng = as_generator(seed)
    if (box is None) == (sampler is None):
        raise InputError(
            "`uniform_pool` needs either box=(low, high), the lowest and highest state, or sampler=function(rng, n)."
        )
    states = (
        _uniform(rng, n, box)
        if sampler is None
        else plain("the sampler's states", sampler(rng, n), InputError)
    )
    if states.ndim == 0 or len(states) != n:
        raise InputError(f"The sampler was asked for {n} states and returned shape {states.shape}.")
    if actions == "all":
        return Pool.of(problem, *all_actions(problem, states))
    return Pool.of(problem, states, _uniform_actions(problem, states, rng))


@one_thread
def rollout_pool(
    problem: Problem,
    policy: Acts | None,
    n: int,
    *,
    actions: str = "policy",
    seed: int | np.random.Generator = 0,
) -> Pool:
    """A pool of n pairs that a policy visits (None: the uniform policy), duplicates merged and counted in `visits`.

    Walkers step through the simulator and restart with probability 1 - discount after each step, so that in the long run
    the visits follow the policy's discounted occupancy measure. A walker runs about ten episodes, which leaves a bias
    towards early steps of at most a tenth in total variation. `actions="all"` adds the other actions of the visited states
    with zero visits: a core set chosen from the pool then covers them too, while the weighted error remains that of the
    policy. A step costs one query, a restart none.
    """
    as_kind("rollout_pool", Problem, "a Problem", problem=problem)
    n = as_count("rollout_pool", n=n)
    actions = as_choice("rollout_pool", ("policy", "all"), actions=actions)
    simulator, rng = Simulator(problem, seed=key_of(seed), lane=Lane.POOL), as_generator(seed)
    walkers = min(n, max(1, round(n * (1.0 - problem.discount) / _LIVES)))
    states = simulator.initial(walkers)
    seen, played = [states], [_act(problem, policy, states, rng)]
    for _ in range(math.ceil(n / walkers) - 1):
        on = rng.random(walkers) < problem.discount
        states = np.array(states)
        if on.any():
            states[on] = simulator.step(states[on], played[-1][on])[1]
        if not on.all():
            states[~on] = simulator.initial(int((~on).sum()))
        seen.append(states)
        played.append(_act(problem, policy, states, rng))
    visited, chosen = np.concatenate(seen)[:n], np.concatenate(played)[:n]
    visits = np.ones(n)
    if actions == "all":
        others = all_actions(problem, visited)
        visited, chosen = np.concatenate([visited, others[0]]), np.concatenate([chosen, others[1]])
        visits = np.concatenate([visits, np.zeros(len(others[1]))])
    return Pool.of(problem, visited, chosen, visits, queries=simulator.queries)


def _act(problem: Problem, policy: Acts | None, states: States, rng: np.random.Generator) -> IntArray:
    if policy is None:
        return _uniform_actions(problem, states, rng)
    try:
        actions = plain("policy.act's actions", policy.act(read_only(states), rng), InputError)
    except CoreplanError:
        raise
    except (Exception, SystemExit) as error:
        raised = f"policy.act raised {type(error).__name__}: {text_of(error)} (on a batch of {len(states)} states)."
        raise InputError(changed_input("policy.act", error) or raised) from error
    whole = actions.shape == (len(states),) and actions.dtype.kind in "iu"
    if not whole or actions.min() < 0 or actions.max() >= problem.n_actions:
        raise InputError(
            f"policy.act must return {len(states)} whole numbers from 0 to {problem.n_actions - 1}, got an array of "
            f"shape {actions.shape} and dtype {actions.dtype}: {shown(actions.ravel())}."
        )
    return actions.astype(np.int64)


def _uniform_actions(problem: Problem, states: States, rng: np.random.Generator) -> IntArray:
    """For each state one of its available actions, drawn uniformly: `[n]`."""
    allowed = available(checked(problem.features, states))  # [n, A]
    if allowed.all():
        return rng.integers(problem.n_actions, size=len(states))
    rank = (rng.random(len(states)) * allowed.sum(axis=1)).astype(np.int64)
    return (allowed.cumsum(axis=1) > rank[:, None]).argmax(axis=1)


def all_actions(problem: Problem, states: States) -> tuple[States, IntArray]:
    """Every state with each of its available actions."""
    rows, actions = np.nonzero(available(checked(problem.features, states)))
    return states[rows], actions


def _uniform(rng: np.random.Generator, n: int, box: Any) -> States:
    try:
        low, high = (np.asarray(end) for end in box)
        good = low.shape == high.shape and bool((np.isfinite(low) & np.isfinite(high) & (low <= high)).all())
    except (TypeError, ValueError):
        good = False
    if not good:
        raise InputError(
            f"`uniform_pool(box=...)` must be (low, high): two states of one shape, low <= high; got {shown(box)}."
        )
    if np.issubdtype(low.dtype, np.integer) and np.issubdtype(high.dtype, np.integer):
        return rng.integers(low, high, size=(n, *low.shape), endpoint=True)
    return rng.uniform(low, high, size=(n, *low.shape))


def _pairs(states: Any, actions: Any, visits: Any) -> tuple[States, IntArray, FloatArray]:
    """States without negative zeros, actions as whole numbers, and visits as weights; all checked."""
    states, actions = as_pairs("a pool", states, actions)
    if visits is None:
        visits = np.ones(len(actions))
    visits = plain("a pool's visits", visits, InputError)
    visits = visits.astype(float) if visits.dtype.kind in "fiub" else np.full(1, np.nan)
    if (
        visits.shape != actions.shape
        or not np.isfinite(visits).all()
        or visits.min() < 0
        or visits.sum() == 0
    ):
        raise InputError(
            f"A pool's visits must be {len(actions)} finite numbers, none negative and not all zero; got shape "
            f"{visits.shape} and values {shown(visits.ravel())}."
        )
    return states, actions, visits


def _merge(
    states: States, actions: IntArray, visits: FloatArray
) -> tuple[States, IntArray, FloatArray, IntArray]:
    """Each distinct pair once, in the order of first appearance, with its visits added up; and the row of that first one."""
    N = len(actions)
    raw = [x.reshape(N, -1).view(np.uint8) for x in (np.ascontiguousarray(states.reshape(N, -1)), actions)]
    keys = np.ascontiguousarray(np.hstack(raw))  # [N, bytes]
    first: IntArray
    _, first, inverse = np.unique(
        keys.view(np.dtype((np.void, keys.shape[1]))).ravel(), return_index=True, return_inverse=True
    )
    order = np.argsort(first)  # np.unique sorts by content
    added = np.zeros(len(first))
    np.add.at(added, inverse.ravel(), visits)
    first = first[order]
    return states[first], actions[first], added[order], first


def _features(features: Any, N: int) -> Phi:
    """The features as dense `[N, d]` or Sparse `[N, k]`, checked."""
    if sparse.issparse(features):
        features = from_csr(features.tocsr())
    if is_sparse(features):
        index, weight = np.asarray(features.index), np.asarray(features.weight, dtype=float)
        good = index.shape == weight.shape == (N, *index.shape[1:]) and index.ndim == 2 and index.shape[1] > 0
        if not good or not np.issubdtype(index.dtype, np.integer) or index.min() < 0:
            raise InputError(
                f"Sparse features of a pool of {N} pairs need index and weight of shape ({N}, k), indices not negative; "
                f"got {index.shape} and {weight.shape}."
            )
        used = np.sort(np.where(weight != 0.0, index, -1 - np.arange(index.shape[1])), axis=1)
        twice = np.flatnonzero((used[:, 1:] == used[:, :-1]).any(axis=1))
        if len(twice):
            raise InputError(
                f"The sparse features of pair {twice[0]} of the pool name a coordinate twice: {shown(index[twice[0]])}. "
                "Add the weights up, and pad with weight 0."
            )
        features = Sparse(np.ascontiguousarray(index, dtype=np.int64), np.ascontiguousarray(weight))
    else:
        weight = features = np.ascontiguousarray(features, dtype=float)
        if features.ndim != 2 or len(features) != N or features.shape[1] == 0:
            raise InputError(
                f"Features of a pool of {N} pairs must have shape ({N}, d), got {features.shape}."
            )
    if not np.isfinite(weight).all():
        z = int(np.flatnonzero(~np.isfinite(weight).all(axis=1))[0])
        raise InputError(f"The features of pair {z} of the pool are not finite: {shown(weight[z])}.")
    return features
