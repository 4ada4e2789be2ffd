"""`DesignLSPI`: policy iteration on rollouts from the pairs of an optimal design (Lattimore, Szepesvari & Weisz 2020)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from ..base import FloatArray, InputError, IntArray, States, as_count, checks, settle
from ..core import Design, optimal_design, weighted_fit
from ..features import act, n_actions
from ..simulate import Answers, Ask
from . import doubts
from .doubts import Verdict
from .protocol import CoreSetup, Planner, ReadOut, Tunable
from .rounds import INITIAL

LARGEST = 1_000_000  # the most rollouts side by side
MOST = 5  # phases, if not said otherwise


class State(NamedTuple):
    """theta of the last evaluation, and the rollouts of the next one."""

    theta: FloatArray  # [d], whose greedy policy is followed; uniform before the first evaluation
    phase: int  # evaluations so far
    step: int  # of the rollouts
    told: int
    returns: FloatArray  # [n], discounted, so far
    actions: IntArray  # [n], the next ones
    walk_states: States  # [n, ...], where they are; empty at the start of a phase


@dataclass(frozen=True, kw_only=True, eq=False)
class DesignLSPI(Planner):
    """Least-squares policy iteration from an optimal design: Lattimore, Szepesvari & Weisz, "Learning with Good Feature
    Representations in Bandits and in RL with a Generative Model", ICML 2020, section 5.

    A G-optimal design rho over the core pairs is found by Frank-Wolfe. Each of K phases makes n rollouts of L steps, pair j
    starting a share rho_j of them, and fits their mean returns q; the next policy is greedy in the fit:

        theta <- argmin sum_j rho_j (phi_j . theta - q_j)^2,  pi(x) = argmax_a phi(x, a) . theta.

    *Setting*: a generative model, and values of ALL policies that are linear up to eps_pi; no other assumption on
    transitions, where backups of linear functions need not be linear. *Rate*: a loss of
    O(sqrt(d) eps_pi H^2) in values that reach H, from about d H^4 / eps_pi^2 queries; the factor sqrt(d) is the design's.

    *Departures*: the design is over the core pairs instead of all pairs: its leverage on their convex hull is no larger. The
    first policy is uniform, not arbitrary. The paper's K and L follow from eps'; here they follow from the budget.

    Parameters
    ----------
    phases: K; by default a few, growing with the logarithm of the budget, and at most 5, since policy iteration settles
        long before its bound gamma^K does (4 was best among 4, 8 and 16 on random-linear 5 and river-linear 3).
    length: L; by default so long that what is cut off, gamma^L, is about the error that sampling leaves, from H to 3 H.
    """

    name: ClassVar[str] = "design-lspi"
    tunable: ClassVar[Tunable] = {"phases": (2, 30)}
    first_budget: ClassVar[int] = 100_000
    growing: ClassVar[frozenset[str]] = frozenset({"walk_states", "returns", "actions"})
    visited: ClassVar[frozenset[str]] = frozenset({"walk_states"})

    phases: int | None = None
    length: int | None = None

    def __post_init__(self) -> None:
        settle(self, as_count, "phases", "length")

    def resolve(self, setup: CoreSetup) -> DesignLSPI:
        p, B, H = len(self.bind(setup)._design.pairs), setup.budget, 1.0 / (1.0 - setup.discount)
        each = max(B / (p * H), 1.0)  # rollouts of length H that every pair of the design could start
        length = self.length or math.ceil(H * np.clip(0.5 * math.log(each), 1.0, 3.0))
        phases = self.phases or max(1, min(round(math.log(each)), MOST, B // (p * length)))
        if self.length is None:
            length = max(1, min(length, B // (p * phases)))
        if p * phases * length > B:
            raise InputError(
                f"A budget of {B} queries is below {p * phases * length}: {phases} phases of 'design-lspi', with a rollout "
                f"of {length} steps from each of the {p} pairs of its design. Raise the budget, or lower them."
            )
        return replace(self, phases=phases, length=length).bind(setup)

    @cached_property
    def _design(self) -> Design:
        return optimal_design(self.setup.frame)

    def _starts(self, state: State) -> IntArray:
        """The core pair that each rollout starts with, `[n]`."""
        return np.repeat(np.arange(self.setup.m), self._design.counts(len(state.returns)))

    def init(self, rng: np.random.Generator) -> State:
        assert self.phases and self.length
        n = min(self.setup.budget // (self.phases * self.length), LARGEST)
        return State(
            theta=np.zeros(self.setup.dimension), phase=0, step=0, told=0, returns=np.zeros(n),
            actions=np.zeros(n, dtype=np.int64), walk_states=np.zeros(0),
        )  # fmt: skip

    def size(self, state: State) -> int | None:
        """n, as long as the budget has room for the rest of a phase: for K of them, and more if it is raised."""
        assert self.length
        n = len(state.returns)
        return n if state.told + n * (self.length - state.step) <= self.setup.budget else None

    def ask(self, state: State, rng: np.random.Generator) -> Ask | None:
        if self.size(state) is None:
            return None
        if state.step == 0:
            return Ask(core_index=self._starts(state), n_initial=0 if state.told else INITIAL)
        return Ask(states=state.walk_states, actions=state.actions)

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        phi, n = answers.next_features, len(state.returns)
        returns = state.returns + self.setup.discount**state.step * answers.rewards
        state = state._replace(returns=returns, step=state.step + 1, told=state.told + n)
        if state.step == self.length:
            return self._evaluated(state)
        assert phi is not None
        actions, p = np.empty(n, dtype=np.int64), np.empty(n_actions(phi))
        act(phi, state.theta, self._scale(state), rng.random(n), p, actions)
        return state._replace(actions=actions, walk_states=answers.next_states.copy())

    def _evaluated(self, state: State) -> State:
        """The state after a phase: theta is fitted to the mean returns of each pair."""
        starts, n, m = self._starts(state), len(state.returns), self.setup.m
        counts = np.bincount(starts, minlength=m)
        q = np.bincount(starts, state.returns, minlength=m) / np.maximum(counts, 1)
        theta = weighted_fit(self.setup.frame, counts / n, q)
        return state._replace(
            theta=theta,
            phase=state.phase + 1,
            step=0,
            returns=np.zeros(n),
            walk_states=np.zeros(0),
        )

    # Results.

    @staticmethod
    def _scale(state: State) -> float:
        return math.inf if state.theta.any() else 1.0

    def policy(self, state: State) -> ReadOut:
        return ReadOut(state.theta.copy(), self._scale(state))

    def verdict(self, state: State) -> Verdict | None:
        return None if state.phase else doubts.NO_ROUND()

    def numbers(self, state: State) -> Mapping[str, float]:
        return {"phases": float(state.phase), "theta_norm": float(np.linalg.norm(state.theta))}

    def told(self, state: State) -> int:
        return state.told

    def check(self, state: State) -> None:
        assert self.length
        n, steps = len(state.returns), state.phase * self.length + state.step
        if not (
            n >= len(self._design.pairs) and len(state.actions) == n and 0 <= state.told <= self.setup.budget
        ):
            raise ValueError(
                f"there are {n} rollouts, {len(state.actions)} actions, and {state.told} samples"
            )
        if not state.phase >= 0 or not 0 <= state.step < self.length or state.told != steps * n:
            raise ValueError(f"'told' is {state.told} after {state.phase} phases and {state.step} steps")
        if len(state.walk_states) != (n if state.step else 0):
            raise ValueError(f"there are {len(state.walk_states)} states of {n} rollouts")
        checks.require_finite(state, "theta")
        checks.require_within(state, 0.0, 1.0 / (1.0 - self.setup.discount) * (1 + 1e-9), "returns")
        checks.require_within(state, 0, self.setup.n_actions - 1, "actions")
