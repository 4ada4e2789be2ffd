"""`rollout`: what a policy does, step by step, as arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import (
    SHARE,
    FloatArray,
    InputError,
    IntArray,
    Lane,
    States,
    as_count,
    as_generator,
    as_kind,
    available_memory,
    key_of,
    one_thread,
)
from ..problem import ClockModel, Problem
from ..simulate import Simulator
from .rollouts import Rule

_TAIL, _MOST = (
    1e-4,
    10_000,
)  # steps go on until the discounted weight that remains is at most this, or for so many


@dataclass(frozen=True)
class Trajectories:
    """The N steps of some episodes, one episode after the other, in the order of time.

    `ended` is True on the step that led to the end of the process; an episode whose last step has it False was cut off.
    """

    states: States  # [N, ...] where each step began
    actions: IntArray  # [N]
    rewards: FloatArray  # [N] in the problem's own units
    next_states: States  # [N, ...]
    ended: NDArray[np.bool_]  # [N]
    episode: IntArray  # [N] from 0
    step: IntArray  # [N] from 0 in each episode
    discount: float
    queries: int
    initial_states: States = field(repr=False)  # [episodes, ...]

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def returns(self) -> FloatArray:
        """The discounted sum of rewards of each episode, `[episodes]`, as far as it was followed."""
        paid = self.rewards * self.discount**self.step
        total: FloatArray = np.bincount(
            self.episode, weights=paid, minlength=len(self.initial_states)
        ).astype(float)
        return total

    @property
    def lengths(self) -> IntArray:
        """The steps of each episode, `[episodes]`."""
        return np.bincount(self.episode, minlength=len(self.initial_states)).astype(np.int64)


@one_thread
def rollout(
    problem: Problem,
    policy: Any,
    *,
    episodes: int = 10,
    steps: int | None = None,
    seed: int | np.random.Generator = 0,
) -> Trajectories:
    """Follow a policy for some episodes: every state, action and reward, as arrays; `queries` says what it cost.

    `policy` is a `SoftmaxPolicy`, a plan, a function of a batch of states that returns actions, or one action. An episode
    begins with a draw from the initial distribution, and goes on to the end of the process, for at most `steps` steps: by
    default until what is left weighs a ten-thousandth by the discount, and at most 10,000. Rewards are in the problem's own
    units. For the value of a policy use `evaluate`, which gives an interval.
    """
    as_kind("rollout", Problem, "a Problem", problem=problem)
    episodes = as_count("rollout", episodes=episodes)
    steps = as_count("rollout", optional=True, steps=steps)
    rule, rng = Rule(problem, policy), as_generator(seed)
    simulator, stream = (
        Simulator(problem, seed=key_of(rng), lane=Lane.TRAJECTORY),
        np.random.default_rng(key_of(rng)),
    )
    if steps is None:
        steps = min(math.ceil(math.log(_TAIL) / math.log(problem.discount)), _MOST)
    x = simulator.initial(episodes)
    _require_memory(episodes * min(steps, problem.horizon or steps), x)
    start, over, parts = x.copy(), problem.ended(x), []
    for t in range(steps):
        rows = np.flatnonzero(~over)
        if not len(rows):
            break
        here = x[rows]
        actions = rule.act(here, stream)
        rewards, y = simulator.step(here, actions)
        over[rows] = problem.ended(y)
        x[rows] = y
        parts.append(
            (here, actions, _paid(problem, here, rewards), y, over[rows], rows, np.full(len(rows), t))
        )
    if not parts:
        nothing = np.zeros(0, dtype=np.int64)
        parts.append((x[:0], nothing, np.zeros(0), x[:0], over[:0], nothing, nothing))
    joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(joined[5], kind="stable")
    states, actions, rewards, next_states, ended, episode, step = (column[order] for column in joined)
    model = problem.model
    return Trajectories(
        states=states, actions=actions, rewards=rewards, next_states=next_states, ended=ended, episode=episode, step=step,
        discount=model.discount if isinstance(model, ClockModel) else problem.discount, queries=simulator.queries,
        initial_states=start,
    )  # fmt: skip


def _paid(problem: Problem, states: States, rewards: FloatArray) -> FloatArray:
    """Normalised rewards `[n]` in the problem's own units."""
    low, high = problem.reward_range
    own = low + (high - low) * rewards
    return problem.model.paid(states, own) if isinstance(problem.model, ClockModel) else own


def _require_memory(n: int, states: States) -> None:
    need, have = 4.0 * n * (2 * states[:1].nbytes + 48), SHARE * available_memory()
    if need > have:
        raise InputError(
            f"`rollout` would keep {n:,} steps, which need up to {need / 1e9:.2g} GB; coreplan may use {have / 1e9:.2g} GB. "
            "Give fewer episodes, or steps=..."
        )
