"""Ours: what the upper bound of a certificate rests on (docs/certificate.md), and how often its ends are wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ...base import FloatArray
from ...judge import certify
from ...policy import SoftmaxPolicy
from ..definitions import core_errors
from ..operators import occupancy, optimal, value
from ..rows import Row, above, at_most, equal, group
from ..saddle import saddle_point
from ..tables import Enumerated
from .instances import linear_instance

RUNS = 20


def upper(e: Enumerated, theta: FloatArray) -> float:
    """U(theta) = (1 - gamma) <nu0, V> + max_j (r_j + gamma P_j V - phi_j . theta) with V = max_a Phi theta, exactly."""
    Q = e.Phi @ theta
    V = Q.reshape(e.X, e.A).max(axis=1)
    return float((1 - e.discount) * (e.nu0 @ V) + (e.r + e.discount * (e.P @ V) - Q)[e.rows].max())


@group("certificate", "U(theta)", "certify")
def certificate() -> Iterable[Row]:
    e = Enumerated.of(linear_instance())
    values, star = optimal(e)
    best, rng = value(e, star), np.random.default_rng(0)
    own = np.linalg.lstsq(np.asarray(e.Phi), values.Q, rcond=None)[0]
    thetas = [own + scale * rng.normal(size=e.d) for scale in (0.01, 0.1, 1.0) for _ in range(200)]
    excess = max(best - upper(e, theta) for theta in thetas)
    yield at_most(
        "U(theta) is at least v* on a linear MDP: largest v* - U(theta)", "certificate", 1e-9, excess
    )
    yield equal("U(theta) is v* at the theta of Q*", "certificate", best, upper(e, own), 1e-9)
    yield from _incomplete()
    yield from _coverage(best)


def _incomplete() -> Iterable[Row]:
    """With one core pair left out: v* <= U(theta) + 2 D <mu*, eps_core> for |theta| <= D, by (lambda*, mu*) in the game."""
    e, D = Enumerated.of(linear_instance()), 10.0
    few = replace(e, rows=e.rows[:-1])
    star = optimal(e)[1]
    missed = value(e, star) - upper(few, saddle_point(few, D).theta)
    limit = 2 * D * float(occupancy(e, star) @ core_errors(few)[1])
    yield at_most(
        "U(theta) misses v* by at most 2 D <mu*, eps_core> if a core pair is left out",
        "certificate",
        limit,
        missed,
    )
    yield above("U(theta) ... and does miss it", "certificate", 0.01, missed)


def _coverage(best: float) -> Iterable[Row]:
    """At confidence .5 each end may be wrong in a quarter of the runs; betting bounds are more careful than that."""
    problem = linear_instance()
    e = Enumerated.of(problem)
    policy = SoftmaxPolicy.uniform(problem.features)
    earns, high, low = value(e, np.full((e.X, e.A), 1 / e.A)), 0, 0
    for seed in range(RUNS):
        found = certify(problem, None, policy, queries=4_000, confidence=0.5, seed=seed)
        assert found.upper is not None
        high += found.upper < best
        low += found.lower > earns
    yield at_most(
        f"certify: upper bounds below v* in {RUNS} runs at confidence .5", "certificate", 0.25 * RUNS, high
    )
    yield at_most(
        f"certify: lower bounds above the value in {RUNS} runs at confidence .5",
        "certificate",
        0.25 * RUNS,
        low,
    )
