"""Evidence about the optimum, shared by all core pairs: the upper bound where the core features are independent.

There q*_j = Q*(core pair j) determines Q*, and V*(x) = max_a sum_k c_k(x, a) q*_k with convex coefficients c. The samples of
pair j bet that q*_j is smaller than it is: M_j = prod_i (1 + lam_j (q*_j - r_i - gamma V*(y_i))) is nonnegative and has mean
1. So has the product over all pairs of eps_j + (1 - eps_j) M_j: with probability 1 - alpha it is below 1 / alpha, which
limits what all pairs together can be wrong by. The largest value that this leaves possible is at a corner, where one
pair has all of the doubt. docs/certificate.md has the proof.

A *unit* is a core pair, or, the last one, the initial state: its samples V*(x0) bet on v* in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

from ...base import FloatArray, IntArray
from ...features import as_matrix, best_actions, rows_of
from ...sampled import Transitions

STAKE = 0.95  # the largest fraction of the wealth that one outcome may cost
_DENSE = 1500  # up to so many pairs, linear systems are solved as dense matrices
_NEWTON = 60  # the most steps of policy iteration, which needs a handful
_SETTLED = 1e-10


@dataclass(frozen=True)
class Bets:
    """All that is fixed before the samples of the bound are seen, one number per unit `[rho + 1]`."""

    lam: FloatArray  # [rho + 1], the bets; at most `largest_bets`
    doubt: FloatArray  # [rho + 1], log(eps / (1 - eps)): how much of a unit's wealth is kept out of its bets
    floor: FloatArray  # [rho + 1]: q*_j is bounded by this at least
    ceiling: float  # V* is assumed below this, which the bound proves where it is returned
    log_target: float  # log(1 / alpha)

    @property
    def total(self) -> float:
        """L' = log(1/alpha) + sum_j log(1/eps_j): what log(M_j (1 - eps_j)/eps_j + 1) can sum up to."""
        return self.log_target + float(np.logaddexp(0.0, -self.doubt).sum())

    def wealth(self, knot: FloatArray, raised: IntArray) -> FloatArray:
        """u `[rho + 1]`: at most log M_j at the corner where the units `raised` have all of the doubt.

        log M_j = doubt_j + log(e^s - 1) for some s >= 0, and the sum of all s is at most `total`. The tangent at `knot`
        l > 0 lies above it: log(e^s - 1) <= a + b s, with b = 1/(1 - e^-l) and a = log(e^l - 1) - b l.
        """
        b = -1.0 / np.expm1(-knot)
        u = self.doubt + np.log(np.expm1(knot)) - b * knot
        u[raised] += b[raised] * self.total
        return u


def largest_bets(floor: FloatArray, ceiling: float, gamma: float) -> FloatArray:
    """The largest bets `[rho + 1]` with which no outcome costs more than STAKE, if V* is below the ceiling, at any q* above
    the floor."""
    reach = np.full(len(floor), 1.0 + gamma * ceiling)
    reach[-1] = ceiling
    return STAKE / np.maximum(reach - floor, 1e-9)


@dataclass(frozen=True)
class Slopes:
    """Derivatives at a solution, one per unit, `[rho + 1]` each."""

    kappa: FloatArray  # of the value by the units' roots; 0 for a unit at its floor
    by_u: FloatArray  # of the root by u
    by_bet: FloatArray  # of the root by log lam


@dataclass(frozen=True)
class Solved:
    """The values that a wealth leaves, and how they move."""

    value: float  # (1 - gamma) times the bound on nu0 . V
    q: FloatArray  # [rho], bounds on q*
    slopes: Callable[[], Slopes]  # how the value moves with all that is fixed


