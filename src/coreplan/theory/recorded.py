"""Recorded runs of Algorithm 1, and the dynamic duality gap of section 5 computed from them."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from ..base import FloatArray
from ..core import CoreSet
from ..planners import CoreSetup, PrimalDual
from ..problem import Problem
from ..run import NO_LIMIT, steps
from .definitions import best_fit, core_errors
from .operators import compose, gradients, lagrangian, occupancy, optimal, policy_values, state_measure
from .tables import Enumerated


class Record(NamedTuple):
    """The iterates of Algorithm 1 for t = 1..T, from the planner itself."""

    thetas: FloatArray  # [T, d] theta_t
    Thetas: FloatArray  # [T, d] Theta_t: pi_t = softmax(beta Phi Theta_t)
    lambdas: FloatArray  # [T, m] lambda_t
    lambda_end: FloatArray  # [m] lambda_{T+1}
    planner: PrimalDual


def record(problem: Problem, planner: PrimalDual, T: int, seed: int = 0) -> Record:
    """Run T iterations and keep all iterates; for study, at small sizes."""
    setup = CoreSetup.with_core(problem, CoreSet.of(problem), NO_LIMIT)
    planner = planner.resolve(setup)
    iterates = [
        (step.state.theta.copy(), step.state.Theta.copy(), _distribution(step.state.log_lam))
        for step in itertools.islice(steps(problem, planner, budget=NO_LIMIT, seed=seed), T + 1)
    ]
    thetas, Thetas, lambdas = (np.array(x) for x in zip(*iterates, strict=True))
    return Record(
        thetas=thetas[1:], Thetas=Thetas[:-1], lambdas=lambdas[:-1], lambda_end=lambdas[-1], planner=planner
    )


def _distribution(log_lam: FloatArray) -> FloatArray:
    lam = np.exp(log_lam - log_lam.max())
    return lam / lam.sum()


class DualityGap(NamedTuple):
    """G_T for the comparators of `lem:duality-to-suboptimality`, and the quantities that the lemma relates it to."""

    gap: float  # G_T(lambda*, mu*; theta*_{1:T}, V*_{1:T}), by its definition
    primal_regret: float  # average over t of the proof's <lambda* - lambda_t, g_lambda> + <u*, Q_t - E V_t>
    dual_regret: float  # average over t of the proof's <theta_t - theta*_t, Phi' u_t - Phi' U' lambda_t>
    suboptimality: float  # average of <mu* - mu^{pi_t}, r>
    q_error: float  # average of eps_{pi_t}
    bellman_error: float  # average error of the best fit to r + gamma P V_t: all that the proof needs of IBE
    core_error: float  # <mu*, eps_core>
    relative_entropy: float  # D(lambda*|lambda_1)


def duality_gap(e: Enumerated, recorded: Record) -> DualityGap:
    """The dynamic duality gap with lambda* = B' mu*, u* = mu*, V*_t = V^{pi_t} and theta*_t the best fit of Q^{pi_t}."""
    planner = recorded.planner
    assert planner.beta is not None and planner.D is not None
    _, best = optimal(e)
    mu = occupancy(e, best)
    B, eps_core = core_errors(e)
    lam_star = B.T @ mu
    sums = np.zeros(6)
    for theta, Theta, lam in zip(recorded.thetas, recorded.Thetas, recorded.lambdas, strict=True):
        pi = e.softmax(Theta, planner.beta)
        V = e.M(pi) @ (e.Phi @ theta)
        u = compose(state_measure(e, lam), pi)
        values = policy_values(e, pi)
        fit = best_fit(e.Phi, values.Q, planner.D)
        g = gradients(e, lam, u, theta, V)
        sums += np.array([
            lagrangian(e, lam_star, mu, theta, V) - lagrangian(e, lam, u, fit.theta, values.V),
            (lam_star - lam) @ g.lam + mu @ g.u,
            (theta - fit.theta) @ g.theta,
            mu @ e.r - (1 - e.discount) * (e.nu0 @ values.V),
            fit.error,
            best_fit(e.Phi, e.r + e.discount * (e.P @ V), planner.D).error,
        ])  # fmt: skip
    support = lam_star > 0
    entropy = float(np.sum(lam_star[support] * np.log(lam_star[support] / recorded.lambdas[0][support])))
    gap, primal, dual, sub, q_error, bellman_error = (sums / len(recorded.thetas)).tolist()
    return DualityGap(
        gap=gap, primal_regret=primal, dual_regret=dual, suboptimality=sub, q_error=q_error,
        bellman_error=bellman_error, core_error=float(mu @ eps_core), relative_entropy=entropy,
    )  # fmt: skip
