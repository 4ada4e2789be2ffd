"""`Beliefs`: the Q-values that a planner believes its policy to have, for judges to compare with what it earns."""

from __future__ import annotations

from typing import NamedTuple

from ..base import FloatArray
from ..features import Phi, mean_scores


class Beliefs(NamedTuple):
    """Q(x, a) = phi(x, a) . theta + constant, in units of sum_t gamma^t r_t with rewards in [0, 1]."""

    theta: FloatArray  # [d]
    constant: float = 0.0

    def values(self, phi: Phi, pi: FloatArray) -> FloatArray:
        """V(x_n) = sum_a pi(a|x_n) Q(x_n, a), `[n]`, from features `[n, A, ...]` and probabilities `[n, A]`."""
        return mean_scores(phi, self.theta, pi) + self.constant
