"""Least-squares policy iteration (LSTD-Q) on stored samples with sparse features; `Grow` solves with it.

A sample is a pair's features phi(x_i, a_i), its reward, the features of the next state under every action, and a weight.
Every feature vector has the constant 1 as its last coordinate, number d: values have a common level that features without
an intercept cannot represent. It is the one coordinate that is not penalised.

Where the next state is an end, which nothing leaves and which pays r_x for ever, its value r_x / (1 - gamma) is known: it is
added to the reward, and the sample has no next features. A fit would shrink it by its ridge.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..base import FloatArray, IntArray
from ..features import UNAVAILABLE, Sparse, score

SETTLED = 0.002  # policy iteration stops when less than this fraction of next actions changes
MOST = 20  # the most policy iterations


class WeightedSamples(NamedTuple):
    """N stored samples; `phi` and `next_phi` have the constant appended."""

    phi: Sparse  # [N, K]
    rewards: FloatArray  # [N]
    next_phi: Sparse  # [N, A, K]
    w: FloatArray  # [N]; 0 for samples that are left out, such as those at an end
    ended: NDArray[np.bool_] | None = None  # [N]: the next state is an end; None: none is
    end_rewards: FloatArray | None = None  # [N]: r_x, the reward at that end; 0 if it is none


@njit(cache=True, nogil=True)
def gram(phi, w, G):
    """G += sum_i w_i phi_i phi_i'."""
    index, weight = phi
    for n in range(index.shape[0]):
        for i in range(index.shape[1]):
            for j in range(index.shape[1]):
                G[index[n, i], index[n, j]] += w[n] * weight[n, i] * weight[n, j]


@njit(cache=True, nogil=True)
def _cross(phi, next_phi, w, ended, old, new, C):
    """Update C = sum_i w_i phi_i phi(y_i, choice_i)' from the choices `old` (-1: none yet) to `new`; ends count as 0."""
    index, weight = phi
    for n in range(index.shape[0]):
        if old[n] == new[n] or ended[n] or w[n] == 0.0:
            continue
        for i in range(index.shape[1]):
            row, value = index[n, i], w[n] * weight[n, i]
            for j in range(index.shape[1]):
                C[row, next_phi.index[n, new[n], j]] += value * next_phi.weight[n, new[n], j]
                if old[n] >= 0:
                    C[row, next_phi.index[n, old[n], j]] -= value * next_phi.weight[n, old[n], j]


@njit(cache=True, nogil=True)
def _cross_uniform(phi, next_phi, w, ended, C):
    """C += sum_i w_i phi_i (mean over the available actions of phi(y_i, a))'; ends count as 0."""
    index, weight = phi
    for n in range(index.shape[0]):
        if ended[n]:
            continue
        count = 0
        for a in range(next_phi.weight.shape[1]):
            count += next_phi.weight[n, a, 0] != UNAVAILABLE
        for a in range(next_phi.weight.shape[1]):
            if next_phi.weight[n, a, 0] == UNAVAILABLE:
                continue
            for i in range(index.shape[1]):
                row, value = index[n, i], w[n] * weight[n, i] / count
                for j in range(index.shape[1]):
                    C[row, next_phi.index[n, a, j]] += value * next_phi.weight[n, a, j]


@njit(cache=True, nogil=True)
def _moment(phi, w, y, b):
    """b += sum_i w_i phi_i y_i."""
    for n in range(phi.index.shape[0]):
        for i in range(phi.index.shape[1]):
            b[phi.index[n, i]] += w[n] * y[n] * phi.weight[n, i]


@njit(cache=True, nogil=True)
def greedy(phi, theta, choice):
    """Write argmax_a phi(x_n, a) . theta into `choice [n]`; ties go to the lowest index."""
    for n in range(choice.shape[0]):
        best, top = 0, -np.inf
        for a in range(phi.weight.shape[1]):
            s = score(phi, n, a, theta)
            if s > top:
                best, top = a, s
        choice[n] = best


OTHERWISE = 0.01  # the share of states at which policies act differently that makes them two policies


def differ(phi: Sparse, theta: FloatArray, other: FloatArray) -> bool:
    """Whether the greedy policies of two vectors `[d]` act differently in a good many of the states `[n, A, k]`."""
    choices = np.empty((2, len(phi.weight)), dtype=np.int64)
    for choice, vector in zip(choices, (theta, other), strict=True):
        greedy(phi, vector, choice)
    return bool((choices[0] != choices[1]).mean() > OTHERWISE)


