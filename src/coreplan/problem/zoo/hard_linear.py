"""`hard-linear`: the two-state linear MDP that is hard for least squares (Kitamura et al. 2023)."""

from __future__ import annotations

import numpy as np

from ...base import InputError
from ...features import table_features
from ..problem import Problem
from ..tables import Tabular, tabular_model


def hard_linear(actions: int = 30, discount: float = 0.9, delta: float = 0.01, instance: int = 0) -> Problem:
    """Two states, d = 4: each action is a point a in [0, 1]^2, phi(s0, a) = (1, 0, a), phi(s1, .) = (0, 1, 0, 0).

    The reward is the first coordinate of phi; P(s0|.) = phi . (gamma, 0, Delta b) with b the last action's point, so
    actions differ only by the small term Delta a . b. The start is s0. The core set consists of the corners of the convex
    hull: the pairs of s0 with the actions on the hull of the points, and one pair of s1.
    """
    if not 0 < delta * 2 <= 1 - discount:
        raise InputError(
            f"`hard-linear:delta=...` must be positive and at most (1 - discount) / 2, got {delta}."
        )
    if actions < 3:
        raise InputError(f"`hard-linear:actions=...` must be at least 3, got {actions}.")
    from scipy.spatial import ConvexHull

    points = np.random.default_rng([0x68617264, instance]).random((actions, 2))  # [A, 2]
    phi = np.zeros((2, actions, 4))
    phi[0, :, 0], phi[0, :, 2:], phi[1, :, 1] = 1.0, points, 1.0
    stay = phi @ np.array([discount, 0.0, *(delta * points[-1])])  # P(s0|s, a), [2, A]
    P = np.stack([stay, 1 - stay], axis=-1).reshape(-1, 2)
    table = Tabular(np.arange(2), phi[:, :, 0].copy(), np.array([1.0, 0.0]), P=P)
    corners = np.sort(ConvexHull(points).vertices)
    core = (np.append(np.zeros(len(corners), dtype=np.int64), 1), np.append(corners, 0).astype(np.int64))
    radius = float(np.linalg.norm(phi, axis=2).max())
    return Problem(
        model=tabular_model(table),
        features=table_features(phi, 4, radius),
        discount=discount,
        core_pairs=core,
        tabular=lambda: table,
    )
