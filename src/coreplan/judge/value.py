"""The value of a policy, and the difference between two: exact if states can be enumerated, else by rollouts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from ..base import (
    FloatArray,
    InputError,
    Lane,
    as_count,
    as_flag,
    as_kind,
    as_number,
    as_positive,
    checks,
    html,
    key_of,
    one_thread,
)
from ..policy import SoftmaxPolicy
from ..problem import Problem
from ..sampled import lower_mean
from ..simulate import by_executor, by_log
from .exact import normalised, optimal_values, policy_value, value_function
from .rollouts import Rollouts, Rule

_ROUNDING = 1e-9  # how far a stored value may lie outside its interval, and that outside [0, 1]
_TAIL = 1e-4  # rollouts stop when the remaining discounted weight is at most this
_HORIZON = 50_000  # the most steps per rollout; for discounts very close to 1 the interval covers the rest
_FEWEST = (
    50  # rollouts that `queries` must have room for; else rollouts are shorter, and the interval is wider
)
_FIRST = 64  # rollouts before `relative` looks at the interval for the first time
_MOST = 10_000_000  # queries, if only `relative` is given
_SPREAD = 0.1  # a guess at the standard deviation of returns; a bad one widens intervals and invalidates none


class Interval(NamedTuple):
    """An estimate with an interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Evaluation:
    """A policy's normalised value in [0, 1], with an interval; numbers that are not known are None.

    `gap` = optimum - value and `sub` = gap / (optimum - uniform): sub is 0 for an optimal policy, 1 for the uniform one.
    `returns` is the same in the user's own units: the expected discounted sum of rewards.
    """

    value: float
    low: float
    high: float
    exact: bool
    optimum: float | None = None
    uniform: float | None = None
    queries: int = 0  # simulator queries of the evaluation, never counted as planning
    rollouts: int = 0
    confidence: float = 1.0
    units: tuple[float, float] = (0.0, 1.0)  # the returns of normalised values 0 and 1

    @property
    def gap(self) -> float | None:
        return None if self.optimum is None else self.optimum - self.value

    @property
    def sub(self) -> float | None:
        if self.optimum is None or self.uniform is None or self.optimum <= self.uniform:
            return None
        return (self.optimum - self.value) / (self.optimum - self.uniform)

    @property
    def returns(self) -> Interval:
        """The value and its interval in the user's own units: the expected discounted sum of rewards."""
        zero, one = self.units
        return Interval(*(zero + (one - zero) * v for v in (self.value, self.low, self.high)))

    def __str__(self) -> str:
        """The value with its interval, normalised and in the user's own units (the discounted sum of rewards)."""
        own = self.returns
        if self.exact:
            return f"{self.value:.4f} = {own.value:.6g} in your rewards, discounted; exact"
        return (
            f"{self.value:.4f} ({self.low:.4f} to {self.high:.4f}) = {own.value:.5g} ({own.low:.5g} to {own.high:.5g}) "
            f"in your rewards, discounted; {self.rollouts:,} rollouts"
        )

    @property
    def compared(self) -> str:
        """The optimum and what is missing to it; empty where it is not known."""
        if self.sub is None:
            return ""
        return f"{self.optimum:.4f}, gap {self.gap:.4f}, sub {self.sub:.4f}"

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        rows = [("value", str(self))]
        rows += [("optimum", self.compared)] if self.compared else []
        rows += [("uniform", f"{self.uniform:.4f}")] if self.uniform is not None else []
        rows += [("queries", f"{self.queries:,}")] if self.queries else []
        return html.table(
            rows, title="evaluation, " + ("exact" if self.exact else f"confidence {self.confidence:g}")
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for JSON."""
        return {**asdict(self), "gap": self.gap, "sub": self.sub, "returns": self.returns._asdict()}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Evaluation:
        """The inverse of `as_dict`."""
        known = checks.plain(cls, record)
        zero, one = (float(v) for v in record["units"])
        if not math.isfinite(one - zero):
            raise ValueError(f"'units' is {record['units']}")
        low, value, high = known["low"], known["value"], known["high"]
        if not -_ROUNDING <= low <= value + _ROUNDING <= high + 2 * _ROUNDING <= 1.0 + 3 * _ROUNDING:
            raise ValueError(
                f"the value {value} in the interval from {low} to {high}: an evaluation lies in [0, 1]"
            )
        return cls(**known | {"units": (zero, one)})


def as_confidence(who: str, confidence: Any) -> float:
    """A confidence as a float in (0, 1); else an InputError."""
    what = "a number strictly between 0 and 1"
    return float(as_number(who, what, lambda number: 0.0 < number < 1.0, confidence=confidence))


def units_of(problem: Problem) -> tuple[float, float]:
    """The returns of normalised values 0 and 1."""
    return problem.to_return_units(0.0), problem.to_return_units(1.0)


@one_thread
@by_executor
@by_log
def evaluate(
    problem: Problem,
    policy: Any,
    *,
    rollouts: int | None = None,
    queries: int | None = None,
    relative: float | None = None,
    exact: bool | None = None,
    confidence: float = 0.95,
    seed: int | np.random.Generator = 0,
    executor: Any = None,
    log: Any = None,
) -> Evaluation:
    """The value of a policy: exact if the problem can be enumerated, else by rollouts.

    `policy` is a `SoftmaxPolicy`, a plan, a function of a batch of states that returns actions, or a fixed action.
    Rollouts stop where the process has ended (`Problem(ends=...)`, or the terminal column of adapters), or after so many
    steps that less than 1e-4 of the discounted weight remains, at most 50,000. The value is the mean of what was seen; what
    the rollouts could still have earned after they were cut off only widens the interval, upwards.

    The interval is by betting (`sampled/intervals.py`): it holds with the stated confidence for every number of rollouts
    and every distribution of returns. So it can be quoted, and it is never a single point: n returns that are all the same
    leave room for an outcome of probability about 4/n that was not seen.

    Parameters
    ----------
    rollouts: their number; by default 1,000.
    queries: instead, the most simulator queries to make. If fewer than 50 rollouts of full length fit, they are shorter.
    relative: instead, go on until half the interval's width is at most this fraction of the value, both in the user's own
        units; `queries`, by default ten million, is then the limit.
    exact: False for rollouts even if the problem can be enumerated.
    executor: who simulates: "processes", an engine of `coreplan.executors`, or any `concurrent.futures.Executor`; by default
        this process. The answer is the same to the last bit (docs/scale.md).
    log: a file that keeps every paid answer, and from which none that it has is paid for again (docs/scale.md).
    """
    as_kind("evaluate", Problem, "a Problem", problem=problem)
    rule = Rule(problem, policy)
    exact = None if exact is None else as_flag("evaluate", exact=exact)
    confidence = as_confidence("evaluate", confidence)
    if rollouts is not None and (queries is not None or relative is not None):
        raise InputError("`evaluate` takes `rollouts`, or `queries` and `relative`; not both.")
    rollouts = as_count("evaluate", least=2, optional=True, rollouts=rollouts)
    queries = as_count("evaluate", least=2, optional=True, queries=queries)
    relative = as_positive("evaluate", optional=True, relative=relative)
    if problem.tabular is not None and exact is not False:
        return _exact(problem, rule)
    if exact:
        raise InputError("`evaluate(exact=True)` needs a problem that can be enumerated, with `tabular`.")
    if rollouts is None and queries is None:
        rollouts, queries = (1000, None) if relative is None else (None, _MOST)
    walked = _Returns(problem, [rule], key_of(seed), queries)
    found = None
    for z, rest in walked.waves(rollouts, doubling=relative is not None):
        found = _evaluation(problem, z[0], rest[0], walked.rollouts.queries, confidence)
        middle, low, high = found.returns
        if relative is not None and (high - low) / 2 <= relative * abs(middle):
            break
    assert found is not None
    return found


def _exact(problem: Problem, rule: Rule) -> Evaluation:
    assert problem.tabular is not None
    table, discount = problem.tabular(), problem.discount
    value = normalised(table, value_function(table, rule.probabilities(table.states), discount), discount)
    optimum = normalised(table, optimal_values(table, discount)[0], discount)
    uniform = policy_value(table, SoftmaxPolicy.uniform(problem.features), discount)
    return Evaluation(
        value=value, low=value, high=value, exact=True, optimum=optimum, uniform=uniform, units=units_of(problem)
    )  # fmt: skip


def _evaluation(
    problem: Problem, z: FloatArray, rest: FloatArray, queries: int, confidence: float
) -> Evaluation:
    alpha = (1.0 - confidence) / 2
    return Evaluation(
        value=float(z.mean()), low=_least(z, alpha), high=1.0 - _least(1.0 - z - rest, alpha), exact=False,
        queries=queries, rollouts=len(z), confidence=confidence, units=units_of(problem),
    )  # fmt: skip


def _least(z: FloatArray, alpha: float) -> float:
    """A lower bound on the mean of `z [n]` in [0, 1]."""
    return max(lower_mean(z, 0.0, alpha, _SPREAD, len(z)), 0.0)


class _Returns:
    """Plain discounted returns of policies under common random numbers, in waves."""

    def __init__(self, problem: Problem, rules: list[Rule], key: int, queries: int | None) -> None:
        gamma, self.queries = problem.discount, queries
        self.rollouts = Rollouts(problem, rules, key=key, lane=Lane.EVALUATION)
        T = min(math.ceil(math.log(_TAIL) / math.log(gamma)), _HORIZON)
        if queries is not None:
            T = min(T, max(queries // (_FEWEST * len(rules)), 1))
        self.T, self.rest = T, gamma**T
        self.weights: FloatArray = np.asarray((1.0 - gamma) * gamma ** np.arange(T), dtype=np.float64)

    def waves(self, rollouts: int | None, doubling: bool = False) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Returns `[k, n]` so far and what each could still have earned `[k, n]`, after every wave.

        How many rollouts a wave has depends on the waves before it only. Rollouts that ended early leave queries for more.
        """
        z = rest = np.zeros((len(self.rollouts.rules), 0))
        while n := self._next(z.shape[1], rollouts, doubling):
            before = self.rollouts.queries
            walks = self.rollouts.go(np.full(n, self.T), self.weights)
            z = np.concatenate([z, np.clip(walks.start + walks.sums, 0.0, 1.0)], axis=1)
            rest = np.concatenate([rest, self.rest * (1.0 - walks.ended)], axis=1)
            yield z, rest
            if self.rollouts.queries == before:  # every process begins at its end
                return

    def _next(self, done: int, rollouts: int | None, doubling: bool) -> int:
        if rollouts is not None:
            return rollouts - done
        assert self.queries is not None
        room = (self.queries - self.rollouts.queries) // (self.T * len(self.rollouts.rules))
        return min(room, max(done, _FIRST)) if doubling else room


@dataclass(frozen=True)
class Comparison:
    """How much more one policy is worth than another: `a` minus `b`, normalised, with an interval."""

    difference: float
    low: float
    high: float
    a: float  # the estimated value of each
    b: float
    exact: bool
    rollouts: int = 0  # of each policy
    queries: int = 0  # of both
    confidence: float = 1.0
    units: tuple[float, float] = (0.0, 1.0)  # the returns of normalised values 0 and 1

    @property
    def better(self) -> str:
        """Which policy is better, "a" or "b"; empty if the interval contains 0."""
        return "a" if self.low > 0 else "b" if self.high < 0 else ""

    @property
    def returns(self) -> Interval:
        """The difference and its interval in the user's own units: expected discounted sums of rewards."""
        zero, one = self.units
        return Interval(*((one - zero) * v for v in (self.difference, self.low, self.high)))

    def __str__(self) -> str:
        verdict = {"a": "a is better.", "b": "b is better."}.get(self.better, "neither is measurably better.")
        how = (
            "exact"
            if self.exact
            else f"{self.confidence:.0%} interval from {self.rollouts:,} paired rollouts"
        )
        return f"a - b = {self.difference:.4f} ({self.low:.4f} to {self.high:.4f}, {how}): {verdict}"


@one_thread
@by_executor
@by_log
def compare_policies(
    problem: Problem,
    a: Any,
    b: Any,
    *,
    queries: int = 100_000,
    exact: bool | None = None,
    confidence: float = 0.95,
    seed: int | np.random.Generator = 0,
    executor: Any = None,
    log: Any = None,
) -> Comparison:
    """How much more policy `a` is worth than policy `b`, from at most `queries` queries for both together.

    Each is a `SoftmaxPolicy`, a plan, a function of a batch of states that returns actions, or a fixed action. Rollout i of
    one meets the same initial state and the same noise as rollout i of the other (common random numbers), so that what
    happens to both cancels in the difference. The noise is common as far as the simulator draws the same number of random
    numbers for every state and action; otherwise less of it cancels. The interval is by betting: it holds at every number
    of rollouts, so that you may look, and go on with more queries under another seed only if you want to.
    `executor` simulates and `log` keeps answers, as in `plan`.
    """
    as_kind("compare_policies", Problem, "a Problem", problem=problem)
    exact = None if exact is None else as_flag("compare_policies", exact=exact)
    rules = [Rule(problem, a, "a"), Rule(problem, b, "b")]
    queries = as_count("compare_policies", least=2, queries=queries)
    confidence = as_confidence("compare_policies", confidence)
    units = units_of(problem)
    if problem.tabular is not None and exact is not False:
        one, two = (_exact(problem, rule).value for rule in rules)
        gain = one - two
        return Comparison(difference=gain, low=gain, high=gain, a=one, b=two, exact=True, units=units)
    walked = _Returns(problem, rules, key_of(seed), queries)
    *_, (z, rest) = walked.waves(None)
    alpha, gain = (1.0 - confidence) / 2, z[0] - z[1]  # in [-1, 1]
    low = 2.0 * _least((1.0 + gain - rest[1]) / 2, alpha) - 1.0
    high = 1.0 - 2.0 * _least((1.0 - gain - rest[0]) / 2, alpha)
    return Comparison(
        difference=float(gain.mean()), low=low, high=high, a=float(z[0].mean()), b=float(z[1].mean()), exact=False,
        rollouts=z.shape[1], queries=walked.rollouts.queries, confidence=confidence, units=units,
    )  # fmt: skip
