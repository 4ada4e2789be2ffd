"""Compiled pieces of softmax policies over features, dense and sparse: score, softmax, sample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from .problem.features import UNAVAILABLE


def score(phi: Any, n: int, a: int, theta: Any) -> float:
    """phi(x_n, a) . theta, minus infinity where a mask forbids the action; resolved by the features' type."""
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
    """out += by * phi(x_n, a), `out [d]`; resolved by the features' type inside compiled code."""
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
    """p[a] = exp(scale * (q_a - max q)) for q_a = phi(x_n, a) . w; returns their sum.

    scale = inf is greedy, ties to the lowest index. Forbidden actions get exactly 0.
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
    """pi(.|x_n) = softmax(scale * phi(x_n, .) . w) into `p [A]`."""
    total = _exponentials(phi, n, w, scale, p)
    for a in range(p.shape[0]):
        p[a] /= total


@njit(cache=True, nogil=True)
def choose(phi, n, w, scale, u, p):
    """An action from softmax(scale * phi(x_n, .) . w) by one uniform `u` in [0, 1); `p [A]` is scratch."""
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
    """`choose` for a batch: `actions [n]` by `u [n]`."""
    for n in range(u.shape[0]):
        actions[n] = choose(phi, n, w, scale, u[n], p)
