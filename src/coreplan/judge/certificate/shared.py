"""The upper bound where core features are independent: by evidence that pairs share, or, without noise, by solving."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...sampled import Transitions
from ...simulate import Simulator
from .design import Design, Estimate, designed
from .evidence import Bets, Evidence, largest_bets
from .first_half import Basis

_ROWS = 200  # samples per pair on which the descent looks, if there are few pairs
_MOST_ROWS = 16_000
_KNOTS = (1.0, 0.6, 1.6)  # the tangents are tried at multiples of the places chosen: each is a bound
_SPARE = 0.1  # the part of the risk that is kept for the case that the ceiling is reached
_HIGHER = 4.0  # times as far above the estimates is the ceiling then
_DRAWS = 100_000  # initial states, which are no queries


class SharedUpper:
    """v* <= bound for independent core features, from samples of every pair."""

    def __init__(self, basis: Basis, pilot: Transitions, gamma: float, alpha: float) -> None:
        self.basis, self.gamma, self.alpha = basis, gamma, alpha
        self.pilot = Evidence(pilot, basis.inverse, gamma)
        self.estimate = Estimate.of(self.pilot)
        self.theta = np.asarray(basis.inverse @ self.estimate.q)
        self.design: Design | None = None
        self.n = 0

    def excess(self, n: int) -> float:
        """How far above the estimate the bound from `n` queries is expected to be."""
        rho = self.pilot.rho
        few = self.pilot.first(min(_ROWS, max(_MOST_ROWS // rho, 4)))
        steps = 60 if rho <= 40 else 25 if rho <= 1500 else 6
        self.design, self.n = designed(few, self.estimate, n, (1.0 - _SPARE) * self.alpha, steps), n
        return self.design.excess

    def bound(self, simulator: Simulator, n: int) -> tuple[float, Transitions]:
        """The bound from at most `n` fresh queries, and these."""
        if self.design is None or not 0.9 <= n / self.n <= 1.4:  # bets and ceiling are for about so many
            self.excess(n)
        assert self.design is not None
        count = np.maximum((n * self.design.shares).astype(np.int64), 1)
        fresh = self.basis.draw(simulator, np.repeat(np.arange(len(count)), count))
        evidence = Evidence(fresh, self.basis.inverse, self.gamma)
        bound = shared_bound(self.design, self.bets(n), evidence)
        return (
            bound if bound < 1.0 else shared_bound(self.design, self.bets(n, spare=True), evidence)
        ), fresh

    def bets(self, n: int, spare: bool = False) -> Bets:
        """The design's bets, for `n` queries; or the `spare` ones, which have a small part of the risk.

        By chance values may reach the ceiling of the design. Then those are used whose ceiling is much higher.
        """
        assert self.design is not None
        b = self.design.bets
        ceiling, target = b.ceiling, b.log_target
        if spare:
            top, most = float(self.estimate.q.max()), 1.0 / (1.0 - self.gamma)
            ceiling = min(top + _HIGHER * (ceiling - top), most)
            target = math.log(1.0 / (_SPARE * self.alpha))
        lam = np.minimum(b.lam * math.sqrt(self.n / n), largest_bets(b.floor, ceiling, self.gamma))
        return replace(b, lam=lam, ceiling=ceiling, log_target=target)


def shared_bound(design: Design, bets: Bets, evidence: Evidence) -> float:
    """A bound that exceeds v* with probability 1 - alpha; 1 where the values that it leaves reach the ceiling."""
    best, q = 1.0, None
    for factor in _KNOTS if evidence.rho <= 100 else _KNOTS[:1]:
        value = 0.0
        for group in design.groups:
            found = evidence.solve(bets, bets.wealth(factor * design.knot, group), q=q)
            q, value = found.q, max(value, found.value)
            # A ceiling of 1/(1 - gamma) needs no proof; another is proved by q below it, at every corner.
            if found.q.max() >= bets.ceiling and bets.ceiling < 1.0 / (1.0 - evidence.gamma) - 1e-9:
                value = 1.0
            if value >= best:
                break
        best = min(best, value)
    return best


class KnownUpper:
    """v* <= bound for a deterministic simulator: one sample tells all of its pair; only initial states have chance."""

    def __init__(self, basis: Basis, samples: Transitions, gamma: float, alpha: float) -> None:
        self.basis, self.samples, self.gamma, self.alpha = basis, samples, gamma, alpha
        self.estimate = Estimate.of(Evidence(samples, basis.inverse, gamma, known=True))
        self.theta = np.asarray(basis.inverse @ self.estimate.q)

    def excess(self, n: int) -> float:
        """Pairs need no more queries."""
        return 0.0

    def bound(self, simulator: Simulator, n: int) -> tuple[float, Transitions]:
        """The bound from fresh initial states; no queries."""
        x0 = simulator.initial(_DRAWS)
        fresh = replace(self.samples, initial=x0, initial_phi=simulator.features(x0))
        evidence = Evidence(fresh, self.basis.inverse, self.gamma, known=True)
        L, rho = math.log(1 / self.alpha), evidence.rho
        ceiling = max(
            float(self.estimate.q.max()) * (1 + 1e-6), 1e-9
        )  # all that V(x0) can be, since q* is known
        bet = min(math.sqrt(2 * L / _DRAWS) / max(float(self.estimate.sigma[-1]), 1e-9), 0.95 / ceiling)
        bets = Bets(
            lam=np.full(rho + 1, bet), doubt=np.zeros(rho + 1), floor=np.zeros(rho + 1), ceiling=ceiling, log_target=L
        )  # fmt: skip
        return min(evidence.solve(bets, np.append(np.zeros(rho), L)).value, 1.0), self.samples
