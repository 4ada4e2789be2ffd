"""`FittedQ`: value iteration by regression on samples of the uniform policy (Ernst et al. 2005)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..base import as_count, as_positive, settle
from ..features import best_scores
from ..sampled import Equations, weighted
from .lspi import RIDGE
from .protocol import Tunable
from .trajectories import OnTrajectories, State

MOST = 2000  # regressions per fit
SETTLED = 1e-5  # it ends when no target moves by more than this fraction of the value range


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedQ(OnTrajectories):
    """Fitted Q-iteration with linear regression: Ernst, Geurts & Wehenkel, JMLR 6, 2005; Munos & Szepesvari, JMLR 9, 2008.

    Samples (x, a, r, y) are gathered once, along trajectories of the uniform policy, as for `LSPI`. Each iteration regresses
    one backup on the features:

        theta <- argmin sum (phi(x, a) . theta - r - gamma max_b phi(y, b) . theta_old)^2.

    *Setting*: trajectories from nu0 only, no core set. Uniform play must reach what a good policy needs, and backups of
    linear functions must be nearly linear. *Rate*: with k iterations on n samples the loss is at most C / (1 - gamma)^2
    times (the inherent Bellman error plus a term that vanishes with n) + O(gamma^k), where C says how far the samples'
    distribution is from those of other policies (Munos & Szepesvari, Theorem 2).

    *Departures*: the regression is linear, where Ernst et al. grow trees; it has a constant and a ridge, next values are
    kept within what rewards allow, and ends of episodes are noticed, as for `LSPI`.

    Parameters
    ----------
    ridge: of the least squares, relative to the features' size.
    iterations: how many; by default until targets move by less than 1e-5 of the value range, or 2,000.
    """

    name: ClassVar[str] = "fitted-q"
    tunable: ClassVar[Tunable] = {"ridge": (1e-6, 1e-1)}

    ridge: float = RIDGE
    iterations: int | None = None

    def __post_init__(self) -> None:
        settle(self, as_positive, "ridge")
        settle(self, as_count, "iterations")

    def _fitted(self, state: State) -> State:
        gamma, samples = self.setup.discount, weighted(state)
        equations = Equations(samples, self.setup.dimension, self.ridge)
        r, alive = equations.targets(gamma), ~equations.ended
        low, high = float(samples.rewards.min()) / (1 - gamma), float(samples.rewards.max()) / (1 - gamma)
        theta, V = state.theta, np.full(len(r), low)
        for _ in range(self.iterations or MOST):
            theta = equations.regress(r + gamma * alive * V)
            old, V = V, np.clip(best_scores(samples.next_phi, theta), low, high)
            if self.iterations is None and np.abs(V - old).max() <= SETTLED * (high - low):
                break
        scale = math.inf if theta[:-1].any() else 1.0
        return state._replace(theta=theta, total=theta.copy(), scale=scale, fits=state.fits + 1)
