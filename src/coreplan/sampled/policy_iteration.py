"""Policy iteration through a core set on stored next states, for planners that sample once and then solve.

In the sampled model core pair j has a mean reward r_j and next states y_n with weights w_n, which sum to 1 over the rows of
the pair. Values q `[m]` of the core pairs give theta = R q, and q solves the model if

    q_j = r_j + gamma sum_n w_n clip(max_a phi(y_n, a) . theta, 0, 1 / (1 - gamma)).

If the core features are unit vectors (Phi~ = I up to order, possibly with coordinates missing), R scatters q to their
coordinates; otherwise R is the regularised pseudo-inverse of Phi~. If every feature is a convex combination of core
features, this is a contraction, the clipping never acts, and policy iteration finds the unique solution in a handful of
linear systems, at any discount. Otherwise nothing is guaranteed: if policy iteration does not settle, value iteration is
tried, and if that does not settle either, the solution says so.

Rows are sample-major: row n belongs to core pair n mod m, so that more samples extend the arrays.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.linalg import LinAlgError, LinAlgWarning, solve
from scipy.sparse import csr_matrix, identity
from scipy.sparse.linalg import LinearOperator, bicgstab, splu

from ..base import FloatArray, IntArray
from ..core import Lift
from ..features import UNAVAILABLE, Sparse, score

MOST = 50  # the most policy iterations; a contraction takes fewer than ten
SWEEPS = 3000  # of value iteration, where policy iteration does not settle; damped in the second half
FACTORED = 100  # systems of up to this many unknowns are factorised; larger ones are solved iteratively
LARGE = 4_000_000  # mean features with up to this many entries are collected in a dense matrix
RANGE = 1e-6  # how far, relative to its width, values may leave [0, 1 / (1 - gamma)] without being clipped


@njit(cache=True, nogil=True)
def improve(phi, theta, choice, value):
    """Make `choice [n]` greedy and write its scores into `value [n]`; returns the number of changes.

    A choice that is as good as the best is kept, so that policy iteration does not cycle among ties. -1: no choice yet.
    """
    changed = 0
    for n in range(choice.shape[0]):
        best, top, old, kept = 0, -np.inf, choice[n], -np.inf
        for a in range(phi.weight.shape[1]):
            s = score(phi, n, a, theta)
            if s > top:
                best, top = a, s
            if a == old:
                kept = s
        if top <= kept + 1e-10 * max(1.0, abs(kept)):
            best, top = old, kept
        changed += best != old
        choice[n] = best
        value[n] = top
    return changed


@njit(cache=True, nogil=True)
def back_up(value, w, top, q):
    """q_j += sum_n w_n clip(value_n, 0, top), over the rows n of pair j."""
    m = q.shape[0]
    for n in range(value.shape[0]):
        q[n % m] += w[n] * min(max(value[n], 0.0), top)


@njit(cache=True, nogil=True)
def collect(phi, choice, w, place, F):
    """Add up the mean next features: F[n mod m, place[i]] += w_n phi_i(y_n, choice_n). place = -1 drops a coordinate."""
    m = F.shape[0]
    for n in range(choice.shape[0]):
        a = choice[n]
        for i in range(phi.weight.shape[2]):
            at = place[phi.index[n, a, i]]
            if at >= 0:
                F[n % m, at] += w[n] * phi.weight[n, a, i]


@njit(cache=True, nogil=True)
def collect_uniform(phi, w, place, F):
    """`collect` for the uniform policy over available actions."""
    m, A = F.shape[0], phi.weight.shape[1]
    for n in range(phi.weight.shape[0]):
        open_ = 0
        for a in range(A):
            open_ += phi.weight[n, a, 0] != UNAVAILABLE
        for a in range(A):
            if phi.weight[n, a, 0] != UNAVAILABLE:
                for i in range(phi.weight.shape[2]):
                    at = place[phi.index[n, a, i]]
                    if at >= 0:
                        F[n % m, at] += w[n] / open_ * phi.weight[n, a, i]


class FixedPoint(NamedTuple):
    """The result of a solve."""

    theta: FloatArray  # [d]
    choice: IntArray  # [n], the greedy action at every stored next state
    residual: float  # largest |q - backup of q|, in normalised units
    settled: bool  # whether it solves the equations


class SampledModel:
    """A sampled model (next states, mean rewards, initial states), with its solution and the values of policies in it."""

    def __init__(self, next_phi: Sparse, rewards: FloatArray, initial: Sparse, discount: float) -> None:
        self.phi, self.r, self.initial, self.discount = next_phi, rewards, initial, discount
        self.n = len(next_phi.weight)
        self.top = 1.0 / (1.0 - discount)
        self._value = np.empty(self.n)

    def equal(self) -> FloatArray:
        """Equal weights for all samples of a pair, `[n]`."""
        return np.full(self.n, len(self.r) / self.n)

    def solve(
        self, lift: Lift, w: FloatArray, start: FloatArray | None = None, tolerance: float = 1e-7
    ) -> FixedPoint:
        """The solution by policy iteration, else by value iteration.

        `w [n]` are the samples' weights, `start [d]` is a guess at theta, `tolerance` is in normalised units.
        """
        theta, q = np.zeros(lift.d) if start is None else start, None
        choice = np.full(self.n, -1)
        improve(self.phi, theta, choice, self._value)
        for _ in range(MOST):
            q = self._evaluate(lift, self._collected(lift, choice, w), q)
            if q is None or not np.abs(q).max() < 1e3 * self.top:
                break
            theta = lift.theta(q)
            if improve(self.phi, theta, choice, self._value) == 0:
                if self._value.min() >= -RANGE * self.top and self._value.max() <= (1 + RANGE) * self.top:
                    return FixedPoint(theta, choice, 0.0, True)
                break  # the clipping acts, which policy iteration does not take into account
        return self._iterate(lift, w, tolerance)

    def _iterate(self, lift: Lift, w: FloatArray, tolerance: float) -> FixedPoint:
        """Value iteration; the clipping bounds every iterate. Returns the iterate with the least residual."""
        q = self.r.copy()
        best, least = q, np.inf
        choice = np.full(self.n, -1)
        for sweep in range(SWEEPS):
            theta = lift.theta(q)
            improve(self.phi, theta, choice, self._value)
            new = np.zeros(lift.m)
            back_up(self._value, w, self.top, new)
            new = self.r + self.discount * new
            residual = float(np.abs(new - q).max()) / self.top
            if residual < least:
                best, least = q, residual
            if residual <= tolerance * (1 - self.discount):
                break
            q = q + (1.0 if sweep < SWEEPS // 2 else 0.1) * (new - q)
        theta = lift.theta(best)
        improve(self.phi, theta, choice, self._value)
        return FixedPoint(theta, choice, least, least <= 10 * tolerance * (1 - self.discount))

    def value(self, lift: Lift, w: FloatArray, theta: FloatArray | None, choice: IntArray | None) -> float:
        """The normalised value in this model of the policy that is greedy in `theta`; None: of the uniform policy.

        `choice [n]` are its actions at the next states.
        """
        F = self._collected(lift, choice, w)
        q = self._evaluate(lift, F)
        if q is None:
            return np.nan
        f0 = np.zeros((1, lift.d))
        w0, all_ = np.full(len(self.initial.weight), 1.0 / len(self.initial.weight)), np.arange(lift.d)
        if theta is None:
            collect_uniform(self.initial, w0, all_, f0)
        else:
            at = np.full(len(w0), -1)
            improve(self.initial, theta, at, np.empty(len(w0)))
            collect(self.initial, at, w0, all_, f0)
        return float((1 - self.discount) * (f0[0] @ lift.theta(q)))

    def _collected(self, lift: Lift, choice: IntArray | None, w: FloatArray) -> FloatArray | csr_matrix:
        """Mean next features under the policy `choice [n]` (None: uniform), `[m, width]`."""
        if lift.m * lift.width > LARGE:
            return self._sparse(lift, choice, w)
        F = np.zeros((lift.m, lift.width))
        if choice is None:
            collect_uniform(self.phi, w, lift.place, F)
        else:
            collect(self.phi, choice, w, lift.place, F)
        return F if lift.m <= FACTORED else csr_matrix(F)

    def _sparse(self, lift: Lift, choice: IntArray | None, w: FloatArray) -> csr_matrix:
        """The same as `_collected`, without a dense intermediate matrix."""
        rows = np.arange(self.n)
        if choice is None:
            open_ = self.phi.weight[:, :, :1] != UNAVAILABLE  # [n, A, 1]
            weight = np.where(open_, self.phi.weight, 0.0) / open_.sum(axis=1, keepdims=True)
            index, weight = self.phi.index.reshape(self.n, -1), weight.reshape(self.n, -1)
        else:
            index, weight = self.phi.index[rows, choice], self.phi.weight[rows, choice]  # [n, k]
        to = lift.place[index]
        weight = np.where(to >= 0, weight * w[:, None], 0.0)
        row = np.broadcast_to((rows % lift.m)[:, None], to.shape)
        entries = (weight.ravel(), (row.ravel(), np.maximum(to, 0).ravel()))
        F = csr_matrix(entries, shape=(lift.m, lift.width))  # adds up repeated entries
        F.eliminate_zeros()
        return F

    def _factored(self, F: csr_matrix) -> FloatArray | None:
        """q by a sparse factorisation, cheap if pairs have few successors; None if they have many, or if it is singular."""
        if F.nnz > 20 * F.shape[0]:
            return None
        try:
            return splu((identity(F.shape[0], format="csc") - self.discount * F).tocsc()).solve(self.r)
        except RuntimeError:  # singular
            return None

    def _evaluate(
        self, lift: Lift, F: FloatArray | csr_matrix, start: FloatArray | None = None
    ) -> FloatArray | None:
        """The solution of q = r + gamma F R q; None if there is none.

        Large systems are first tried iteratively: a few dozen products with a sparse matrix are usually enough.
        """
        gamma, R, m = self.discount, lift.R, lift.m
        if m > FACTORED:
            back = (lambda q: q - gamma * (F @ q)) if R is None else (lambda q: q - gamma * (F @ (R @ q)))
            operator = LinearOperator((m, m), matvec=back, dtype=np.float64)
            q, fault = bicgstab(operator, self.r, x0=start, rtol=1e-12, maxiter=300)
            if not fault and np.isfinite(q).all():
                return q
            # The iteration breaks down if transitions are nearly deterministic.
            if m * lift.width > LARGE:
                return self._factored(F) if R is None else None
            F = F.toarray() if isinstance(F, csr_matrix) else F
        matrix = np.eye(m) - gamma * (F if R is None else F @ R)
        with warnings.catch_warnings():  # an ill-conditioned system does not settle, which is reported
            warnings.simplefilter("ignore", LinAlgWarning)
            try:
                return solve(matrix, self.r, check_finite=False)
            except (LinAlgError, ValueError):
                return None
