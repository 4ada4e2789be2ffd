"""Policy iteration through a core set on stored next states, for planners that sample once and then solve.

In the sampled model core pair j has a mean reward r_j and next states y_n with weights w_n, which sum to 1 over the rows of
the pair. Values q `[m]` of the core pairs give theta = R q, and q solves the model if

    q_j = r_j + gamma sum_n w_n clip(max_a phi(y_n, a) . theta, 0, 1 / (1 - gamma)).

If the core features are unit vectors (Phi~ = I up to order, possibly with coordinates missing), R scatters q to their
coordinates; otherwise R is the regularised pseudo-inverse of Phi~. If every feature is a convex combination of core
features, this is a contraction, the clipping never acts, and policy iteration finds the unique solution in a handful of
linear systems, at any discount. Otherwise nothing is guaranteed: if policy iteration does not settle, value iteration is
tried, and if that does not settle either, the solution says so.

Rows are in the order in which they were drawn, so that more samples extend the arrays, and pairs may have unequally many:
`pair [n]` says to which core pair a row belongs. By default rows are sample-major, row n belongs to core pair n mod m.
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
from ..features import UNAVAILABLE, Packed, Sparse, take_packed

MOST = 50  # the most policy iterations; a contraction takes fewer than ten
SWEEPS = 3000  # of value iteration, where policy iteration does not settle; damped in the second half
FACTORED = 100  # systems of up to this many unknowns are factorised; larger ones are solved iteratively
LARGE = 4_000_000  # systems with up to this many entries are solved as dense ones, if all else fails
RANGE = 1e-6  # how far, relative to its width, values may leave [0, 1 / (1 - gamma)] without being clipped


@njit(cache=True, nogil=True, inline="always")
def _scores(phi, n, theta, s):
    """s[a] = phi(x_n, a) . theta, or minus infinity if a mask forbids the action."""
    A, B, k = phi.n_actions, phi.weight.shape[1], phi.weight.shape[2]
    s[:] = 0.0
    if B < A:  # one action stands for all
        for i in range(k):
            w, at = phi.weight[n, 0, i], phi.index[n, 0, i]
            if phi.step[n] == 1:
                part = theta[at : at + A]  # a loop over a slice is vectorised
                for a in range(A):
                    s[a] += w * part[a]
            else:
                for a in range(A):
                    s[a] += w * theta[at]
        return
    for a in range(A):
        for i in range(k):
            s[a] += phi.weight[n, a, i] * theta[phi.index[n, a, i]]
        if phi.weight[n, a, 0] == UNAVAILABLE:
            s[a] = -np.inf


@njit(cache=True, nogil=True)
def improve(phi, theta, choice, value):
    """Make `choice [n]` greedy and write its scores into `value [n]`; returns the number of changes.

    A choice that is as good as the best is kept, so that policy iteration does not cycle among ties. -1: no choice yet.
    """
    changed, scores = 0, np.empty(phi.n_actions)
    for n in range(choice.shape[0]):
        best, top, old, kept = 0, -np.inf, choice[n], -np.inf
        _scores(phi, n, theta, scores)
        for a in range(scores.shape[0]):
            s = scores[a]
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
def back_up(value, w, pair, top, q):
    """q_j += sum_n w_n clip(value_n, 0, top), over the rows n of pair j."""
    for n in range(value.shape[0]):
        q[pair[n]] += w[n] * min(max(value[n], 0.0), top)


@njit(cache=True, nogil=True)
def collect(phi, choice, w, order, first, place, indptr, indices, data):
    """Mean next features as a sparse matrix `[m, width]`: row j adds up w_n phi(y_n, choice_n) over the rows n of pair j.

    These are order[first[j]], ..., order[first[j + 1] - 1]. An empty `choice` is the uniform policy over available
    actions. place `[d]` maps coordinates to columns; -1 drops one. `indptr [m + 1]`, `indices` and `data` are filled in
    the csr format, columns in order; returns the number of entries.
    """
    A, B, k, m = phi.n_actions, phi.weight.shape[1], phi.weight.shape[2], first.shape[0] - 1
    n_columns = 0
    for i in range(place.shape[0]):
        n_columns = max(n_columns, place[i] + 1)
    total, seen, columns = np.zeros(n_columns), np.full(n_columns, -1), np.empty(n_columns, dtype=np.int64)
    filled = 0
    for j in range(m):
        count = 0
        for n in order[first[j] : first[j + 1]]:
            if w[n] == 0.0:
                continue
            low, high, share = 0, A, w[n]
            if choice.shape[0]:
                low, high = choice[n], choice[n] + 1
            elif B == A:
                open_ = 0
                for a in range(A):
                    open_ += phi.weight[n, a, 0] != UNAVAILABLE
                share = w[n] / open_
            else:
                share = w[n] / A
            for a in range(low, high):
                b = a if B == A else 0
                if phi.weight[n, b, 0] == UNAVAILABLE:
                    continue
                for i in range(k):
                    at = place[phi.index[n, b, i] + a * phi.step[n]]
                    if at >= 0:
                        if seen[at] != j:
                            seen[at], total[at], columns[count] = j, 0.0, at
                            count += 1
                        total[at] += share * phi.weight[n, b, i]
        indptr[j] = filled
        columns[:count].sort()
        for c in range(count):
            if total[columns[c]] != 0.0:
                indices[filled], data[filled] = columns[c], total[columns[c]]
                filled += 1
    indptr[m] = filled
    return filled


class FixedPoint(NamedTuple):
    """The result of a solve."""

    theta: FloatArray  # [d]
    choice: IntArray  # [n], the greedy action at every stored next state
    residual: float  # largest |q - backup of q|, in normalised units
    settled: bool  # whether it solves the equations
    q: FloatArray | None = (
        None  # [m], the values of the policy `choice` at the core pairs; None after value iteration
    )


class SampledModel:
    """A sampled model (next states, mean rewards, initial states), with its solution and the values of policies in it."""

    def __init__(
        self, next_phi: Sparse | Packed, rewards: FloatArray, initial: Sparse, discount: float,
        pair: IntArray | None = None,
    ) -> None:  # fmt: skip
        self.phi, self.r, self.initial, self.discount = next_phi, rewards, initial, discount
        self.rewards: FloatArray | None = None  # [n], where they are known row by row
        self.rows, self.starts = _in_place(next_phi), _in_place(initial)
        self.n = len(next_phi.weight)
        self.top = 1.0 / (1.0 - discount)
        self.pair = np.arange(self.n) % len(rewards) if pair is None else pair
        self.order, self.first = by_pair(self.pair, len(rewards))
        self._value = np.empty(self.n)

    @classmethod
    def of_rows(
        cls,
        next_phi: Sparse | Packed,
        rewards: FloatArray,
        pair: IntArray,
        m: int,
        initial: Sparse,
        discount: float,
    ) -> SampledModel:
        """The model of samples with rewards `[n]`, of the pairs `pair [n]` of m."""
        means = np.bincount(pair, rewards, m) / np.bincount(pair, minlength=m)
        sampled = cls(next_phi, means, initial, discount, pair)
        sampled.rewards = rewards
        return sampled

    def part(self, rows: IntArray) -> SampledModel:
        """The model of some rows only, which must name every pair."""
        phi, pair = take_packed(self.rows, rows), self.pair[rows]
        if self.rewards is None:
            return SampledModel(phi, self.r, self.initial, self.discount, pair=pair)
        return SampledModel.of_rows(phi, self.rewards[rows], pair, len(self.r), self.initial, self.discount)

    def with_rewards(self, r: FloatArray) -> SampledModel:
        """The model with other mean rewards `[m]`."""
        return SampledModel(self.rows, r, self.initial, self.discount, pair=self.pair)

    @property
    def counts(self) -> IntArray:
        """The number of samples of each pair, `[m]`."""
        return np.diff(self.first)

    @property
    def number(self) -> IntArray:
        """Which sample of its pair every row is, from 0 on: `[n]`."""
        number = np.empty(self.n, dtype=np.int64)
        number[self.order] = np.arange(self.n) - np.repeat(self.first[:-1], self.counts)
        return number

    def equal(self) -> FloatArray:
        """Equal weights for all samples of a pair, `[n]`."""
        return (1.0 / self.counts)[self.pair]

    # Solving.

    def solve(
        self, lift: Lift, w: FloatArray, start: FloatArray | None = None, tolerance: float = 1e-7,
        known: FixedPoint | None = None,
    ) -> FixedPoint:  # fmt: skip
        """The solution by policy iteration, else by value iteration.

        `w [n]` are the samples' weights, `start [d]` is a guess at theta, `tolerance` is in normalised units. Policy
        iteration may start from a policy that is `known` with its values in this model.
        """
        theta, q, choice = np.zeros(lift.d) if start is None else start, None, np.full(self.n, -1)
        if known is not None:
            theta, q, choice = known.theta, known.q, known.choice.copy()
        changed = improve(self.rows, theta, choice, self._value)
        for _ in range(MOST):
            if q is None or changed:
                q = self.evaluate(lift, w, choice, q)
                if q is None or not np.abs(q).max() < 1e3 * self.top:
                    break
                theta = lift.theta(q)
                changed = improve(self.rows, theta, choice, self._value)
            if not changed:
                if self._value.min() >= -RANGE * self.top and self._value.max() <= (1 + RANGE) * self.top:
                    return FixedPoint(theta=theta, choice=choice, residual=0.0, settled=True, q=q)
                break  # the clipping acts, which policy iteration does not take into account
        return self._iterate(lift, w, tolerance)

    def _iterate(self, lift: Lift, w: FloatArray, tolerance: float) -> FixedPoint:
        """Value iteration; the clipping bounds every iterate. Returns the iterate with the least residual."""
        q = self.r.copy()
        best, least = q, np.inf
        choice = np.full(self.n, -1)
        for sweep in range(SWEEPS):
            theta = lift.theta(q)
            improve(self.rows, theta, choice, self._value)
            new = np.zeros(lift.m)
            back_up(self._value, w, self.pair, self.top, new)
            new = self.r + self.discount * new
            residual = float(np.abs(new - q).max()) / self.top
            if residual < least:
                best, least = q, residual
            if residual <= tolerance * (1 - self.discount):
                break
            q = q + (1.0 if sweep < SWEEPS // 2 else 0.1) * (new - q)
        theta = lift.theta(best)
        improve(self.rows, theta, choice, self._value)
        return FixedPoint(theta, choice, least, least <= 10 * tolerance * (1 - self.discount))

    def greedy(self, theta: FloatArray, old: IntArray) -> IntArray:
        """The greedy actions at the next states, `[n]`; those of `old` where they are as good."""
        choice = old.copy()
        improve(self.rows, theta, choice, self._value)
        return choice

    # Values of states and policies.

    def outcomes(self, solution: FixedPoint) -> FloatArray:
        """What every sample says that its pair is worth, reward plus discounted value of the next state: `[n]`."""
        improve(self.rows, solution.theta, solution.choice.copy(), self._value)
        rewards = self.r[self.pair] if self.rewards is None else self.rewards
        return rewards + self.discount * np.clip(self._value, 0.0, self.top)

    def best(self, solution: FixedPoint) -> float:
        """The value of the best state among next and initial states."""
        improve(self.rows, solution.theta, solution.choice.copy(), self._value)
        start = np.empty(len(self.starts.weight))
        improve(self.starts, solution.theta, np.full(len(start), -1), start)
        return float(np.clip(max(self._value.max(), start.max()), 0.0, self.top))

    def value(
        self, lift: Lift, w: FloatArray, theta: FloatArray | None, choice: IntArray | None,
        q: FloatArray | None = None, guess: FloatArray | None = None,
    ) -> float:  # fmt: skip
        """The normalised value in this model of the policy that is greedy in `theta`; None: of the uniform policy.

        `choice [n]` are its actions at the next states. `q [m]` are its values at the core pairs, if they are known, and
        `guess [m]` is a guess at them.
        """
        q = self.evaluate(lift, w, choice, guess) if q is None else q
        if q is None:
            return np.nan
        return float((1 - self.discount) * (self.start_features(theta, lift.d) @ lift.theta(q)))

    def start_features(self, theta: FloatArray | None, d: int) -> FloatArray:
        """The mean features of the initial states under a policy that is greedy in theta (None: uniform), `[d]`."""
        n0 = len(self.starts.weight)
        at, rows = None if theta is None else self.start_choice(theta), (np.arange(n0), np.array([0, n0]))
        return collected(self.starts, at, np.full(n0, 1.0 / n0), rows, np.arange(d), d).toarray()[0]

    def start_choice(self, theta: FloatArray) -> IntArray:
        """The greedy actions at the initial states, `[n0]`."""
        at = np.full(len(self.starts.weight), -1)
        improve(self.starts, theta, at, np.empty(len(at)))
        return at

    def evaluate(
        self, lift: Lift, w: FloatArray, choice: IntArray | None, guess: FloatArray | None = None
    ) -> FloatArray | None:
        """The values q of a policy (None: uniform), the solution of q = r + gamma F R q; None if there is none.

        Large systems are first tried iteratively: a few dozen products with a sparse matrix are usually enough.
        """
        gamma, R, m = self.discount, lift.R, lift.m
        F = self.flow(lift, w, choice)
        if m > FACTORED:
            back = (lambda q: q - gamma * (F @ q)) if R is None else (lambda q: q - gamma * (F @ (R @ q)))
            operator = LinearOperator((m, m), matvec=back, dtype=np.float64)
            q, fault = bicgstab(operator, self.r, x0=guess, rtol=1e-12, maxiter=300)
            if not fault and np.isfinite(q).all():
                return q
            # The iteration breaks down if transitions are nearly deterministic.
            q = self._factored(F) if R is None else None
            if q is not None or m * lift.width > LARGE:
                return q
        matrix = np.eye(m) - gamma * (F.toarray() if R is None else F.toarray() @ R)
        with warnings.catch_warnings():  # an ill-conditioned system does not settle, which is reported
            warnings.simplefilter("ignore", LinAlgWarning)
            try:
                return solve(matrix, self.r, check_finite=False)
            except (LinAlgError, ValueError):
                return None

    def flow(self, lift: Lift, w: FloatArray, choice: IntArray | None) -> csr_matrix:
        """F, the mean next features of a policy (None: uniform) at the core pairs, `[m, width]`."""
        return collected(self.rows, choice, w, (self.order, self.first), lift.place, lift.width)

    def _factored(self, F: csr_matrix) -> FloatArray | None:
        """q by a sparse factorisation, cheap if pairs have few successors; None if they have many, or if it is singular."""
        if F.nnz > 20 * F.shape[0]:
            return None
        try:
            return splu((identity(F.shape[0], format="csc") - self.discount * F).tocsc()).solve(self.r)
        except RuntimeError:  # singular
            return None


def _in_place(phi: Sparse | Packed) -> Packed:
    """The features as compiled code takes them, without a copy."""
    if len(phi) == len(Packed._fields):
        return phi  # type: ignore[return-value]
    step = np.zeros(len(phi.weight), dtype=np.int8)
    return Packed(phi.index, phi.weight, step, phi.weight.shape[1])


@njit(cache=True, nogil=True)
def by_pair(pair, m):
    """Rows pair by pair, each pair's in the order in which they were drawn `[n]`, and where each pair's begin `[m + 1]`."""
    first, order = np.zeros(m + 1, np.int64), np.empty(pair.shape[0], np.int64)
    for n in range(pair.shape[0]):
        first[pair[n] + 1] += 1
    for j in range(m):
        first[j + 1] += first[j]
    free = first.copy()
    for n in range(pair.shape[0]):
        order[free[pair[n]]] = n
        free[pair[n]] += 1
    return order, first


def collected(
    phi: Packed,
    choice: IntArray | None,
    w: FloatArray,
    by: tuple[IntArray, IntArray],
    place: IntArray,
    width: int,
) -> csr_matrix:
    """Mean next features under the policy `choice [n]` (None: uniform), `[m, width]`; `by`: the rows, pair by pair."""
    (order, first), k = by, phi.weight.shape[2]
    m = len(first) - 1
    most = int(np.minimum(np.diff(first) * k * (phi.n_actions if choice is None else 1), width).sum())
    F = csr_matrix((m, width))
    F.indptr, indices, data = np.empty(m + 1, np.int32), np.empty(most, np.int32), np.empty(most)
    none = np.empty(0, dtype=np.int64)
    filled = collect(phi, none if choice is None else choice, w, order, first, place, F.indptr, indices, data)
    F.indices, F.data = indices[:filled], data[:filled]  # given to the constructor, they would be copied
    return F
