"""Operations on batches of features in compiled code: scores, softmax, sampling an action, checks.

Functions with a Numba `overload` take both forms, dense `[n, A, d]` and Sparse `[n, A, k]`: Numba picks the right code by
the argument's type. Those named `..._row` take rows, `[n, d]` or Sparse `[n, k]`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from ..base import FloatArray, IntArray
from .batch import UNAVAILABLE, Phi, is_sparse, length, n_actions
from .row_kernels import SUMS


def score(phi: Any, n: int, a: int, theta: Any) -> float:
    """phi(x_n, a) . theta, or minus infinity if a mask forbids the action; for compiled code."""
    raise TypeError("score is for compiled code")


@overload(score, inline="always")
def _score(phi, n, a, theta):
    if isinstance(phi, types.Array):

        def dense(phi, n, a, theta):
            s = 0.0
            for i in range(phi.shape[2]):
                s += phi[n, a, i] * theta[i]
            return s if phi[n, a, 0] != UNAVAILABLE else -np.inf

        return dense

    def sparse(phi, n, a, theta):
        s = 0.0
        for i in range(phi.weight.shape[2]):
            s += phi.weight[n, a, i] * theta[phi.index[n, a, i]]
        return s if phi.weight[n, a, 0] != UNAVAILABLE else -np.inf

    return sparse


def add(phi: Any, n: int, a: int, by: float, out: Any) -> None:
    """out += by * phi(x_n, a), with `out [d]`; for compiled code."""
    raise TypeError("add is for compiled code")


@overload(add)
def _add(phi, n, a, by, out):
    if isinstance(phi, types.Array):

        def dense(phi, n, a, by, out):
            for i in range(phi.shape[2]):
                out[i] += by * phi[n, a, i]

        return dense

    def sparse(phi, n, a, by, out):
        for i in range(phi.weight.shape[2]):
            out[phi.index[n, a, i]] += by * phi.weight[n, a, i]

    return sparse


@njit(cache=True, nogil=True, inline="always")
def _exponentials(phi, n, w, scale, p):
    """Set p[a] = exp(scale * (q_a - max q)) for q_a = phi(x_n, a) . w; return their sum.

    scale = inf is the greedy policy, with ties broken by the lowest index. Forbidden actions get exactly 0.
    """
    best = 0
    for a in range(p.shape[0]):
        p[a] = score(phi, n, a, w)
        if p[a] > p[best]:
            best = a
    if scale == np.inf:
        p[:] = 0.0
        p[best] = 1.0
        return 1.0
    top, total = p[best], 0.0
    for a in range(p.shape[0]):
        p[a] = math.exp(scale * (p[a] - top))
        total += p[a]
    return total


@njit(cache=True, nogil=True)
def softmax(phi, n, w, scale, p):
    """Write pi(.|x_n) = softmax(scale * phi(x_n, .) . w) into `p [A]`."""
    total = _exponentials(phi, n, w, scale, p)
    for a in range(p.shape[0]):
        p[a] /= total


@njit(cache=True, nogil=True)
def choose(phi, n, w, scale, u, p):
    """The action drawn from softmax(scale * phi(x_n, .) . w) by one uniform `u` in [0, 1); `p [A]` is scratch space."""
    c = u * _exponentials(phi, n, w, scale, p)
    last = p.shape[0] - 1
    for a in range(last):
        c -= p[a]
        if c < 0.0:
            return a
    while p[last] == 0.0:  # rounding must not lead to an action without mass
        last -= 1
    return last


@njit(cache=True, nogil=True)
def probabilities(phi, w, scale, p):
    """`softmax` for a batch: `p [n, A]`."""
    for n in range(p.shape[0]):
        softmax(phi, n, w, scale, p[n])


@njit(cache=True, nogil=True)
def act(phi, w, scale, u, p, actions):
    """`choose` for a batch: draws `actions [n]` by the uniforms `u [n]`."""
    for n in range(u.shape[0]):
        actions[n] = choose(phi, n, w, scale, u[n], p)


@njit(cache=True, nogil=True)
def scores(phi, w, q):
    """phi(x_n, a) . w for a batch, minus infinity where an action is not available: `q [n, A]`."""
    for n in range(q.shape[0]):
        for a in range(q.shape[1]):
            q[n, a] = score(phi, n, a, w)


def best_scores(phi: Phi, theta: FloatArray) -> FloatArray:
    """max_a phi(x_n, a) . theta over the available actions, `[n]`."""
    out = np.empty(length(phi))
    _best_scores(phi, theta, out)
    return out


@njit(cache=True, nogil=True)
def _best_scores(phi, theta, out):
    A = n_actions(phi)
    for n in range(out.shape[0]):
        out[n] = -np.inf
        for a in range(A):
            out[n] = max(out[n], score(phi, n, a, theta))


def best_actions(phi: Phi, theta: FloatArray) -> tuple[FloatArray, IntArray]:
    """max_a phi(x_n, a) . theta over the available actions, `[n]`, and the actions `[n]`; ties go to the lowest index."""
    out, actions = np.empty(length(phi)), np.zeros(length(phi), dtype=np.int64)
    _best_actions(phi, theta, out, actions)
    return out, actions


@njit(cache=True, nogil=True)
def _best_actions(phi, theta, out, actions):
    A = n_actions(phi)
    for n in range(out.shape[0]):
        out[n] = -np.inf
        for a in range(A):
            s = score(phi, n, a, theta)
            if s > out[n]:
                out[n], actions[n] = s, a


# Form and sizes of a batch.


def is_dense(phi: Any) -> bool:
    """Whether a Numba type is that of dense features; for overloads outside this file."""
    return isinstance(phi, types.Array)


@overload(length)
def _length(phi):
    if isinstance(phi, types.Array):
        return lambda phi: phi.shape[0]
    return lambda phi: phi.weight.shape[0]


@overload(n_actions)
def _n_actions(phi):
    if isinstance(phi, types.Array):
        return lambda phi: phi.shape[1]
    return lambda phi: phi.weight.shape[1]


def is_available(phi: Any, i: int, a: int) -> bool:
    """Whether action `a` can be taken at state i, that is, no mask forbids it; for compiled code."""
    raise TypeError("is_available is for compiled code")


@overload(is_available)
def _is_available(phi, i, a):
    if isinstance(phi, types.Array):
        return lambda phi, i, a: phi[i, a, 0] != UNAVAILABLE
    return lambda phi, i, a: phi.weight[i, a, 0] != UNAVAILABLE


# More arithmetic.


def score_row(rows: Any, j: int, theta: Any) -> float:
    """phi_j . theta for row j; for compiled code."""
    raise TypeError("score_row is for compiled code")


@overload(score_row, inline="always")
def _score_row(rows, j, theta):
    if isinstance(rows, types.Array):

        def dense(rows, j, theta):
            s = 0.0
            for i in range(rows.shape[1]):
                s += rows[j, i] * theta[i]
            return s

        return dense

    def sparse(rows, j, theta):
        s = 0.0
        for i in range(rows.weight.shape[1]):
            s += rows.weight[j, i] * theta[rows.index[j, i]]
        return s

    return sparse


def project(phi: Any, n: int, a: int, B: Any, out: Any) -> None:
    """Write phi(x_n, a) B into `out [rho]`, with `B [d, rho]`; for compiled code."""
    raise TypeError("project is for compiled code")


@overload(project)
def _project(phi, n, a, B, out):
    if isinstance(phi, types.Array):

        def dense_row(phi, n, a, B, out):
            out[:] = 0.0
            for i in range(B.shape[0]):
                if phi[n, a, i] != 0.0:
                    for k in range(B.shape[1]):
                        out[k] += phi[n, a, i] * B[i, k]

        return dense_row

    def sparse_row(phi, n, a, B, out):
        out[:] = 0.0
        for l in range(phi.weight.shape[2]):
            i, w = phi.index[n, a, l], phi.weight[n, a, l]
            if w != 0.0:
                for k in range(B.shape[1]):
                    out[k] += w * B[i, k]

    return sparse_row


def weighted_l1(phi: Any, i: int, a: int, reach: Any) -> float:
    """sum_l |phi_l(x_i, a)| reach_l with `reach [d]`, in O(d) or O(k); for compiled code."""
    raise TypeError("weighted_l1 is for compiled code")


@overload(weighted_l1)
def _weighted_l1(phi, i, a, reach):
    if isinstance(phi, types.Array):

        def dense(phi, i, a, reach):
            norm = 0.0
            for l in range(phi.shape[2]):
                norm += abs(phi[i, a, l]) * reach[l]
            return norm

        return dense

    def sparse(phi, i, a, reach):
        norm = 0.0
        for l in range(phi.weight.shape[2]):
            norm += abs(phi.weight[i, a, l]) * reach[phi.index[i, a, l]]
        return norm

    return sparse


# Checks: compiled and interpreted runs use the same two kernels. A masked row is recognised by its norm, which exceeds
# every radius, so that maps without masks pay nothing for masks.

_SLACK = 1.0 + 1e-9  # a norm may exceed the radius by rounding only


def first_fault(phi: Phi, dimension: int, radius: float) -> int:
    """The flat index `n * A + a` of the first faulty feature vector, else -1; works in Python and in compiled code.

    Faulty is one that is not finite, is longer than `radius`, or has an index outside 0..dimension-1; and a state whose
    actions are all masked.
    """
    return int(
        _fault_sparse(phi, dimension, radius) if is_sparse(phi) else _fault_dense(phi, dimension, radius)
    )


@njit(cache=True, nogil=True, fastmath=SUMS)
def _fault_dense(phi, dimension, radius):
    limit = (radius * _SLACK) ** 2
    for n in range(phi.shape[0]):
        masked = 0
        for a in range(phi.shape[1]):
            norm2 = 0.0
            for i in range(phi.shape[2]):
                norm2 += phi[n, a, i] * phi[n, a, i]
            if not norm2 <= limit:  # also true of NaN
                masked += 1
                if phi[n, a, 0] != UNAVAILABLE or masked == phi.shape[1]:
                    return n * phi.shape[1] + a
    return -1


@njit(cache=True, nogil=True, fastmath=SUMS)
def _fault_sparse(phi, dimension, radius):
    limit = (radius * _SLACK) ** 2
    index, weight = phi
    size = np.uint64(dimension)
    for n in range(weight.shape[0]):
        masked = 0
        for a in range(weight.shape[1]):
            norm2 = 0.0
            outside = 0
            for i in range(weight.shape[2]):
                norm2 += weight[n, a, i] * weight[n, a, i]
                if np.uint64(index[n, a, i]) >= size:  # a negative index becomes a huge one
                    outside += 1
            if outside > 0 or not norm2 <= limit:
                masked += 1
                if outside > 0 or weight[n, a, 0] != UNAVAILABLE or masked == weight.shape[1]:
                    return n * weight.shape[1] + a
    return -1


@overload(first_fault)
def _first_fault(phi, dimension, radius):
    if isinstance(phi, types.Array):
        return lambda phi, dimension, radius: _fault_dense(phi, dimension, radius)
    return lambda phi, dimension, radius: _fault_sparse(phi, dimension, radius)


@njit(cache=True, nogil=True)
def first_repeat(phi):
    """The flat index of the first sparse feature vector with two nonzero weights for one coordinate; else -1."""
    index, weight = phi
    for n in range(weight.shape[0]):
        for a in range(weight.shape[1]):
            for i in range(weight.shape[2]):
                for l in range(i):
                    if index[n, a, i] == index[n, a, l] and weight[n, a, i] != 0.0 and weight[n, a, l] != 0.0:
                        return n * weight.shape[1] + a
    return -1
