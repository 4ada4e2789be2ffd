"""Which core pairs to ask next: those whose noise decides between actions where a policy goes.

Let delta_j be the error of the backup of core pair j, of variance sigma_j^2 / n_j after n_j samples. It moves theta by B
delta, B = R (I - gamma F R)^-1 (`occupancy.responses`), and the lead of the greedy action g over another action a at a
state y, Delta = (phi(y, g) - phi(y, a)) . theta, by sum_j c_j delta_j with c_j = (phi(y, g) - phi(y, a)) . B_j. So the
true lead is about normal with mean Delta and variance s^2 = sum_j c_j^2 sigma_j^2 / n_j, and taking g loses what it falls
below zero:

    E[max(0, -lead)] = s phi_N(Delta / s) - Delta Phi_N(-Delta / s),     of which the derivative by s is phi_N(Delta / s).

A state counts as often as the policy visits it: nu(y) = gamma sum_j lambda_j w_y for next states, with the policy's
discounted visits lambda_j, and 1/n0 for initial ones (performance difference lemma). The sum over states and actions is
the predicted loss,

    L(n) = (1 - gamma) sum_{y, a} nu(y) E[...],     -dL/dn_j = (1 - gamma) sigma_j^2 W_j / (2 n_j^2),
    W_j = sum_{y, a} nu(y) phi_N(Delta / s) / s c_j^2,

so that for a given number of samples n_j ~ sigma_j sqrt(W_j) is best: raising n_j to n_j' gains sigma_j^2 W_j / (n_j
n_j') per query. Steps with the largest gain come first, a quarter of all samples being spread equally; so every prefix of
the order is nearly the best allocation of its length.

With noise that all pairs share their errors are correlated, and common ones cancel: then s^2 = sum_jk c_j c_k C_jk /
max(n_j, n_k), with the covariances C of the samples that all pairs have. Unequal numbers lose this. So it is predicted
for both what would be lost, and pairs are asked unequally where that loses clearly less.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from ..base import FloatArray, IntArray
from ..core import Lift
from ..features import UNAVAILABLE, Packed, take_packed, unpacked
from .occupancy import responses, visits
from .policy_iteration import FixedPoint, SampledModel

MOST_PAIRS = 2000  # core pairs up to which it is computed: it takes a dense system of that size
DECISIONS = 4000  # the most decisions between two actions that are looked at
ENTRIES = 8_000_000  # the most numbers of their features
EQUAL = 0.25  # the share of the samples that is spread equally
PAYS = 0.75  # unequal numbers are taken if they are predicted to lose less than this part of what equal ones lose


class Decisions(NamedTuple):
    """Choices between the greedy action and another one, and how they depend on the backups of the core pairs."""

    lead: FloatArray  # [k], Delta
    weight: FloatArray  # [k], nu
    c: FloatArray  # [k, m]
    deviation: FloatArray  # [m], sigma
    shared: (
        FloatArray | None
    )  # [n, m], deviations of the samples that all pairs share; None: noise is independent


def decisions(sampled: SampledModel, lift: Lift, solution: FixedPoint, shared: bool) -> Decisions | None:
    """The decisions that the policy meets; None if they cannot be computed, or if there is no noise."""
    w = sampled.equal()
    if lift.m > MOST_PAIRS or not solution.settled:
        return None
    met = visits(sampled, lift, w, solution.theta, solution.choice)
    error = sampled.outcomes(solution)
    error -= np.bincount(sampled.pair, w * error, lift.m)[sampled.pair]
    counts = sampled.counts
    deviation = np.sqrt(np.bincount(sampled.pair, error**2, lift.m) / np.maximum(counts - 1, 1))
    if met is None or deviation.max() <= 1e-9 * sampled.top:
        return None
    nu = np.maximum(sampled.discount * met, 0.0)[sampled.pair] * w
    at_start = sampled.start_choice(solution.theta)
    parts = [
        _differences(phi, weight, choice, solution.theta, lift)
        for phi, weight, choice in (
            (sampled.rows, nu, solution.choice),
            (sampled.starts, np.full(len(at_start), 1.0 / len(at_start)), at_start),
        )
    ]
    lead, weight, rows = (np.concatenate(part) for part in zip(*parts, strict=True))
    c = responses(sampled, lift, w, solution.choice, rows)
    if c is None or not len(lead) or not np.isfinite(c).all():
        return None
    every = error[sampled.order[(sampled.first[:-1, None] + np.arange(counts.min())).T]] if shared else None
    return Decisions(lead=lead, weight=weight, c=c, deviation=deviation, shared=every)


def _differences(
    phi: Packed, weight: FloatArray, choice: IntArray, theta: FloatArray, lift: Lift
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Leads `[k]`, weights `[k]` and differences of features, times R `[k, m]`, of the greedy and the other actions.

    Of many states some are taken, spread evenly over their total weight.
    """
    A, total = phi.n_actions, float(weight.sum())
    most = max(min(DECISIONS // max(A - 1, 1), ENTRIES // (A * lift.width)), 8)
    which, share = np.flatnonzero(weight > 0.0), weight[weight > 0.0]
    if len(which) > most:
        at = np.searchsorted(np.cumsum(share), (np.arange(most) + 0.5) / most * total)
        which, times = np.unique(which[np.minimum(at, len(which) - 1)], return_counts=True)
        share = times.astype(np.float64) * (total / most)
    index, weights = unpacked(take_packed(phi, which))
    open_ = weights[:, :, 0] > UNAVAILABLE
    dense = np.zeros((len(which), A, lift.d if lift.R is not None else lift.width + 1))
    column = index if lift.R is not None else lift.place[index]  # -1: the last column, which is dropped
    state, action = np.ogrid[: len(which), :A]
    for i in range(index.shape[2]):
        np.add.at(dense, (state, action, column[:, :, i]), np.where(open_, weights[:, :, i], 0.0))
    scores = (np.where(open_[..., None], weights, 0.0) * theta[index]).sum(axis=2)
    greedy = choice[which][:, None]
    lead = np.take_along_axis(scores, greedy, axis=1) - scores
    apart = np.take_along_axis(dense, greedy[..., None], axis=1) - dense
    other = open_ & (np.arange(A) != greedy) & (apart != 0.0).any(axis=2)
    rows = apart[other] @ lift.R if lift.R is not None else apart[other][:, :-1]
    return np.maximum(lead[other], 0.0), np.repeat(share, other.sum(axis=1)), rows


def spread(given: Decisions, counts: IntArray | FloatArray) -> FloatArray:
    """s, the standard deviation of every lead after `counts [m]` samples: `[k]`."""
    square: FloatArray = np.zeros(len(given.c))
    if given.shared is None:
        variance: FloatArray = given.deviation**2 / np.asarray(counts, dtype=np.float64)
        square = given.c**2 @ variance
    else:
        before = 0.0
        for a in np.unique(1.0 / counts):  # min(1/n_j, 1/n_k) as a sum over the levels of 1/n
            inside = 1.0 / counts >= a
            error = given.c[:, inside] @ given.shared[:, inside].T
            square += (float(a) - before) * (error**2).sum(axis=1) / max(error.shape[1] - 1, 1)
            before = float(a)
    return np.sqrt(np.maximum(square, np.finfo(float).tiny))


def predicted(given: Decisions, counts: IntArray | FloatArray) -> float:
    """The loss L that is predicted after `counts [m]` samples, without its factor 1 - gamma."""
    s = spread(given, counts)
    z = given.lead / s
    return float(given.weight @ (s * norm.pdf(z) - given.lead * norm.cdf(-z)))


def shares(given: Decisions, counts: IntArray) -> FloatArray:
    """The best share of the samples for each pair, `[m]`, sigma_j sqrt(W_j) in proportion, of which a part is equal."""
    s = np.sqrt(given.c**2 @ (given.deviation**2 / counts))
    noisy = s > 0.0  # no sample changes a lead that no noise reaches
    s, c = s[noisy], given.c[noisy]
    best = given.deviation * np.sqrt((given.weight[noisy] * norm.pdf(given.lead[noisy] / s) / s) @ c**2)
    total = best.sum()
    return np.full(len(counts), EQUAL / len(counts)) + (1.0 - EQUAL) * best / (total if total > 0.0 else 1.0)


def steps(counts: IntArray, share: FloatArray, total: int, balanced: bool) -> tuple[IntArray, IntArray]:
    """The pairs to ask, and how often, one step after the other, until there are `total` samples: `[k]` each.

    A step leads from one of the numbers of samples 8, 10, 12, 14, 16, 20, 24, ... to the next, at which quasi-random
    points are balanced; the step with the largest gain per query, share^2 / (n n'), is next. If not `balanced`, the last
    may be shorter.
    """
    pair: list[int] = []
    size: list[int] = []
    gain: list[float] = []
    for j, n in enumerate(counts.tolist()):
        while n < total and n <= 4 * total * share[j] + 8:
            further = after(n)
            pair.append(j)
            size.append(further - n)
            gain.append(share[j] ** 2 / (n * further))
            n = further
    order = np.argsort(-np.array(gain), kind="stable")
    pairs, sizes = np.array(pair)[order], np.array(size)[order]
    left = total - int(counts.sum()) - np.cumsum(sizes) + sizes
    taken = left >= (sizes if balanced else 1)
    taken = taken & np.logical_and.accumulate(taken)
    return pairs[taken], np.minimum(sizes, left)[taken]


def after(n: int) -> int:
    """The number of samples after n at which a quasi-random sequence is balanced: whole quarters of a power of two."""
    step = max(1, 2 ** (n.bit_length() - 3))
    return n - n % step + step


def pays(given: Decisions, counts: IntArray, sizes: tuple[IntArray, IntArray]) -> bool:
    """Whether unequal numbers, those of `steps`, are predicted to lose clearly less than as many equal ones."""
    unequal = counts + np.bincount(sizes[0], sizes[1], len(counts))
    equal = np.full(len(counts), unequal.mean())
    return predicted(given, unequal) < PAYS * predicted(given, equal)
