"""Gymnasium's toy text: environments with a transition table `P[s][a] = [(probability, next, reward, done), ...]`."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy import sparse

from ...base import FloatArray, InputError, IntArray, States
from ...features import Features, one_hot
from ..problem import Problem
from ..tables import Tabular, tabular_model
from .common import reward_bounds
from .known import action_names, state_names
from .masking import of_table


def from_tables(
    env: Any,
    features: Features | None,
    discount: float,
    name: str,
    reward_range: tuple[float, float] | None = None,
    core_pairs: tuple[States, IntArray] | None = None,
    mask: Any = None,
) -> Problem:
    """The exact problem of the table `env.P`: states 0..S, where S is the terminated one, absorbing with reward 0."""
    rows = _rows(env.P, name)  # [entries, 6]: s, a, probability, next, reward, done
    _compare(env, name)
    S, A = len(env.P), len(env.P[0])
    s, a, target = rows[:, 0].astype(int), rows[:, 1].astype(int), rows[:, 3].astype(int)
    target = np.where(rows[:, 5] != 0, S, target)
    z = np.concatenate([s * A + a, np.arange(S * A, (S + 1) * A)])
    P = sparse.csr_matrix(
        (np.append(rows[:, 2], np.ones(A)), (z, np.append(target, np.full(A, S)))), shape=((S + 1) * A, S + 1)
    )
    low, high = _bounds(rows[:, 4], reward_range, name)
    expected = np.bincount(z[:-A], rows[:, 2] * rows[:, 4], (S + 1) * A).reshape(S + 1, A)  # sum_y P r
    expected = expected.clip(low, high)  # rounding only: an average lies between the extremes
    unit: FloatArray = np.asarray((expected - low) / (high - low), dtype=np.float64)
    table = Tabular(np.arange(S + 1), unit, _initial(env, S, name), P)
    model = tabular_model(table)
    model = dataclasses.replace(model, data=(model.data[0], expected, *model.data[2:]))  # the user's units
    features = one_hot(S + 1, A) if features is None else features
    return Problem(
        model, features, discount, reward_range=(low, high), core_pairs=core_pairs, name=name,
        tabular=lambda: table, state_names=state_names(type(env).__name__, 1),
        action_names=action_names(type(env).__name__, range(A)), mask=of_table(mask, env, S, A, name),
    )  # fmt: skip


def _compare(env: Any, name: str, steps: int = 200) -> None:
    """Raise InputError if a random walk by `env.step` makes a transition that the table does not have."""
    rng = np.random.default_rng(0)
    state, over = env.reset(seed=0)[0], False
    for _ in range(steps):
        if over:
            state = env.reset()[0]
        action = int(rng.integers(len(env.P[0])))
        y, reward, over, _, _ = env.step(action)
        if not any(p > 0 and (y, reward, over) == (t, r, d) for p, t, r, d in env.P[int(state)][action]):
            raise InputError(
                f"{name} does not do what its table P says: from state {state}, action {action} led to state {y} with "
                f"reward {reward}. Give get_state and set_state, so that its step is used."
            )
        state = y


def _rows(P: Any, name: str) -> FloatArray:
    try:
        rows = np.array(
            [(s, a, p, y, r, done) for s in P for a in P[s] for p, y, r, done in P[s][a]], dtype=np.float64
        )
        whole = {int(s) for s in P} == set(range(len(P))) and all(len(P[s]) == len(P[0]) for s in P)
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(
            f"The table P of {name} is not P[s][a] = [(p, next, reward, done), ...]: {error}."
        ) from None
    if not whole or not len(rows) or rows[:, 3].min() < 0 or rows[:, 3].max() >= len(P):
        raise InputError(f"The table P of {name} must have states 0..S-1 with the same actions each.")
    return rows


def _bounds(rewards: FloatArray, given: tuple[float, float] | None, name: str) -> tuple[float, float]:
    """The rewards' own range, or a declared one that contains them all; widened to contain 0."""
    found = (float(rewards.min()), float(rewards.max()))
    low, high = reward_bounds(given, found, name)
    if low > found[0] or high < found[1]:
        raise InputError(f"`reward_range={given}` does not hold the rewards of {name}, which are in {found}.")
    return low, high


def _initial(env: Any, S: int, name: str) -> FloatArray:
    nu0 = getattr(env, "initial_state_distrib", None)
    if nu0 is None or np.shape(nu0) != (S,):
        raise InputError(
            f"{name} has a table P but no `initial_state_distrib` of shape ({S},). Give get_state and set_state instead."
        )
    nu0 = np.append(np.asarray(nu0, dtype=np.float64), 0.0)
    return nu0 / nu0.sum()
