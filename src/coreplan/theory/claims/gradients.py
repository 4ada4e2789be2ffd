"""Appendix B: the gradient estimators, over their whole sample space."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..estimators import lambda_moments, point, theta_moments
from ..rows import Row, at_most, equal, group
from .instances import linear_instance, opposite_instance


@group("lem:gtheta", "lem:glambda", "g_theta", "|g_theta|", "g_lambda", "|g_lambda|")
def estimators() -> Iterable[Row]:
    """Both are unbiased, and no larger than the lemmas say; on an instance where they can be that large, they are."""
    problem = linear_instance()
    g = theta_moments(point(problem, K=2, D=1e6))  # far inside the ball
    error = float(np.abs(g.mean - g.gradient).max())
    yield at_most("g_theta is unbiased (all outcomes enumerated)", "lem:gtheta", 1e-8, error)
    # Every draw is the action with feature +1, because Theta is large; the core has a pair with feature -1.
    D, sharp, lam = 3.0, 1e6, np.array([0.5, 0.5])
    at = point(opposite_instance(), K=2, D=1e6, sharpness=sharp, lam=lam, theta=np.array([0.0]))
    yield equal("|g_theta| <= 2 R, and as large as that", "lem:gtheta", 2.0, theta_moments(at).largest, 1e-6)
    g = lambda_moments(point(problem, K=1, D=10.0))
    error = float(np.abs(g.mean - g.gradient).max())
    yield at_most("g_lambda is unbiased (all outcomes enumerated)", "lem:glambda", 1e-8, error)
    at = point(opposite_instance(), K=1, D=D, sharpness=sharp, lam=lam, theta=np.array([D]))
    limit = at.e.m * (1 + (1 + at.e.discount) * at.e.radius * D)
    yield equal(
        "|g_lambda| <= m (1 + (1 + gamma) R D), and as large as that", "lem:glambda", limit,
        lambda_moments(at).largest, 1e-6,
    )  # fmt: skip