class Evidence:
    """Samples of every unit, ordered unit by unit, and the values that they leave possible.

    They must be independent of each other, within pairs and between them. `known`: the simulator is deterministic, and one
    sample tells all about its pair.
    """

    def __init__(self, samples: Transitions, lift: Any, gamma: float, known: bool = False) -> None:
        samples.require_independent()
        self.rho = lift.shape[1]
        order = np.argsort(samples.pair, kind="stable")
        x0, phi0 = samples.initial, samples.starts
        few = replace(samples, initial=samples.states[:0], initial_phi=None)
        self.samples = replace(few.take(order), initial=x0, initial_phi=phi0)
        self.pair, self.rewards = self.samples.pair, self.samples.rewards
        self.phi, self.phi0 = self.samples.phi, phi0  # [n, A, ...], [n0, A, ...]
        self.lift, self.gamma, self.known = lift, gamma, known  # lift [d, rho]: theta = lift q
        self.n, self.n0 = len(self.pair), len(x0)
        self.unit = np.concatenate([self.pair, np.full(self.n0, self.rho)])
        self.count = np.bincount(self.unit, minlength=self.rho + 1)  # [rho + 1], all positive
        self.start = np.concatenate([[0], np.cumsum(self.count)])

    def first(self, most: int) -> Evidence:
        """The first `most` samples of every pair, or all of them."""
        rank = np.arange(self.n) - self.start[self.pair]
        return Evidence(self.samples.take(np.flatnonzero(rank < most)), self.lift, self.gamma, self.known)

    def solve(
        self, bets: Bets, u: FloatArray, times: FloatArray | None = None, q: FloatArray | None = None,
        steps: int = _NEWTON, settled: float = _SETTLED,
    ) -> Solved:  # fmt: skip
        """The least q with q_j >= F_j(V_q; u_j), by policy iteration (Newton's method) from `q [rho]`.

        F_j(V; u) is the root z of times_j sum_i log(1 + lam_j (z - r_i - gamma V(y_i))) = u, or the floor if that is more.
        It is increasing and convex in (V, u), and a gamma-contraction. `times [rho + 1]` is 1, or more to predict what more
        samples would say. However few steps are made, the q that is returned satisfies the inequality, so that it is above
        the least one.
        """
        times = np.ones(self.rho + 1) if times is None else times
        q = np.zeros(self.rho) if q is None else q
        for step in range(steps + 1):
            x, y, x0 = self.outcomes(q)
            roots = self._roots(x, bets.lam, u, times, np.append(q, 0.0))
            f = np.maximum(roots, bets.floor)
            w, total = self._tilted(x, bets.lam, roots, f > roots)
            short = f[:-1] - q
            if step == steps or float(np.abs(short).max()) <= settled * max(1.0, float(f.max())):
                break
            G = self._next_pairs(w, y)
            q = q + solved(G, self.gamma, short)
        raised = max(float(short.max()), 0.0) / (
            1.0 - self.gamma
        )  # F(q + c) = F(q) + gamma c, so that q + c satisfies it
        return Solved(
            value=(1.0 - self.gamma) * (float(f[-1]) + raised), q=q + raised,
            slopes=lambda: self._slopes(x, bets.lam, roots, w, total, y, x0, times),
        )  # fmt: skip

    def outcomes(self, q: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
        """r + gamma V(y) and V(x0) `[n + n0]` for V = max_a phi . (lift q), and the greedy actions at y and at x0."""
        theta = np.asarray(self.lift @ q)
        V, y = best_actions(self.phi, theta)
        V0, x0 = best_actions(self.phi0, theta)
        return np.concatenate([self.rewards + self.gamma * V, V0]), y, x0

    def moves(self, q: FloatArray, pair: int) -> FloatArray:
        """By how much the fixed point at `pair` moves with the mean outcome of every pair, `[rho]`; to first order."""
        y = self.outcomes(q)[1]
        G = self._next_pairs(1.0 / self.count[self.unit], y)
        return solved(G, self.gamma, np.eye(1, self.rho, pair)[0], transposed=True)

    def _roots(
        self, x: FloatArray, lam: FloatArray, u: FloatArray, times: FloatArray, near: FloatArray
    ) -> FloatArray:
        roots, first = near.copy(), 0
        if self.known:
            roots[:-1], first = x[: self.rho], self.rho
        _roots(x, self.start, lam, u, times, first, roots)
        return roots

    def _tilted(
        self, x: FloatArray, lam: FloatArray, roots: FloatArray, flat: NDArray[np.bool_]
    ) -> tuple[FloatArray, FloatArray]:
        """The derivative of each root by its outcomes `[n + n0]`, 0 at a floor; their sums before they are normalised."""
        w = lam[self.unit] / (1.0 + lam[self.unit] * (roots[self.unit] - x))
        if self.known:
            w[: self.n] = 1.0
        total = np.bincount(self.unit, w, self.rho + 1).astype(np.float64)
        return np.where(flat, 0.0, 1.0 / total)[self.unit] * w, total

    def _next_pairs(self, w: FloatArray, y: IntArray) -> Any:
        """G `[rho, rho]`: the mean coefficients of the next pairs (y, greedy), weighted by w."""
        member = sparse.csr_matrix((w[: self.n], (self.pair, np.arange(self.n))), shape=(self.rho, self.n))
        return (member @ as_matrix(rows_of(self.phi, y), self.lift.shape[0])) @ self.lift

    def _slopes(
        self, x: FloatArray, lam: FloatArray, roots: FloatArray, w: FloatArray, total: FloatArray, y: IntArray,
        x0: IntArray, times: FloatArray,
    ) -> Slopes:  # fmt: skip
        f0 = as_matrix(rows_of(self.phi0, x0), self.lift.shape[0]).T @ w[self.n :]
        kappa = solved(self._next_pairs(w, y), self.gamma, self.lift.T @ f0, transposed=True)
        live = np.bincount(self.unit, w, self.rho + 1) > 0.5
        moved = np.bincount(self.unit, w * (roots[self.unit] - x), self.rho + 1).astype(np.float64)
        return Slopes(
            kappa=(1.0 - self.gamma) * np.append(kappa, 1.0) * live, by_u=1.0 / (times * total), by_bet=-moved
        )


def solved(G: Any, gamma: float, b: FloatArray, transposed: bool = False) -> FloatArray:
    """(I - gamma G)^-1 b for G `[rho, rho]`, or with G' in place of G."""
    G = G.T if transposed else G
    if len(b) <= _DENSE:
        G = G.toarray() if sparse.issparse(G) else G
        system = np.eye(len(b)) - gamma * G
        try:
            return np.asarray(np.linalg.solve(system, b))
        except np.linalg.LinAlgError:  # only where some coefficient is negative
            return np.asarray(np.linalg.lstsq(system, b, rcond=None)[0])
    return np.asarray(splu(sparse.csc_matrix(sparse.identity(len(b)) - gamma * G)).solve(b))


@njit(cache=True, nogil=True)
def _gain(x, a, b, lam, z):
    """sum_i log(1 + lam (z - x_i)) over i = a..b-1, and its derivative by z."""
    value, slope = 0.0, 0.0
    for i in range(a, b):
        by = lam * (z - x[i])
        value += math.log1p(by)
        slope += lam / (1.0 + by)
    return value, slope


@njit(cache=True, nogil=True)
def _roots(x, start, lam, u, times, first, z):
    """Write the root of times_j sum_i log(1 + lam_j (z - x_i)) = u_j into z[j], for j >= `first`, not below it.

    The sum is concave and increasing in z, from minus infinity at max x - 1/lam. Newton's method between brackets.
    """
    for j in range(first, z.shape[0]):
        a, b = start[j], start[j + 1]
        top = x[a]
        for i in range(a, b):
            top = max(top, x[i])
        low, high = top - 1.0 / lam[j], max(z[j], top)
        while times[j] * _gain(x, a, b, lam[j], high)[0] < u[j]:
            low, high = high, high + max(1.0 / lam[j], high - top)
        at = high
        for _ in range(200):
            value, slope = _gain(x, a, b, lam[j], at)
            if times[j] * value >= u[j]:
                high = at
            else:
                low = at
            if high - low <= 1e-13 * max(1.0, abs(high)):
                break
            new = at - (value - u[j] / times[j]) / slope
            new += 1e-14 * max(1.0, abs(new))  # from below it would come near without ever passing it
            at = new if low < new < high else 0.5 * (low + high)
        z[j] = high
