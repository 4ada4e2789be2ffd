"""How the queries of the upper bound are spent and its bets are set: by descent on the bound that a pilot predicts.

Whatever comes out of it is valid, since it is fixed before the bound's own samples are drawn. What can be chosen per pair is
its share of the queries, its bet, how much of its wealth it risks, and where its tangent touches (`evidence.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...base import FloatArray, IntArray
from .evidence import Bets, Evidence, Slopes, Solved, largest_bets

_MEAN = 1e-6  # a bet so small that the root for it is the mean
_SINGLES = 24  # units that are corners by themselves; the others are raised together, in groups
_GROUPS = 4
_STEPS, _RATE = 60, 0.25  # of the descent; the rate falls to a tenth
_NEWTON, _SETTLED = 12, 1e-5  # policy iteration meanwhile need not be exact
_SMOOTH = 0.03  # the largest corner is smoothed at this fraction of what the bound is above the estimate
_ROOM = 3.0  # the ceiling is at least so many standard errors of the largest q above what is predicted for it
_AIM = 1.1  # times that for the next step of the descent
_ROOMS = (0.03, 0.1, 0.3, 1.0)  # where that starts, in units of the largest estimate
_UNDER = 0.9  # floors are so far above the estimates, in units of the smallest distance predicted for q: never in the way
_EVEN = (0.0, 0.8)  # how much of the queries is spread evenly where it starts
_HOPELESS = 3.0  # a predicted bound from which the descent has no chance to come below 1, after a few steps
_LEAST = 0.1  # the smallest share of a pair, over the average share


@dataclass(frozen=True)
class Estimate:
    """What a pilot says of the optimum."""

    value: float
    q: FloatArray  # [rho]
    kappa: FloatArray  # [rho], the occupancy of pairs
    sigma: FloatArray  # [rho + 1], standard deviations of the outcomes of each unit
    error: float  # the standard error of the largest q
    samples: int  # of pairs

    @classmethod
    def of(cls, pilot: Evidence) -> Estimate:
        """By policy iteration in the plug-in model."""
        found = plug_in(pilot)
        x = pilot.outcomes(found.q)[0]
        mean = np.bincount(pilot.unit, x) / pilot.count
        square = np.bincount(pilot.unit, (x - mean[pilot.unit]) ** 2)
        sigma = np.sqrt(square / np.maximum(pilot.count - 1, 1))
        moves = pilot.moves(found.q, int(found.q.argmax()))
        return cls(
            value=found.value, q=found.q, kappa=found.slopes().kappa[:-1], sigma=sigma,
            error=math.sqrt(float((moves**2) @ (sigma[:-1] ** 2 / pilot.count[:-1]))), samples=pilot.n,
        )  # fmt: skip


def plug_in(pilot: Evidence) -> Solved:
    """The optimum of the sampled model: with tiny bets and no wealth, roots are means."""
    none = np.zeros(pilot.rho + 1)
    bets = Bets(lam=np.full(pilot.rho + 1, _MEAN), doubt=none, floor=none, ceiling=math.inf, log_target=1.0)
    return pilot.solve(bets, none)


@dataclass(frozen=True)
class Knobs:
    """What is chosen, one number per unit `[rho + 1]`."""

    share: FloatArray  # log of the share of the queries, up to a constant; not for the initial state
    bet: FloatArray  # log lam
    doubt: FloatArray  # log(eps / (1 - eps))
    knot: FloatArray  # log l

    def array(self) -> FloatArray:
        return np.stack([self.share, self.bet, self.doubt, self.knot])

    def shares(self) -> FloatArray:
        """The pairs' shares of the queries, `[rho]`; none is below _LEAST of the average."""
        p = np.exp(self.share[:-1] - self.share[:-1].max())
        return (1.0 - _LEAST) * p / p.sum() + _LEAST / len(p)


@dataclass(frozen=True)
class Design:
    """A finished choice."""

    bets: Bets
    knot: FloatArray  # [rho + 1]
    shares: FloatArray  # [rho]
    groups: tuple[IntArray, ...]  # which units are raised together; every unit is in one
    excess: float  # how far above the estimate the bound is expected to be


class Limits(NamedTuple):
    """What bets rest on: with a low ceiling and high floors there is less to lose."""

    floor: FloatArray  # [rho + 1]
    ceiling: float


