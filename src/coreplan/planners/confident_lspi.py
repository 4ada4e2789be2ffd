"""`ConfidentLSPI`: policy iteration by rollouts from pairs that it met and was uncertain about (Yin et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..base import FloatArray, InputError, States, as_count, as_positive, checks, settle
from ..features import act, available, dense, first_fault
from ..sampled import Beliefs, first_ask, require_fit
from ..simulate import Answers, Ask
from . import doubts
from .doubts import Verdict
from .protocol import Planner, ReadOut, Setup, Tunable


class State(NamedTuple):
    """The pairs that were chosen, their rollouts under way, and the last fit; C pairs, n rollouts of each."""

    w: FloatArray  # [d] of the last fit in this round, zero before
    best: FloatArray  # [d] of the last fit of all
    fits: int  # in this round
    fitted: int  # in all
    told: int
    inverse: FloatArray  # [d, d], (Phi_C' Phi_C + lam I)^-1
    core_states: States  # [C, ...]
    core_actions: Any  # [C]
    core_phi: FloatArray  # [C, d]
    walk_states: States  # [C n, ...]
    walk_phi: FloatArray  # [C n, A, d], UNAVAILABLE included; empty before the first step
    returns: FloatArray  # [C n]
    step: int  # of the rollouts


@dataclass(frozen=True, kw_only=True, eq=False)
class ConfidentLSPI(Planner):
    """Confident Monte Carlo LSPI: Yin, Hao, Abbasi-Yadkori, Lazic & Szepesvari, ALT 2022.

    Policy iteration whose evaluation is by rollouts from a few chosen pairs C: w is the ridge regression of their mean
    returns on their features, and the next policy is greedy in phi . w. C grows while it is used: where a rollout meets a
    pair with

        phi' (Phi_C' Phi_C + lam I)^-1 phi > 1,

    nothing is known of its value, the pair joins C, and policy iteration starts anew. So every state that is asked about was
    met before (local access: the simulator is reset to visited states only).

    *Setting*: draws from nu0, and a simulator that can be put back to states that it was in. Values of all policies linear
    in phi. *Rate*: eps-optimal from polynomially many queries in d, H and 1/eps; C has O(d log(1 / lam)) pairs.

    *Departures*: n rollouts and their length are fixed beforehand, from the budget, not from eps. Pairs that are uncertain
    are added one after the other until none is left at the states just met, and then it starts anew once. The first policy
    of a round is uniform.

    Parameters
    ----------
    iterations: fits per round.
    rollouts: n per pair and fit; by default so many that half of the budget is one round with |C| = d.
    length: of rollouts, in units of 1 / (1 - gamma).
    ridge: lam, in units of the squared length of the longest feature vector.
    """

    name: ClassVar[str] = "confident-lspi"
    tunable: ClassVar[Tunable] = {"iterations": (2, 16), "length": (1.0, 5.0), "ridge": (1e-4, 1e-1)}
    needs_core: ClassVar[bool] = False
    first_budget: ClassVar[int] = 100_000
    growing: ClassVar[frozenset[str]] = frozenset(
        {"core_states", "core_actions", "core_phi", "walk_states", "walk_phi", "returns"}
    )
    visited: ClassVar[frozenset[str]] = frozenset({"core_states", "walk_states"})

    iterations: int = 8
    rollouts: int | None = None
    length: float = 3.0
    ridge: float = 1e-3

    def __post_init__(self) -> None:
        settle(self, as_count, "iterations", "rollouts")
        settle(self, as_positive, "length", "ridge")

    def resolve(self, setup: Setup) -> Any:
        planner, d = self.bind(setup), setup.dimension
        if setup.budget < self._least:
            raise InputError(
                f"A budget of {setup.budget} queries is below {self._least}: ConfidentLSPI rolls policies out."
            )
        require_fit(
            f"ConfidentLSPI would store how {d:,} features depend on each other, and {planner._n:,} rollouts per pair",
            8.0 * d * (4 * d + planner._n * d * setup.n_actions), "Take fewer features, or fewer `rollouts`.",
        )  # fmt: skip
        return planner

    _least: ClassVar[int] = 32  # queries

    @cached_property
    def _n(self) -> int:
        one = self.iterations * self._steps * self.setup.dimension
        return self.rollouts or int(np.clip(self.setup.budget // (2 * one), 1, 100))

    @cached_property
    def _steps(self) -> int:
        """Steps per rollout."""
        return math.ceil(self.length / (1 - self.setup.discount))

    def init(self, rng: np.random.Generator) -> State:
        d, A = self.setup.dimension, self.setup.n_actions
        return State(
            w=np.zeros(d), best=np.zeros(d), fits=0, fitted=0, told=0,
            inverse=np.eye(d) / (self.ridge * max(self.setup.radius, 1e-12) ** 2), core_states=np.zeros(0),
            core_actions=np.zeros(0, dtype=np.int64), core_phi=np.zeros((0, d)), walk_states=np.zeros(0),
            walk_phi=np.zeros((0, A, d)), returns=np.zeros(0), step=0,
        )  # fmt: skip

    def size(self, state: State) -> int | None:
        return None if state.fits == self.iterations else len(state.returns)

    def ask(self, state: State, rng: np.random.Generator) -> Ask | None:
        if self.size(state) is None:
            return None
        if not len(state.returns):
            return first_ask(self._n)
        if state.step == 0:
            return Ask(states=state.walk_states, actions=np.repeat(state.core_actions, self._n))
        actions, A = np.empty(len(state.returns), dtype=np.int64), self.setup.n_actions
        scale = math.inf if state.fits else 1.0  # w = 0 is the uniform policy
        act(state.walk_phi, state.w, scale, rng.random(len(actions)), np.empty(A), actions)
        return Ask(states=state.walk_states, actions=actions)

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        if not len(state.returns):
            assert answers.initial_states is not None
            return self._confident(state, answers.initial_states, answers.initial_features)
        assert answers.next_features is not None
        gains = state.returns + self.setup.discount**state.step * answers.rewards
        state = state._replace(returns=gains, told=state.told + len(gains), step=state.step + 1)
        grown = self._confident(state, answers.next_states, answers.next_features)
        if len(grown.core_phi) > len(state.core_phi):
            return grown
        if state.step == self._steps:
            return self._fitted(state)
        phi = dense(answers.next_features, self.setup.dimension)
        return state._replace(walk_states=answers.next_states.copy(), walk_phi=np.ascontiguousarray(phi))

    def _confident(self, state: State, states: States, features: Any) -> State:
        """The state with what is uncertain at these states added to the core, from the start if anything was."""
        phi, inverse = dense(features, self.setup.dimension), state.inverse
        allowed, A = available(features).ravel(), phi.shape[1]
        rows, new = np.where(allowed[:, None], phi.reshape(len(allowed), -1), 0.0), []
        doubt = np.einsum("nd,nd->n", rows @ inverse, rows)
        while doubt.max() > 1.0:
            i = int(doubt.argmax())
            new.append(i)
            along = inverse @ rows[i]
            share = rows @ along
            inverse = inverse - np.outer(along, along) / (1.0 + doubt[i])
            doubt = doubt - share**2 / (1.0 + doubt[i])
        if not new and len(state.core_phi):
            return state
        which = np.array(new, dtype=np.int64)
        before = [state.core_states] if len(state.core_phi) else []
        return self._anew(state._replace(
            inverse=inverse, core_states=np.concatenate([*before, states[which // A]]),
            core_actions=np.append(state.core_actions, which % A), core_phi=np.vstack([state.core_phi, rows[which]]),
            w=np.zeros_like(state.w), fits=0,
        ))  # fmt: skip

    def _anew(self, state: State) -> State:
        """Rollouts from the chosen pairs, before their first step."""
        walks = np.repeat(state.core_states, self._n, axis=0)
        return state._replace(
            walk_states=walks, walk_phi=state.walk_phi[:0], returns=np.zeros(len(walks)), step=0
        )

    def _fitted(self, state: State) -> State:
        q = state.returns.reshape(-1, self._n).mean(axis=1)
        w = state.inverse @ (state.core_phi.T @ q)
        return self._anew(state._replace(w=w, best=w.copy(), fits=state.fits + 1, fitted=state.fitted + 1))

    # Results.

    def policy(self, state: State) -> ReadOut:
        return ReadOut(state.best.copy(), math.inf if state.fitted else 1.0)

    def beliefs(self, state: State) -> Beliefs | None:
        return Beliefs(state.best) if state.fitted else None

    def verdict(self, state: State) -> Verdict | None:
        return None if state.fitted else doubts.NO_SOLVE()

    def numbers(self, state: State) -> Mapping[str, float]:
        return {"pairs": float(len(state.core_phi)), "fits": float(state.fits)}

    def told(self, state: State) -> int:
        return state.told

    def check(self, state: State) -> None:
        d, A, C = self.setup.dimension, self.setup.n_actions, len(state.core_phi)
        checks.require_finite(state, "w", "best", "inverse", "core_phi")
        checks.require_within(state, 0.0, self._steps, "returns")
        checks.require_within(state, 0, A - 1, "core_actions")
        checks.require_within(state, 0, self.setup.budget, "told", "fitted")
        if (
            not 0 <= state.fits <= self.iterations
            or not 0 <= state.step < self._steps
            or state.fitted < state.fits
        ):
            raise ValueError(f"it has made {state.fits} fits and {state.step} steps")
        lengths = {len(state.core_states), len(state.core_actions), C}
        walks = {len(state.returns), len(state.walk_states), self._n * C}
        if len(lengths) > 1 or len(walks) > 1 or state.core_phi.shape[1:] != (d,):
            raise ValueError("its pairs and rollouts do not fit together")
        if state.walk_phi.shape != (len(state.returns) if state.step else 0, A, d):
            raise ValueError(f"'walk_phi' has shape {state.walk_phi.shape}")
        if len(state.walk_phi) and first_fault(state.walk_phi, d, self.setup.radius) >= 0:
            raise ValueError("'walk_phi' holds what no features are")
