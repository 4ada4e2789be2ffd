"""The upper bound where core features depend on each other, or for a theta that is given: `upper.py`, fitted on a pilot."""

from __future__ import annotations

import numpy as np

from ...base import FloatArray
from ...sampled import Transitions
from ...simulate import Simulator
from .first_half import Basis, Means
from .upper import Rule, make_rule, upper_bound

_HEAVY = (0.0, 0.05, 2.0)  # thresholds: which pairs a rule treats to second order: all, heavy ones, none
FEW = 100  # pairs; with more, second order has never been better, and it is slow


class FittedUpper:
    """v* <= bound for any core features."""

    def __init__(
        self, basis: Basis, pilot: Transitions, gamma: float, alpha: float, theta: FloatArray | None,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self.basis, self.pilot, self.gamma, self.alpha, self.given, self.rng = (
            basis,
            pilot,
            gamma,
            alpha,
            theta,
            rng,
        )
        self.rule = best_rule(basis, pilot, len(pilot), gamma, alpha, theta)
        self.theta = self.rule.fit.theta

    def excess(self, n: int) -> float:
        """How far above the estimate the bound from `n` queries is expected to be: as far as on the pilot, and less."""
        found = upper_bound(self.basis, self.rule, self._drawn_again(), self.gamma)
        return max(found.bound - found.mean, 1e-9) * float(np.sqrt(len(self.pilot) / n))

    def _drawn_again(self) -> Transitions:
        """The pilot, as if its pairs had been drawn with the rule's probabilities."""
        n, pair = len(self.pilot), self.pilot.pair
        order, count = np.argsort(pair, kind="stable"), np.bincount(pair)
        drawn = self.rng.choice(len(count), size=n, p=self.rule.p)
        at = (np.cumsum(count) - count)[drawn] + self.rng.integers(count[drawn])
        return self.pilot.take(order[at])

    def bound(self, simulator: Simulator, n: int) -> tuple[float, Transitions]:
        """The bound from `n` fresh queries, and these."""
        rule = best_rule(self.basis, self.pilot, n, self.gamma, self.alpha, self.given)
        self.theta = rule.fit.theta
        fresh = self.basis.draw(simulator, self.rng.choice(len(rule.p), size=n, p=rule.p))
        return upper_bound(self.basis, rule, fresh, self.gamma).bound, fresh


def best_rule(
    basis: Basis, pilot: Transitions, n: int, gamma: float, alpha: float, theta: FloatArray | None
) -> Rule:
    """The rule for `n` samples: the kind that does best when made from one half of the pilot and tried on the other."""
    rho, means = len(basis.J), Means(basis, pilot, gamma)
    full = means.fit(means.optimise() if theta is None else theta)
    if rho > FEW:
        return make_rule(means, full, n, means.count.min(), gamma, alpha, _HEAVY[-1], theta is None)
    odd = np.arange(len(pilot)) // rho % 2 == 1  # whole rounds, so that both halves have all pairs
    fitted, held_out = Means(basis, pilot.take(~odd), gamma), pilot.take(odd)
    even = np.bincount(held_out.pair, minlength=rho) / len(held_out)
    start = fitted.fit(fitted.optimise() if theta is None else theta)
    bounds = []
    for heavy in _HEAVY:
        rule = make_rule(
            fitted, start, len(held_out), fitted.count.min(), gamma, alpha, heavy, theta is None, even
        )
        bounds.append(upper_bound(basis, rule, held_out, gamma).bound)
    heavy = _HEAVY[int(np.argmin(bounds))]
    return make_rule(means, full, n, means.count.min(), gamma, alpha, heavy, theta is None)