class Equations:
    """The normal equations of one set of samples, for any rewards and discount.

    Coordinate i is penalised by ridge sqrt(G_ii g), where g is the mean of G's diagonal. That is between two extremes: the
    same penalty g for all flattens the values of what is rarely visited; G_ii alone leaves them to noise.
    """

    def __init__(self, samples: WeightedSamples, dimension: int, ridge: float) -> None:
        self.samples, self.size = samples, dimension + 1
        self.w = samples.w / samples.w.sum()
        self.G = np.zeros((self.size, self.size))  # sum w phi phi', with weights that sum to 1
        gram(samples.phi, self.w, self.G)
        diagonal = np.diag(self.G)[:dimension]
        self.g = float(diagonal.mean()) or 1.0
        self.penalty = np.append(ridge * np.sqrt(np.maximum(diagonal, 1e-6 * self.g) * self.g), 0.0)
        ended = samples.ended
        self.ended = np.zeros(len(samples.w), dtype=np.bool_) if ended is None else ended
        self._choice = np.full(len(samples.w), -1)
        self._C = np.zeros((self.size, self.size))

    def iterate(self, targets: FloatArray, discount: float, start: FloatArray) -> FloatArray:
        """Policy iteration by LSTD-Q, starting with the greedy policy of `start [d + 1]`; returns the last theta.

        `targets [N]` are the rewards with what ends add to them (see `targets`), or any others.
        """
        s, b = self.samples, self._moment(targets)
        choice = np.empty(len(self.w), dtype=np.int64)
        greedy(s.next_phi, start, choice)
        for _ in range(MOST):
            theta = self._evaluate(choice, b, discount)
            new = np.empty_like(choice)
            greedy(s.next_phi, theta, new)
            changed = float(self.w[(new != choice) & ~self.ended].sum())
            choice = new
            if changed < SETTLED:
                break
        return theta

    def _evaluate(self, choice: IntArray, b: FloatArray, discount: float) -> FloatArray:
        """LSTD-Q: (G - discount C_pi + penalty) theta = b for the policy that takes `choice` at the next states."""
        s = self.samples
        # Updates only what has changed since the last solve.
        _cross(s.phi, s.next_phi, self.w, self.ended, self._choice, choice, self._C)
        self._choice = choice
        return self._solve(self._C, b, discount)

    def _solve(self, C: FloatArray, b: FloatArray, discount: float) -> FloatArray:
        matrix = self.G - discount * C
        matrix[np.diag_indices(self.size)] += self.penalty
        try:
            return np.asarray(np.linalg.solve(matrix, b), dtype=np.float64)
        except np.linalg.LinAlgError:  # exactly singular: some features were never seen
            return np.asarray(np.linalg.lstsq(matrix, b, rcond=None)[0], dtype=np.float64)

    def _moment(self, y: FloatArray) -> FloatArray:
        """sum w phi y, `[d + 1]`."""
        b = np.zeros(self.size)
        _moment(self.samples.phi, self.w, y, b)
        return b

    def evaluate(self, theta: FloatArray, discount: float) -> FloatArray:
        """The values `[d + 1]`, by LSTD-Q on these samples, of the policy that is greedy in `theta [d + 1]`."""
        choice = np.empty(len(self.w), dtype=np.int64)
        greedy(self.samples.next_phi, theta, choice)
        return self._evaluate(choice, self._moment(self.targets(discount)), discount)

    def gain(self, theta: FloatArray, discount: float) -> float:
        """How much the greedy policy of `theta` gains over the uniform one, as a mean of V over the samples' next states.

        Both policies are evaluated by LSTD-Q on these samples. The constant is one of the features, so its row of C_pi
        times theta is the mean of V over the next states, but for ends, which are worth the same to both.
        """
        b = self._moment(self.targets(discount))
        own = self.evaluate(theta, discount)
        C = self._uniform_cross()
        return float(self._C[-1] @ own - C[-1] @ self._solve(C, b, discount))

    def uniform(self, discount: float) -> FloatArray:
        """theta `[d + 1]` of the uniform policy's values, by LSTD-Q."""
        return self._solve(self._uniform_cross(), self._moment(self.targets(discount)), discount)

    def targets(self, discount: float) -> FloatArray:
        """r_i, plus discount r_x / (1 - discount) if the next state is an end that pays r_x; `[N]`."""
        s = self.samples
        return s.rewards if s.end_rewards is None else s.rewards + discount / (1.0 - discount) * s.end_rewards

    def _uniform_cross(self) -> FloatArray:
        C = np.zeros((self.size, self.size))
        _cross_uniform(self.samples.phi, self.samples.next_phi, self.w, self.ended, C)
        return C


def kept_gain(samples: WeightedSamples, dimension: int, ridge: float, discount: float) -> float:
    """Fit one policy on each half of the samples; the fraction of their gain that they keep on each other's half.

    It is near 1 if there are enough samples; policies that fit noise keep little. Neighbouring samples come from the same
    chain, so the samples are cut into twenty blocks that go to the halves in turn.
    """
    n = len(samples.w)
    half = np.arange(n) * 20 // n % 2
    parts = [Equations(_rows(samples, half == k), dimension, ridge) for k in (0, 1)]
    thetas = [e.iterate(e.targets(discount), discount, np.zeros(e.size)) for e in parts]
    own = sum(e.gain(theta, discount) for e, theta in zip(parts, thetas, strict=True))
    other = sum(e.gain(theta, discount) for e, theta in zip(parts, reversed(thetas), strict=True))
    return other / own if own > 1e-9 * float(np.ptp(samples.rewards)) / (1.0 - discount) else 0.0


def _rows(s: WeightedSamples, which: NDArray[np.bool_]) -> WeightedSamples:
    phi, next_phi = (Sparse(p.index[which], p.weight[which]) for p in (s.phi, s.next_phi))
    ended = None if s.ended is None else s.ended[which]
    end_rewards = None if s.end_rewards is None else s.end_rewards[which]
    return s._replace(
        phi=phi,
        rewards=s.rewards[which],
        next_phi=next_phi,
        w=s.w[which],
        ended=ended,
        end_rewards=end_rewards,
    )
