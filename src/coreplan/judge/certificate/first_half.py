"""The first half of the certificate's samples of core pairs, and what is fitted to them.

Only a *basis* J of the core pairs is sampled: in a linear MDP the other pairs are linear combinations of it. The fits
need not be right for the bounds to be valid, since the bounds are computed on other samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from ...base import FloatArray, IntArray, States
from ...core import CoreSet, Frame
from ...features import (
    Phi,
    add,
    as_matrix,
    best_scores,
    checked,
    length,
    n_actions,
    probabilities,
    row_scores,
    rows_of,
    score,
    softmax,
    take,
)
from ...policy import SoftmaxPolicy
from ...problem import Problem
from ...sampled import Transitions, draw
from ...simulate import Simulator
from .evidence import solved

_ROUNDS = 60  # the most rounds of policy iteration, which needs a handful


@dataclass(frozen=True)
class Basis:
    """rho core pairs whose features span those of all m core pairs."""

    states: States  # [rho, ...]
    actions: IntArray  # [rho]
    J: IntArray  # [rho], their numbers
    inverse: (
        Any  # [d, rho], the pseudo-inverse of their features Phi; a csr matrix where each has one coordinate
    )
    frame: Frame

    @classmethod
    def of(cls, problem: Problem, core: CoreSet) -> Basis:
        """All core pairs if their features are independent, else a well-conditioned choice (pivoted QR)."""
        frame = Frame(core.features(problem.features), problem.features.dimension)
        if frame.simplex is not None:
            J, (at, lengths) = np.arange(frame.m), frame.simplex
            inverse = sparse.csr_matrix((1.0 / lengths, (at, J)), shape=(frame.d, frame.m))
            return cls(states=core.states, actions=core.actions, J=J, inverse=inverse, frame=frame)
        J, inverse = frame.basis
        return cls(states=core.states[J], actions=core.actions[J], J=J, inverse=inverse, frame=frame)

    @property
    def independent(self) -> bool:
        """Whether the features of the core pairs are independent, so that the basis is all of them."""
        return len(self.J) == self.frame.m

    @cached_property
    def core(self) -> FloatArray:
        """Phi~ `[m, d]`."""
        return self.frame.matrix

    @cached_property
    def Phi(self) -> FloatArray:
        """`[rho, d]`."""
        return self.core[self.J]

    @cached_property
    def C(self) -> FloatArray:
        """The coefficients `[m, rho]` with Phi~ = C Phi."""
        return np.eye(self.frame.m) if self.independent else self.core @ self.inverse

    @property
    def signed(self) -> bool:
        """Whether some core pair is not a convex combination of the basis."""
        return bool(self.C.min() < -1e-12)

    def draw(self, simulator: Simulator, pair: IntArray) -> Transitions:
        """One transition from each of the basis pairs `pair [n]`, and n initial states."""
        return draw(simulator, self.states, self.actions, pair, initial=True)


@dataclass(frozen=True)
class Fit:
    """theta, the matrix B of directions that change one residual each, and the occupancy kappa of the basis pairs."""

    theta: FloatArray  # [d]
    B: FloatArray  # [d, rho]: to first order, theta + B u has residuals delta - u
    kappa: FloatArray  # [rho]: (1 - gamma) f0' B
    delta: FloatArray  # [rho], residuals r_j + gamma P V - phi_j . theta on the first half
    sigma: FloatArray  # [rho], standard deviations of r + gamma V(y)
    start: float  # (1 - gamma) nu0 . V on the first half


class Means:
    """Sample means per basis pair: the plug-in model of the first half."""

    def __init__(self, basis: Basis, samples: Transitions, gamma: float) -> None:
        self.basis, self.samples, self.gamma = basis, samples, gamma
        self.count = np.bincount(samples.pair, minlength=len(basis.actions))  # [rho], all positive
        self.r = np.bincount(samples.pair, samples.rewards, len(self.count)) / self.count

    def policy(self, theta: FloatArray, scale: float) -> tuple[FloatArray, FloatArray]:
        """F `[rho, d]` and f0 `[d]`: mean features of next and initial states under softmax(scale phi . theta)."""
        s, d = self.samples, len(theta)
        F = mean_features(s.phi, theta, scale, s.pair, len(self.count), d) / self.count[:, None]
        f0 = mean_features(s.starts, theta, scale, np.zeros(len(s), np.int64), 1, d)[0] / len(s)
        return F, f0

    def directions(self, F: FloatArray) -> FloatArray:
        """B = Phi_J^+ (I - gamma F Phi_J^+)^-1, `[d, rho]`."""
        return self._solve(F, np.eye(len(self.count)))

    def _solve(self, F: FloatArray, right: FloatArray) -> FloatArray:
        return self.basis.inverse @ solved(F @ self.basis.inverse, self.gamma, right)

    def evaluate(self, theta: FloatArray, scale: float, bonus: Any = 0.0) -> FloatArray:
        """theta of the fitted action values of softmax(scale phi . theta), with `bonus [rho]` added to rewards (LSTD-Q)."""
        F, _ = self.policy(theta, scale)
        return self._solve(F, self.r + bonus)

    def optimise(self, bonus: FloatArray | None = None, theta: FloatArray | None = None) -> FloatArray:
        """Policy iteration in the plug-in model, starting at `theta`; returns the iterate with the least bound there."""
        bonus = np.zeros(len(self.count)) if bonus is None else bonus
        theta = np.zeros(self.basis.Phi.shape[1]) if theta is None else theta
        best, least = theta, np.inf
        for _ in range(_ROUNDS):
            new = self.evaluate(theta, np.inf, bonus)
            bound = self.bound(new, bonus)
            if bound < least:
                best, least = new, bound
            if np.abs(new - theta).max() <= 1e-10 * max(1.0, np.abs(new).max()):
                break
            theta = new
        return best

    def fit(self, theta: FloatArray) -> Fit:
        """Everything that the first half gives for theta."""
        s, gamma = self.samples, self.gamma
        F, f0 = self.policy(theta, np.inf)
        B = self.directions(F)
        mean, sigma = self.moments(s.rewards + gamma * best_scores(s.phi, theta))
        start = float((1 - gamma) * best_scores(s.starts, theta).mean())
        delta = mean - self.basis.Phi @ theta
        return Fit(theta=theta, B=B, kappa=(1 - gamma) * f0 @ B, delta=delta, sigma=sigma, start=start)

    def bound(self, theta: FloatArray, bonus: FloatArray) -> float:
        """U(theta) in the plug-in model: (1 - gamma) nu0 . V + max_j delta_j over the whole core."""
        s = self.samples
        mean, _ = self.moments(s.rewards + self.gamma * best_scores(s.phi, theta))
        start = (1 - self.gamma) * best_scores(s.starts, theta).mean()
        return float(start + (self.basis.C @ (mean + bonus - self.basis.Phi @ theta)).max())

    def moments(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and standard deviations of `x [n]` per basis pair, `[rho]` each."""
        pair, rho = self.samples.pair, len(self.count)
        mean = np.bincount(pair, x, rho) / self.count
        square = np.bincount(pair, (x - mean[pair]) ** 2, rho)
        return mean, np.sqrt(square / np.maximum(self.count - 1, 1))


