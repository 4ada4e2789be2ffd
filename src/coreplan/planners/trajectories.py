"""What planners share that sample along trajectories: the state, ask and tell. Each says whom it follows and how it fits."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..base import FloatArray, InputError, IntArray, States, checks
from ..sampled import (
    BASIS,
    WALKING,
    Beliefs,
    began,
    check_walks,
    first_ask,
    is_large,
    next_ask,
    no_steps,
    no_walks,
    number_of_walks,
    require_fit,
    stepped,
    without_spare,
)
from ..simulate import Answers, Ask
from . import doubts
from .doubts import Verdict
from .protocol import Planner, ReadOut, Setup


class State(NamedTuple):
    """What was fitted so far, and samples and trajectories (`sampled/trajectories.py`)."""

    theta: FloatArray  # [d + 1], of the last fit; zero before the first
    total: FloatArray  # [d + 1], the sum of the thetas of all fits
    scale: float  # of the policy that the sum stands for
    fits: int  # how many there were
    told: int  # samples in all
    same: bool  # whether all rewards were the same
    filled: int  # samples that are stored
    actions: IntArray  # [N]
    stays: FloatArray  # [N]: 1 if the next state is the state itself
    rewards: FloatArray  # [N]
    pair_index: IntArray  # [N, K]
    pair_weight: FloatArray
    next_index: IntArray  # [N, A, K], or [1, A, K] if it is the same for all
    next_weight: FloatArray  # [N, A, K], or [N, 1, K] if it is the same for all actions
    stops: FloatArray  # [c]: 1 if the trajectory ends with the next step
    walk_states: States  # [c, ...]
    walk_index: IntArray  # [c, A, K]
    walk_weight: FloatArray
    initial_index: IntArray  # [n0, A, K]
    initial_weight: FloatArray


class OnTrajectories(Planner, ABC):
    """The base class: samples along trajectories, and fits when `_due` says so.

    By default it follows the uniform policy, keeps all samples and fits whenever their number has doubled, and at the end.
    """

    needs_core: ClassVar[bool] = False
    first_budget: ClassVar[int] = 100_000
    growing: ClassVar[frozenset[str]] = WALKING
    visited: ClassVar[frozenset[str]] = frozenset({"walk_states"})

    random: float = 1.0  # fraction of actions that are random

    @abstractmethod
    def _fitted(self, state: State) -> State:
        """The state after a fit to its samples."""

    def _due(self, state: State) -> bool:
        """Whether to fit now: the samples have doubled (from 1/32 of the budget on), or the budget is used up."""
        n, budget, last = state.told, self.setup.budget, state.told - len(state.stops)
        marks = [budget >> k for k in range(1, 6)]
        return self.size(state) is None or any(last < mark <= n for mark in marks if mark)

    def resolve(self, setup: Setup) -> Any:
        d = setup.dimension
        if setup.budget < self._least:
            raise InputError(
                f"A budget of {setup.budget} queries is below {self._least}: {type(self).__name__} needs samples along "
                "trajectories. Raise the budget."
            )
        k, planner = (d if setup.nonzeros is None else setup.nonzeros) + 1, self.bind(setup)
        systems = (BASIS + 16) * d if is_large(d) else 6 * (d + 1) ** 2
        require_fit(
            f"{type(self).__name__} would store the features of {planner._room:,} next states, and solve for {d:,} numbers",
            13.0 * k * (setup.n_actions + 1) * planner._room + 8.0 * systems,
            "Give a smaller budget, or fewer features.",
        )
        return planner

    _least: ClassVar[int] = 32  # queries

    def init(self, rng: np.random.Generator) -> State:
        none = np.zeros(self.setup.dimension + 1)
        return State(
            theta=none, total=none.copy(), scale=1.0, fits=0, told=0, same=True, filled=0, **no_walks()
        )

    @property
    def _walks(self) -> int:
        return number_of_walks(self.setup.budget, self.setup.discount)

    @property
    def _stop(self) -> float:
        return 1.0 - self.setup.discount

    def size(self, state: State) -> int | None:
        walks = len(state.stops)
        return walks if state.told + walks <= self.setup.budget else None

    def ask(self, state: State, rng: np.random.Generator) -> Ask | None:
        if not len(state.stops):
            return first_ask(self._walks)
        return (
            None if self.size(state) is None else next_ask(state, state.total, state.scale, self.random, rng)
        )

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        d = self.setup.dimension
        if not len(state.stops):
            return began(state, answers, self._walks, d, self._stop, rng)
        before, n = state.rewards[0] if state.filled else answers.rewards[0], len(state.stops)
        state = stepped(state, answers, d, self._stop, rng, self._room)
        state = state._replace(
            told=state.told + n, same=state.same and bool((answers.rewards == before).all())
        )
        return self._fitted(state) if self._due(state) else state

    @property
    def _room(self) -> int:
        """How many samples will be stored at the same time, at most."""
        return self.setup.budget

    @staticmethod
    def _forgotten(state: State) -> State:
        """The state without its samples, for planners that use each sample for one fit only."""
        return state._replace(filled=0, **no_steps())

    # Results.

    def policy(self, state: State) -> ReadOut:
        return ReadOut(state.total[:-1].copy(), state.scale)

    def beliefs(self, state: State) -> Beliefs | None:
        return Beliefs(state.theta[:-1], float(state.theta[-1])) if state.fits else None

    def verdict(self, state: State) -> Verdict | None:
        if state.fits == 0:
            return doubts.NO_SOLVE()
        return doubts.SAME_REWARDS(n=state.told) if state.same else None

    def numbers(self, state: State) -> Mapping[str, float]:
        return {"fits": float(state.fits), "theta_norm": float(np.linalg.norm(state.theta[:-1]))}

    def saved(self, state: State) -> State:
        spared: State = without_spare(state)
        return spared

    def told(self, state: State) -> int:
        return state.told

    def check(self, state: State) -> None:
        setup, c = self.setup, len(state.stops)
        check_walks(state, setup.n_actions, setup.dimension, setup.radius)
        checks.require_finite(state, "theta", "total")
        checks.require_within(state, 0, setup.budget, "told", "fits")
        if not state.scale > 0.0 or math.isnan(state.scale) or not state.filled <= state.told:
            raise ValueError(f"'scale' is {state.scale}, and {state.told} samples were told")
        if c > 64 or (c and state.told % c) or (state.told and not c):
            raise ValueError(f"'told' is {state.told} with {c} trajectories")
