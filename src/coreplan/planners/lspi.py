"""`LSPI`: least-squares policy iteration on samples of the uniform policy (Lagoudakis & Parr 2003)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ..base import as_positive, settle
from ..sampled import Equations, weighted
from .protocol import Tunable
from .trajectories import OnTrajectories, State

RIDGE = 1e-3


@dataclass(frozen=True, kw_only=True, eq=False)
class LSPI(OnTrajectories):
    """Least-squares policy iteration: Lagoudakis & Parr, "Least-Squares Policy Iteration", JMLR 4, 2003.

    Samples (x, a, r, y) are gathered once, along trajectories of the uniform policy. Policy iteration on them evaluates each
    policy by LSTD-Q, and the next one is greedy in what was found:

        sum phi(x, a) (phi(x, a) - gamma phi(y, pi(y)))' theta = sum phi(x, a) r,  pi(y) = argmax_b phi(y, b) . theta.

    *Setting*: trajectories from nu0 only, no core set; uniform play must reach what a good policy needs. *Rate*: if each
    evaluation is wrong by at most e at every pair, the policies are finally within 2 gamma e / (1 - gamma)^2 of the optimum
    (their Theorem 7.1). In a linear MDP, with features that the samples excite, e falls as 1/sqrt(n) in n samples. Where
    uniform play gets somewhere with a probability that is exponentially small in the horizon, so does information.

    *Departures*: a constant is appended to the features, a ridge is added, values beyond what rewards allow are cut off, and
    the values of absorbing states that were noticed are set, not fitted. All this is as in `Grow`, with the same equations
    (`sampled/lstd.py`). `Grow` adds exploration, and is the one to use.

    Parameters
    ----------
    ridge: of the least squares, relative to the features' size.
    """

    name: ClassVar[str] = "lspi"
    tunable: ClassVar[Tunable] = {"ridge": (1e-6, 1e-1)}

    ridge: float = RIDGE

    def __post_init__(self) -> None:
        settle(self, as_positive, "ridge")

    def _fitted(self, state: State) -> State:
        equations = Equations(weighted(state), self.setup.dimension, self.ridge)
        theta = equations.solve(self.setup.discount, state.theta)
        scale = math.inf if theta[:-1].any() else 1.0
        return state._replace(theta=theta, total=theta.copy(), scale=scale, fits=state.fits + 1)