@dataclass(frozen=True)
class PolicyValues:
    """Fitted values of the policy: V(x) = level + sum_a pi(a|x) phi(x, a) . theta, clipped to [0, high]."""

    policy: SoftmaxPolicy
    theta: FloatArray  # [d]
    high: float  # at most H = 1 / (1 - gamma)
    level: float = 0.0

    @classmethod
    def of(cls, basis: Basis, samples: Transitions, gamma: float, policy: SoftmaxPolicy) -> PolicyValues:
        """Fit the values of `policy` by LSTD-Q."""
        n, (d, rho) = len(samples), basis.inverse.shape
        count = np.bincount(samples.pair, minlength=rho)
        pi = np.empty((n, n_actions(samples.phi)))
        probabilities(samples.phi, policy.theta, policy.scale, pi)
        F: Any = 0.0
        for a, p in enumerate(pi.T):
            used = np.flatnonzero(p > 0.0)
            rows = as_matrix(rows_of(take(samples.phi, used), np.full(len(used), a)), d)
            weight = (p / count[samples.pair])[used]
            F = (
                F
                + sparse.csr_matrix(
                    (weight, (samples.pair[used], np.arange(len(used)))), shape=(rho, len(used))
                )
                @ rows
            )
        q = solved(F @ basis.inverse, gamma, np.bincount(samples.pair, samples.rewards, rho) / count)
        theta = np.asarray(basis.inverse @ q)
        high = row_scores(basis.frame.features, theta).max()
        return cls(policy, theta, float(np.clip(high, 1e-9, 1 / (1 - gamma))))

    def values(self, problem: Problem, states: States) -> FloatArray:
        """V of a batch of states, `[n]`."""
        phi = checked(problem.features, states)
        V = self.level + values_under(phi, self.policy.theta, self.policy.scale, self.theta)
        return np.clip(V, 0.0, self.high)


def values_under(phi: Phi, policy_theta: FloatArray, scale: float, theta: FloatArray) -> FloatArray:
    """sum_a pi(a|x) phi(x, a) . theta, `[n]`, for pi = softmax(scale phi . policy_theta)."""
    out = np.empty(length(phi))
    _values_under(phi, policy_theta, scale, theta, out)
    return out


def mean_features(
    phi: Phi, theta: FloatArray, scale: float, group: IntArray, n_groups: int, d: int
) -> FloatArray:
    """sum_a pi(a|x) phi(x, a), summed over the states x of each group: `[n_groups, d]`."""
    pi = np.empty((len(group), n_actions(phi)))
    probabilities(phi, theta, scale, pi)
    out = np.zeros((n_groups, d))
    _accumulate(phi, pi, group, out)
    return out


@njit(cache=True, nogil=True)
def _values_under(phi, policy_theta, scale, theta, out):
    p = np.empty(n_actions(phi))
    for n in range(out.shape[0]):
        softmax(phi, n, policy_theta, scale, p)
        out[n] = 0.0
        for a in range(p.shape[0]):
            if p[a] > 0.0:
                out[n] += p[a] * score(phi, n, a, theta)


@njit(cache=True, nogil=True)
def _accumulate(phi, pi, group, out):
    for n in range(pi.shape[0]):
        for a in range(pi.shape[1]):
            if pi[n, a] > 0.0:
                add(phi, n, a, pi[n, a], out[group[n]])
