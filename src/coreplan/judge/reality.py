"""What a policy earns, from few queries: rollouts that start from what its planner believes.

A planner believes Q-values, Q = phi . theta + constant, and so V(x) = sum_a pi(a|x) Q(x, a). Along rollouts of any policy
with d_t = r_t + gamma V(x_{t+1}) - V(x_t), the normalised value is (1 - gamma) E V(x_0) + (1 - gamma) E sum_t gamma^t d_t,
whatever V is. A rollout that goes on with probability gamma after each step weighs all its steps alike, so the second term
is the mean of d_t over all steps. For the planner's own policy it is earned minus believed: zero where the planner is right.
Then the d_t are the noise of single transitions, and hundreds of queries tell what would take thousands of whole returns.
The first term needs initial states only, which are no queries.

Intervals are Student's t over rollouts: good approximations, not guarantees, and blind to events that no rollout met.
`evaluate` and `certify` give guaranteed ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.special import stdtrit

from ..base import FloatArray, IntArray, Lane
from ..policy import SoftmaxPolicy
from ..problem import Problem
from ..sampled import Beliefs
from .assumptions.region import worst_region
from .look_ahead import LookAhead, per_state
from .rollouts import Rollouts, Rule, Values
from .value import Evaluation, Interval, units_of

LEAST = 8  # rollouts of the policy, and half as many of the uniform one; fewer show too little of how outcomes scatter
_STARTS = 1024  # initial states, by which the first term is estimated
ENOUGH = 32  # rollouts that usually tell a worthless policy from a good one
CONFIDENCE = 0.95
_LONGEST = (
    8.0  # the longest rollout, in mean lengths; cutting off longer ones costs less than 4e-4 of the value
)
_UNIFORM = 0.5  # rollouts of the uniform policy per rollout of the policy


@dataclass(frozen=True)
class Reality:
    """What the planner believes of its policy and what rollouts of it earned; all normalised. None: not measured."""

    queries: int
    least: int  # queries that a first verdict needs
    believed: float | None = None  # value from nu0, on the initial states of the rollouts
    earned: Evaluation | None = None
    uniform: Evaluation | None = None  # the uniform policy
    baseline: Evaluation | None = None  # the user's own policy
    excess: Interval | None = None  # believed minus earned
    gain: Interval | None = None  # earned minus the uniform policy
    lead: Interval | None = None  # earned minus the baseline, from paired rollouts
    ahead: Interval | None = None  # what one step of look-ahead would gain on top
    where: str = ""  # in which states most of the excess arises
    fault: BaseException | None = None  # the error that ended the rollouts

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for JSON."""
        record = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "fault"}
        for name in _EVALUATIONS:
            record[name] = None if record[name] is None else record[name].as_dict()
        return record | {name: None if record[name] is None else list(record[name]) for name in _INTERVALS}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Reality:
        """The inverse of `as_dict`."""
        known = {f.name: record[f.name] for f in fields(cls) if f.name != "fault"}
        for name in _EVALUATIONS:
            known[name] = None if known[name] is None else Evaluation.from_dict(known[name])
        for name in _INTERVALS:
            known[name] = None if known[name] is None else Interval(*map(float, known[name]))
        return cls(**known)


_EVALUATIONS, _INTERVALS = ("earned", "uniform", "baseline"), ("excess", "gain", "lead", "ahead")


def price(problem: Problem, baseline: bool, rollouts: int = ENOUGH) -> int:
    """About how many queries a verdict by so many rollouts of the policy costs, the other policies' included."""
    steps = rollouts * (1 + baseline + _UNIFORM) / (1.0 - problem.discount)
    look = rollouts * per_state(problem) if rollouts >= ENOUGH else 0
    return math.ceil(1.5 * steps) + look  # half as many again, since lengths vary


