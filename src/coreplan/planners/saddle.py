"""`Saddle`: mirror-prox on the relaxed saddle point of values and weights (Bas-Serrano & Neu 2020)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from ..base import FloatArray, as_count, as_positive, checks, one_thread, settle
from ..core import Lift
from ..sampled import Beliefs, Game, mirror_prox, next_rows, require_fit, state_rows
from ..simulate import Answers, Ask
from . import doubts
from .doubts import Verdict
from .protocol import CoreSetup, Planner, ReadOut, Tunable
from .rounds import BATCH, INITIAL, require_samples


class State(NamedTuple):
    """Sums over the samples, and what was found on them."""

    rewards: FloatArray  # [m]
    ahead: FloatArray  # [m, d], of psi at next states
    start: FloatArray  # [d], mean of psi at initial states
    told: int
    theta: FloatArray  # [d]
    lam: FloatArray  # [m]
    gap: float  # of the averages; infinite before the solve
    solved: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Saddle(Planner):
    """Mirror-prox on a relaxed LP: Bas-Serrano & Neu, "Faster Saddle-Point Optimization for Solving Large-Scale Markov
    Decision Processes", L4DC 2020.

    With V(x) = psi(x) . v, psi(x) the mean of phi(x, a) over the actions, it solves

        min_v max_lam  (1 - gamma) <nu0, V> + sum_j lam_j (r_j + gamma E V(y_j) - V(x_j))

    over a ball of v and the distributions lam over the core pairs. A step of mirror-prox goes by the gradient, and again
    from the same place by the gradient at that half step; averages of the half steps are returned.

    *Setting*: V* linear in psi, and core pairs that tell pairs apart (the paper's coherence); the reduced problem is known.
    *Rate*: a duality gap of O(1/T) after T steps, where plain descent has O(1/sqrt(T)); each costs O(m d), whatever the
    number of states. On n samples of each pair the optimum moves by O(1/sqrt(n)).

    *Departures*: the paper has average rewards and knows all expectations; here rewards are discounted, and expectations are
    means over samples that are drawn once. It reads a policy off lam; here V is backed up once, theta = pinv(Phi~) (r +
    gamma E V(y)), and the policy is greedy, since lam says nothing about pairs outside of the core (see `Bilinear`).

    Parameters
    ----------
    steps: T, at most.
    accuracy: it ends early at a duality gap of this size, in normalised return.
    radius: of the ball of v; by default the D of `PrimalDual`.
    """

    name: ClassVar[str] = "saddle"
    tunable: ClassVar[Tunable] = {"steps": (300, 30_000)}
    first_budget: ClassVar[int] = 10_000

    steps: int = 5_000
    accuracy: float = 1e-3
    radius: float | None = None

    def __post_init__(self) -> None:
        settle(self, as_count, "steps")
        settle(self, as_positive, "accuracy", "radius")

    def resolve(self, setup: CoreSetup) -> Saddle:
        planner = self.bind(setup)
        require_samples(self.name, setup.budget, 1, setup.m, "core pairs")
        require_matrix(self.name, setup)
        planner._lift  # noqa: B018  # raises before the first query if the core set is too large
        return planner

    @cached_property
    def _lift(self) -> Lift:
        return Lift(self.setup.frame)

    def init(self, rng: np.random.Generator) -> State:
        m, d = self.setup.m, self.setup.dimension
        return State(
            rewards=np.zeros(m), ahead=np.zeros((m, d)), start=np.zeros(d), told=0, theta=np.zeros(d),
            lam=np.full(m, 1.0 / m), gap=math.inf, solved=False,
        )  # fmt: skip

    def size(self, state: State) -> int | None:
        m = self.setup.m
        return next_rows(state.told, self.setup.budget // m * m, m, BATCH)

    def ask(self, state: State, rng: np.random.Generator) -> Ask | None:
        size, m = self.size(state), self.setup.m
        if size is None:
            return None
        index = np.arange(state.told, state.told + size) % m
        sweep = state.told // m if size % m == 0 else None
        return Ask(core_index=index, n_initial=0 if state.told else INITIAL, sweep=sweep)

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        m, d, index, n = self.setup.m, self.setup.dimension, answers.ask.core_index, len(answers.rewards)
        assert index is not None and answers.next_features is not None
        of = sparse.csr_matrix((np.ones(n), (index, np.arange(n))), shape=(m, n))
        start = state.start
        if answers.initial_features is not None:
            start = np.asarray(state_rows(answers.initial_features, d).mean(axis=0)).ravel()
        state = state._replace(
            rewards=state.rewards + of @ answers.rewards, start=start, told=state.told + n,
            ahead=state.ahead + (of @ state_rows(answers.next_features, d)).toarray(),
        )  # fmt: skip
        return self._solved(state) if self.size(state) is None else state

    @one_thread
    def _solved(self, state: State) -> State:
        n, gamma, H = state.told / self.setup.m, self.setup.discount, 1.0 / (1.0 - self.setup.discount)
        r, ahead = state.rewards / n, state.ahead / n
        game = Game(r, gamma * ahead - here(self.setup), (1 - gamma) * state.start)
        radius = self.radius or self.setup.frame.radius(gamma)
        v, lam, gap = mirror_prox(game, radius, self.steps, self.accuracy)
        V = (
            ahead @ v + (r + game.A @ v).max() * H
        )  # raised to where it obeys the LP: the saddle fixes it up to a constant
        theta = self._lift.theta(r + gamma * np.clip(V, 0.0, H))
        return state._replace(theta=theta, lam=lam, gap=gap, solved=True)

    # Results.

    def policy(self, state: State) -> ReadOut:
        return ReadOut(state.theta.copy(), math.inf if state.theta.any() else 1.0)

    def beliefs(self, state: State) -> Beliefs | None:
        return Beliefs(state.theta) if state.solved else None

    def verdict(self, state: State) -> Verdict | None:
        return None if state.solved else doubts.NO_SOLVE()

    @staticmethod
    def weights(state: State) -> FloatArray:
        return state.lam

    def numbers(self, state: State) -> Mapping[str, float]:
        return {"duality_gap": state.gap, "theta_norm": float(np.linalg.norm(state.theta))}

    def told(self, state: State) -> int:
        return state.told

    def check(self, state: State) -> None:
        checks.require_finite(state, "ahead", "start", "theta")
        checks.require_within(state, 0.0, state.told, "rewards")
        checks.require_distribution(state, "lam")
        if not 0 <= state.told <= self.setup.budget or math.isnan(state.gap):
            raise ValueError(f"'told' is {state.told}, and 'gap' {state.gap}")


def here(setup: CoreSetup) -> Any:
    """psi at the states of the core pairs, dense `[m, d]`."""
    places: Any = setup.core_states
    return state_rows(places.features, setup.dimension).toarray()[places.of]


def require_matrix(name: str, setup: CoreSetup) -> None:
    """Raise InputError if matrices of m d numbers do not fit."""
    require_fit(
        f"'{name}' would keep matrices of m = {setup.m:,} times d = {setup.dimension:,} numbers",
        32.0 * setup.m * setup.dimension, "Take fewer core pairs, or a planner that stores none, such as core-mirror.",
    )  # fmt: skip
