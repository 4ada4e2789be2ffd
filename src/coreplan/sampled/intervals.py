"""Confidence bounds by betting (Waudby-Smith & Ramdas 2024): valid at every sample size, for any bounded distribution.

To doubt "the mean is at most m" one bets against it: wealth K <- K (1 + bet (Z_i - m)) with bets that depend on the past
only. If the mean is at most m, wealth is a nonnegative supermartingale, so it ever reaches 1/alpha with probability at
most alpha (Ville). Only one end of Z's range matters to a one-sided bound.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..base import FloatArray

_STAKE = 0.97  # the largest share of the wealth that one outcome may take
_PRIOR = 10.0  # outcomes that the guess at the spread counts for


@njit(cache=True, nogil=True)
def _rejects(z, low, spread, planned, m, log_target):
    """Whether the wealth of bets that the mean exceeds m ever reaches its target."""
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
    """A number that the mean of the independent `z [n]`, none below `low`, exceeds with probability 1 - alpha.

    `spread` and `planned` are guesses at the standard deviation and at n, made before z was seen: bad ones cost width,
    never validity, and n may be a stopping time. Each
    factor of the wealth falls as m grows, so the rejected m are an interval and bisection finds its end.
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
