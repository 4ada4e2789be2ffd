"""CoreMirror, compiled: one sweep over the core set.

`tell` reads as docs/core-mirror.md does: the policy pi_t, one sampled Bellman backup for every core pair, theta_t through
the core features, the weighted sum of thetas that is the next policy. Beside it the stream is watched for features that the
core set does not reach (`watch`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload

from ..problem.features import UNAVAILABLE
from ..problem.model import FloatArray, IntArray
from ..softmax import score, softmax
from .primal_dual_kernels import core_score

SHARPNESS = 10.0  # of the policy, times t^2, over the span of the values
WATCHED = 8  # one next state in so many is watched, where watching is cheap; with a pseudo-inverse one in all
SAFE = 4.0  # coefficients of this l1-norm are taken at a full step
_NO_SPAN = 1e-12  # values that differ by less, relatively, are equal


class State(NamedTuple):
    """Everything that goes from one sweep to the next: O(m + d) numbers."""

    theta: FloatArray  # [d] theta_{t-1}
    mean: FloatArray  # [d] mean of theta_1..theta_{t-1} with weights 1..t-1; their plain sum where beta is given
    kept: FloatArray  # [d] `mean` as it was at iteration J, uniform on the iterations so far
    q: FloatArray  # [m] the last backup of each core pair
    lam: FloatArray  # [m] occupancy of the core pairs, where it allots queries
    mean_lam: FloatArray  # [m] averaged like theta
    witness: FloatArray  # [d] the feature seen with the largest coefficients
    counts: IntArray  # [2] sweeps done, J
    seen: (
        FloatArray  # [2] largest l1-norm of coefficients, largest distance from the span of the core features
    )
    td: FloatArray  # [2] sum and number of temporal differences since the last row of the trace


class Hyper(NamedTuple):
    """theta = pinv(Phi~) q; coordinate by coordinate where every core feature is c_j times a unit vector (`unit`)."""

    gamma: float
    beta: float  # 0: the schedule
    step: float  # 0: automatic
    occupancy: bool
    unit: bool
    at: IntArray  # [m] the coordinate of core pair j
    c: FloatArray  # [m]
    square: FloatArray  # [d] sum of c_j^2 over the pairs of a coordinate; 0 where there is none
    reach: FloatArray  # [d] sum of |c_j| over `square`: the l1-norm of the coefficients of e_l; 0 where there is none
    pinv: FloatArray  # [m, d] pinv(Phi~)', empty where `unit`


class Scratch(NamedTuple):
    p: FloatArray  # [A]
    total: FloatArray  # [m]
    number: FloatArray  # [m]
    target: FloatArray  # [d]
    f: FloatArray  # [d]


@njit(cache=True, nogil=True)
def ask(u, state, hyper, core_index):
    """Every core pair once; or, by occupancy, pair j so often that the mean is 1 - k + k m lam_j (systematic rounding)."""
    m = core_index.shape[0]
    if not hyper.occupancy:
        for j in range(m):
            core_index[j] = j
        return
    k = 0.5 * min(1.0, (1.0 - hyper.gamma) * (state.counts[0] + 1))
    i, reached = 0, 0.0
    for j in range(m):
        reached += 1.0 - k + k * m * state.mean_lam[j]
        while i < m and i + u[0] < reached:
            core_index[i] = j
            i += 1
    core_index[i:] = m - 1  # rounding


@njit(cache=True, nogil=True)
def scale_of(t, mean, hyper, core):
    """b_t of pi_t = softmax(b_t Phi mean): beta, or 10 t^2 over the span of the mean's values at the core pairs.

    Values without a span are equal, and any scale is uniform; it must not be 0, since masked scores are infinite.
    """
    if hyper.beta > 0.0:
        return hyper.beta
    low, high = np.inf, -np.inf
    for j in range(hyper.c.shape[0]):
        Q = core_score(core, j, mean)
        low, high = min(low, Q), max(high, Q)
    span = high - low
    if not span > _NO_SPAN * max(abs(low), abs(high)):
        return 1.0
    return SHARPNESS * t * t / span


@njit(cache=True, nogil=True)
def step_of(t, state, hyper):
    """The share of the way that theta goes to pinv(Phi~) q: all of it for H = 1/(1 - gamma) sweeps, then sqrt(H/t).

    Noise in theta_{t-1} makes the next backup noisier: small steps cost nothing once value has spread, and halve the
    queries (measured). With a constant beta the whole way, as the bound wants it. Less where coefficients are large.
    """
    if hyper.step > 0.0:
        return hyper.step
    most = min(1.0, SAFE / max(state.seen[0], 1.0))
    if hyper.beta > 0.0:
        return most
    return min(most, np.sqrt(1.0 / ((1.0 - hyper.gamma) * t)))


@njit(cache=True, nogil=True)
def tell(u, state, hyper, core, core_index, rewards, initial_phi, next_phi, scratch):
    """One sweep; `u [1]` is for J. On return theta is theta_t and `mean` holds it."""
    theta, mean, q = state.theta, state.mean, state.q
    p, total, count = scratch.p, scratch.total, scratch.number
    m, most = q.shape[0], 1.0 / (1.0 - hyper.gamma)
    t = state.counts[0] + 1
    state.counts[0] = t
    if u[0] * t < 1.0:  # J ~ Unif{1..t} by reservoir
        state.counts[1] = t
        state.kept[:] = mean
    b = scale_of(t, mean, hyper, core)
    watch(t, state, hyper, core, initial_phi, next_phi, scratch)

    # q_j = r_j + gamma V(y_j) with V = sum_a pi_t(a|y) phi(y, a).theta_{t-1}
    total[:] = 0.0
    count[:] = 0.0
    for i in range(core_index.shape[0]):
        softmax(next_phi, i, mean, b, p)
        V = 0.0
        for a in range(p.shape[0]):
            if p[a] > 0.0:  # a forbidden action scores minus infinity
                V += p[a] * score(next_phi, i, a, theta)
        V = min(max(V, 0.0), most)
        total[core_index[i]] += rewards[i] + hyper.gamma * V
        count[core_index[i]] += 1.0
    for j in range(m):
        if count[j] > 0.0:
            q[j] = total[j] / count[j]
            state.td[0] += q[j] - core_score(core, j, theta)
            state.td[1] += 1.0
    if hyper.occupancy:
        follow(t, b, state, hyper, core_index, initial_phi, next_phi, scratch)

    # theta_t = theta_{t-1} + step (pinv(Phi~) q - theta_{t-1})
    solve(hyper, q, scratch.target)
    step = step_of(t, state, hyper)
    weight = 2.0 / (t + 1.0)  # after t sweeps theta_k has weight proportional to k
    for l in range(theta.shape[0]):
        theta[l] += step * (scratch.target[l] - theta[l])
        if hyper.beta > 0.0:
            mean[l] += theta[l]
        else:
            mean[l] += weight * (theta[l] - mean[l])


@njit(cache=True, nogil=True)
def solve(hyper, q, out):
    """out = pinv(Phi~) q"""
    out[:] = 0.0
    if hyper.unit:
        for j in range(q.shape[0]):
            out[hyper.at[j]] += hyper.c[j] * q[j]
        for l in range(out.shape[0]):
            if hyper.square[l] > 0.0:
                out[l] /= hyper.square[l]
    else:
        for j in range(q.shape[0]):
            for l in range(out.shape[0]):
                out[l] += hyper.pinv[j, l] * q[j]


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


def add(phi: Any, i: int, a: int, by: float, out: Any) -> None:
    """out += by phi(x_i, a)"""
    raise TypeError("add is for compiled code")


@overload(add)
def _add(phi, i, a, by, out):
    if isinstance(phi, types.Array):

        def dense(phi, i, a, by, out):
            for l in range(out.shape[0]):
                out[l] += by * phi[i, a, l]

        return dense

    def sparse(phi, i, a, by, out):
        for l in range(phi.weight.shape[2]):
            out[phi.index[i, a, l]] += by * phi.weight[i, a, l]

    return sparse


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