def face_reality(
    problem: Problem,
    policy: SoftmaxPolicy,
    *,
    queries: int,
    seed: int,
    beliefs: Beliefs | None = None,
    baseline: Any = None,
) -> Reality:
    """Roll the policy, the baseline and the uniform policy out with at most `queries` queries in all.

    An error of the simulator, or Ctrl-C, is returned as `fault`: the queries before it were paid for and must be counted.
    """
    rules = [Rule(problem, policy)]
    if baseline is not None:
        rules.append(Rule(problem, baseline, "baseline"))
    values = Values(problem, policy, beliefs)
    main = Rollouts(problem, rules, key=seed, lane=Lane.REALITY, values=values)
    even = Rollouts(
        problem, [Rule(problem, SoftmaxPolicy.uniform(problem.features))], key=seed, lane=Lane.UNIFORM, values=values
    )  # fmt: skip
    look = LookAhead(problem, policy, values, seed)
    share = len(rules) / (len(rules) + _UNIFORM)
    walked = other = ahead = fault = None
    try:
        start = (1.0 - problem.discount) * values.known(main.simulators[0].initial(_STARTS))
        room = queries - price(problem, baseline is not None, LEAST)  # rollouts come first
        states = (
            0 if beliefs is None or room <= 0 else min(look.states_for(queries), room // per_state(problem))
        )
        rest = queries - states * per_state(problem)
        walked = _walked(main, start, int(share * rest), LEAST, np.random.default_rng([seed, 1]))
        if walked is not None:
            left = rest - main.queries
            other = _walked(even, start, left, LEAST // 2, np.random.default_rng([seed, 2]))
            if states:
                ahead = look.gains(main.kept, states, np.random.default_rng([seed, 3]))
    except (Exception, KeyboardInterrupt) as error:
        fault = error
    paid = Reality(
        queries=main.queries + even.queries + look.queries, least=price(problem, baseline is not None, LEAST),
        fault=fault,
    )  # fmt: skip
    if walked is None or fault is not None:
        return paid
    if ahead is not None:
        paid = replace(paid, ahead=_interval(float(ahead.mean()), ahead - ahead.mean()))
    found = replace(paid, earned=_evaluation(problem, walked.value(0), main, walked))
    if beliefs is not None:
        found = replace(found, believed=float(start.mean()), excess=walked.excess(), where=_where(main))
    if other is not None:
        uniform = _evaluation(problem, other.value(0), even, other)
        found = replace(found, uniform=uniform, gain=_apart(walked, other))
    if baseline is not None:
        second = _evaluation(problem, walked.value(1), main, walked)
        found = replace(found, baseline=second, lead=walked.lead())
    return found


class _Walked:
    """Sums of d_t over rollouts of random lengths, as estimates of values: ratio estimators, since lengths vary."""

    def __init__(self, start: FloatArray, sums: FloatArray, lengths: IntArray) -> None:
        self.start, self.sums, self.lengths = start, sums, lengths  # [n0], [k, n], [n]

    def _mean(self, sums: FloatArray) -> tuple[float, FloatArray]:
        """The mean of d over all steps, and each rollout's deviation from it `[n]`."""
        mean = float(sums.sum() / self.lengths.sum())
        return mean, (sums - mean * self.lengths) / self.lengths.mean()

    def value(self, i: int) -> Interval:
        """The normalised value of policy i."""
        mean, deviations = self._mean(self.sums[i])
        return _interval(
            float(self.start.mean()) + mean, deviations, float(self.start.var()) / len(self.start)
        )

    def excess(self) -> Interval:
        """Believed minus earned. Both share their initial states, so that these do not matter."""
        mean, deviations = self._mean(self.sums[0])
        return _interval(-mean, deviations)

    def lead(self) -> Interval:
        """The first policy's value minus the second's."""
        mean, deviations = self._mean(self.sums[0] - self.sums[1])
        return _interval(mean, deviations)


def _walked(
    rollouts: Rollouts, start: FloatArray, budget: int, least: int, rng: np.random.Generator
) -> _Walked | None:
    """Rollouts of geometric lengths within the budget; None if it has no room for `least` of them."""
    parts = []
    while True:
        room = (budget - rollouts.queries) // len(rollouts.rules)
        lengths = _lengths(room, rollouts.problem.discount, rng)
        if len(lengths) < least:
            break
        parts.append((rollouts.go(lengths, np.ones(int(lengths.max()))), lengths))
    if not parts:
        return None
    return _Walked(
        start,
        np.concatenate([w.sums for w, _ in parts], axis=1),
        np.concatenate([lengths for _, lengths in parts]),
    )


def _lengths(room: int, gamma: float, rng: np.random.Generator) -> IntArray:
    """As many lengths as fit into `room` steps, each with P(length > t) = gamma^t, together spread evenly over that law."""
    shift, longest = rng.random(), math.ceil(_LONGEST / (1.0 - gamma))
    for n in range(int(room * (1.0 - gamma)) + 1, 0, -1):
        u = (np.arange(n) + shift) / n
        lengths = np.minimum(np.floor(np.log1p(-u) / math.log(gamma)).astype(np.int64) + 1, longest)
        if lengths.sum() <= room:
            return rng.permutation(lengths)
    return np.zeros(0, dtype=np.int64)


def _interval(value: float, deviations: FloatArray, more: float = 0.0) -> Interval:
    """`more`: variance from another source."""
    n = len(deviations)
    error = math.sqrt(deviations.var(ddof=1) / n + more)
    half = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2)) * error
    return Interval(value, value - half, value + half)


def _apart(one: _Walked, two: _Walked) -> Interval:
    """The first's value minus the second's, of independent rollouts (Welch's t with the smaller degrees of freedom)."""
    (first, a), (second, b) = one._mean(one.sums[0]), two._mean(two.sums[0])
    difference = first - second  # the initial states are common
    error = math.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    half = float(stdtrit(min(len(a), len(b)) - 1, 0.5 + CONFIDENCE / 2)) * error
    return Interval(difference, difference - half, difference + half)


def _evaluation(problem: Problem, found: Interval, rollouts: Rollouts, walked: _Walked) -> Evaluation:
    value, low, high = (min(max(v, 0.0), 1.0) for v in found)
    return Evaluation(
        value=value, low=low, high=high, exact=False, queries=rollouts.queries // len(rollouts.rules),
        rollouts=len(walked.lengths), confidence=CONFIDENCE, units=units_of(problem),
    )  # fmt: skip


def _where(rollouts: Rollouts) -> str:
    """Where most of the excess arises, to be read after "refine them"; empty if it arises everywhere alike."""
    states = np.concatenate([states for states, _ in rollouts.kept])
    d = np.concatenate([d for _, d in rollouts.kept])
    region = worst_region(rollouts.problem, states, -d, np.ones(len(d)))
    return "" if region.where == "everywhere" else f" where {region.where}"
