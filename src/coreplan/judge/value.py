"""How good a policy is: exactly where states can be enumerated, else by Monte Carlo with an interval."""

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

_TAIL = 1e-4  # rollouts stop where what is left of the discounted weight is at most this
_HORIZON = 50_000  # ... or after so many steps: with a discount closer to 1 the interval says what is missing


@dataclass(frozen=True)
class Evaluation:
    """A policy's normalised value, in [0, 1]; None where a number is not known.

    `gap` = optimum - value and `sub` = gap / (optimum - uniform): 0 is optimal, 1 is as good as uniform.
    """

    value: float
    low: float
    high: float
    exact: bool
    optimum: float | None = None
    uniform: float | None = None
    queries: int = 0  # simulator queries spent on evaluating, never counted as planning

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
        """What `as_dict` gave."""
        return cls(**{f.name: record[f.name] for f in fields(cls)})


def evaluate(
    problem: Problem,
    policy: SoftmaxPolicy,
    *,
    rollouts: int = 1000,
    confidence: float = 0.95,
    seed: int | np.random.Generator = 0,
) -> Evaluation:
    """The value of a policy: exact where the problem can be enumerated, else by `rollouts`.

    The Monte Carlo interval is Student's t on the discounted returns, widened by all that a rollout cut
    short could still have earned. It is right for many rollouts, not a guarantee for few: returns that
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
    """Normalised returns `[n]` of rollouts cut where `rest` = gamma^H <= the tail, `rest`, and the queries made."""
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
