"""Section 3: linear MDPs, Q-approximation error and inherent Bellman error, and how they follow from one another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...base import FloatArray
from ..bellman import inherent_bellman_error
from ..definitions import as_dense, best_fit, linear_fit, q_approximation_error
from ..rows import Row, above, at_most, group
from ..tables import Enumerated
from .instances import constant_feature_instance, linear_instance, nearly_linear_instance, two_actions


@group("def:linMDP", "def:IBE", "residual", "IBE with", "a nonlinear")
def bellman_errors() -> Iterable[Row]:
    e = Enumerated.of(linear_instance())
    fit = linear_fit(e)
    residual = max(fit.reward_error, fit.transition_error)
    yield at_most("residual of P = Phi W and r = Phi vartheta on a linear MDP", "def:linMDP", 1e-9, residual)
    free = inherent_bellman_error(e, 12.0, ball=False).high
    yield at_most("IBE without the ball is 0 for a linear MDP", "def:IBE", 1e-8, free)
    one_state = Enumerated.of(two_actions())
    low = inherent_bellman_error(one_state, 30.0).low
    yield above(
        "IBE with the ball is not 0 for a linear MDP, D = 30 (against the paper)", "def:IBE", 0.1, low
    )
    yield from _converse()


def _converse() -> Iterable[Row]:
    """Zero IBE makes P linear, if each state has two actions with different features; else it need not.

    Let pi and pi' differ at the state x alone, where they take actions a and b. Their backups of theta' differ by
    gamma P(x|.) (phi(x, a) - phi(x, b)) . theta', and each is within its error of the span of Phi. So the larger error is at
    least gamma |phi(x, a) - phi(x, b)| |theta'| dist(P(x|.), span Phi) / 2 for theta' along the difference.
    """
    e, D = Enumerated.of(nearly_linear_instance()), 5.0
    shares = [_share(e, x, D) for x in range(e.X)]
    yield above(
        "a nonlinear P has a Bellman error of at least gamma D |dphi| dist / 2: smallest ratio", "def:IBE",
        1.0 - 1e-9, min(shares),
    )  # fmt: skip
    flat = Enumerated.of(constant_feature_instance())
    yield at_most(
        "a nonlinear P can have no Bellman error for any policy if phi = 1 (against the paper)", "def:IBE",
        1e-9, _largest_error(flat, 5.0),
    )  # fmt: skip
    yield above(
        "a nonlinear P: that one is off every Phi W by", "def:linMDP", 0.5, linear_fit(flat).transition_error
    )


def _backup(e: Enumerated, choice: Any, theta: FloatArray) -> FloatArray:
    return np.asarray(e.r + e.discount * (e.P @ (e.M(np.eye(e.A)[choice]) @ (e.Phi @ theta))))


def _share(e: Enumerated, x: int, D: float) -> float:
    """The larger error of the two policies that differ at x, over its lower bound."""
    phi = as_dense(e.Phi).reshape(e.X, e.A, e.d)
    difference = phi[x, 0] - phi[x, 1]
    theta = D * difference / np.linalg.norm(difference)
    choice = np.zeros(e.X, dtype=np.int64)
    other = np.where(np.arange(e.X) == x, 1, 0)
    errors = [best_fit(e.Phi, _backup(e, c, theta)).error for c in (choice, other)]
    distance = best_fit(e.Phi, as_dense(e.P)[:, x]).low
    return max(errors) / (e.discount * D * float(np.linalg.norm(difference)) * distance / 2)


def _largest_error(e: Enumerated, D: float) -> float:
    """The largest ball-free Bellman error over all deterministic policies and theta' = +-D along each coordinate."""
    policies = np.array(np.unravel_index(np.arange(e.A**e.X), (e.A,) * e.X)).T
    directions = [s * D * axis for axis in np.eye(e.d) for s in (-1, 1)]
    return max(best_fit(e.Phi, _backup(e, pi, theta)).error for pi in policies for theta in directions)


@group("def:QAE", "eps_pi")
def q_errors() -> Iterable[Row]:
    """Zero IBE gives eps_pi = 0 for every policy if D is large enough, and not if it is too small."""
    e = Enumerated.of(linear_instance())
    rng = np.random.default_rng(0)
    policies = [rng.dirichlet(np.full(e.A, 0.3), size=e.X) for _ in range(10)]
    enough = float(np.sqrt(e.d)) / (1 - e.discount)
    yield at_most(
        "eps_pi is 0 for every policy where IBE is 0, D = sqrt(d) / (1 - gamma)", "def:QAE", 1e-8,
        max(q_approximation_error(e, pi, enough).error for pi in policies),
    )  # fmt: skip
    # |Q^pi|_inf <= error + R D, for every policy
    small = 1.0
    need = min(float(np.abs(_q(e, pi)).max()) - e.radius * small for pi in policies)
    least = min(q_approximation_error(e, pi, small).low for pi in policies)
    yield above(
        "eps_pi in a ball with R D < |Q^pi| is at least the difference", "def:QAE", need - 1e-9, least
    )


def _q(e: Enumerated, pi: FloatArray) -> FloatArray:
    """Q^pi by its series, independently of `policy_values`."""
    Q = np.zeros(e.Z)
    for _ in range(400):
        Q = e.r + e.discount * (e.P @ (e.M(pi) @ Q))
    return np.asarray(Q)
