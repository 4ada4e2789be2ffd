"""Recorded runs of Algorithm 1, and the dynamic duality gap of section 5 computed from them."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from ..base import FloatArray, IntArray, as_count, several
from ..core import CoreSet
from ..planners import CoreSetup, PrimalDual
from ..problem import Problem
from ..run import NO_LIMIT, steps
from .definitions import best_fit, core_errors
from .operators import compose, gradients, lagrangian, occupancy, optimal, policy_values, state_measure
from .tables import Enumerated

_MOST = 1000  # iterations of a series for which exact solves are made, by default


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
        (step.state.theta.copy(), step.state.Theta.copy(), distribution(step.state.log_lam))
        for step in itertools.islice(steps(problem, planner, budget=NO_LIMIT, seed=seed), T + 1)
    ]
    thetas, Thetas, lambdas = (np.array(x) for x in zip(*iterates, strict=True))
    return Record(
        thetas=thetas[1:], Thetas=Thetas[:-1], lambdas=lambdas[:-1], lambda_end=lambdas[-1], planner=planner
    )


def distribution(log_lam: FloatArray) -> FloatArray:
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


class Comparators(NamedTuple):
    """The comparators of `lem:duality-to-suboptimality` that do not change with t."""

    mu: FloatArray  # [Z] mu*
    lam: FloatArray  # [m] lambda* = B' mu*
    core_error: float  # <mu*, eps_core>

    @classmethod
    def of(cls, e: Enumerated) -> Comparators:
        mu = occupancy(e, optimal(e)[1])
        B, eps_core = core_errors(e)
        return cls(mu, B.T @ mu, float(mu @ eps_core))


class Terms(NamedTuple):
    """What iteration t adds to the sums of `DualityGap`."""

    gap: float
    primal_regret: float
    dual_regret: float
    suboptimality: float
    q_error: float
    bellman_error: float


def terms(
    e: Enumerated, star: Comparators, planner: PrimalDual, theta: FloatArray, Theta: FloatArray, lam: FloatArray
) -> Terms:  # fmt: skip
    assert planner.beta is not None
    pi = e.softmax(Theta, planner.beta)
    V = e.M(pi) @ (e.Phi @ theta)
    u = compose(state_measure(e, lam), pi)
    values = policy_values(e, pi)
    fit = best_fit(e.Phi, values.Q, planner.D)
    g = gradients(e, lam, u, theta, V)
    return Terms(
        gap=lagrangian(e, star.lam, star.mu, theta, V) - lagrangian(e, lam, u, fit.theta, values.V),
        primal_regret=float((star.lam - lam) @ g.lam + star.mu @ g.u),
        dual_regret=float((theta - fit.theta) @ g.theta),
        suboptimality=float(star.mu @ e.r - (1 - e.discount) * (e.nu0 @ values.V)),
        q_error=fit.error,
        bellman_error=best_fit(e.Phi, e.r + e.discount * (e.P @ V), planner.D).error,
    )


def duality_gap(e: Enumerated, recorded: Record) -> DualityGap:
    """The dynamic duality gap with lambda* = B' mu*, u* = mu*, V*_t = V^{pi_t} and theta*_t the best fit of Q^{pi_t}."""
    star = Comparators.of(e)
    sums = np.zeros(len(Terms._fields))
    for theta, Theta, lam in zip(recorded.thetas, recorded.Thetas, recorded.lambdas, strict=True):
        sums += np.array(terms(e, star, recorded.planner, theta, Theta, lam))
    support = star.lam > 0
    entropy = float(np.sum(star.lam[support] * np.log(star.lam[support] / recorded.lambdas[0][support])))
    gap, primal, dual, sub, q_error, bellman_error = (sums / len(recorded.thetas)).tolist()
    return DualityGap(
        gap=gap, primal_regret=primal, dual_regret=dual, suboptimality=sub, q_error=q_error,
        bellman_error=bellman_error, core_error=star.core_error, relative_entropy=entropy,
    )  # fmt: skip


class GapSeries(NamedTuple):
    """The dynamic duality gap along a run of Algorithm 1, at n moments."""

    queries: IntArray  # [n]
    gaps: FloatArray  # [n] G_T of the T iterations so far
    suboptimality: (
        FloatArray  # [n] the average of <mu* - mu^{pi_t}, r> over them, that is the expected gap of pi_J
    )


def duality_gaps(
    problem: Problem,
    planner: PrimalDual,
    budget: int,
    *,
    points: int = 50,
    every: int | None = None,
    seed: int = 0,
) -> GapSeries:
    """`duality_gap` as a series over a run: the running average of the iterations' terms, at `points` moments.

    The terms of an iteration take exact solves. By default they are computed for every iteration up to 1,000 of them, and
    for as many evenly spaced ones of a longer run; `every` sets another spacing. The run is that of `coreplan.steps` with
    this planner, budget and seed.
    """
    budget, points = several(as_count, "duality_gaps", budget=budget, points=points)
    every = as_count("duality_gaps", optional=True, every=every)
    e = Enumerated.of(problem)
    star = Comparators.of(e)
    planner = planner.resolve(CoreSetup.with_core(problem, CoreSet.of(problem), budget))
    assert planner.K is not None
    T = budget // (planner.K + 1)
    every = -(-T // _MOST) if every is None else every
    marks = np.unique(np.linspace(0, (T - 1) // every, points).round().astype(int))
    sums, rows = np.zeros(2), []
    before: tuple[FloatArray, FloatArray] | None = None  # Theta_t and lambda_t, which iteration t starts from
    for t, step in enumerate(steps(problem, planner, budget=budget, seed=seed)):
        if before is not None:
            n = (t - 1) // every
            here = terms(e, star, planner, step.state.theta, *before)
            sums += here.gap, here.suboptimality
            if n in marks:
                rows.append((step.queries, *(sums / (n + 1))))
        wanted = t % every == 0 and t < T
        before = (step.state.Theta.copy(), distribution(step.state.log_lam)) if wanted else None
    queries, gaps, suboptimality = np.array(rows).T
    return GapSeries(queries.astype(np.int64), gaps, suboptimality)
