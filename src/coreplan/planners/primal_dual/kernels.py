"""Algorithm 1 (`alg:Main`) in compiled code: one outer iteration t. Comments have the numbers of its lines:

    for i = 1, ..., K, from theta_t^(1) = theta_{t-1}
        (1) sample x_0^(i) ~ nu0 and a_0^(i) ~ pi_t(.|x_0^(i)),
                   (x^(i), a^(i)) ~ lambda_t,
                   xbar^(i) ~ P(.|x^(i), a^(i)) and abar^(i) ~ pi_t(.|xbar^(i))
        (2) g~_theta = (1 - gamma) phi(x_0^(i), a_0^(i)) + gamma phi(xbar^(i), abar^(i)) - phi(x^(i), a^(i))
        (3) theta_t^(i+1) = Pi(theta_t^(i) - alpha g~_theta), Pi the projection onto the ball of radius D
    (4) theta_t = (theta_t^(1) + ... + theta_t^(K)) / K
    (5) sample (x_t, a_t) ~ Unif(core) and (r_t, y_t) ~ P(.|x_t, a_t)
    (6) V_t(y_t) = sum_a pi_t(a|y_t) Q_t(y_t, a), Q_t = Phi theta_t
    (7) g~_lambda = m (r_t + gamma V_t(y_t) - Q_t(x_t, a_t)) e_(x_t, a_t)
    (8) lambda_{t+1} is proportional to lambda_t exp(eta g~_lambda)
    (9) pi_{t+1} = softmax(beta (theta_1 + ... + theta_t) . phi)
    (10) return pi_J, J ~ Unif{1, ..., T}

All K + 1 queries of an iteration are known before the first is answered, because the inner gradients do not depend on the
inner iterate; so `ask` draws the pairs, the simulator answers with x_0, xbar, r and y, and `tell` does the arithmetic.
`descend_dense` has lines (1) to (4) literally. With sparse features (`descend_sparse`) an inner step costs O(k): theta is
stored as s v, so that a projection changes one number, and the mean of the iterates is accumulated lazily. Both forms are
tested against each other and against a naive loop (`theory/naive.py`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

from ...base import FloatArray, IntArray
from ...features import choose, is_dense, score, softmax
from ...features import score_row as core_score


class State(NamedTuple):
    """Everything that Algorithm 1 carries over from one iteration to the next."""

    theta: FloatArray  # [d] theta_{t-1}
    Theta: FloatArray  # [d] Theta_t = sum_{k<t} theta_k, with a given pi_1 = softmax(w . phi) w / beta more
    Theta_J: FloatArray  # [d] Theta_J, J uniform on the iterations so far
    log_lam: FloatArray  # [m] log lambda_t, up to a constant
    tree: FloatArray  # [2 M] sums of exp(log_lam) over a binary tree, M a power of two >= m
    counts: IntArray  # [2] iterations done, J
    td: FloatArray  # [2] sum and number of temporal differences


class Hyper(NamedTuple):
    K: int  # inner steps
    eta: float  # the rate of lambda
    beta: float  # of the policy
    alpha: float  # of theta
    D: float  # radius of theta's ball
    gamma: float


class Scratch(NamedTuple):
    p: FloatArray  # [A] probabilities of actions
    mean: FloatArray  # [d] the sum of the inner iterates
    v: FloatArray  # [d] theta / s


# lambda: (8) changes ONE coordinate, before normalising, and (1) draws K times per iteration. A tree of sums does
# both in O(log m), and every node is the sum of its two children, so that rounding errors do not build up.

FAR = 30.0  # log-weights are normalised again when the total leaves e^(+-30)


@njit(cache=True, nogil=True)
def build_tree(log_lam, tree):
    """Normalise log_lam `[m]` and fill the tree with its exponentials and their sums."""
    top = np.max(log_lam)
    total = 0.0
    for j in range(log_lam.shape[0]):
        total += math.exp(log_lam[j] - top)
    log_lam -= top + math.log(total)
    sum_tree(log_lam, tree)


@njit(cache=True, nogil=True)
def sum_tree(log_lam, tree):
    """Fill the tree with the exponentials of log_lam `[m]` and their sums."""
    M = tree.shape[0] // 2
    tree[:] = 0.0
    for j in range(log_lam.shape[0]):
        tree[M + j] = math.exp(log_lam[j])
    for i in range(M - 1, 0, -1):
        tree[i] = tree[2 * i] + tree[2 * i + 1]


@njit(cache=True, nogil=True)
def raise_log(log_lam, tree, j, by):
    """Line (8): lambda times exp(by) at the core pair j, that is log_lam[j] += by, and update the tree."""
    log_lam[j] += by
    M = tree.shape[0] // 2
    if log_lam[j] > FAR:
        build_tree(log_lam, tree)
        return
    i = M + j
    tree[i] = math.exp(log_lam[j])
    while i > 1:
        i //= 2
        tree[i] = tree[2 * i] + tree[2 * i + 1]
    if tree[1] < math.exp(-FAR):
        build_tree(log_lam, tree)


@njit(cache=True, nogil=True)
def draw(tree, u):
    """The core index drawn from lambda_t by one uniform u."""
    M = tree.shape[0] // 2
    i = 1
    c = u * tree[1]
    while i < M:
        i *= 2
        left = tree[i]
        # Rounding must not lead into a branch without mass. Selections instead of jumps, which would be mispredicted.
        right = (c >= left) & (tree[i + 1] > 0.0)
        c = c - left if right else c
        i = i + 1 if right else i
    return i - M


@njit(cache=True, nogil=True)
def ask(u, state, hyper, core_index):
    """The pairs of lines (1) and (5), by `u [K + 1]`."""
    K = hyper.K
    for i in range(K):
        core_index[i] = draw(state.tree, u[i])
    core_index[K] = int(u[K] * state.log_lam.shape[0])  # Unif(core)


@njit(cache=True, nogil=True)
def tell(u, state, hyper, core, core_index, rewards, initial_phi, next_phi, scratch):
    """Lines (2) to (10); `u [2 K + 1]` draws K actions at initial states, K actions at next states, and J.

    `core_index [K + 1]` are the pairs that `ask` drew; `rewards [K + 1]`, `next_phi [K + 1, A, d]` (features of xbar^(1)
    to xbar^(K) and y_t) and `initial_phi [K, A, d]` (of x_0^(1) to x_0^(K)) are the answers.
    """
    theta, Theta = state.theta, state.Theta
    K, p = hyper.K, scratch.p

    # (10) J ~ Unif{1..t} by reservoir: iteration t replaces the kept one with probability 1/t.
    t = state.counts[0] + 1
    state.counts[0] = t
    if u[2 * K] * t < 1.0:
        state.counts[1] = t
        state.Theta_J[:] = Theta

    # (1) to (4), stochastic gradient descent: theta becomes theta_t.
    descend(u, theta, Theta, hyper, core, core_index, initial_phi, next_phi, scratch)

    # (5) to (8), stochastic mirror ascent, at the pair of the last query. `td` is the bracket of (7).
    j, m = core_index[K], state.log_lam.shape[0]
    softmax(next_phi, K, Theta, hyper.beta, p)  # pi_t(.|y_t): Theta does not yet hold theta_t
    V = 0.0
    for a in range(p.shape[0]):
        if p[a] > 0.0:  # a forbidden action scores minus infinity
            V += p[a] * score(next_phi, K, a, theta)
    td = rewards[K] + hyper.gamma * V - core_score(core, j, theta)
    raise_log(state.log_lam, state.tree, j, hyper.eta * (m * td))
    state.td[0] += td
    state.td[1] += 1.0

    # (9), policy update: Theta becomes Theta_{t+1}.
    for i in range(theta.shape[0]):
        Theta[i] += theta[i]


# The same source, not cached: the loop that calls it can then inline it, which makes it 4% faster and takes 2 s per process
# to compile. For long runs only.
tell_inlined = njit(nogil=True)(tell.py_func)
LONG = 200_000_000  # queries from which on that pays


def descend(
    u: Any,
    theta: Any,
    Theta: Any,
    hyper: Any,
    core: Any,
    core_index: Any,
    initial_phi: Any,
    next_phi: Any,
    scratch: Any,
) -> None:
    """Lines (1) to (4): theta_{t-1} in, theta_t out, in place."""
    raise TypeError("descend is for compiled code")


@njit(nogil=True)  # not cached: what calls it is, or is to inline it
def descend_dense(u, theta, Theta, hyper, core, core_index, initial_phi, next_phi, scratch):
    K, beta, alpha, D, gamma = hyper.K, hyper.beta, hyper.alpha, hyper.D, hyper.gamma
    p, mean = scratch.p, scratch.mean
    d = theta.shape[0]
    mean[:] = 0.0
    for i in range(K):
        a0 = choose(initial_phi, i, Theta, beta, u[i], p)  # (1), the actions
        a = choose(next_phi, i, Theta, beta, u[K + i], p)
        j = core_index[i]
        norm2 = 0.0
        for l in range(d):
            mean[l] += theta[l]  # theta^(i) joins the mean before it moves: i = 1..K, not K + 1
            # (2) and (3)
            g = (1.0 - gamma) * initial_phi[i, a0, l] + gamma * next_phi[i, a, l] - core[j, l]
            theta[l] -= alpha * g
            norm2 += theta[l] * theta[l]
        if norm2 > D * D:  # Pi
            shrink = D / math.sqrt(norm2)
            for l in range(d):
                theta[l] *= shrink
    # (4)
    for l in range(d):
        theta[l] = mean[l] / K


@njit(cache=True, nogil=True, inline="always")
def _move(v, late, index, weight, by, S):
    """v += by * phi, with the lazy mean kept right; returns the change of |v|^2."""
    change = 0.0
    for l in range(index.shape[0]):
        step = by * weight[l]
        i = index[l]
        change += step * (2.0 * v[i] + step)
        v[i] += step
        late[i] -= step * S
    return change


@njit(nogil=True)
def descend_sparse(u, theta, Theta, hyper, core, core_index, initial_phi, next_phi, scratch):
    """theta^(i) = s v. With S = s_1 + ... + s_i, sum_i theta^(i) = S v + late, where a change of v[l] by
    delta after step i is undone for the past by late[l] -= delta S. O(k) per step."""
    K, beta, alpha, D, gamma = hyper.K, hyper.beta, hyper.alpha, hyper.D, hyper.gamma
    p, late, v = scratch.p, scratch.mean, scratch.v
    d = theta.shape[0]
    norm2 = 0.0
    for l in range(d):
        v[l] = theta[l]
        late[l] = 0.0
        norm2 += v[l] * v[l]
    s, S = 1.0, 0.0
    for i in range(K):
        a0 = choose(initial_phi, i, Theta, beta, u[i], p)  # (1), the actions
        a = choose(next_phi, i, Theta, beta, u[K + i], p)
        j = core_index[i]
        S += s  # theta^(i) joins the mean before it moves: i = 1..K, not K + 1
        by = alpha / s  # (2) and (3), in units of v
        norm2 += _move(v, late, initial_phi.index[i, a0], initial_phi.weight[i, a0], -by * (1.0 - gamma), S)
        norm2 += _move(v, late, next_phi.index[i, a], next_phi.weight[i, a], -by * gamma, S)
        norm2 += _move(v, late, core.index[j], core.weight[j], by, S)
        if s * s * norm2 > D * D:  # Pi
            s = D / math.sqrt(norm2)
        if s < 1e-2:  # fold the scale in before it costs digits
            norm2 = 0.0
            for l in range(d):
                late[l] -= (s - 1.0) * v[l] * S
                v[l] *= s
                norm2 += v[l] * v[l]
            s = 1.0
    # (4)
    for l in range(d):
        theta[l] = (S * v[l] + late[l]) / K


@overload(descend)
def _descend(u, theta, Theta, hyper, core, core_index, initial_phi, next_phi, scratch):
    kernel = descend_dense if is_dense(core) else descend_sparse

    def call(u, theta, Theta, hyper, core, core_index, initial_phi, next_phi, scratch):
        kernel(u, theta, Theta, hyper, core, core_index, initial_phi, next_phi, scratch)

    return call