@dataclass
class Descent:
    """The bound predicted for `n` queries from a pilot's samples, as a function of the knobs, and its gradient."""

    pilot: Evidence
    centre: float  # the estimate of v*
    estimate: FloatArray  # [rho], of q*
    groups: tuple[IntArray, ...]
    n: int
    log_target: float
    error: float  # the standard error of the largest q, of pilot and bound together
    limits: Limits  # a step of the descent leads to those that fit what the last one predicted

    def __post_init__(self) -> None:
        self.q = [self.estimate] * len(self.groups)

    @property
    def most(self) -> float:
        """H, which no value exceeds."""
        return 1.0 / (1.0 - self.pilot.gamma)

    def bets(self, knobs: Knobs) -> Bets:
        floor, ceiling = self.limits
        lam = np.minimum(np.exp(knobs.bet), largest_bets(floor, ceiling, self.pilot.gamma))
        return Bets(lam=lam, doubt=knobs.doubt, floor=floor, ceiling=ceiling, log_target=self.log_target)

    def times(self, knobs: Knobs) -> FloatArray:
        """How many times the pilot's samples of each unit the bound will have, `[rho + 1]`."""
        return np.append(self.n * knobs.shares(), self.n) / self.pilot.count

    def __call__(self, knobs: Knobs) -> tuple[float, FloatArray]:
        """The predicted bound, and the gradient `[4, rho + 1]` of its smoothed form by the knobs."""
        bets, times, knot = self.bets(knobs), self.times(knobs), np.exp(knobs.knot)
        us = [bets.wealth(knot, group) for group in self.groups]
        found = [
            self.pilot.solve(bets, u, times, q, _NEWTON, _SETTLED) for u, q in zip(us, self.q, strict=True)
        ]
        self.q = [f.q for f in found]
        values = np.array([f.value for f in found])
        top = float(values.max())
        weight = np.exp((values - top) / (_SMOOTH * max(top - self.centre, 1e-9)))
        weight /= weight.sum()
        gradient = np.zeros((4, len(knot)))
        for w, f, u, group in zip(weight, found, us, self.groups, strict=True):
            if w > 1e-3:
                gradient += w * self._gradient(knobs, bets, f.slopes(), u, group)
        highest = max(float(f.q.max()) for f in found)
        proved = self._ceiling(1.0, highest) <= self.limits.ceiling
        self.next = self._fitting(found, highest)
        top = top if proved else top + 1.0  # a ceiling that is reached proves nothing
        return top, gradient / max(float(values.max()) - self.centre, 1e-9)

    def _ceiling(self, times: float, highest: float) -> float:
        """The least ceiling above a predicted `highest` q, or `times` as far above it, but no more than H."""
        room = max(_ROOM * self.error, 0.1 * (highest - float(self.estimate.max())), 1e-3 * highest)
        return min(highest + times * room, self.most)

    def _fitting(self, found: list[Solved], highest: float) -> Limits:
        """Limits that fit what was predicted at the corners; the ceiling at most twice as far away as it was."""
        near = np.append(self.estimate, self.centre * self.most)
        lowest = np.append(np.min([f.q for f in found], axis=0), min(f.value for f in found) * self.most)
        top = float(self.estimate.max())
        ceiling = min(self._ceiling(_AIM, highest), top + 2.0 * (self.limits.ceiling - top))
        return Limits(np.minimum(near + _UNDER * np.maximum(lowest - near, 0.0), ceiling), ceiling)

    def _gradient(self, knobs: Knobs, bets: Bets, s: Slopes, u: FloatArray, raised: IntArray) -> FloatArray:
        """The derivatives of one corner's value."""
        knot, eps = np.exp(knobs.knot), 1.0 / (1.0 + np.exp(-knobs.doubt))
        by_u = s.kappa * s.by_u
        b = -1.0 / np.expm1(-knot)
        by_knot = (
            knot * np.exp(-knot) * b * b * by_u
        )  # minus d(b)/d(log l), times the slope of a + b s in b: -l or s - l
        up = np.zeros(len(u))
        up[raised] = 1.0
        share = knobs.shares()
        by_share = -(by_u * u)[:-1] * np.maximum(1.0 - _LEAST / len(share) / share, 0.0)
        return np.stack([
            np.append(by_share - share * by_share.sum(), 0.0),
            np.where(np.exp(knobs.bet) < bets.lam * (1 + 1e-9), s.kappa * s.by_bet, 0.0),
            by_u - (1.0 - eps) * float((up * by_u * b).sum()),
            by_knot * (knot - up * bets.total),
        ])  # fmt: skip


