"""Section 5 and appendix B: the regrets of mirror ascent, of the policies and of averaged gradient descent."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ...base import FloatArray
from ...planners import PrimalDual, primal_dual
from ..estimators import point, theta_outcomes
from ..operators import compose, conditional_entropy, gradients, optimal, state_measure, state_occupancy
from ..recorded import record
from ..rows import Row, above, at_most, group
from ..tables import Enumerated
from .instances import two_actions


@group("lem:OMD", "regret of mirror ascent")
def mirror_ascent() -> Iterable[Row]:
    """`lem:OMD` for the planner's own update in log space, over all 2^8 paths of random one-coordinate gradients.

    One instance always rewards the comparator's coordinate, the others are random; tau is the value that minimises the
    bound. Without any step the regret on the first would be 1.2 times the bound.
    """
    rng = np.random.default_rng(5)
    N, n, G, worst = 4, 8, 2.0, -np.inf
    for instance in range(5):
        if instance == 0:
            outcomes = [[(0, G), (0, 0.9 * G)]] * n
            start, star = np.full(N, 1 / N), np.eye(N)[0]
        else:
            outcomes = [[(int(rng.integers(N)), rng.uniform(-G, G)) for _ in range(2)] for _ in range(n)]
            start, star = rng.dirichlet(np.ones(N)), rng.dirichlet(np.full(N, 0.3))
        support = star > 0
        kl = float(np.sum(star[support] * np.log(star[support] / start[support])))
        tau = float(np.sqrt(2 * kl / n)) / G
        worst = max(worst, _regret(start, star, outcomes, tau) / (kl / tau + tau * n * G**2 / 2))
    yield at_most("regret of mirror ascent over its bound (all paths enumerated)", "lem:OMD", 1.0, worst)


def _regret(
    start: FloatArray, star: FloatArray, outcomes: list[list[tuple[int, float]]], tau: float
) -> float:
    """The expected regret if each step has two equally likely (coordinate, gradient) outcomes."""
    kernels, N, regret = primal_dual.planner.kernels, len(start), 0.0
    for path in itertools.product(range(2), repeat=len(outcomes)):
        log_omega, tree = np.log(start), np.empty(2 * N)
        kernels.build_tree(log_omega, tree)
        for step, which in zip(outcomes, path, strict=True):
            mean = np.zeros(N)
            for j, g in step:
                mean[j] += g / 2
            regret += float((star - tree[N:] / tree[1]) @ mean) / 2 ** len(outcomes)
            kernels.raise_log(log_omega, tree, step[which][0], tau * step[which][1])
    return regret


@group("lem:SGDbound", "error of averaged descent", "... and the bound")
def gradient_descent() -> Iterable[Row]:
    """`lem:SGDbound` with K = 2, over every outcome of the step that moves theta_t.

    The policy and lambda are nearly deterministic, so that the noise is small and the bound nearly tight: for the comparator
    theta_{t-1} - 2 alpha g the two sides are 1.5 alpha |g|^2 and alpha (|g|^2 + E|g~|^2 / 2).
    """
    at = point(two_actions(), K=2, D=3.0, seed=1, sharpness=200.0, lam=np.array([0.02, 0.98]))
    e, alpha, K = at.e, at.kernels.hyper.alpha, 2
    g = gradients(e, at.lam, compose(state_measure(e, at.lam), at.pi), at.state.theta, np.zeros(e.X)).theta
    mean_theta, square = np.zeros(e.d), 0.0
    for p, sample in theta_outcomes(at):
        mean_theta += p * (at.state.theta - alpha * sample / 2)  # theta_t
        square += p * float(sample @ sample)
    worst = -np.inf
    for step in (2 * alpha * g, alpha * g, 10 * alpha * g, *np.random.default_rng(0).normal(size=(20, e.d))):
        star = at.state.theta - step
        left = float((mean_theta - star) @ g)
        right = float(step @ step) / (2 * alpha * K) + alpha / 2 * square
        worst = max(worst, left / right)
    yield at_most(
        "error of averaged descent over its bound (all outcomes enumerated)", "lem:SGDbound", 1.0, worst
    )
    yield above("... and the bound is nearly tight there", "lem:SGDbound", 0.8, worst)


@group("eq:FTL", "eq:local_decomposition", "regret of the policies")
def policy_regret() -> Iterable[Row]:
    """The second half of the primal regret by itself: sum_t <mu*, Q_t - E V_t> of a recorded run.

    It is the mean over nu* of the regrets in each state, and at most H(pi*|pi_1)/beta + beta T (R D)^2 / 2. The start theta
    and the beta are such that a policy that never moves exceeds the bound.
    """
    e = Enumerated.of(two_actions())
    star, uniform = optimal(e)[1], np.full((e.X, e.A), 1 / e.A)
    beta, found = _best_beta(e), _policy_regret(e, star, None)
    yield at_most(
        "regret of the policies is the mean of the states' regrets",
        "eq:local_decomposition",
        1e-9,
        abs(found.total - found.local),
    )
    limit = _limit(e, conditional_entropy(e, star, uniform), beta)
    yield at_most("regret of the policies", "eq:FTL", limit, found.total)
    yield above("regret of the policies, had they never moved", "eq:FTL", limit, found.still)


def regret_from_a_given_start() -> Iterable[Row]:
    """With a pi_1 that leans to the worse action the bound needs H(pi*|pi_1): with log A the regret would exceed it."""
    e, lean = Enumerated.of(two_actions()), np.array([4.0, 0.0])  # the better action has the probability .018
    star = optimal(e)[1]
    beta, found = _best_beta(e), _policy_regret(e, star, lean)
    limit = _limit(e, conditional_entropy(e, star, e.softmax(lean, 1.0)), beta)
    yield at_most("a given pi_1: regret of the policies", "eq:FTL", limit, found.total)
    less = _limit(e, float(np.log(e.A)), beta)
    yield above("a given pi_1: regret exceeds the bound with log A", "eq:FTL", less, found.total)


STEPS, RADIUS = 60, 1.0  # T and D


def _best_beta(e: Enumerated) -> float:
    return float(np.sqrt(2 * np.log(e.A) / STEPS)) / (e.radius * RADIUS)


def _limit(e: Enumerated, entropy: float, beta: float) -> float:
    return entropy / beta + beta * STEPS * (e.radius * RADIUS) ** 2 / 2


class Regret(NamedTuple):
    total: float  # sum_t <mu*, Q_t - E V_t>
    local: float  # the mean over nu* of the states' regrets
    still: float  # `total`, had the policy stayed uniform


def _policy_regret(e: Enumerated, star: FloatArray, w: FloatArray | None) -> Regret:
    """The regrets of a recorded run from pi_1 = softmax(Phi w), with a theta that hardly moves."""
    beta = _best_beta(e)
    theta0 = RADIUS * np.array([-1.0, 1.0]) / np.sqrt(2)
    planner = PrimalDual(K=1, eta=1e-9, beta=beta, alpha=1e-9, D=RADIUS, theta0=theta0, pi1=w)
    kept = record(two_actions(), planner, STEPS)
    uniform, nu = np.full((e.X, e.A), 1 / e.A), state_occupancy(e, star)
    mu, total, still, local = compose(nu, star), 0.0, 0.0, 0.0
    for theta, Theta in zip(kept.thetas, kept.Thetas, strict=True):
        Q, pi = e.Phi @ theta, e.softmax(Theta, beta)
        total += float(mu @ (Q - e.E @ (e.M(pi) @ Q)))
        local += float(nu @ ((star - pi) * Q.reshape(e.X, e.A)).sum(axis=1))
        still += float(mu @ (Q - e.E @ (e.M(uniform) @ Q)))
    return Regret(total, local, still)
