"""How features lie to the core set, compiled: coefficients, how large they are, occupancy of core pairs.

All of it reads the streams that a sweep brings and keeps O(m + d) numbers.
"""

from __future__ import annotations

from typing import Any

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
def watch(t, state, hyper, initial_phi, next_phi, scratch):
    """Note the largest l1-norm of coefficients among some of the features that came."""
    for i in range(length(initial_phi)):
        for a in range(scratch.p.shape[0]):
            watch_one(state, hyper, initial_phi, i, a, scratch)
    m = state.q.shape[0]
    stride = WATCHED if hyper.unit else m
    for i in range(t % stride, m, stride):
        for a in range(scratch.p.shape[0]):
            watch_one(state, hyper, next_phi, i, a, scratch)


@njit(cache=True, nogil=True)
def watch_one(state, hyper, phi, i, a, scratch):
    if is_available(phi, i, a):
        norm = l1_on_axes(phi, i, a, hyper) if hyper.unit else l1(phi, i, a, hyper, scratch)
        state.seen[0] = max(state.seen[0], norm)


@njit(cache=True, nogil=True)
def l1(phi, i, a, hyper, scratch):
    """The l1-norm of the coefficients pinv(Phi~)' phi."""
    f, w = scratch.f, scratch.total
    f[:] = 0.0
    add(phi, i, a, 1.0, f)
    coefficients(hyper, f, w)
    norm = 0.0
    for j in range(w.shape[0]):
        norm += abs(w[j])
    return norm


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


def l1_on_axes(phi: Any, i: int, a: int, hyper: Any) -> float:
    """`l1` for a core of multiples of unit vectors, in O(d) or O(k)."""
    raise TypeError("l1_on_axes is for compiled code")


@overload(l1_on_axes)
def _l1_on_axes(phi, i, a, hyper):
    if isinstance(phi, types.Array):

        def dense(phi, i, a, hyper):
            norm = 0.0
            for l in range(phi.shape[2]):
                norm += abs(phi[i, a, l]) * hyper.reach[l]
            return norm

        return dense

    def sparse(phi, i, a, hyper):
        norm = 0.0
        for l in range(phi.weight.shape[2]):
            norm += abs(phi.weight[i, a, l]) * hyper.reach[phi.index[i, a, l]]
        return norm

    return sparse
