"""Algorithm 1 (`alg:Main`) written line by line in NumPy, with everything stored, to test the planner against.

It shares no code with the planner, only the random streams: the same uniforms are used for the same
draws, by inverse distribution functions. It is simple rather than fast, on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..base import FloatArray, planner_stream, simulator_stream
from ..features import UNAVAILABLE, dense
from ..problem import Problem


def scores(phi: FloatArray, theta: FloatArray) -> FloatArray:
    """phi . theta, or minus infinity if a mask forbids the action."""
    closed = phi[..., 0] == UNAVAILABLE
    return np.where(closed, -np.inf, np.where(closed[..., None], 0.0, phi) @ theta)


def softmax(q: FloatArray) -> FloatArray:
    """softmax along the last axis."""
    e = np.exp(q - q.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def policy(phi: FloatArray, total: FloatArray, w: FloatArray | None) -> FloatArray:
    """pi_t(.|x), proportional to pi_1(.|x) exp(phi(x, .) . total), total being beta sum_{k<t} theta_k."""
    moved = softmax(scores(phi, total))
    if w is None:
        return moved
    moved = softmax(scores(phi, w)) * moved
    return moved / moved.sum(axis=-1, keepdims=True)


def inverse(p: FloatArray, u: float) -> int:
    """The index that the uniform u draws from the distribution p."""
    return min(int(np.searchsorted(np.cumsum(p) / np.sum(p), u, side="right")), len(p) - 1)


@dataclass
class Iterates:
    """The iterates of t = 1..T."""

    thetas: list[FloatArray] = field(default_factory=list)  # theta_t
    lambdas: list[FloatArray] = field(default_factory=list)  # lambda_{t+1}
    Thetas: list[FloatArray] = field(default_factory=list)  # Theta_t = sum_{k<t} theta_k
    J: int = 0


def algorithm_1(
    problem: Problem, *, T: int, K: int, eta: float, beta: float, alpha: float, D: float, seed: int = 0,
    w: FloatArray | None = None,
) -> Iterates:  # fmt: skip
    """The iterates of T outer iterations, which must fit into one block of simulator noise; pi_1 = softmax(Phi w)."""
    assert problem.core_pairs is not None
    rng, stream = planner_stream(seed), simulator_stream(seed, 0)
    initial_stream = simulator_stream(seed, 0, initial=True)
    gamma, d, (states, actions) = problem.discount, problem.features.dimension, problem.core_pairs
    low, high = problem.reward_range
    m = len(actions)
    core = dense(problem.features(states), d)[np.arange(m), actions]  # [m, d]
    theta, lam, Theta = np.zeros(d), np.full(m, 1 / m), np.zeros(d)
    out = Iterates()
    for t in range(1, T + 1):
        out.Thetas.append(Theta.copy())
        u = rng.random(K + 1)  # lines (1) and (5): numbers as in planners/primal_dual/kernels.py
        j = np.array([inverse(lam, v) for v in u[:K]] + [int(u[K] * m)])
        x0 = problem.model.initial(initial_stream, K)
        rewards, y = problem.model.step(stream, states[j], actions[j])
        v = rng.random(2 * K + 1)
        if v[2 * K] * t < 1:
            out.J = t  # (10)
        phi0, phiy = dense(problem.features(x0), d), dense(problem.features(y), d)
        pi0, piy = (policy(phi, beta * Theta, w) for phi in (phi0, phiy))
        inner = [theta]  # theta^(1) = theta_{t-1}
        for i in range(K):
            a0, a = inverse(pi0[i], v[i]), inverse(piy[i], v[K + i])  # (1)
            g = (1 - gamma) * phi0[i, a0] + gamma * phiy[i, a] - core[j[i]]  # (2)
            step = inner[-1] - alpha * g  # (3)
            norm = np.linalg.norm(step)
            inner.append(step * D / norm if norm > D else step)
        theta = np.mean(inner[:K], axis=0)  # (4)
        r = (rewards[K] - low) / (high - low)
        taken = piy[K] > 0
        V = piy[K][taken] @ scores(phiy[K], theta)[taken]  # (6)
        gradient = np.zeros(m)
        gradient[j[K]] = m * (r + gamma * V - core[j[K]] @ theta)  # (7)
        lam = softmax(np.log(lam) + eta * gradient)  # (8)
        Theta = Theta + theta  # (9)
        out.thetas.append(theta)
        out.lambdas.append(lam)
    return out
