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
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import stdtrit

from ..base import FloatArray, IntArray, Lane, checks
from ..policy import SoftmaxPolicy
from ..problem import Problem
from ..sampled import Beliefs
from .assumptions.region import worst_region
from .look_ahead import LookAhead, per_state
from .rollouts import Rollouts, Rule, Values, Walks
from .value import Evaluation, Interval, units_of

LEAST = 8  # rollouts of the policy, and half as many of the uniform one; fewer show too little of how outcomes scatter
_STARTS = 1024  # initial states, by which the first term is estimated
ENOUGH = 32  # rollouts that usually tell a worthless policy from a good one
CONFIDENCE = 0.95
CERTAIN = 1.96  # standard errors, where an estimate rests on very many draws
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
    baseline: Evaluation | None = None  # the user's own policy, or the problem's baseline
    own_baseline: str = ""  # the name of the latter
    excess: Interval | None = None  # believed minus earned
    gain: Interval | None = None  # earned minus the uniform policy
    lead: Interval | None = None  # earned minus the baseline, from paired rollouts
    ahead: Interval | None = None  # what one step of look-ahead would gain on top
    where: str = ""  # in which states most of the excess arises
    # If an earlier solve of the planner earned more and is the plan's policy: the digest of the last solve's policy.
    set_aside: str = ""
    above_last: Interval | None = (
        None  # then: earned minus what the last solve's policy earned, from paired rollouts
    )
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
        known = checks.plain(cls, record)
        known["fault"] = None
        for name in _EVALUATIONS:
            known[name] = None if known.get(name) is None else Evaluation.from_dict(known[name])
        for name in _INTERVALS:
            known[name] = None if known.get(name) is None else Interval(*map(float, known[name]))
        return cls(**known)


