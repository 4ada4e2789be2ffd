"""`QLearning`: Q-learning with linear values, from queries at the core pairs (Watkins & Dayan 1992)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numba import njit

from ..base import FloatArray, as_positive, checks, settle
from ..features import inner, n_actions, score, subtract
from ..sampled import Beliefs, next_rows
from ..simulate import Answers, Ask
from . import doubts
from .doubts import Verdict
from .protocol import CoreSetup, Planner, ReadOut, Tunable
from .rounds import BATCH, INITIAL, few_backups, require_samples


class State(NamedTuple):
    """theta, and the number of samples that it has been moved by."""

    theta: FloatArray  # [d]
    told: int
    error: float  # the mean of |delta| over the last sweep


@dataclass(frozen=True, kw_only=True, eq=False)
class QLearning(Planner):
    """Q-learning: Watkins & Dayan, "Q-Learning", Machine Learning 8, 1992; with linear values and a simulator to query.

    Each sweep asks for one fresh next state y_j of every core pair j, and follows the semi-gradient:

        delta_j = r_j + gamma V(y_j) - phi_j . theta,  V(x) = max_a phi(x, a) . theta cut to [0, 1 / (1 - gamma)]
        theta <- theta + alpha_t sum_j delta_j phi_j / |Phi~|^2,  alpha_t = 1 / (1 + speed (1 - gamma) t)

    with |Phi~| the largest singular value of the core features. If these are unit vectors, this is tabular Q-learning
    with synchronous updates.

    *Setting*: a generative model; if the core features are not the unit vectors, nothing is promised, and iterates may
    diverge (the cut holds them back). *Rate*: with unit vectors and a linear MDP the rescaled linear step reaches the
    normalised gap eps with about m H^4 / eps'^2 queries, eps' = eps H, up to logarithms, and no step does better (Li, Cai,
    Chen, Wei & Chi, "Is Q-Learning Minimax Optimal?", 2021; Wainwright 2019 has m H^5 / eps'^2).

    *Departures*: pairs are those of the core set, in sweeps, where the paper follows a trajectory.

    Parameters
    ----------
    speed: of the fall of the step. The rescaled linear step has 1 in theory; 2 was better on the problems where defaults are
        chosen (random-linear 5 and river-linear 3).
    """

    name: ClassVar[str] = "q-learning"
    tunable: ClassVar[Tunable] = {"speed": (0.1, 10.0)}
    first_budget: ClassVar[int] = 100_000

    speed: float = 2.0

    def __post_init__(self) -> None:
        settle(self, as_positive, "speed")

    def resolve(self, setup: CoreSetup) -> QLearning:
        planner = self.bind(setup)
        require_samples(self.name, setup.budget, 1, setup.m, "core pairs")
        return planner

    def init(self, rng: np.random.Generator) -> State:
        return State(theta=np.zeros(self.setup.dimension), told=0, error=0.0)

    @cached_property
    def _scale(self) -> float:
        """1 / |Phi~|^2."""
        return float(self.setup.frame.largest**-2)

    def size(self, state: State) -> int | None:
        """So many sweeps as one ask may have; one, if it has more pairs than that."""
        m = self.setup.m
        return next_rows(state.told, self.setup.budget // m * m, m, max(BATCH, m))

    def ask(self, state: State, rng: np.random.Generator) -> Ask | None:
        size, m = self.size(state), self.setup.m
        if size is None:
            return None
        n_initial = 0 if state.told else INITIAL
        return Ask(core_index=np.arange(size) % m, n_initial=n_initial, sweep=state.told // m)

    def following(self, state: State, ask: Ask) -> Ask | None:
        return self.ask(state._replace(told=state.told + ask.size), np.random.default_rng(0))

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        theta, delta, m = state.theta.copy(), np.empty(self.setup.m), self.setup.m
        _sweeps(
            state.told // m, answers.rewards, answers.next_features, self.setup.core_features, self.setup.discount,
            self.speed, self._scale, theta, delta,
        )  # fmt: skip
        return State(theta=theta, told=state.told + len(answers.rewards), error=float(np.abs(delta).mean()))

    # Results.

    def policy(self, state: State) -> ReadOut:
        return ReadOut(state.theta.copy(), np.inf if state.theta.any() else 1.0)

    def beliefs(self, state: State) -> Beliefs | None:
        return Beliefs(state.theta) if state.told else None

    def verdict(self, state: State) -> Verdict | None:
        sweeps = state.told // self.setup.m
        if not sweeps:
            return doubts.NO_SWEEP()
        return few_backups(sweeps, self.setup) if sweeps < 1.0 / (1.0 - self.setup.discount) else None

    def numbers(self, state: State) -> Mapping[str, float]:
        return {"theta_norm": float(np.linalg.norm(state.theta)), "temporal_difference": state.error}

    def told(self, state: State) -> int:
        return state.told

    def check(self, state: State) -> None:
        checks.require_finite(state, "theta")
        checks.require_within(state, 0.0, checks.LARGEST, "error")
        if not 0 <= state.told <= self.setup.budget or state.told % self.setup.m:
            raise ValueError(f"'told' is {state.told}, and a sweep has {self.setup.m} pairs")


@njit(cache=True, nogil=True)
def _sweeps(before, rewards, next_phi, core, gamma, speed, scale, theta, delta):
    """The updates of all sweeps in an answer, `before` sweeps having been made; `delta [m]` is left from the last."""
    m, A, most = delta.shape[0], n_actions(next_phi), 1.0 / (1.0 - gamma)
    for t in range(rewards.shape[0] // m):
        for j in range(m):
            i, V = t * m + j, -np.inf
            for a in range(A):
                V = max(V, score(next_phi, i, a, theta))
            delta[j] = rewards[i] + gamma * min(max(V, 0.0), most) - inner(core, j, theta)
        alpha = scale / (1.0 + speed * (1.0 - gamma) * (before + t))
        for j in range(m):
            subtract(core, j, -alpha * delta[j], theta)
