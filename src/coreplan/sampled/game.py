"""The relaxed saddle point over values of states: V(x) = psi(x) . v against weights of the core pairs, on samples.

    min_v max_lam  c . v + lam . (r + A v),   c = (1 - gamma) psi(x0),   A_j = gamma psi(y_j) - psi(x_j) in the mean,

with psi(x) the mean of phi(x, a) over the available actions (`state_lp.py`), v in a ball and lam a distribution.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..base import FloatArray


class Game(NamedTuple):
    """The numbers of the saddle point."""

    r: FloatArray  # [m]
    A: FloatArray  # [m, k]
    c: FloatArray  # [k]

    def gap(self, v: FloatArray, lam: FloatArray, radius: float) -> float:
        """The duality gap: what the best answers to v and to lam differ by; at least 0, and 0 at a saddle point."""
        upper = float((self.r + self.A @ v).max() + self.c @ v)
        lower = float(lam @ self.r - radius * np.linalg.norm(self.c + self.A.T @ lam))
        return upper - lower


def mirror_prox(
    game: Game, radius: float, steps: int, gap: float, every: int = 100
) -> tuple[FloatArray, FloatArray, float]:
    """The averages of v and lam over the half steps of mirror-prox, and their gap; stops early below this `gap`.

    Each step goes from where it is by the gradient there, and then again from the same place by the gradient at that half
    step (Nemirovski 2004): v in Euclidean geometry, lam by exponentials. The step sizes are those for which the averages'
    gap is O(1 / steps).
    """
    m, k = game.A.shape
    size = max(float(np.linalg.norm(game.A, axis=1).max()), 1e-12)
    spread = math.sqrt(2.0 * math.log(max(m, 2)))
    eta_v, eta_lam = radius / (spread * size), spread / (radius * size)
    v, lam = np.zeros(k), np.full(m, 1.0 / m)
    v_sum, lam_sum, found = np.zeros(k), np.zeros(m), math.inf
    for t in range(1, steps + 1):
        v_half = into_ball(v - eta_v * (game.c + game.A.T @ lam), radius)
        lam_half = raised(lam, eta_lam * (game.r + game.A @ v))
        v = into_ball(v - eta_v * (game.c + game.A.T @ lam_half), radius)
        lam = raised(lam, eta_lam * (game.r + game.A @ v_half))
        v_sum += v_half
        lam_sum += lam_half
        if t % every == 0 or t == steps:
            found = game.gap(v_sum / t, lam_sum / t, radius)
            if found <= gap:
                break
    return v_sum / t, lam_sum / t, found


def into_ball(v: FloatArray, radius: float) -> FloatArray:
    """The nearest point of the ball."""
    norm = float(np.linalg.norm(v))
    return v if norm <= radius else v * (radius / norm)


def raised(lam: FloatArray, exponent: FloatArray) -> FloatArray:
    """lam exp(exponent), normalised, and kept above zero."""
    out = np.maximum(lam * np.exp(exponent - exponent.max()), 1e-300)
    return np.asarray(out / out.sum())
