"""How the queries of the upper bound are spent and its bets are set: by descent on the bound that a pilot predicts.

Whatever comes out of it is valid, since it is fixed before the bound's own samples are drawn. What can be chosen per pair is
its share of the queries, its bet, how much of its wealth it risks, and where its tangent touches (`evidence.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...base import FloatArray, IntArray
from .evidence import Bets, Evidence, Slopes, largest_bets

_SINGLES = 24  # units that are corners by themselves; the others are raised together, in groups
_GROUPS = 4
_STEPS, _RATE = 60, 0.25  # of the descent; the rate falls to a tenth
_NEWTON, _SETTLED = 12, 1e-5  # policy iteration meanwhile need not be exact
_SMOOTH = 0.03  # the largest corner is smoothed at this fraction of what the bound is above the estimate
_ROOM = 1.6  # ceiling and floors are at least so far from the estimates, in units of the largest distance predicted
_ROOMS = (0.03, 0.1, 0.3, 1.0)  # where that starts, in units of the largest estimate
_EVEN = (0.0, 0.8)  # how much of the queries is spread evenly where it starts
_HOPELESS = 3.0  # a predicted bound from which the descent has no chance to come below 1, after a few steps
_LEAST = 0.1  # the smallest share of a pair, over the average share


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


@dataclass
class Descent:
    """The bound predicted for `n` queries from a pilot's samples, as a function of the knobs, and its gradient."""

    pilot: Evidence
    centre: float  # the estimate of v*
    estimate: FloatArray  # [rho], of q*
    groups: tuple[IntArray, ...]
    n: int
    log_target: float

    room: float  # ceiling and floors are so far from the estimates

    def __post_init__(self) -> None:
        self.q = [self.estimate] * len(self.groups)

    def bets(self, knobs: Knobs) -> Bets:
        ceiling = min(float(self.estimate.max()) + self.room, 1.0 / (1.0 - self.pilot.gamma))
        floor = np.append(np.maximum(self.estimate - self.room, 0.0), 0.0)
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
        reach = max(float((f.q - self.estimate).max()) for f in found)
        fits = _ROOM * reach <= self.room or self.room >= 1.0 / (1.0 - self.pilot.gamma)
        self.next_room = min(max(_ROOM * reach, 0.7 * self.room, 1e-3), 2.0 * self.room)
        top = top if fits else top + 1.0  # a ceiling that is reached proves nothing
        return top, gradient / max(float(values.max()) - self.centre, 1e-9)

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


def designed(
    pilot: Evidence,
    q: FloatArray,
    kappa: FloatArray,
    sigma: FloatArray,
    n: int,
    alpha: float,
    steps: int = _STEPS,
) -> Design:
    """A design for `n` queries of pairs at risk `alpha`, from the pilot's estimates of q* `[rho]`, of the occupancy `kappa
    [rho]` of pairs, and of standard deviations `sigma [rho + 1]`."""
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
    small = np.zeros(rho + 1), np.full(rho + 1, 1e-6)
    centre = pilot.solve(
        Bets(lam=small[1], doubt=small[0], floor=small[0], ceiling=math.inf, log_target=L), small[0]
    ).value

    def start(even: float, size: FloatArray) -> Knobs:
        share = (1.0 - even) * busy / busy.sum() + even / rho
        bet = np.sqrt(2 * (L + np.log(2.0 * size)) / np.append(n * share, n)) / np.maximum(sigma, 1e-3)
        return Knobs(np.log(np.append(share, 1.0)), np.log(bet), np.log(2.0 * size - 1.0), np.zeros(rho + 1))

    # Units are doubted together, as by a union bound, or those with most of the occupancy by themselves.
    every, rooms = (size, np.full(rho + 1, rho + 1.0)), [room * float(q.max()) for room in _ROOMS]
    few = slice(1, None) if rho > 100 else slice(None)
    starts = [
        (
            start(even, doubted),
            Descent(
                pilot=pilot, centre=centre, estimate=q, groups=groups, n=n, log_target=L, room=room
            ),
        )
        for even in _EVEN[few] for doubted in every[few] for room in rooms
    ]  # fmt: skip
    knobs, descent = min(starts, key=lambda at: at[1](at[0])[0])
    best, least, room = knobs, math.inf, descent.room
    mean, square = np.zeros((4, rho + 1)), np.zeros((4, rho + 1))
    for t in range(1, steps + 1):
        value, gradient = descent(knobs)
        if value < least:
            best, least, room = knobs, value, descent.room
        mean, square = 0.8 * mean + 0.2 * gradient, 0.95 * square + 0.05 * gradient**2
        if t == 5 and least > _HOPELESS:
            break
        descent.room = descent.next_room
        move = (mean / (1 - 0.8**t)) / (np.sqrt(square / (1 - 0.95**t)) + 1e-4)
        z = knobs.array() - _RATE * (1 - 0.9 * t / steps) * move
        knobs = Knobs(z[0], z[1], np.clip(z[2], -4.0, 12.0), np.clip(z[3], -3.0, 3.0))
    descent.room = room
    return Design(
        bets=descent.bets(best), knot=np.exp(best.knot), shares=best.shares(), groups=groups,
        excess=max(least - descent.centre, 1e-9),
    )  # fmt: skip
