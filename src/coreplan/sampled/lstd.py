"""Least-squares policy iteration (LSTD-Q) on stored samples with sparse features; `Grow` solves with it.

A sample is a pair's features phi(x_i, a_i), its reward, the features of the next state under every action, and a weight.
Every feature vector has the constant 1 as its last coordinate, number d: values have a common level that features without
an intercept cannot represent. It is the one coordinate that is not penalised.

Where the next state is an end, which nothing leaves and which pays r_x for ever, its value r_x / (1 - gamma) is known: it is
added to the reward, and the sample has no next features. A fit would shrink it by its ridge.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from ..base import FloatArray, IntArray
from ..features import SUMS, UNAVAILABLE, Sparse, score
from .systems import NONE, UNIFORM, Choice, Written, is_large, next_values, system_of

SETTLED = 0.002  # policy iteration stops when less than this fraction of next actions changes
MOST = 20  # the most policy iterations
CYCLE = 8  # of the last iterates, which may be a cycle, so many are kept


class WeightedSamples(NamedTuple):
    """N stored samples; `phi` and `next_phi` have the constant appended."""

    phi: Sparse  # [N, K]
    rewards: FloatArray  # [N]
    next_phi: Sparse  # [N, A, K]
    w: FloatArray  # [N]; 0 for samples that are left out, such as those at an end
    ended: NDArray[np.bool_] | None = None  # [N]: the next state is an end; None: none is
    end_rewards: FloatArray | None = None  # [N]: r_x, the reward at that end; 0 if it is none


class Iterated(NamedTuple):
    """The result of policy iteration, which need not settle: with features that do not fit it may go round in a cycle."""

    thetas: list[FloatArray]  # the last iterates [d + 1], at most `CYCLE`; the last one last
    changed: float  # the share of the next actions that the last iteration changed

    @property
    def theta(self) -> FloatArray:
        """The last iterate."""
        return self.thetas[-1]


@njit(cache=True, nogil=True)
def _moment(phi, w, y, b):
    """b += sum_i w_i phi_i y_i."""
    for n in range(phi.index.shape[0]):
        for i in range(phi.index.shape[1]):
            b[phi.index[n, i]] += w[n] * y[n] * phi.weight[n, i]


@njit(cache=True, nogil=True)
def _best(phi, theta, choice, value):
    for n in range(choice.shape[0]):
        choice[n], value[n] = 0, -np.inf
        for a in range(phi.weight.shape[1]):
            s = score(phi, n, a, theta)
            if s > value[n]:
                choice[n], value[n] = a, s


@njit(cache=True, nogil=True, fastmath=SUMS)
def _best_of_shared(weight, theta, choice, value):
    """`_best` where the coordinates are the same at all states: `theta [A, K]` holds those of each action."""
    for n in range(choice.shape[0]):
        choice[n], value[n] = 0, -np.inf
        for a in range(weight.shape[1]):
            s = 0.0
            for i in range(weight.shape[2]):
                s += weight[n, a, i] * theta[a, i]
            if s > value[n] and weight[n, a, 0] != UNAVAILABLE:
                choice[n], value[n] = a, s


def best_values(phi: Sparse, theta: FloatArray, choice: IntArray, value: FloatArray) -> None:
    """Write argmax_a phi(x_n, a) . theta into `choice [n]`, ties to the lowest index, and that maximum into `value [n]`."""
    if len(choice) > 1 and phi.index.strides[0] == 0:
        _best_of_shared(phi.weight, theta[phi.index[0]], choice, value)
    else:
        _best(phi, theta, choice, value)


def greedy(phi: Sparse, theta: FloatArray, choice: IntArray) -> None:
    """Write argmax_a phi(x_n, a) . theta into `choice [n]`; ties go to the lowest index."""
    best_values(phi, theta, choice, np.empty(len(choice)))


def _bounded(
    phi: Sparse, theta: FloatArray, ended: Any, low: float, high: float, choice: IntArray, value: FloatArray
) -> None:
    """The greedy choice at every next state, or NONE where it has ended or theta's value of it is impossible.

    Writes the value that is known into `value [n]`: `low` or `high`, whichever was passed; 0 elsewhere.
    """
    best_values(phi, theta, choice, value)
    outside = (value < low) | (value > high)
    value[:] = np.where(outside & ~ended, np.clip(value, low, high), 0.0)
    choice[outside | ended] = NONE


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

    If d is large (`systems.is_large`), few samples meet many coordinates: g is then the mean over those that were sampled,
    and coordinate i is penalised by (1 - 1/k) of one sample at least. k nonzeros per sample leave k - 1 directions to
    chance, and LSTD-Q magnifies them (tiles in six dimensions, d = 98,304: policy iteration on 50,000 uniform samples with a
    ridge of 1e-3 alone believes in 2.5 times the largest value possible); a single nonzero leaves none.
    """

    def __init__(self, samples: WeightedSamples, dimension: int, ridge: float) -> None:
        self.samples, self.size = samples, dimension + 1
        self.w = samples.w / samples.w.sum()
        ended = samples.ended
        self.ended = np.zeros(len(samples.w), dtype=np.bool_) if ended is None else ended
        self.system = system_of(samples.phi, samples.next_phi, self.w, dimension)
        diagonal = self.system.diagonal[:dimension]
        self.g = _mean_size(diagonal, is_large(dimension))
        self.penalty = np.append(ridge * np.sqrt(np.maximum(diagonal, 1e-6 * self.g) * self.g), 0.0)
        if is_large(dimension):
            self.penalty = np.maximum(self.penalty, self._one_sample())

    def _one_sample(self) -> FloatArray:
        """(1 - 1/k) sum w phi_i^2 / (the number of samples in which phi_i is not zero), `[d + 1]`; 0 for the constant."""
        phi = self.samples.phi
        used = (phi.weight != 0.0) & (self.w[:, None] > 0.0)
        k = used.sum() / np.count_nonzero(self.w) - 1.0  # their mean, without the constant
        count = np.bincount(phi.index[used], minlength=self.size)
        out = (1.0 - 1.0 / max(k, 1.0)) * self.system.diagonal / np.maximum(count, 1)
        out[-1] = 0.0
        return np.asarray(out, dtype=np.float64)

    @property
    def sampled(self) -> NDArray[np.bool_]:
        """Which coordinates are not zero in every sample, `[d + 1]`."""
        return np.asarray(self.system.diagonal != 0.0)

    def iterate(
        self, targets: FloatArray, discount: float, start: FloatArray, within: tuple[float, float]
    ) -> Iterated:
        """Policy iteration by LSTD-Q, starting with the greedy policy of `start [d + 1]`.

        `targets [N]` are the rewards with what ends add to them (see `targets`), or any others. `within` are the smallest
        and the largest reward of one step: no state is worth less than the one for ever, or more than the other. Where
        theta says so nevertheless, the bound takes the place of the next state's value, as if the episode had ended there.
        Off the policy's own path, LSTD-Q with features that do not fit can be unstable; so its values stay where values are.
        """
        low, high = (r / (1.0 - discount) for r in within)
        choice, value, theta = np.empty(len(self.w), dtype=np.int64), np.empty(len(self.w)), start
        free = (-np.inf, np.inf) if not start.any() else (low, high)
        _bounded(self.samples.next_phi, start, self.ended, *free, choice, value)
        thetas, changed = [], 0.0
        for _ in range(MOST):
            b = self._moment(targets + discount * value)
            theta = self.system.solve(choice, self.penalty, b, discount, theta)
            new = np.empty_like(choice)
            _bounded(self.samples.next_phi, theta, self.ended, low, high, new, value)
            changed = float(self.w[new != choice].sum())
            thetas.append(theta)
            choice = new
            if changed < SETTLED:
                break
        return Iterated(thetas[-CYCLE:], changed)

    def solve(self, discount: float, start: FloatArray) -> FloatArray:
        """The last iterate of policy iteration for the samples' own rewards."""
        return self.solve_all(discount, start).theta

    def solve_all(self, discount: float, start: FloatArray) -> Iterated:
        """Policy iteration for the samples' own rewards."""
        r = self.samples.rewards
        return self.iterate(self.targets(discount), discount, start, (float(r.min()), float(r.max())))

    def _moment(self, y: FloatArray) -> FloatArray:
        """sum w phi y, `[d + 1]`."""
        b = np.zeros(self.size)
        _moment(self.samples.phi, self.w, y, b)
        return b

    def evaluate(self, theta: FloatArray, discount: float) -> FloatArray:
        """The values `[d + 1]`, by LSTD-Q on these samples, of the policy that is greedy in `theta [d + 1]`."""
        return self._values(self._greedy(theta), theta, discount)

    def gain(self, theta: FloatArray, discount: float) -> float:
        """How much the greedy policy of `theta` gains over the uniform one, as a mean of V over the samples' next states.

        Both policies are evaluated by LSTD-Q on these samples. Ends are left out: they are worth the same to both.
        """
        choice, V = self._greedy(theta), np.empty((2, len(self.w)))
        next_values(self.samples.next_phi, choice, self._values(choice, theta, discount), V[0])
        next_values(self.samples.next_phi, self._uniform, self.uniform(discount), V[1])
        return float(self.w @ (V[0] - V[1]))

    def uniform(self, discount: float) -> FloatArray:
        """theta `[d + 1]` of the uniform policy's values, by LSTD-Q."""
        return self._values(self._uniform, np.zeros(self.size), discount)

    def evaluate_mixed(self, p: FloatArray, discount: float, start: FloatArray) -> FloatArray:
        """The values `[d + 1]`, by LSTD-Q on these samples, of the policy with probabilities `p [N, A]` at the next states.

        `start [d + 1]` is a guess at them.
        """
        return self._values(np.where(self.ended[:, None], 0.0, p), start, discount)

    def regress(self, y: FloatArray) -> FloatArray:
        """The theta `[d + 1]` whose scores at the pairs are nearest to the targets `y [N]`: regularised least squares."""
        if isinstance(self.system, Written):
            return np.asarray(cho_solve(self._factor, self._moment(y)), dtype=np.float64)
        none = np.full(len(self.w), NONE)
        return self.system.solve(none, self.penalty, self._moment(y), 0.0, np.zeros(self.size))

    @cached_property
    def _factor(self) -> Any:
        """The Cholesky factor of G with its penalty, for regressions on many targets."""
        return cho_factor(self.system.G + np.diag(self.penalty))  # type: ignore[union-attr]

    @property
    def _uniform(self) -> IntArray:
        return np.where(self.ended, NONE, UNIFORM)

    def _greedy(self, theta: FloatArray) -> IntArray:
        """The greedy choice at the next states, `[N]`; NONE at ends, whose value is known."""
        choice = np.empty(len(self.w), dtype=np.int64)
        greedy(self.samples.next_phi, theta, choice)
        choice[self.ended] = NONE
        return choice

    def _values(self, choice: Choice, start: FloatArray, discount: float) -> FloatArray:
        b = self._moment(self.targets(discount))
        return self.system.solve(choice, self.penalty, b, discount, start)

    def targets(self, discount: float) -> FloatArray:
        """r_i, plus discount r_x / (1 - discount) if the next state is an end that pays r_x; `[N]`."""
        s = self.samples
        return s.rewards if s.end_rewards is None else s.rewards + discount / (1.0 - discount) * s.end_rewards


