"""Planners that are not built in, as a user would write them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from coreplan.core import Lift
from coreplan.features import as_sparse
from coreplan.planners import Planner, ReadOut, Sum
from coreplan.sampled import (
    GROWING,
    SampledModel,
    append,
    check_rows,
    initial_features,
    next_features,
    no_rows,
)
from coreplan.simulate import Ask


class Means(NamedTuple):
    total: np.ndarray  # [m]
    count: np.ndarray  # [m]
    rounds: int
    best: float


@dataclass(frozen=True, kw_only=True)
class Bandit(Planner):
    """Looks at rewards only: the policy is greedy in their means, of core pairs that it draws by chance."""

    batch: int = 6
    level: float | None = None  # filled in from the setup, where it is left out

    def resolve(self, setup: Any) -> Bandit:
        level = 1.0 / setup.budget if self.level is None else self.level
        return replace(self, level=level).bind(setup)

    def init(self, rng: np.random.Generator) -> Means:
        return Means(np.zeros(self.setup.m), np.zeros(self.setup.m), 0, -math.inf)

    def ask(self, state: Means, rng: np.random.Generator) -> Ask:
        return Ask(core_index=rng.integers(0, self.setup.m, size=self.batch), n_initial=1)

    def tell(self, state: Means, answers: Any, rng: np.random.Generator) -> Means:
        np.add.at(state.total, answers.ask.core_index, answers.rewards + self.level * rng.random(self.batch))
        np.add.at(state.count, answers.ask.core_index, 1.0)
        return state._replace(rounds=state.rounds + 1, best=max(state.best, float(answers.rewards.max())))

    def policy(self, state: Means) -> ReadOut:
        means = state.total / np.maximum(state.count, 1.0)
        return ReadOut(Lift(self.setup.frame).theta(means), math.inf if state.rounds else 1.0)

    def numbers(self, state: Means) -> dict[str, float | Sum]:
        return {"best": state.best, "reward": Sum(float(state.total.sum()), float(state.count.sum()))}


class Kept(NamedTuple):
    theta: np.ndarray  # [d]
    settled: bool
    filled: int  # the fields of `Rows`
    solved: int
    rewards: np.ndarray
    next_index: np.ndarray
    next_weight: np.ndarray
    next_step: np.ndarray
    initial_index: np.ndarray
    initial_weight: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Sweeps(Planner):
    """Sweeps over the core set, keeps all that comes back, and solves on it after every sweep."""

    name: ClassVar[str] = "my-sweeps"
    growing: ClassVar[frozenset[str]] = GROWING

    most: int = 40

    def init(self, rng: np.random.Generator) -> Kept:
        return Kept(theta=np.zeros(self.setup.dimension), settled=False, **no_rows(self.setup.n_actions))

    def ask(self, state: Kept, rng: np.random.Generator) -> Ask | None:
        m = self.setup.m
        if state.filled == self.most * m:
            return None
        return Ask(core_index=np.arange(m), n_initial=0 if state.filled else 8)

    def tell(self, state: Kept, answers: Any, rng: np.random.Generator) -> Kept:
        state, m = append(state, answers), self.setup.m
        N = state.filled // m
        model = SampledModel(
            as_sparse(next_features(state, N * m)), state.rewards[: N * m].reshape(N, m).mean(axis=0),
            as_sparse(initial_features(state)), self.setup.discount,
        )  # fmt: skip
        solution = model.solve(Lift(self.setup.frame), model.equal())
        return state._replace(solved=N, theta=solution.theta, settled=solution.settled)

    def policy(self, state: Kept) -> ReadOut:
        return ReadOut(state.theta.copy(), math.inf if state.theta.any() else 1.0)

    def check(self, state: Kept) -> None:
        check_rows(state, self.init(np.random.default_rng(0)), self.setup.frame, self.setup.n_actions)
