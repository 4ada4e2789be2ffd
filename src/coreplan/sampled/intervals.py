"""Confidence bounds by betting (Waudby-Smith & Ramdas 2024): valid at every sample size, for any bounded distribution.

To test "the mean is at most m", bet against it: wealth K <- K (1 + bet (Z_i - m)), with bets that depend on the past
only. If the mean is at most m, wealth is a nonnegative supermartingale, so the probability that it ever reaches 1/alpha is
at most alpha (Ville's inequality). For a one-sided bound only one end of Z's range matters.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..base import FloatArray

_STAKE = 0.97  # the largest fraction of the wealth that one outcome may cost
_PRIOR = 10.0  # the weight of the initial guess at the spread, in outcomes


@njit(cache=True, nogil=True)
def _rejects(z, low, spread, planned, m, log_target):
    """Whether the wealth from betting that the mean exceeds m ever reaches its target."""
    log_wealth, total, square = 0.0, 0.0, _PRIOR * spread**2
    most = _STAKE / (m - low)
    for i in range(z.shape[0]):
        deviation = math.sqrt(square / (i + _PRIOR))
        bet = most
        if deviation * most > math.sqrt(2.0 * log_target / planned):
            bet = math.sqrt(2.0 * log_target / planned) / deviation
        log_wealth += math.log1p(bet * (z[i] - m))
        if log_wealth >= log_target:
            return True
        total += z[i]
        square += (z[i] - total / (i + 1)) ** 2
    return False


def lower_mean(z: FloatArray, low: float, alpha: float, spread: float, planned: int) -> float:
    """A lower confidence bound on the mean of independent `z [n]`, all at least `low`, at level 1 - alpha.

    `spread` and `planned` are guesses at the standard deviation and at n, made before z was seen: bad guesses widen the
    bound but never invalidate it, and n may be a stopping time. Each factor of the wealth decreases in m, so the rejected
    m form an interval and bisection finds its end.
    """
    z = np.ascontiguousarray(z, dtype=float)
    reach = float(z.mean()) if len(z) else low
    target, below = math.log(1.0 / alpha), low
    for _ in range(60):
        middle = (below + reach) / 2
        if middle > low and _rejects(z, low, spread, planned, middle, target):
            below = middle
        else:
            reach = middle
    return below


def curvature(c: float) -> float:
    """The least g with log(1 + u) >= u - g u^2 for all u >= -c: 1/2 at c = 0, growing with c < 1."""
    if c < 1e-3:
        return 0.5 + c
    return (-math.log1p(-c) - c) / c**2