def _mean_size(diagonal: FloatArray, large: bool) -> float:
    """The mean of G's diagonal `[d]`, if d is large over the coordinates that were sampled; 1 if there are none."""
    counted = diagonal[diagonal > 0.0] if large else diagonal
    return (float(counted.mean()) if len(counted) else 0.0) or 1.0


def halves(samples: WeightedSamples, dimension: int, ridge: float) -> list[Equations]:
    """The equations of two halves of the samples.

    Neighbouring samples come from the same chain, so they are cut into twenty blocks that go to the halves in turn; the
    others have weight 0.
    """
    n = len(samples.w)
    half = np.arange(n) * 20 // n % 2
    return [Equations(samples._replace(w=samples.w * (half == k)), dimension, ridge) for k in (0, 1)]


def kept_gain(parts: list[Equations], discount: float) -> float:
    """Fit one policy on each of two `halves` of the samples; the fraction of their gain that they keep on the other's half.

    It is near 1 if there are enough samples; policies that fit noise keep little.
    """
    thetas, rewards = [e.solve(discount, np.zeros(e.size)) for e in parts], parts[0].samples.rewards
    own = sum(e.gain(theta, discount) for e, theta in zip(parts, thetas, strict=True))
    other = sum(e.gain(theta, discount) for e, theta in zip(parts, reversed(thetas), strict=True))
    return other / own if own > 1e-9 * float(np.ptp(rewards)) / (1.0 - discount) else 0.0


def resolved(parts: list[Equations], thetas: list[FloatArray], discount: float) -> FloatArray:
    """Of iterates that did not settle the one that is best on both halves of the samples, if it beats the last one there.

    Their own values cannot tell: each is fitted to the policy before it.
    """
    gains = np.array([[e.gain(theta, discount) for e in parts] for theta in thetas])  # [c, 2]
    lead = (gains - gains[-1]).min(axis=1)
    return thetas[int(np.argmax(lead))] if lead.max() > 0.0 else thetas[-1]
