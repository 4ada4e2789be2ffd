"""`VWLSMDVI`: mirror-descent value iteration by variance-weighted regression on a design (Kitamura et al. 2023)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..base import FloatArray, IntArray, as_count, as_number, checks, settle
from ..core import optimal_design, weighted_fit
from ..features import best_scores, row_scores
from ..simulate import Answers
from .protocol import CoreSetup, Tunable
from .rounds import InRounds, no_round, require_samples

FIRST, MEASURED = (
    0.2,
    0.3,
)  # the parts of the budget used at the end of the first solve, and of the measurement


class State(NamedTuple):
    """The sum of all q and the one before it, the design in use and its sizes, and the fields of `no_round`."""

    theta: FloatArray  # [d], the weighted mean of all q of this solve
    s: FloatArray  # [d], S_k, the sum with weights alpha^(k - i)
    before: FloatArray  # [d], S_(k-1)
    rho: FloatArray  # [m]
    f: FloatArray  # [m], the standard deviations of the targets, 1 in the first solve
    alpha: float  # in this solve
    K: int  # the rounds of the first solve
    size: int  # the samples per pair and round of this solve
    round: int
    each: int
    filled: int
    told: int
    total: FloatArray  # [m]
    squares: FloatArray  # [m]


@dataclass(frozen=True, kw_only=True, eq=False)
class VWLSMDVI(InRounds):
    """Variance-weighted least-squares MDVI: Kitamura, Kozuno, Tang et al., "Regularization and Variance-Weighted Regression
    Achieves Minimax Optimality in Linear MDPs: Theory and Practice", ICML 2023.

    A solve makes K rounds. Each takes n fresh samples of every pair of a G-optimal design rho over the core pairs:

        v_k = max_a phi . S_k - alpha max_a phi . S_(k-1),  q_j = mean (r + gamma v_k(y_j))
        theta_(k+1) = argmin sum_j rho_j / f_j^2 (phi_j . theta - q_j)^2,  S_(k+1) = theta_(k+1) + alpha S_k

    The sums S average the noise of many rounds, which is what regularisation does for value iteration. The first solve has
    f = 1. Then the variances of r + gamma v are measured and fitted, and the second solve has their roots as f, and the
    design of phi / f. The policy is greedy in the last S.

    *Setting*: a linear MDP and a generative model. *Rate*: with n queries the normalised gap is at most eps if n is of the
    order d^2 H / eps^2 (d^2 H^3 / eps'^2 in values that reach H, eps' = eps H small), up to logarithms: minimax optimal.
    Without weights it is d^2 H^4 / eps'^2.

    *Departures*: rewards are sampled, not known. The design is over the core pairs, not over all: on their hull the leverage
    is no larger (with f: up to a constant, since f is no linear function). f lies between the largest standard deviation and
    that over sqrt(H), where the paper has H and sqrt(H). The paper returns the sequence of all policies; we return the last.
    Numbers of samples follow from the budget: 20% for the first solve, 10% for variances, the rest for the second.

    Parameters
    ----------
    alpha: the weight of the past; by default gamma, as in the paper, but at most 1 - 3/K, so that K rounds settle.
    rounds: K, about; by default 3 H, or fewer if the budget has no sample for each.
    """

    name: ClassVar[str] = "vwls-mdvi"
    sweeps: ClassVar[bool] = False
    tunable: ClassVar[Tunable] = {"alpha": (0.3, 0.995)}

    alpha: float | None = None
    rounds: int | None = None

    def __post_init__(self) -> None:
        settle(self, as_count, "rounds")
        settle(self, as_number, "alpha", what="a number from 0 to below 1", good=lambda a: 0.0 <= a < 1.0)

    def resolve(self, setup: CoreSetup) -> VWLSMDVI:
        planner = self.bind(setup)
        require_samples(self.name, setup.budget, 8, len(planner._first[1]), "pairs of its design")
        return planner

    @cached_property
    def _first(self) -> tuple[FloatArray, IntArray]:
        """The design of the first solve, and its pairs."""
        design = optimal_design(self.setup.frame)
        return design.rho, design.pairs

    def _solve(self, p: int, budget: float) -> dict[str, Any]:
        """alpha and the samples per round of a solve with this budget and p pairs."""
        n = max(int(budget) // p, 1)
        K = min(self.rounds or math.ceil(3 * self._most), n)
        alpha = min(self.setup.discount, 1.0 - min(3.0 / K, 1.0)) if self.alpha is None else self.alpha
        return {"alpha": alpha, "size": n // K}

    def init(self, rng: np.random.Generator) -> State:
        d, m, (rho, pairs), B = self.setup.dimension, self.setup.m, self._first, FIRST * self.setup.budget
        first = self._solve(len(pairs), B)
        return State(
            theta=np.zeros(d), s=np.zeros(d), before=np.zeros(d), rho=rho.copy(), f=np.ones(m),
            K=max(int(B) // (len(pairs) * first["size"]), 1), **first, **no_round(m),
        )  # fmt: skip

    def _pairs(self, state: State) -> IntArray:
        return np.flatnonzero(state.rho)

    def _samples(self, state: State) -> int:
        """The second solve goes on while there are samples for whole rounds."""
        p = len(self._pairs(state))
        if state.round == state.K:
            return max(int((MEASURED - FIRST) * self.setup.budget) // p, 2)
        left = (self.setup.budget - state.told) // p
        return state.size if left >= state.size else 0

    def _targets(self, state: State, answers: Answers) -> FloatArray:
        phi = answers.next_features
        assert phi is not None
        v = best_scores(phi, state.s) - state.alpha * best_scores(phi, state.before)
        return answers.rewards + self.setup.discount * v

    def _updated(self, state: State, mean: FloatArray, variance: FloatArray, n: int) -> State:
        if state.round == state.K:
            return self._measured(state, variance)
        s = weighted_fit(self.setup.frame, state.rho / state.f**2, mean) + state.alpha * state.s
        k = state.round + 1 if state.round < state.K else state.round - state.K
        return state._replace(s=s, before=state.s, theta=s / (state.alpha ** np.arange(k)).sum())

    def _measured(self, state: State, variance: FloatArray) -> State:
        """The state at the start of the second solve, from the variances of the targets at the pairs of the first design."""
        frame = self.setup.frame
        fitted = row_scores(frame.features, weighted_fit(frame, state.rho, variance))
        top = float(fitted.max())
        f = np.sqrt(np.clip(fitted, top / self._most, top)) if top > 0.0 else np.ones(frame.m)
        zero = np.zeros_like(state.s)
        design = optimal_design(frame, f)
        second = self._solve(len(design.pairs), self.setup.budget - state.told)
        return state._replace(f=f, rho=design.rho, s=zero, before=zero.copy(), **second)

    def numbers(self, state: State) -> Mapping[str, float]:
        return {**super().numbers(state), "pairs": float(len(self._pairs(state)))}

    def check(self, state: State) -> None:
        checks.require_distribution(state, "rho")
        checks.require_finite(state, "s", "before")
        checks.require_within(state, 1e-150, checks.LARGEST, "f")
        checks.require_within(state, 0.0, 1.0, "alpha")
        checks.require_within(state, 1, self.setup.budget, "K", "size")
        super().check(state)