_EVALUATIONS, _INTERVALS = (
    ("earned", "uniform", "baseline"),
    ("excess", "gain", "lead", "ahead", "above_last"),
)


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

    Whatever ends the rollouts, an error of the simulator or Ctrl-C, is returned as `fault`: the queries before it were paid
    for and must be counted.
    """
    return Faced(problem, policy, beliefs=beliefs, baseline=baseline, seed=seed).see(queries)


class Faced:
    """The rollouts of one policy, of a baseline and of the uniform policy, and a look ahead."""

    def __init__(
        self,
        problem: Problem,
        policy: SoftmaxPolicy,
        *,
        seed: int,
        beliefs: Beliefs | None = None,
        baseline: Any = None,
    ) -> None:
        rules = [Rule(problem, policy)]
        if baseline is not None:
            rules.append(Rule(problem, baseline, "baseline"))
        uniform = Rule(problem, SoftmaxPolicy.uniform(problem.features))
        self.problem, self.beliefs, self.compared, self.seed = problem, beliefs, baseline is not None, seed
        self.values = Values(problem, policy, beliefs)
        self.main = Rollouts(problem, rules, key=seed, lane=Lane.REALITY, values=self.values)
        self.even = Rollouts(problem, [uniform], key=seed, lane=Lane.UNIFORM, values=self.values)
        self.look = LookAhead(problem, policy, self.values, seed)
        self.streams = [np.random.default_rng([seed, i]) for i in (1, 2, 3)]
        self.walked: tuple[_Waves, _Waves] = ([], [])  # of `main` and of `even`, so far

    @property
    def queries(self) -> int:
        """The queries made so far."""
        return self.main.queries + self.even.queries + self.look.queries

    def see(self, queries: int, *, ahead: bool = True) -> Reality:
        """What at most `queries` queries show, those of earlier calls included; `ahead`: and look ahead, at the end."""
        found = Reality(queries=0, least=price(self.problem, self.compared, LEAST))
        fault: BaseException | None = None
        try:
            found = self._found(found, queries, self._states(queries) if ahead else 0)
        except BaseException as error:
            fault = error
        return replace(found, queries=self.queries, fault=fault)

    def _states(self, queries: int) -> int:
        """At how many states to look ahead; rollouts come first."""
        room = queries - price(self.problem, self.compared, LEAST)
        if self.beliefs is None or room <= 0:
            return 0
        return min(self.look.states_for(queries), room // per_state(self.problem))

    @cached_property
    def start(self) -> FloatArray:
        """(1 - gamma) V(x_0) of initial states, `[n0]`."""
        initial = self.even.simulators[0].initial(_STARTS)
        return (1.0 - self.problem.discount) * self.values.known(initial)

    def _found(self, found: Reality, queries: int, states: int) -> Reality:
        """`found` with what at most `queries` queries show; as it is if they are too few."""
        problem, start = self.problem, self.start
        rest, k = queries - states * per_state(problem), len(self.main.rules)
        walked = _walked(
            self.main, start, int(k / (k + _UNIFORM) * rest), LEAST, self.streams[0], self.walked[0]
        )
        if walked is None:
            return found
        found = replace(found, earned=_evaluation(problem, walked.value(0), self.main, walked))
        if problem.n_actions > 1:
            room = rest - self.main.queries
            other = _walked(self.even, start, room, LEAST // 2, self.streams[1], self.walked[1])
            if other is not None:
                uniform = _evaluation(problem, other.value(0), self.even, other)
                found = replace(found, uniform=uniform, gain=_apart(walked, other))
        if self.beliefs is not None:
            excess = walked.excess()
            where = _where(self.main) if excess.low > 0.0 else ""
            found = replace(found, believed=float(start.mean()), excess=excess, where=where)
        if self.compared:
            second = _evaluation(problem, walked.value(1), self.main, walked)
            found = replace(found, baseline=second, lead=walked.lead())
        ahead = self.look.gains(self.main.kept, states, self.streams[2]) if states else None
        if ahead is not None:
            # Where a process has ended, no deviation gains anything.
            ahead = ahead * (self.main.lived / walked.lengths.sum())
            found = replace(found, ahead=_interval(float(ahead.mean()), ahead - ahead.mean()))
        return found

    # Another policy against this one.

    def needed(self, found: Reality, difference: float) -> int:
        """About how many queries tell this policy from another if their values differ by `difference`.

        The other policy's rollouts scatter like those that were seen; common noise only makes the difference sharper.
        """
        assert found.earned is not None
        waves = self.walked[0]
        mean = _Walked(self.start, *_together(waves)).value(0)
        seen = found.earned.rollouts
        rollouts = max(seen * 2.0 * ((mean.high - mean.value) / difference) ** 2, LEAST)
        # Of two policies, and half as many again, since lengths vary.
        return math.ceil(3.0 * rollouts * found.earned.queries / seen) if rollouts < 1e12 else 2**62

    def against(self, found: Reality, other: SoftmaxPolicy, beliefs: Beliefs | None, queries: int) -> Reality:
        """What is seen of `other` in at most `queries` further queries, paired with fresh rollouts of this policy.

        `above_last` is other minus this one. The uniform policy's value is that of `found`. On a fault, or with too few
        queries, it has no `earned`.
        """
        problem = self.problem
        paired = Rollouts(
            problem, [Rule(problem, other), self.main.rules[0]], key=self.seed, lane=Lane.RACE, values=self.values
        )  # fmt: skip
        seen = Reality(queries=0, least=found.least, uniform=found.uniform)
        fault: BaseException | None = None
        try:
            walked = _walked(paired, self.start, queries, LEAST, self.streams[0], [])
            if walked is not None:
                value = walked.value(0)
                seen = replace(
                    seen, earned=_evaluation(problem, value, paired, walked), above_last=walked.lead()
                )
                if found.uniform is not None:
                    even = found.uniform
                    seen = replace(seen, gain=_difference(value, Interval(even.value, even.low, even.high)))
                above = walked.lead()
                if found.lead is not None:
                    below = Interval(*(-v for v in found.lead))
                    seen = replace(seen, baseline=found.baseline, lead=_difference(above, below))
                if (
                    found.ahead is not None
                ):  # what look-ahead gained over this policy, it gains over the other, less that
                    seen = replace(seen, ahead=_difference(found.ahead, above))
                if beliefs is not None:
                    initial = self.even.simulators[0].initial(_STARTS)
                    V = (1.0 - problem.discount) * Values(problem, other, beliefs).known(initial)
                    error = CERTAIN * float(V.std()) / math.sqrt(len(V))
                    believed = Interval(float(V.mean()), float(V.mean()) - error, float(V.mean()) + error)
                    seen = replace(seen, believed=believed.value, excess=_difference(believed, value))
        except BaseException as error:
            fault = error
        return replace(seen, queries=paired.queries, fault=fault)


def _difference(one: Interval, two: Interval) -> Interval:
    """The difference of two independent estimates."""
    value = one.value - two.value
    half = math.hypot(one.high - one.value, two.high - two.value)
    return Interval(value, value - half, value + half)


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


_Waves = list[tuple[Walks, IntArray]]  # rollouts, and their lengths


def _together(waves: _Waves) -> tuple[FloatArray, IntArray]:
    """The sums of all waves, `[k, n]`, and their lengths, `[n]`."""
    sums, lengths = zip(*((walks.sums, lengths) for walks, lengths in waves), strict=True)
    return np.concatenate(sums, axis=1), np.concatenate(lengths)


def _walked(
    rollouts: Rollouts, start: FloatArray, budget: int, least: int, rng: np.random.Generator, waves: _Waves
) -> _Walked | None:
    """Rollouts of geometric lengths within the budget, appended to `waves`; None if there is no room for `least` of them."""
    while True:
        room = (budget - rollouts.queries) // len(rollouts.rules)
        lengths = _lengths(room, rollouts.problem.discount, rng)
        if len(lengths) < least:
            break
        before = rollouts.queries
        waves.append((rollouts.go(lengths, np.ones(int(lengths.max()))), lengths))
        if rollouts.queries == before:  # every process begins at its end
            break
    return _Walked(start, *_together(waves)) if waves else None


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
    return f" where {region.where}" if region.concentrated else ""
