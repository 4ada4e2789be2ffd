"""Exact descriptions of enumerable problems, for judges and theory; no planner sees one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from ..errors import InputError
from .model import CompiledModel, FloatArray, States


@dataclass(frozen=True)
class Tabular:
    """An MDP written out: states, rewards in [0, 1], transitions and the initial distribution.

    `P` is `[X * A, X]`, row `x * A + a`, dense or scipy.sparse; or it is given as `factors` (Phi, W)
    with P = Phi W (`def:linMDP`), Phi `[X * A, d]`, W `[d, X]`, which makes exact evaluation a d x d solve.
    """

    states: States  # [X, ...] in the model's own representation
    r: FloatArray  # [X, A]
    nu0: FloatArray  # [X]
    P: Any = None  # [X * A, X]
    factors: tuple[Any, FloatArray] | None = None

    def __post_init__(self) -> None:
        if (self.P is None) == (self.factors is None):
            raise InputError("`Tabular` takes either P or factors (Phi, W) with P = Phi W, and not both.")
        rows = self.expect(np.ones(self.n_states))
        worst = int(np.argmax(np.abs(rows - 1.0)))
        if abs(rows[worst] - 1.0) > 1e-8:
            x, a = divmod(worst, self.n_actions)
            raise InputError(f"P(.|x={x}, a={a}) sums to {rows[worst]:.9g}; every row must sum to 1.")

    @property
    def n_states(self) -> int:
        return self.r.shape[0]

    @property
    def n_actions(self) -> int:
        return self.r.shape[1]

    def expect(self, V: FloatArray) -> FloatArray:
        """P V, `[X * A]`, for V `[X]`."""
        if self.factors is not None:
            Phi, W = self.factors
            return Phi @ (W @ V)
        return self.P @ V


@njit(cache=True, nogil=True)
def first_above(cumulative, start, stop, u):
    """The first position in [start, stop) whose cumulative value exceeds u; the last one at most."""
    low, high = start, stop - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True)
def draw_initial(rng, data, states):
    """States from the cumulative distribution in `data[0]`; one uniform each."""
    cumulative = data[0]
    for n in range(states.shape[0]):
        states[n] = first_above(cumulative, 0, cumulative.shape[0], rng.random())


@njit(cache=True, nogil=True)
def _step(rng, data, states, actions, rewards, next_states):
    _, r, start, cumulative, successor = data
    for n in range(states.shape[0]):
        z = states[n] * r.shape[1] + actions[n]
        rewards[n] = r[states[n], actions[n]]
        next_states[n] = successor[first_above(cumulative, start[z], start[z + 1], rng.random())]


def tabular_model(tabular: Tabular) -> CompiledModel:
    """A simulator of the table, states being their numbers; one uniform a query, sparse rows stay sparse."""
    P = sparse.csr_matrix(tabular.P)
    P.eliminate_zeros()
    cumulative = np.cumsum(P.data)
    before = np.concatenate([[0.0], cumulative])[P.indptr[:-1]]  # [X * A] mass of the earlier rows
    cumulative = np.clip(cumulative - np.repeat(before, np.diff(P.indptr)), 0.0, 1.0)
    data = (
        cumulate(tabular.nu0),
        np.ascontiguousarray(tabular.r),
        P.indptr.astype(np.int64),
        cumulative,
        P.indices.astype(np.int64),
    )
    return CompiledModel(tabular.n_actions, draw_initial, _step, data)


def cumulate(p: FloatArray) -> FloatArray:
    """Cumulative sums along the last axis that end in exactly 1."""
    c = np.cumsum(p, axis=-1)
    return c / c[..., -1:]
