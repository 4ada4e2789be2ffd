"""How features lie to the core set, compiled: coefficients, what the core does not reach, occupancy of core pairs.

All of it reads the streams that a sweep brings and keeps O(m + d) numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from ..problem.features import UNAVAILABLE
from ..softmax import add, softmax

WATCHED = 8  # one next state in so many is watched, where watching is cheap; with a pseudo-inverse one in all


@njit(cache=True, nogil=True)
def coefficients(hyper, f, out):
    """out = pinv(Phi~)' f, the coefficients of f on the core features"""
    if hyper.unit:
        for j in range(out.shape[0]):
            out[j] = hyper.c[j] * f[hyper.at[j]] / hyper.square[hyper.at[j]]
    else:
        for j in range(out.shape[0]):
            out[j] = 0.0
            for l in range(f.shape[0]):
                out[j] += hyper.pinv[j, l] * f[l]


@njit(cache=True, nogil=True)
def follow(t, b, state, hyper, core_index, initial_phi, next_phi, scratch):
    """The occupancy estimate takes one step, and is averaged like theta.

    lam = the coefficients of (1-gamma) f0 + gamma sum_j lam_j sum_a pi(a|y_j) phi(y_j, a), made a distribution.
    """
    f, p, count, lam = scratch.f, scratch.p, scratch.number, state.lam
    n0, asked = length(initial_phi), 0.0
    f[:] = 0.0
    for i in range(n0):
        softmax(initial_phi, i, state.mean, b, p)
        for a in range(p.shape[0]):
            if p[a] > 0.0:
                add(initial_phi, i, a, (1.0 - hyper.gamma) * p[a] / n0, f)
    for j in range(lam.shape[0]):
        if count[j] > 0.0:
            asked += lam[j]
    for i in range(core_index.shape[0]):
        j = core_index[i]
        weight = hyper.gamma * lam[j] / (count[j] * max(asked, 1e-300))
        softmax(next_phi, i, state.mean, b, p)
        for a in range(p.shape[0]):
            if p[a] > 0.0:
                add(next_phi, i, a, weight * p[a], f)
    coefficients(hyper, f, lam)
    whole = 0.0
    for j in range(lam.shape[0]):
        lam[j] = max(lam[j], 0.0)
        whole += lam[j]
    for j in range(lam.shape[0]):
        lam[j] = lam[j] / whole if whole > 0.0 else 1.0 / lam.shape[0]
        state.mean_lam[j] += 2.0 / (t + 1.0) * (lam[j] - state.mean_lam[j])


@njit(cache=True, nogil=True)
def watch(t, state, hyper, core, initial_phi, next_phi, scratch):
    """Note the largest coefficients and the largest distance from the core's span among some of the features that came."""
    for i in range(length(initial_phi)):
        for a in range(scratch.p.shape[0]):
            watch_one(state, hyper, core, initial_phi, i, a, scratch)
    m = state.q.shape[0]
    stride = WATCHED if hyper.unit else m
    for i in range(t % stride, m, stride):
        for a in range(scratch.p.shape[0]):
            watch_one(state, hyper, core, next_phi, i, a, scratch)


@njit(cache=True, nogil=True)
def watch_one(state, hyper, core, phi, i, a, scratch):
    if not is_available(phi, i, a):
        return
    if hyper.unit:
        norm, outside = reached(phi, i, a, hyper)
    else:
        norm, outside = spanned(phi, i, a, hyper, core, scratch)
    if norm > state.seen[0]:
        state.seen[0] = norm
        state.witness[:] = 0.0
        add(phi, i, a, 1.0, state.witness)
    state.seen[1] = max(state.seen[1], outside)


@njit(cache=True, nogil=True)
def spanned(phi, i, a, hyper, core, scratch):
    """The l1-norm of the coefficients w = pinv(Phi~)' phi, and |phi - Phi~' w|."""
    f, w = scratch.f, scratch.total
    f[:] = 0.0
    add(phi, i, a, 1.0, f)
    coefficients(hyper, f, w)
    norm, square = 0.0, 0.0
    for j in range(w.shape[0]):
        norm += abs(w[j])
        add_core(core, j, -w[j], f)
    for l in range(f.shape[0]):
        square += f[l] * f[l]
    return norm, np.sqrt(square)


# What differs between dense features [n, A, d] and sparse ones [n, A, k], resolved by type.


def is_available(phi: Any, i: int, a: int) -> bool:
    """Whether no mask forbids the action."""
    raise TypeError("is_available is for compiled code")


@overload(is_available)
def _is_available(phi, i, a):
    if isinstance(phi, types.Array):
        return lambda phi, i, a: phi[i, a, 0] != UNAVAILABLE
    return lambda phi, i, a: phi.weight[i, a, 0] != UNAVAILABLE


def length(phi: Any) -> int:
    """n of `[n, A, ...]`."""
    raise TypeError("length is for compiled code")


@overload(length)
def _length(phi):
    if isinstance(phi, types.Array):
        return lambda phi: phi.shape[0]
    return lambda phi: phi.weight.shape[0]


def add_core(core: Any, j: int, by: float, out: Any) -> None:
    """out += by phi_j"""
    raise TypeError("add_core is for compiled code")


@overload(add_core)
def _add_core(core, j, by, out):
    if isinstance(core, types.Array):

        def dense(core, j, by, out):
            for l in range(out.shape[0]):
                out[l] += by * core[j, l]

        return dense

    def sparse(core, j, by, out):
        for l in range(core.weight.shape[1]):
            out[core.index[j, l]] += by * core.weight[j, l]

    return sparse


def reached(phi: Any, i: int, a: int, hyper: Any) -> tuple[float, float]:
    """`spanned` for a core of unit vectors, in O(d) or O(k)."""
    raise TypeError("reached is for compiled code")


@overload(reached)
def _reached(phi, i, a, hyper):
    if isinstance(phi, types.Array):

        def dense(phi, i, a, hyper):
            norm, square = 0.0, 0.0
            for l in range(phi.shape[2]):
                norm += abs(phi[i, a, l]) * hyper.reach[l]
                if hyper.reach[l] == 0.0:
                    square += phi[i, a, l] ** 2
            return norm, np.sqrt(square)

        return dense

    def sparse(phi, i, a, hyper):
        norm, square = 0.0, 0.0
        for l in range(phi.weight.shape[2]):
            w, reach = phi.weight[i, a, l], hyper.reach[phi.index[i, a, l]]
            norm += abs(w) * reach
            if reach == 0.0:
                square += w * w
        return norm, np.sqrt(square)

    return sparse
