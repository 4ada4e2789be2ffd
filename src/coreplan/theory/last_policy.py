"""The bounds on CoreMirror's last policy: with a constant rate, and with the schedule that is its default.

docs/core-mirror.md has the derivations; the labels (L1) to (L5) and (D1) to (D5) are from there. Q is in [0, H], H = 1/(1 -
gamma); gaps and bounds are in normalised returns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..base import as_count, as_number, as_positive, several

SHARPNESS = 10.0  # the planner's scale is this times t^2, divided by the span of the mean


@dataclass(frozen=True)
class LastPolicyBound:
    """With probability 1 - delta: |mean of Q - Q*| <= error, and v* - v <= total, for the policy after T sweeps."""

    start: float  # what is not known before values have spread, and the curvature of the softmax
    step: float  # the price of steps below 1
    noise: float  # of the samples
    read_out: float  # the policy is a softmax

    @property
    def error(self) -> float:
        """eps_T, the largest error of the averaged Q."""
        return self.start + self.step + self.noise

    @property
    def total(self) -> float:
        return 2.0 * self.error + self.read_out


def last_policy_bound(
    *, T: int, m: int, A: int, discount: float, delta: float = 0.05, beta: float | None = None
) -> LastPolicyBound:
    """The bound for T sweeps of `CoreMirror()` over m core pairs with A actions, or of `CoreMirror(beta=beta)`.

    It is for a linear MDP whose features are convex combinations of m = d linearly independent core features, whole
    sweeps, and the schedule's own steps.
    """
    T, m, A = several(as_count, "last_policy_bound", T=T, m=m, A=A)
    gamma = as_number(
        "last_policy_bound", "a number from 0 to below 1", lambda g: 0.0 <= g < 1.0, discount=discount
    )
    delta = as_number("last_policy_bound", "between 0 and 1", lambda p: 0.0 < p < 1.0, delta=delta)
    H = 1.0 / (1.0 - gamma)
    if beta is not None:
        beta = as_positive("last_policy_bound", beta=beta)
        unknown = max(T * curvature(beta, H), math.log(A) / beta + H)
        return LastPolicyBound(
            start=H * gamma * unknown / T, step=0.0, noise=H * deviation(T, m, H, delta) / T,
            read_out=math.log(A) / (beta * T),
        )  # fmt: skip
    weight = T * (T + 1) / 2.0
    return LastPolicyBound(
        start=H * gamma * H * T / weight, step=H * H * T * lag(T, H) / weight,
        noise=H * spread(T, gamma) * weighted_deviation(T, m, H, delta) / weight,
        read_out=H * math.log(A) / (SHARPNESS * (T + 1) ** 2),
    )  # fmt: skip


def curvature(beta: float, H: float) -> float:
    """(L1): what <pi_t, Q_{t-1}> exceeds W_t - W_{t-1} by, at most."""
    return beta * H**2 / 8


def deviation(T: int, m: int, H: float, delta: float) -> float:
    """(L4): with probability 1 - delta no sum of at most T sweeps' noise is larger at any of the m pairs."""
    return H * math.sqrt(T * math.log(2 * m / delta) / 2)


def weighted_deviation(T: int, m: int, H: float, delta: float) -> float:
    """(D4): the same if the noise of sweep t has weight t."""
    return H * math.sqrt(T * (T + 1) * (2 * T + 1) * math.log(2 * m / delta) / 12)


def lag(T: int, H: float) -> float:
    """(D2): 1/s_T - 1, by which steps s_t = min(1, sqrt(H/t)) leave sums behind."""
    return max(math.sqrt(T / H) - 1.0, 0.0)


def spread(T: int, gamma: float) -> float:
    """(D3): (1 - gamma) sum_s gamma^(T - s) T/s, which tends to 1: errors of old sweeps count for more than their weight."""
    s = np.arange(max(1, T - math.ceil(800.0 / -math.log(max(gamma, 1e-300)))), T + 1)
    return float((1.0 - gamma) * (gamma ** (T - s).astype(np.float64) * T / s).sum())
