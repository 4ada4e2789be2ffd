"""`Politex`: policy iteration by exponential weights over the sum of all value estimates (Abbasi-Yadkori et al. 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..base import FloatArray, as_count, as_number, as_positive, checks, settle
from ..features import Phi, Sparse, entries, probabilities, scores
from ..sampled import Equations, weighted
from .lspi import RIDGE
from .protocol import Tunable
from .trajectories import OnTrajectories, State


class InPhases(OnTrajectories):
    """The base class of planners whose policy changes from phase to phase, and which use each sample in its phase only."""

    phases: int = 20

    @cached_property
    def _length(self) -> int:
        """Steps of every trajectory per phase."""
        return max(1, self.setup.budget // (self.phases * self._walks))

    @property
    def _walks(self) -> int:
        return max(1, min(super()._walks, self.setup.budget // (4 * self.phases)))

    @property
    def _room(self) -> int:
        return self._length * self._walks

    def _due(self, state: State) -> bool:
        return state.filled >= self._room

    def _played(self, state: State, phi: Phi) -> FloatArray:
        """The probabilities of the policy at states `[n, A, K]`."""
        p = np.empty(entries(phi).shape[:2])
        probabilities(phi, state.total, state.scale, p)
        return p

    def check(self, state: State) -> None:
        super().check(state)
        if state.filled >= self._room or not math.isfinite(state.scale):
            raise ValueError(f"{state.filled} samples are stored, and a phase has {self._room}")
        checks.require_within(state, 0.0, checks.LARGEST, "scale")


@dataclass(frozen=True, kw_only=True, eq=False)
class Politex(InPhases):
    """POLITEX: Abbasi-Yadkori, Bartlett, Bhatia, Lazic, Szepesvari & Weisz, ICML 2019; Lazic et al., ICML 2021.

    Each phase follows one policy, and estimates its values by least squares on the phase's samples. The next policy is a
    softmax of the SUM of all estimates so far, which is one vector:

        theta_k = LSTD-Q of pi_k,  pi_{k+1}(a|x) = softmax(eta phi(x, a) . (theta_1 + ... + theta_k)).

    *Setting*: trajectories from nu0 only; every policy on the way must excite all features. *Rate*: the regret over T steps
    is O(T^(3/4)), and O(T^(1/2)) in the variant of 2021, beside the features' error. So 1/eps^4 samples (1/eps^2) make the
    average over phases eps-optimal, up to that error and factors for horizon and excitation.

    *Departures*: the papers are about average reward along one endless trajectory; here rewards are discounted, and there
    are many that start anew. The result is the last policy; the guarantee is about the average over phases. A fraction of
    actions is random, and so the estimates are off-policy. eta is a multiple of sqrt(8 log A / K) / range, the rate of
    exponential weights, with the range of the estimates within a state as it was measured, not the largest possible.

    Parameters
    ----------
    phases: K.
    rate: eta in units of the rate above.
    random: the fraction of actions that are random.
    ridge: of the least squares, relative to the features' size.
    """

    name: ClassVar[str] = "politex"
    tunable: ClassVar[Tunable] = {
        "phases": (5, 50),
        "rate": (0.5, 30.0),
        "random": (0.02, 0.5),
        "ridge": (1e-6, 1e-1),
    }

    phases: int = 20
    rate: float = 4.0
    random: float = 0.1
    ridge: float = RIDGE

    def __post_init__(self) -> None:
        settle(self, as_count, "phases")
        settle(self, as_positive, "rate", "ridge")
        settle(self, as_number, "random", what="a fraction from 0 to 1", good=lambda p: 0.0 <= p <= 1.0)

    def _fitted(self, state: State) -> State:
        samples, gamma = weighted(state), self.setup.discount
        equations = Equations(samples, self.setup.dimension, self.ridge)
        p = self._played(state, samples.next_phi)
        theta = equations.evaluate_mixed(p, gamma, state.theta)
        total, fits = state.total + theta, state.fits + 1
        spread = _range(samples.next_phi, total / fits)
        eta = self.rate * math.sqrt(8 * math.log(max(self.setup.n_actions, 2)) / self.phases)
        scale = eta / spread if spread > 0.0 else 1.0
        return self._forgotten(state._replace(theta=theta, total=total, scale=min(scale, 1e12), fits=fits))


def _range(phi: Sparse, theta: FloatArray) -> float:
    """The largest difference between scores of available actions at one state."""
    q = np.empty(phi.weight.shape[:2])
    scores(phi, theta, q)
    return float((q.max(axis=1) - np.where(np.isfinite(q), q, np.inf).min(axis=1)).max())
