"""How features lie to the core set, compiled: coefficients, how large they are, occupancy of core pairs.

All of it reads the streams that a sweep brings and keeps O(m + d) numbers.
"""

from __future__ import annotations

from numba import njit

from ...features import add, is_available, length, softmax, weighted_l1

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
        norm = weighted_l1(phi, i, a, hyper.reach) if hyper.unit else l1(phi, i, a, hyper, scratch)
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
