"""Exact moments of the planner's own gradient estimators, by enumerating their sample space, without Monte Carlo.

The kernels of Algorithm 1 are deterministic functions of uniforms and answers, so they can be given every
possible outcome once, weighted by its exact probability. The code under test is the code that plans.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..base import FloatArray
from ..core import CoreSet
from ..planners import CoreSetup, Kernels, PrimalDual
from ..problem import Problem
from ..run import NO_LIMIT
from .definitions import as_dense
from .operators import compose, gradients, state_measure
from .tables import Enumerated


class Point(NamedTuple):
    """A state of the planner as in the middle of a run, and the exact quantities there."""

    e: Enumerated
    kernels: Kernels
    state: Any
    lam: FloatArray  # [m]
    pi: FloatArray  # [X, A]
    phi: FloatArray  # [X, A, d]


class Moments(NamedTuple):
    """An estimator's exact mean, the gradient that it estimates, its largest norm and its mean square norm."""

    mean: FloatArray
    gradient: FloatArray
    largest: float
    mean_square: float


def point(
    problem: Problem,
    *,
    K: int,
    D: float,
    seed: int = 0,
    sharpness: float = 3.0,
    lam: FloatArray | None = None,
    theta: FloatArray | None = None,
) -> Point:
    """The planner at a theta, Theta (of size `sharpness`) and lambda, random unless given; dense features."""
    core = CoreSet.of(problem)
    setup = CoreSetup.with_core(problem, core, NO_LIMIT)
    rng = np.random.default_rng(seed)
    if theta is None:
        theta = rng.normal(size=setup.dimension)
        theta *= 0.5 * D / np.linalg.norm(theta)
    lam = rng.dirichlet(np.ones(setup.m)) if lam is None else lam
    planner = PrimalDual(K=K, eta=1e-3, beta=0.3, alpha=0.05, D=D, theta0=theta, lambda1=lam).resolve(setup)
    state = planner.init(rng)
    state.Theta[:] = rng.normal(size=setup.dimension) * sharpness
    e = Enumerated.of(problem, core)
    pi = e.softmax(state.Theta, 0.3)
    phi = as_dense(e.Phi).reshape(e.X, e.A, e.d)
    return Point(e=e, kernels=planner.kernels(), state=state, lam=lam, pi=pi, phi=phi)


def _pick(p: FloatArray, i: int) -> float:
    """A uniform that draws i from the distribution p: the middle of i's interval."""
    return float(np.cumsum(p)[i] - p[i] / 2)


def _tell(at: Point, u: FloatArray, j: list[int], rewards: FloatArray, x0: list[int], y: list[int]) -> Any:
    """One iteration with given outcomes, on a copy of the state."""
    state = type(at.state)(*(a.copy() for a in at.state))
    k = at.kernels
    core = np.ascontiguousarray(as_dense(at.e.Phi)[at.e.rows])
    k.tell(u, state, k.hyper, core, np.array(j), rewards, at.phi[x0], at.phi[y], k.scratch)
    return state


def theta_outcomes(at: Point) -> Iterator[tuple[float, FloatArray]]:
    """(probability, g~_theta) for every outcome of an inner step: x0, a0, core pair, next state, action.

    With K = 2, theta_t is the mean of theta^(1) = theta_{t-1} and theta^(2), so g~ = 2 (theta_{t-1} - theta_t) / alpha.
    """
    e, P = at.e, as_dense(at.e.P)
    m, hyper = e.m, at.kernels.hyper
    assert hyper.K == 2
    core_index = np.empty(3, dtype=np.int64)
    for x0, a0, j, y, a in itertools.product(range(e.X), range(e.A), range(m), range(e.X), range(e.A)):
        draw = np.array([_pick(at.lam, j), 0.5, 0.5])
        # The planner's own code turns the uniform into a core pair.
        at.kernels.ask(draw, at.state, hyper, core_index)
        p = e.nu0[x0] * at.pi[x0, a0] * at.lam[j] * P[e.rows[j], y] * at.pi[y, a]
        if p == 0.0:
            continue
        u = np.array([_pick(at.pi[x0], a0), 0.5, _pick(at.pi[y], a), 0.5, 0.5])
        after = _tell(at, u, [int(core_index[0]), 0, 0], np.zeros(3), [x0, 0], [y, 0, 0])
        yield p, 2 * (at.state.theta - after.theta) / hyper.alpha


def theta_moments(at: Point) -> Moments:
    """`lem:gtheta`: E g~_theta = grad_theta L(lambda_t, u_t; ., V), |g~_theta| <= 2 R."""
    e = at.e
    mean, largest, square = np.zeros(e.d), 0.0, 0.0
    for p, g in theta_outcomes(at):
        mean += p * g
        largest = max(largest, float(np.linalg.norm(g)))
        square += p * float(g @ g)
    u = compose(state_measure(e, at.lam), at.pi)
    exact = gradients(e, at.lam, u, at.state.theta, np.zeros(e.X)).theta
    return Moments(mean, exact, largest, square)


def lambda_moments(at: Point) -> Moments:
    """`lem:glambda`: E g~_lambda = grad_lambda L, |g~_lambda|_inf <= m (1 + (1 + gamma) R D).

    With K = 1, theta_t = theta_{t-1}; the estimator is the change of log lambda divided by eta.
    """
    e, P, k = at.e, as_dense(at.e.P), at.kernels
    assert k.hyper.K == 1
    mean, largest, square = np.zeros(e.m), 0.0, 0.0
    core_index = np.empty(2, dtype=np.int64)
    for i, y in itertools.product(range(e.m), range(e.X)):
        k.ask(np.array([0.5, (i + 0.5) / e.m]), at.state, k.hyper, core_index)
        j = int(core_index[1])
        p = P[e.rows[j], y] / e.m
        after = _tell(at, np.full(3, 0.5), [0, j], np.array([0.0, e.r[e.rows[j]]]), [0], [0, y])
        change = after.log_lam - at.state.log_lam
        # log lambda is known up to a constant, which an entry that did not change determines.
        other = (j + 1) % e.m
        g = (change - change[other]) / k.hyper.eta
        mean += p * g
        largest = max(largest, float(np.abs(g).max()))
        square += p * float(g @ g)
    V = np.einsum("xa,xa->x", at.pi, at.phi @ at.state.theta)
    exact = gradients(e, at.lam, np.zeros(e.Z), at.state.theta, V).lam
    return Moments(mean, exact, largest, square)
