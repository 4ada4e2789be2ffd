"""Exact linear MDPs (`def:linMDP`): P = Phi W and r = Phi vartheta, with Phi and W stochastic.

A transition draws a feature coordinate i ~ phi(x, a), then a next state from row i of W. That takes two uniforms
per query and no table of size X^2. The step is a function of the two uniforms, so that a planner may choose them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..base import FloatArray, IntArray, States
from ..features import Phi, Sparse, as_matrix, flat
from .model import CompiledModel, NoiseModel
from .tables import Tabular, cumulate, draw_initial, first_above


@njit(cache=True, nogil=True)
def _transition(data, states, actions, n, u, v, rewards, next_states):
    """Answer query n of the batch by two uniforms: u draws the coordinate, v the next state."""
    _, index, cumulative, r, rows = data
    X, k = r.shape[0], index.shape[2]
    x, a = states[n], actions[n]
    l = 0
    while l < k - 1 and cumulative[x, a, l] <= u:
        l += 1
    i = index[x, a, l]
    rewards[n] = r[x, a]
    next_states[n] = first_above(rows, i * X, (i + 1) * X, i + v) - i * X


@njit(cache=True, nogil=True)
def _step(rng, data, states, actions, rewards, next_states):
    for n in range(states.shape[0]):
        u, v = rng.random(), rng.random()
        _transition(data, states, actions, n, u, v, rewards, next_states)


@njit(cache=True, nogil=True)
def _step_with(data, states, actions, noise, rewards, next_states):
    for n in range(states.shape[0]):
        _transition(data, states, actions, n, noise[n, 0], noise[n, 1], rewards, next_states)


def linear_model(
    phi: Sparse, W: FloatArray, r: FloatArray, nu0: FloatArray, compiled: bool = True
) -> CompiledModel | NoiseModel:
    """The simulator of a linear MDP given by tables: phi `[X, A, k]`, W `[d, X]`, r `[X, A]`, nu0 `[X]`.

    `phi` holds the sparse features as distributions over the d coordinates. With `compiled=False` the result is the same
    simulator in plain NumPy functions; both give the same bits.
    """
    d, X = W.shape
    A = r.shape[1]
    # Row i of cumulative sums is shifted by i, so that all rows together are one sorted array.
    rows = (cumulate(W) + np.arange(d)[:, None]).ravel()  # [d * X]
    data = (cumulate(nu0), phi.index, cumulate(phi.weight), np.ascontiguousarray(r), rows)
    if compiled:
        return CompiledModel(A, draw_initial, _step, data, noise_kernel=_step_with, noise_dimension=2)
    initial_cumulative, index, cumulative, rewards, _ = data

    def initial(rng: np.random.Generator, n: int) -> States:
        return np.minimum(np.searchsorted(initial_cumulative, rng.random(n), side="right"), X - 1)

    def step(states: States, actions: IntArray, noise: FloatArray) -> tuple[FloatArray, States]:
        u, v = noise.T
        l = (cumulative[states, actions, :-1] <= u[:, None]).sum(axis=1)
        i = index[states, actions, l]
        y = np.searchsorted(rows, i + v, side="right") - i * X
        return rewards[states, actions], np.minimum(y, X - 1)

    return NoiseModel(A, initial, step, noise_dimension=2)


def linear_tabular(phi: Phi, W: FloatArray, r: FloatArray, nu0: FloatArray) -> Tabular:
    """The exact table of a linear MDP, with P kept as its factors (Phi, W)."""
    X = len(r)
    return Tabular(states=np.arange(X), r=r, nu0=nu0, factors=(as_matrix(flat(phi), len(W)), W))


def spelled_out(phi: FloatArray) -> Sparse:
    """Dense features `[X, A, d]` in the sparse form with k = d."""
    return Sparse(np.broadcast_to(np.arange(phi.shape[2]), phi.shape).copy(), phi)
