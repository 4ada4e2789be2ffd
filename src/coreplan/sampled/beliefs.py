"""`Beliefs`: the Q-values that a planner believes its policy to have, for judges to compare with what it earns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..base import FloatArray
from ..features import Phi, row_scores


class Beliefs(NamedTuple):
    """Q(x, a) = phi(x, a) . theta + constant, in units of sum_t gamma^t r_t with rewards in [0, 1]."""

    theta: FloatArray  # [d]
    constant: float = 0.0

    def values(self, phi: Phi, pi: FloatArray) -> FloatArray:
        """V(x_n) = sum_a pi(a|x_n) Q(x_n, a), `[n]`, from features `[n, A, ...]` and probabilities `[n, A]`."""
        taken = pi > 0.0  # the score of a masked action means nothing
        Q = np.where(taken, row_scores(phi, self.theta), 0.0)
        return (pi * Q).sum(axis=1) + self.constant