def grouped(weight: FloatArray) -> tuple[IntArray, ...]:
    """Units with large `weight [rho]` by themselves, the others in groups; and the initial state, unit rho."""
    order = np.argsort(-weight, kind="stable")
    singles = order if len(order) <= _SINGLES else order[: _SINGLES - _GROUPS]
    rest = order[len(singles) :]
    groups = [*singles[:, None], *(np.array_split(rest, _GROUPS) if len(rest) else [])]
    return (*groups, np.array([len(weight)]))


def designed(pilot: Evidence, estimate: Estimate, n: int, alpha: float, steps: int = _STEPS) -> Design:
    """A design for `n` queries at risk `alpha`; the descent is on samples of the `pilot` that was estimated from."""
    q, kappa, sigma = estimate.q, estimate.kappa, estimate.sigma
    error = estimate.error * math.sqrt(1.0 + estimate.samples / n)
    rho, L = pilot.rho, math.log(1 / alpha)
    groups = grouped(np.abs(kappa))
    size = np.empty(rho + 1)
    for group in groups:
        size[group] = len(group)
    spend = np.abs(kappa) * sigma[:-1]
    busy = (
        spend / max(spend.sum(), 1e-12)
        + 0.5 * np.sqrt(np.abs(kappa)) / np.sqrt(np.abs(kappa)).sum()
        + 0.5 / rho
    )
    here = plug_in(pilot)
    centre = here.value

    def start(even: float, size: FloatArray) -> Knobs:
        share = (1.0 - even) * busy / busy.sum() + even / rho
        bet = np.sqrt(2 * (L + np.log(2.0 * size)) / np.append(n * share, n)) / np.maximum(sigma, 1e-3)
        return Knobs(np.log(np.append(share, 1.0)), np.log(bet), np.log(2.0 * size - 1.0), np.zeros(rho + 1))

    # Units are doubted together, as by a union bound, or those with most of the occupancy by themselves.
    every = [size, np.full(rho + 1, rho + 1.0)]
    most = 1.0 / (1.0 - pilot.gamma)
    part = slice(1, None) if rho > 100 else slice(None)
    around = [
        Limits(np.append(here.q, centre * most), min((1.0 + room) * float(here.q.max()), most))
        for room in _ROOMS
    ]
    starts = [
        (
            start(even, doubted),
            Descent(
                pilot=pilot, centre=centre, estimate=here.q, groups=groups, n=n, log_target=L, error=error, limits=at_first
            ),
        )
        for even in list(_EVEN)[part] for doubted in every[part] for at_first in around
    ]  # fmt: skip
    knobs, descent = min(starts, key=lambda at: at[1](at[0])[0])
    best, least, limits = knobs, math.inf, descent.limits
    mean, square = np.zeros((4, rho + 1)), np.zeros((4, rho + 1))
    for t in range(1, steps + 1):
        value, gradient = descent(knobs)
        if value < least:
            best, least, limits = knobs, value, descent.limits
        mean, square = 0.8 * mean + 0.2 * gradient, 0.95 * square + 0.05 * gradient**2
        if t == 5 and least > _HOPELESS:
            break
        descent.limits = descent.next
        move = (mean / (1 - 0.8**t)) / (np.sqrt(square / (1 - 0.95**t)) + 1e-4)
        z = knobs.array() - _RATE * (1 - 0.9 * t / steps) * move
        knobs = Knobs(z[0], z[1], np.clip(z[2], -4.0, 12.0), np.clip(z[3], -3.0, 3.0))
    # The descent looks at some of the pilot's samples; limits are for the estimates q, which all of them gave.
    ceiling = min(limits.ceiling + float(q.max() - here.q.max()), most)
    floor = np.append(limits.floor[:-1] + q - here.q, limits.floor[-1] + (estimate.value - centre) * most)
    descent.limits = Limits(np.minimum(floor, ceiling), ceiling)
    return Design(
        bets=descent.bets(best), knot=np.exp(best.knot), shares=best.shares(), groups=groups,
        excess=max(least - descent.centre, 1e-9),
    )  # fmt: skip
