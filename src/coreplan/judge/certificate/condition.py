"""Does the certificate's condition hold? It is measured on fresh reachable pairs, and unknown elsewhere.

In a linear MDP with an exact core set every reachable state is an initial state or a next state of a core pair. So it
is enough to look there: do all features lie in the hull of the core features, and is r + gamma P V linear in them?
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...base import FloatArray, IntArray, States
from ...core import hull_errors, is_inside
from ...features import Phi, available, best_scores, checked, dense, flat, length, rows_of, take
from ...problem import Problem
from ...sampled import Transitions
from ...simulate import Simulator
from .first_half import Basis

_PAIRS = 4000  # number of pairs whose distance from the hull is measured
FRESH = 32  # number of pairs whose residual is measured, by sampling
_DOUBT = 1e-3  # the probability that noise alone raises an alarm
LOG_DOUBT = math.log(2 * FRESH / _DOUBT)


@dataclass(frozen=True)
class Condition:
    """What was measured of the condition; a residual is the part of r + gamma P V that is not linear in the features."""

    hull_error: float  # largest distance of a feature from the hull of the core features, in units of the columns' ranges
    hull_pairs: int  # number of pairs measured for it
    hull_exact: bool  # whether that distance is zero up to rounding
    violation: float  # the residual that is largest relative to its noise; adds to normalised values as it is
    noise: float  # how large it may be by noise alone
    unseen: float  # likely bound on the residuals: misspecification that noise may have hidden
    excess: float  # added to `upper`: `unseen` if some residual exceeds its noise, else 0
    fresh: int  # number of pairs sampled for the residuals
    queries: int  # number of queries for the residuals

    @property
    def holds(self) -> bool:
        """Whether no feature lies outside the hull and no residual exceeds its noise."""
        return self.hull_exact and abs(self.violation) <= self.noise


def check_condition(
    simulator: Simulator, basis: Basis, theta: FloatArray, samples: Transitions, states: States, queries: int,
    rng: np.random.Generator, known: bool = False,
) -> Condition:  # fmt: skip
    """Measure the condition on `states [k, ...]`, with at most `queries` for the residuals of the values of `theta [d]`.

    `known`: the simulator is deterministic, so that there is no noise.
    """
    problem = simulator.problem
    states = states[rng.permutation(len(states))]
    error, pairs, exact = _hull(problem, basis, states[: max(_PAIRS // problem.n_actions, 1)])
    chosen, actions = _fresh_pairs(problem, states, rng)
    repeat = 1 if known else max(queries // len(actions), 1)
    residual, noise = _residuals(simulator, basis, theta, samples, chosen, actions, repeat, known)
    worst = int(np.argmax(np.abs(residual) / noise))
    unseen = max(float((residual + noise).max()), 0.0)  # only positive residuals raise the optimum
    return Condition(
        hull_error=error, hull_pairs=pairs, hull_exact=exact, violation=float(residual[worst]), noise=float(noise[worst]),
        unseen=unseen, excess=unseen if (residual > noise).any() else 0.0, fresh=len(actions),
        queries=repeat * len(actions),
    )  # fmt: skip


def _hull(problem: Problem, basis: Basis, states: States) -> tuple[float, int, bool]:
    """The largest distance from the core's hull over all available pairs of the states, their number, whether it is 0."""
    phi = checked(problem.features, states)
    rows = take(flat(phi), np.flatnonzero(available(phi).ravel()))
    error = float(hull_errors(basis.frame, rows).max())
    return error, length(rows), is_inside(error)


def _fresh_pairs(problem: Problem, states: States, rng: np.random.Generator) -> tuple[States, IntArray]:
    """Some of the states, each with a random available action."""
    states = states[:FRESH]
    allowed = available(checked(problem.features, states))  # [k, A]
    return states, np.where(allowed, rng.random(allowed.shape), -1.0).argmax(axis=1)


def _residuals(
    simulator: Simulator,
    basis: Basis,
    theta: FloatArray,
    s: Transitions,
    states: States,
    actions: IntArray,
    repeat: int,
    known: bool,
) -> tuple[FloatArray, FloatArray]:
    """(r + gamma P V)(z) minus the core pairs' combination with z's coefficients, `[k]`; a Bernstein margin for each."""
    problem = simulator.problem
    gamma, k, rho = problem.discount, len(actions), len(basis.actions)

    def targets(rewards: FloatArray, phi: Phi) -> FloatArray:
        return rewards + gamma * best_scores(phi, theta)

    x = targets(s.rewards, s.phi)  # [n]
    count = np.maximum(np.bincount(s.pair, minlength=rho), 1)
    mean = np.bincount(s.pair, x, rho) / count
    variance = np.bincount(s.pair, (x - mean[s.pair]) ** 2, rho) / count
    rewards, next_states = simulator.step(np.repeat(states, repeat, axis=0), np.repeat(actions, repeat))
    y = targets(rewards, checked(problem.features, next_states)).reshape(k, repeat)
    phi = checked(problem.features, states)
    beta = dense(rows_of(phi, actions), len(theta)) @ basis.inverse  # [k, rho]
    log_doubt = math.log(2 * k / _DOUBT)
    spread = max(float(x.max()), float(y.max())) - min(float(x.min()), float(y.min()))
    both = y.var(axis=1) / repeat + beta**2 @ (variance / count)
    noise = np.zeros(k) if known else np.sqrt(2 * both * log_doubt) + spread * log_doubt / (3 * repeat)
    return y.mean(axis=1) - beta @ mean, noise + 1e-9 * max(np.abs(mean).max(), 1.0)
