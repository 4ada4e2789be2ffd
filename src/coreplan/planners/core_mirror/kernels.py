"""CoreMirror's kernels in compiled code: one sweep over the core set.

`tell` follows docs/core-mirror.md: what the largest sum of values has gained (with a constant rate: the value of the policy
pi_t), one sampled Bellman backup for every core pair, theta_t from the backups and the core features, and the weighted sum
of thetas that defines the next policy. In addition, `watch` looks for features with large coefficients over the core
features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ...base import FloatArray, IntArray
from ...features import add, is_available, length, score, score_row, softmax, weighted_l1

SHARPNESS = 10.0  # the policy's scale b_t is this times t^2, divided by the span of the values
SAFE = 4.0  # up to this l1-norm of the coefficients a full step is taken
WATCHED = 8  # one next state in 8 is watched where that is cheap; with a pseudo-inverse one per sweep
_NO_SPAN = 1e-12  # values that differ by less than this, relatively, count as equal


class State(NamedTuple):
    """Everything that is carried from one sweep to the next: O(m + d) numbers."""

    theta: FloatArray  # [d] theta_{t-1}
    mean: FloatArray  # [d] mean of theta_1..theta_{t-1} with weights 1..t-1; their plain sum if beta is given
    mean_J: FloatArray  # [d] `mean` as it was at iteration J, uniform on the iterations so far
    q: FloatArray  # [m] the last backup of each core pair
    lam: FloatArray  # [m] estimated occupancy of the core pairs; used with allocation="occupancy" only
    mean_lam: FloatArray  # [m] averaged like theta
    sweeps: IntArray  # [1] done so far
    J: IntArray  # [1]
    seen: FloatArray  # [1] largest l1-norm of a feature's coefficients over the core features so far
    td: FloatArray  # [2] sum and number of temporal differences


class Hyper(NamedTuple):
    """The constants of a run.

    If every core feature is c_j times a unit vector (`unit`), theta = pinv(Phi~) q is computed coordinate by coordinate.
    """

    gamma: float
    beta: float  # 0: the default schedule
    step: float  # 0: automatic
    occupancy: bool
    unit: bool
    at: IntArray  # [m] the coordinate of core pair j
    c: FloatArray  # [m]
    square: FloatArray  # [d] sum of c_j^2 over the core pairs of a coordinate; 0 if it has none
    reach: FloatArray  # [d] sum of |c_j|, divided by `square`: the l1-norm of e_l's coefficients; 0 if it has none
    pinv: FloatArray  # [m, d] pinv(Phi~)', empty if `unit`


class Scratch(NamedTuple):
    p: FloatArray  # [A]
    total: FloatArray  # [m]
    number: FloatArray  # [m]
    target: FloatArray  # [d]
    f: FloatArray  # [d]


@njit(cache=True, nogil=True)
def ask(u, state, hyper, core_index):
    """Every core pair once; with `occupancy`, pair j on average 1 - k + k m lam_j times (systematic rounding)."""
    m = core_index.shape[0]
    if not hyper.occupancy:
        for j in range(m):
            core_index[j] = j
        return
    k = 0.5 * min(1.0, (1.0 - hyper.gamma) * (state.sweeps[0] + 1))
    i, reached = 0, 0.0
    for j in range(m):
        reached += 1.0 - k + k * m * state.mean_lam[j]
        while i < m and i + u[0] < reached:
            core_index[i] = j
            i += 1
    core_index[i:] = m - 1  # rounding


@njit(cache=True, nogil=True)
def scale_of(t, mean, hyper, core):
    """b_t in pi_t = softmax(b_t Phi mean): beta, or 10 t^2 divided by the span of the mean's values at the core pairs.

    If all values are equal, any scale gives the uniform policy; it must not be 0, since masked scores are infinite.
    """
    if hyper.beta > 0.0:
        return hyper.beta
    low, high = np.inf, -np.inf
    for j in range(hyper.c.shape[0]):
        Q = score_row(core, j, mean)
        low, high = min(low, Q), max(high, Q)
    span = high - low
    if not span > _NO_SPAN * max(abs(low), abs(high)):
        return 1.0
    return SHARPNESS * t * t / span


@njit(cache=True, nogil=True)
def step_of(t, state, hyper):
    """The step s_t of theta towards pinv(Phi~) q: 1 for the first H = 1/(1 - gamma) sweeps, then sqrt(H/t).

    Noise in theta_{t-1} makes the next backup noisier: once value has spread, small steps cost nothing, and they halve the
    number of queries (measured). With a constant beta the step is 1, as the bound requires. Large coefficients reduce it.
    """
    if hyper.step > 0.0:
        return hyper.step
    most = min(1.0, SAFE / max(state.seen[0], 1.0))
    if hyper.beta > 0.0:
        return most
    return min(most, np.sqrt(1.0 / ((1.0 - hyper.gamma) * t)))


@njit(cache=True, nogil=True)
def tell(u, state, hyper, core, core_index, rewards, initial_phi, next_phi, scratch):
    """One sweep; `u [1]` draws J. On return theta is theta_t, and `mean` includes it."""
    theta, mean, q = state.theta, state.mean, state.q
    p, total, count = scratch.p, scratch.total, scratch.number
    m, most = q.shape[0], 1.0 / (1.0 - hyper.gamma)
    t = state.sweeps[0] + 1
    state.sweeps[0] = t
    if u[0] * t < 1.0:  # J ~ Unif{1..t} by reservoir
        state.J[0] = t
        state.mean_J[:] = mean
    b = scale_of(t, mean, hyper, core)
    watch(t, state, hyper, initial_phi, next_phi, scratch)

    # q_j = r_j + gamma V(y_j); with beta V = sum_a pi_t(a|y) phi(y, a).theta_{t-1}, else what the largest sum has gained
    fixed = hyper.beta > 0.0
    total[:] = 0.0
    count[:] = 0.0
    for i in range(core_index.shape[0]):
        V = (
            mean_value(next_phi, i, mean, b, theta, p)
            if fixed
            else gain(t, next_phi, i, mean, theta, p.shape[0])
        )
        V = min(max(V, 0.0), most)
        total[core_index[i]] += rewards[i] + hyper.gamma * V
        count[core_index[i]] += 1.0
    for j in range(m):
        if count[j] > 0.0:
            q[j] = total[j] / count[j]
            state.td[0] += q[j] - score_row(core, j, theta)
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
def mean_value(phi, i, mean, b, theta, p):
    """sum_a pi(a|y_i) phi(y_i, a).theta with pi = softmax(b phi.mean); `p [A]` is overwritten."""
    softmax(phi, i, mean, b, p)
    V = 0.0
    for a in range(p.shape[0]):
        if p[a] > 0.0:  # a forbidden action scores minus infinity
            V += p[a] * score(phi, i, a, theta)
    return V


@njit(cache=True, nogil=True)
def gain(t, phi, i, mean, theta, A):
    """(max_a S_t - max_a S_{t-1}) / (t - 1) at y_i, with S_t = sum of k Q_k over k < t: between two values of Q_{t-1}.

    S_t is t (t - 1) / 2 times the mean; both maxima are taken of S divided by t - 1.
    """
    now, before = -np.inf, -np.inf
    for a in range(A):
        if is_available(phi, i, a):
            S = 0.5 * t * value(phi, i, a, mean)
            now = max(now, S)
            before = max(before, S - value(phi, i, a, theta))
    return now - before if t > 1 else 0.0


@njit(cache=True, nogil=True)
def value(phi, i, a, theta):
    """phi(y_i, a).theta; Numba warns where `score`, which it inlines, stands in one loop twice."""
    return score(phi, i, a, theta)


@njit(cache=True, nogil=True)
def solve(hyper, q, out):
    """Write pinv(Phi~) q into `out [d]`."""
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


# Features relative to the core set: their coefficients, the size of these, and the occupancy of core pairs. All of it reads
# the answers of one sweep and stores O(m + d) numbers.


@njit(cache=True, nogil=True)
def coefficients(hyper, f, out):
    """Write pinv(Phi~)' f, the coefficients of f `[d]` over the core features, into `out [m]`."""
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
    """One step of the estimate of the occupancy of core pairs, which is averaged like theta.

    lam becomes the coefficients of (1-gamma) f0 + gamma sum_j lam_j sum_a pi(a|y_j) phi(y_j, a), made a distribution.
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
    """Update `seen`, the largest l1-norm of coefficients, with some of the features of this sweep."""
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
    """The l1-norm of the coefficients pinv(Phi~)' phi(x_i, a)."""
    f, w = scratch.f, scratch.total
    f[:] = 0.0
    add(phi, i, a, 1.0, f)
    coefficients(hyper, f, w)
    norm = 0.0
    for j in range(w.shape[0]):
        norm += abs(w[j])
    return norm
