"""The value of a policy: exact if states can be enumerated, else by Monte Carlo rollouts with an interval."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from scipy.special import stdtrit

from ..base import InputError, Lane, as_generator, key_of, require_count
from ..policy import SoftmaxPolicy
from ..problem import Problem
from ..simulate import Simulator
from .exact import normalised, optimal_values, policy_value

_TAIL = 1e-4  # rollouts stop when the remaining discounted weight is at most this
_HORIZON = 50_000  # the most steps per rollout; for discounts very close to 1 the interval covers the rest


@dataclass(frozen=True)
class Evaluation:
    """A policy's normalised value in [0, 1], with an interval; numbers that are not known are None.

    `gap` = optimum - value and `sub` = gap / (optimum - uniform): sub is 0 for an optimal policy, 1 for the uniform one.
    """

    value: float
    low: float
    high: float
    exact: bool
    optimum: float | None = None
    uniform: float | None = None
    queries: int = 0  # simulator queries of the evaluation, never counted as planning

    @property
    def gap(self) -> float | None:
        return None if self.optimum is None else self.optimum - self.value

    @property
    def sub(self) -> float | None:
        if self.optimum is None or self.uniform is None or self.optimum <= self.uniform:
            return None
        return (self.optimum - self.value) / (self.optimum - self.uniform)

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for JSON."""
        return {**asdict(self), "gap": self.gap, "sub": self.sub}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Evaluation:
        """The inverse of `as_dict`."""
        return cls(**{f.name: record[f.name] for f in fields(cls)})


def evaluate(
    problem: Problem,
    policy: SoftmaxPolicy,
    *,
    rollouts: int = 1000,
    confidence: float = 0.95,
    seed: int | np.random.Generator = 0,
) -> Evaluation:
    """The value of a policy: exact if the problem can be enumerated, else by `rollouts`.

    The Monte Carlo interval is Student's t on the discounted returns, widened by the most that the rollouts could
    still have earned after they were cut off. It is accurate for many rollouts, but not guaranteed for few: returns that
    rarely take large values need more.
    """
    if problem.tabular is not None:
        table, discount = problem.tabular(), problem.discount
        value = policy_value(table, policy, discount)
        optimum = normalised(table, optimal_values(table, discount)[0], discount)
        uniform = policy_value(table, SoftmaxPolicy.uniform(problem.features), discount)
        return Evaluation(value=value, low=value, high=value, exact=True, optimum=optimum, uniform=uniform)
    require_count("evaluate", least=2, rollouts=rollouts)
    if not 0.0 < confidence < 1.0:
        raise InputError(f"`evaluate(confidence=...)` must lie strictly between 0 and 1, got {confidence!r}.")
    key = key_of(seed)
    returns, rest, queries = _returns(problem, policy, rollouts, key, as_generator(seed))
    mean = float(returns.mean())
    half = float(stdtrit(rollouts - 1, 0.5 + confidence / 2) * returns.std(ddof=1) / math.sqrt(rollouts))
    low, high = max(mean - half, 0.0), min(mean + half + rest, 1.0)
    return Evaluation(value=mean + rest / 2, low=low, high=high, exact=False, queries=queries)


def _returns(
    problem: Problem, policy: SoftmaxPolicy, n: int, key: int, rng: np.random.Generator
) -> tuple[np.ndarray, float, int]:
    """Normalised returns `[n]` of rollouts of H steps, the remaining weight gamma^H, and the number of queries."""
    gamma = problem.discount
    horizon = min(math.ceil(math.log(_TAIL) / math.log(gamma)), _HORIZON)
    simulator = Simulator(problem, seed=key, lane=Lane.EVALUATION)
    states = simulator.initial(n)
    returns, weight = np.zeros(n), 1.0 - gamma
    for _ in range(horizon):
        rewards, states = simulator.step(states, policy.act(states, rng))
        returns += weight * rewards
        weight *= gamma
    return returns, gamma**horizon, simulator.queries
