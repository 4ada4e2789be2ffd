"""The certificate's lower bound on a policy's value, by rollouts. It assumes nothing but the reward range.

For ANY bounded V >= 0, with d_t = r_t + gamma V(x_{t+1}) - V(x_t), V^pi(x_0) = V(x_0) + E sum_t gamma^t d_t. A rollout
continues with probability q = gamma^c after each step, and step t has weight w_t = (gamma/q)^t. This is unbiased, and if V
is close to V^pi, the d_t have means close to zero, so that short rollouts lose little. Because V^pi >= 0, a rollout may
also be abandoned at any time at the cost of w_t V(x_t): that never overstates the value, and bounds outcomes from below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from ...base import FloatArray, IntArray, States
from ...policy import SoftmaxPolicy
from ...problem import Problem
from ...sampled import lower_mean
from ...simulate import Simulator

_C = 0.85  # c in q = gamma^c; 0 never stops. Variance x length is least at 1, but tails are shorter below 1
_LONGEST = 8.0  # the longest rollout, in mean lengths; one in three thousand is longer and is abandoned
_PILOT = 0.06  # the pilot's part of the budget; more if there are few queries, so that it has some rollouts
_STARTS = 100_000  # initial states for V(x_0), which are no queries
_BET = 0.9  # about the largest part of the wealth that a bet may lose
_KEEP = 300  # states kept per step


class Values(Protocol):
    """V of a batch of states, `[n]`, between 0 and `high`."""

    @property
    def high(self) -> float: ...
    def values(self, problem: Problem, states: States) -> FloatArray: ...


class Step(NamedTuple):
    """One step of the k rollouts that were still going on."""

    which: IntArray  # [k], their numbers
    states: States  # [k, ...]
    actions: IntArray  # [k]
    rewards: FloatArray  # [k]
    next_states: States  # [k, ...]
    d: FloatArray  # [k], d_t
    weight: float  # w_t


@dataclass(frozen=True)
class Lower:
    """The lower bound, and the rollouts that it comes from."""

    bound: float
    mean: float  # of the outcomes
    rollouts: int
    queries: int
    visited: States  # [k, ...] some states of the rollouts, for checking the condition


class Rollouts(NamedTuple):
    """What rollouts came to, in units of V."""

    z: FloatArray  # [n], outcomes
    lows: FloatArray  # [n], the least outcome that abandoning on the way would have left
    visited: States  # [k, ...] some states
    V0: FloatArray  # [n], V(x_0)


@dataclass(frozen=True)
class Pilot:
    """What a few rollouts, used for nothing else, tell: when to abandon a rollout, and how outcomes are spread."""

    give_up: float
    spread: float  # standard deviation of normalised outcomes
    rollouts: int
    starts: float  # standard deviation of normalised V(x_0)
    apart: bool  # whether V(x_0), of which draws are no queries, is better estimated by itself

    @classmethod
    def run(
        cls, simulator: Simulator, policy: SoftmaxPolicy, fitted: Values, budget: int, rng: np.random.Generator,
        then: int, alpha: float,
    ) -> Pilot:  # fmt: skip
        """From at most `budget` queries, for a bound from `then` more at risk `alpha`.

        Without V(x_0) outcomes spread less, but reach down to -V, where a rollout is given up: that limits bets, and pays
        only with many rollouts.
        """
        gamma = simulator.problem.discount
        q = continuing(gamma)
        z, lows, _, V0 = rollouts(
            simulator, policy, fitted, lengths(budget, q, rng), -math.inf, rng, apart=True
        )
        n, starts = max(then * (1 - q), 1.0), float(V0.std())

        def option(z: FloatArray, lows: FloatArray, alpha: float) -> tuple[float, float, float]:
            spread = float(z.std())
            give_up = float(lows.min()) - spread
            reach = float(z.mean()) - give_up + (1 - q) * fitted.high
            return predicted_distance(spread, reach, n, alpha), give_up, spread

        joint = option(z + V0, lows + V0, alpha)
        alone = option(z, np.minimum(lows, -fitted.high), alpha / 2)
        apart = alone[0] + predicted_distance(starts, fitted.high, _STARTS, alpha / 2) < joint[0]
        _, give_up, spread = alone if apart else joint
        return cls(
            give_up=give_up, spread=max((1 - gamma) * spread, 1e-9), rollouts=len(z),
            starts=max((1 - gamma) * starts, 1e-9), apart=apart,
        )  # fmt: skip


def pilot_queries(budget: int, gamma: float) -> int:
    """How many of the `budget` queries for a lower bound its pilot takes."""
    return max(int(_PILOT * budget), min(4 * _longest(gamma), budget // 4))


def _longest(gamma: float) -> int:
    return math.ceil(_LONGEST / (1 - continuing(gamma)))


def predicted_width(spread: float, queries: int, alpha: float, gamma: float) -> float:
    """About how far a bound from so many queries lies below the value, for outcomes of this spread."""
    return spread * math.sqrt(2 * math.log(1 / alpha) / max(queries * (1 - continuing(gamma)), 1.0))


def predicted_distance(spread: float, reach: float, n: float, alpha: float) -> float:
    """About how far a bound from n outcomes lies below their mean, which is `reach` above the least outcome possible.

    The best bet is sqrt(2 log(1/alpha) / n) / spread, or the largest that the least outcome leaves.
    """
    L = math.log(1 / alpha)
    bet = min(math.sqrt(2 * L / n) / max(spread, 1e-12), _BET / max(reach, 1e-12))
    return L / (bet * n) + bet * spread**2 / 2


def lower_bound(
    simulator: Simulator, policy: SoftmaxPolicy, fitted: Values, budget: int, alpha: float,
    rng: np.random.Generator, pilot: Pilot | None = None,
) -> Lower:  # fmt: skip
    """A bound that the policy's value exceeds with probability 1 - alpha.

    `fitted` comes from other samples. It affects how tight the bound is, never whether it is valid. Without a `pilot`, part
    of the budget is one.
    """
    gamma = simulator.problem.discount
    q, longest = continuing(gamma), _longest(gamma)
    before = simulator.queries
    if pilot is None:
        tried = pilot_queries(budget, gamma)
        pilot = Pilot.run(simulator, policy, fitted, tried, rng, budget - tried, alpha)
    spent = simulator.queries - before
    planned, made = max(int((budget - spent) * (1 - q)), 1), pilot.rollouts
    z: list[FloatArray] = []
    visited: list[States] = []
    while budget - spent >= longest:  # true at first, by `least_queries`; abandoned rollouts leave queries
        steps = lengths(budget - spent, q, rng)
        done = rollouts(simulator, policy, fitted, steps, pilot.give_up, rng, apart=pilot.apart)
        z.append((1 - gamma) * done.z)
        visited.append(done.visited)
        spent, made = simulator.queries - before, made + len(steps)
    if not z:  # no rollout fitted
        return Lower(bound=0.0, mean=0.0, rollouts=made, queries=spent, visited=simulator.initial(1))
    lowest = (1 - gamma) * (pilot.give_up - (1 - q) * fitted.high)  # one step may overshoot by (1 - q) V
    normalised, start, mean = np.concatenate(z), 0.0, 0.0
    if pilot.apart:
        alpha /= 2
        V0 = (1 - gamma) * fitted.values(simulator.problem, simulator.initial(_STARTS))
        start, mean = lower_mean(V0, 0.0, alpha, pilot.starts, _STARTS), float(V0.mean())
    bound = start + lower_mean(normalised, lowest, alpha, pilot.spread, planned)
    return Lower(
        bound=max(bound, 0.0), mean=mean + float(normalised.mean()), rollouts=made, queries=spent,
        visited=np.concatenate(visited),
    )  # fmt: skip


def continuing(gamma: float) -> float:
    """q, the probability with which a rollout goes on after each step."""
    return gamma**_C


def lengths(budget: int, q: float, rng: np.random.Generator) -> IntArray:
    """The lengths `[n]` of the rollouts that fit the budget; n is at least one.

    A rollout starts only if the longest possible one still fits, so that whether it starts never depends on its own
    length; otherwise short ones would be preferred.
    """
    longest = min(math.ceil(_LONGEST / (1 - q)), budget)
    steps = rng.geometric(1 - q, size=max(budget // longest, 1) + 2 * math.ceil(budget * (1 - q)))
    steps = np.minimum(steps, longest)
    before = np.concatenate([[0], np.cumsum(steps)[:-1]])
    return steps[before + longest <= budget]


def rollouts(
    simulator: Simulator, policy: SoftmaxPolicy, fitted: Values, steps: IntArray, give_up: float,
    rng: np.random.Generator, record: list[Step] | None = None, apart: bool = False,
) -> Rollouts:  # fmt: skip
    """Rollouts of the given lengths `[n]`. `apart`: outcomes are without V(x_0), which is then estimated by itself.

    Every step is appended to `record`, if there is one. Step t is reached with probability q^t and has weight w_t, so the
    weighted visits follow the policy's discounted occupancy measure.
    """
    gamma = simulator.problem.discount
    q = continuing(gamma)
    longest = _longest(gamma)
    states = simulator.initial(len(steps))
    V = fitted.values(simulator.problem, states)
    V0 = V
    z = np.zeros(len(steps)) if apart else V.copy()
    lows, live, w = z - V, np.arange(len(steps)), 1.0
    visited = [states[:_KEEP]]
    for t in range(1, int(steps.max()) + 1):
        before, actions = states, policy.act(states, rng)
        rewards, states = simulator.step(before, actions)
        V_next = fitted.values(simulator.problem, states)
        d = rewards + gamma * V_next - V
        z[live] += w * d
        if record is not None:
            step = Step(
                which=live, states=before, actions=actions, rewards=rewards, next_states=states, d=d, weight=w
            )
            record.append(step)
        w *= gamma / q
        left = z[live] - w * V_next  # the outcome if abandoned here
        lows[live] = np.minimum(lows[live], left)
        cut = (left < give_up) | ((steps[live] == t) & (t == longest))
        z[live[cut]] -= w * V_next[cut]
        going = ~cut & (steps[live] > t)
        live, states, V = live[going], states[going], V_next[going]
        if t & (t - 1) == 0:  # at powers of two
            visited.append(states[:_KEEP])
        if not len(live):
            break
    return Rollouts(z, lows, np.concatenate(visited), V0)
