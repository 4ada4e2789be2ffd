"""The certificate's upper bound on the optimum; docs/certificate.md derives it.

In a linear MDP with an exact core set there is ONE weight vector kappa* over the basis pairs such that for EVERY theta
v* <= (1 - gamma) nu0 . V_theta + <kappa*, delta(theta)>, where delta are the residuals at the basis pairs. So for any rule
theta(kappa) that is fixed on the first half of the samples, a confidence bound at the single, unknown point
(kappa*, theta(kappa*)) is enough, and the largest such bound over all kappa covers it, without a union bound over core
pairs. The rule theta(kappa) = theta + B (tau sign(kappa - kappa^)) makes the bound decrease away from the fitted kappa^, so
that the largest is near kappa^, where the noise of pairs averages instead of adding up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy import sparse
from scipy.optimize import linprog

from ...base import FloatArray
from ...features import Phi, length, n_actions, project, score
from ...sampled import Transitions, curvature
from .first_half import Basis, Fit, Means

STAKE = 0.9  # the largest fraction of the wealth that one outcome may cost, for any kappa
_FLUCTUATION = 2.5  # how many standard deviations of a pair's mean a rule allows for


@dataclass(frozen=True)
class Rule:
    """Everything that is fixed before the second half of the samples is seen.

    With features in the hull and rewards in [0, 1], eta(kappa) (Y - floor) <= STAKE for every outcome Y, sign and kappa.
    """

    fit: Fit
    p: FloatArray  # [rho], the probability with which a sample of the second half is drawn from each basis pair
    tau: FloatArray  # [rho], the steps of the rule theta(kappa)
    n: int  # number of samples in the second half
    log_target: float  # log(1 / alpha)
    bet: float  # eta at kappa^
    slow: FloatArray  # [rho]: eta(kappa) = bet / (1 + sum_j slow_j |kappa_j - kappa^_j|)
    floor: float  # the least bound that can be returned


def allocate(fit: Fit) -> FloatArray:
    """p `[rho]`: mostly by weight times spread, which is best for the mean; the rest for pairs that might matter."""
    weight = np.abs(fit.kappa)
    rho = len(weight)
    shares = [(0.45, weight * fit.sigma), (0.3, np.sqrt(weight)), (0.1, fit.sigma), (0.15, np.ones(rho))]
    return sum(c * (x / x.sum() if x.sum() > 0 else np.full(rho, 1 / rho)) for c, x in shares)  # type: ignore[return-value]


def make_rule(
    model: Means, fit: Fit, n: int, n_first: float, gamma: float, alpha: float, heavy: float, free: bool = True,
    p: FloatArray | None = None,
) -> Rule:  # fmt: skip
    """Bets, steps and bonuses from the first half, which has `n_first` samples per pair.

    `free` tells whether theta may be fitted again with bonuses; `p` fixes the allocation.
    A pair's residual is uncertain by some `need_j`. For pairs with kappa^_j >= `heavy` it becomes tau_j, which costs little
    if tau is small (second order); for the others a bonus on their reward before theta is fitted, which costs
    kappa^_j need_j.
    """
    basis, L = model.basis, math.log(1 / alpha)
    need, bonus = np.zeros(len(fit.kappa)), np.zeros(len(fit.kappa))
    for _ in range(4):  # these depend on each other; the last round makes all of them for the returned fit
        steps = (np.abs(fit.kappa) >= heavy) | (heavy < 1 and not free)  # which pairs get a tau
        if free and need.any() and not steps.all():
            bonus = np.where(steps, 0.0, need)
            fit = model.fit(model.optimise(bonus, fit.theta))
        share, weight, tau = allocate(fit) if p is None else p, np.abs(fit.kappa), np.where(steps, need, 0.0)
        S = max(math.sqrt(((weight * fit.sigma) ** 2 / share).sum()), 1e-12)
        floor = fit.start + float(fit.kappa @ fit.delta) - 6 * S / math.sqrt(n)
        start, range_ = _ranges(basis, fit.theta, (fit.B * tau)[:, tau > 0], gamma)
        top = max((1 - gamma) * start - floor + (weight / share * range_).max(), 1e-9)
        bet = min(math.sqrt(2 * L / n) / S, STAKE / top)
        E = math.sqrt(2 * L / n) / bet  # the spread for which the bet is best: S, or more if S is about 0
        slow = np.maximum(fit.sigma / np.sqrt(share) / E, bet * range_ / share / STAKE)
        price = L / (bet * n) * slow + 0.55 * bet * fit.sigma**2 / share / slow
        need = 1.1 * (_FLUCTUATION * fit.sigma * np.sqrt(1 / n_first + 1 / (n * share)) + price)
        # More than 1 is useless, and larger bonuses would lead to ever larger ones.
        need = np.minimum(need + np.abs(fit.delta + bonus), 1.0)
    return Rule(fit=fit, p=share, tau=tau, n=n, log_target=L, bet=bet, slow=slow, floor=floor)


def _ranges(basis: Basis, theta: FloatArray, B: FloatArray, gamma: float) -> tuple[float, FloatArray]:
    """Upper bounds, for any signs and features in the hull, on V(x0) and on r + gamma V(y) - phi_j . theta `[rho]`."""
    start = (basis.core @ theta + np.abs(basis.core @ B).sum(axis=1)).max()
    value, move = gamma * basis.core @ theta, gamma * basis.core @ B  # [m], [m, rho]
    range_ = np.empty(len(basis.Phi))
    for j, (q, own) in enumerate(zip(basis.Phi @ theta, basis.Phi @ B, strict=True)):
        reach = np.abs(move - own).sum(axis=1)  # [m]
        range_[j] = 1 + (value - q + reach).max()
        if basis.signed:  # negative weights make the lower end matter too
            range_[j] = max(range_[j], (q - value + reach).max())
    return float(start), np.maximum(range_, 1e-9)


@dataclass(frozen=True)
class Upper:
    """The upper bound and its parts."""

    bound: float
    mean: float  # (1 - gamma) nu0 . V + <kappa^, delta>, the estimate
    chance: float  # the cost of the confidence level, at kappa^
    second_order: float  # the cost of not knowing kappa*, near kappa^
    excess: float  # the same cost, farther from kappa^


def upper_bound(basis: Basis, rule: Rule, s: Transitions, gamma: float) -> Upper:
    """A bound that exceeds v* with probability 1 - alpha, for a linear MDP and an exact core set."""
    s.require_independent()
    fit, p, tau, n = rule.fit, rule.p, rule.tau, rule.n
    rho = len(p)
    K = np.flatnonzero(tau > 0)
    B = (fit.B * tau)[:, K]  # [d, k]
    V0, D0, U0 = explore(s.starts, fit.theta, B)
    V, D, U = explore(s.phi, fit.theta, B)
    x = s.rewards + gamma * V - (basis.Phi @ fit.theta)[s.pair]  # [n]
    moved = gamma * U - (basis.Phi @ B)[s.pair]  # [n, k]: how x moves with each sign
    R, R0 = np.abs(moved).sum(axis=1) + gamma * D, np.abs(U0).sum(axis=1) + D0  # [n]: how far x, V0 move

    def by_pair(values: FloatArray) -> FloatArray:  # unbiased means, [rho]
        return np.bincount(s.pair, values, rho) / (n * p)

    member = sparse.csr_matrix((1 / (n * p)[s.pair], (s.pair, np.arange(n))), shape=(rho, n))
    slopes = member @ moved  # [rho, k], ideally -tau_k at (k, k), else 0
    first = (1 - gamma) * U0.mean(axis=0) + fit.kappa @ slopes  # [k], ideally 0
    spill = gamma * by_pair(D)
    second_order = float(np.abs(first).sum() + (1 - gamma) * D0.mean() + np.maximum(fit.kappa, 0) @ spill)

    # Y_i at kappa^, and how much the signs may increase its root mean square and its largest value.
    scale = (fit.kappa / p)[s.pair]
    Y = (1 - gamma) * V0 + scale * x
    extra = (1 - gamma) * R0 + np.abs(scale) * R
    mean, rms_extra = float(Y.mean()), math.sqrt((extra**2).mean())
    largest = float(max((Y + extra).max(), (1 - gamma) * (V0 + R0).max()))
    share = np.zeros(rho)
    np.maximum.at(share, s.pair, np.maximum(np.abs(x) if basis.signed else x, 0.0) + R)
    far = float((rule.bet * share / (p * rule.slow)).max())
    chance = rule.log_target / (rule.bet * n)
    known = mean + second_order + chance
    rms_pair = np.sqrt(np.bincount(s.pair, (np.abs(x) + R) ** 2, rho) / n) / p  # [rho]
    slopes[K, np.arange(len(K))] += tau[K]
    rigid = np.abs(slopes).sum(axis=1) + spill + chance * rule.slow - tau  # [rho], slopes of |h_j|
    bend = rms_pair**2 / rule.slow  # [rho], to be multiplied by the weight of squares
    delta = by_pair(x)
    if rule.bet * (float(Y.max()) - rule.floor) >= 1.0:  # features outside the hull: nothing is proved
        return Upper(bound=1.0, mean=mean, chance=1.0 - mean, second_order=second_order, excess=0.0)

    # For a candidate bound `at`: `weight`, the weight of squares (no stake exceeds STAKE, since features lie in the hull);
    # `here`, what the bound must exceed at kappa^; `kink`, its slopes in |h_j|, h = kappa - kappa^.
    def weight(at: float) -> float:
        return rule.bet * curvature(min(max(rule.bet * (largest - at), far), STAKE))

    def here(at: float) -> float:
        return known + weight(at) * (math.sqrt(((at - Y) ** 2).mean()) + rms_extra) ** 2

    def kink(at: float) -> FloatArray:
        return rigid + weight(at) * bend

    near = _settle(here, max(known, rule.floor))
    slope = _supporting(basis.C, fit.kappa, delta, kink(near))
    bound = _settle(lambda at: here(at) + _beyond(basis.C, fit.kappa, delta, kink(at), slope), near)
    return Upper(
        bound=float(bound),
        mean=mean,
        chance=near - mean - second_order,
        second_order=second_order,
        excess=bound - near,
    )


def _settle(needed: Callable[[float], float], x: float) -> float:
    """Some x' >= x with x' >= `needed(x')`, which is therefore a valid bound; or 1, which no value exceeds."""
    for _ in range(200):
        if x >= 1.0:
            break
        least = needed(x)
        if least <= x:
            return x
        x = least + 1e-9  # more than rounding, so that the iteration ends
    return 1.0


def _beyond(
    C: FloatArray, kappa: FloatArray, delta: FloatArray, kink: FloatArray, slope: FloatArray
) -> float:
    """An upper bound on max <h, delta> + <kink, |h|> over h = C' mu - kappa, mu in the simplex, for ANY `slope [rho]`.

    If kink_j <= 0, kink_j |h_j| <= y h_j for all |y| <= -kink_j; if it is positive, the chord over the range of h_j lies
    above it. The rest is linear in mu, so that its largest value is at a corner.
    """
    steep, constant = _chords(C, kappa, kink)
    total = delta + steep + np.clip(slope, np.minimum(kink, 0.0), np.maximum(-kink, 0.0))
    return float((C @ total).max() - kappa @ total + constant)


def _chords(C: FloatArray, kappa: FloatArray, kink: FloatArray) -> tuple[FloatArray, float]:
    """Chords kink_j |h_j| <= steep_j h_j + constant_j for kink_j > 0: steep `[rho]`, and the sum of the constants."""
    low, high = C.min(axis=0) - kappa, C.max(axis=0) - kappa
    up = np.maximum(kink, 0.0)
    steep = up * (np.abs(high) - np.abs(low)) / np.where(high > low, high - low, 1.0)
    return steep, float((up * np.abs(low) - steep * low).sum())


def _supporting(C: FloatArray, kappa: FloatArray, delta: FloatArray, kink: FloatArray) -> FloatArray:
    """The slope `[rho]` for which `_beyond` is least, from a linear program's multipliers. A bad one only costs width."""
    J, m = np.flatnonzero(kink < 0), len(C)
    slope = np.zeros(len(kink))
    if not len(J):
        return slope
    # Variables mu [m] and a_j >= |h_j|: a_j >= (C' mu - kappa)_j and >= -(...)_j.
    side, unit = sparse.csr_matrix(C.T[J]), sparse.identity(len(J))
    answer = linprog(
        np.concatenate([-C @ (delta + _chords(C, kappa, kink)[0]), -kink[J]]),
        A_ub=sparse.bmat([[side, -unit], [-side, -unit]]), b_ub=np.concatenate([kappa[J], -kappa[J]]),
        A_eq=sparse.csr_matrix(np.append(np.ones(m), np.zeros(len(J)))[None]), b_eq=[1.0], method="highs",
    )  # fmt: skip
    if answer.status == 0:
        above, below = answer.ineqlin.marginals.reshape(2, -1)
        slope[J] = above - below
    return slope


def explore(phi: Phi, theta: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """V `[n]`, D `[n]` and U `[n, k]` with V + U . s <= V_{theta + B s} <= V + U . s + D for all signs s.

    U = phi(x, greedy) B, and D allows for the greedy action changing with s.
    """
    n = length(phi)
    V, D, U = np.empty(n), np.zeros(n), np.empty((n, B.shape[1]))
    _explore(phi, theta, np.ascontiguousarray(B), V, D, U)
    return V, D, U


@njit(cache=True, nogil=True)
def _explore(phi, theta, B, V, D, U):
    A = n_actions(phi)
    q = np.empty(A)
    other = np.empty(B.shape[1])
    for n in range(V.shape[0]):
        best = 0
        for a in range(A):
            q[a] = score(phi, n, a, theta)
            if q[a] > q[best]:
                best = a
        V[n] = q[best]
        project(phi, n, best, B, U[n])
        for a in range(A):
            if a == best or q[a] == -np.inf:
                continue
            project(phi, n, a, B, other)
            total = q[a] - q[best]
            for k in range(other.shape[0]):
                total += abs(other[k] - U[n, k])
            D[n] = max(D[n], total)
