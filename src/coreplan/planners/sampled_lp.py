"""`SampledLP`: the paper's relaxed LP, solved on samples that are drawn once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ..base import FloatArray, InputError, IntArray, as_count, checks, settle
from ..features import length
from ..sampled import (
    GROWING,
    Beliefs,
    Found,
    SolverError,
    Stored,
    all_same,
    append,
    check_rows,
    next_rows,
    no_rows,
    rescale,
    solve_sampled,
    stored,
    without_room,
)
from ..simulate import Answers, Ask
from . import doubts
from .doubts import Verdict, few_samples
from .protocol import CoreSetup, Planner, ReadOut
from .verdicts import with_stored

LARGEST = 100_000  # the most constraints: sampled states times actions
BATCH = 4096  # the most pairs per ask
_ACTIVE = 1e-5  # slack, or multipliers of theta's bounds, above this are more than rounding


class State(NamedTuple):
    """The LP's optimum, NaN if none could be verified, and the samples (`sampled/samples.py`)."""

    theta: FloatArray  # [d]
    value: float
    slack: float
    bound: float
    error: float
    filled: int  # the fields of `Rows`
    solved: int
    rewards: FloatArray
    next_index: IntArray
    next_weight: FloatArray
    next_step: IntArray
    initial_index: IntArray
    initial_weight: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class SampledLP(Planner):
    """The paper's relaxed LP on samples: draws n next states of every core pair once, and solves the LP on them.

    It is `eq:QRALP-dual` with the empirical P^ in place of P:

        min <start, V>  s.t.  V(y) >= phi(y, a) . theta at every sampled state,  Phi~ theta + slack >= r + gamma P^ V.

    Two things keep it finite if the core set is incomplete: bounds on theta, and slack, whose price makes it useless if the
    core set is complete. If either is used, the result is doubtful. Half of the start distribution is spread over all
    sampled states, so that V is determined everywhere (with a complete core set this does not change the optimum). The LP's
    own theta is not unique and is not used: V is backed up once, theta = pinv(Phi~) (r + gamma P^ V), and the policy is
    greedy.

    On an exact linear MDP this is the optimal policy of the sampled model, which value iteration finds in less time: the
    planner is here for study, and for its verified optimum. The LP may have at most 100,000 constraints.

    Parameters
    ----------
    samples: n per core pair; by default as many as the budget allows, and more if a resumed run's budget is raised.
    n_initial: draws from nu0.
    """

    name: ClassVar[str] = "sampled-lp"
    first_budget: ClassVar[int] = 10_000
    growing: ClassVar[frozenset[str]] = GROWING

    samples: int | None = None
    n_initial: int = 100

    def __post_init__(self) -> None:
        settle(self, as_count, "samples", "n_initial")

    def resolve(self, setup: CoreSetup) -> SampledLP:
        planner = self.bind(setup)
        n = planner._n
        if n < 1 or n * setup.m > setup.budget:
            raise InputError(
                f"A budget of {setup.budget} queries is below {max(n, 1) * setup.m} = {max(n, 1)} samples of each of the "
                f"m = {setup.m} core pairs. Raise the budget."
            )
        require_solvable(n, setup, self.n_initial)
        _ = setup.frame.matrix  # raises if the core set is too large, before any query is made
        return planner

    def init(self, rng: np.random.Generator) -> State:
        nan, A = math.nan, self.setup.n_actions
        theta = np.zeros(self.setup.dimension)
        return State(theta=theta, value=nan, slack=nan, bound=nan, error=nan, **no_rows(A))

    @property
    def _n(self) -> int:
        """The number of samples per core pair."""
        return self.samples or self.setup.budget // self.setup.m

    def size(self, state: State) -> int | None:
        return next_rows(state.filled, self._n * self.setup.m, self.setup.m, BATCH)

    def ask(self, state: State, rng: np.random.Generator) -> Ask | None:
        size, start = self.size(state), state.filled
        if size is None:
            return None
        m = self.setup.m
        sweep = start // m if size % m == 0 else None
        rows = np.arange(start, start + size)
        n_initial = 0 if start else self.n_initial
        return Ask(core_index=rows % m, n_initial=n_initial, sweep=sweep)

    def following(self, state: State, ask: Ask) -> Ask | None:
        return self.ask(state._replace(filled=state.filled + ask.size), np.random.default_rng(0))

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        state = append(state, answers)
        return self._solved(state, self._n) if state.filled == self._n * self.setup.m else state

    def _solved(self, state: State, n: int) -> State:
        """Solve on n samples of each pair. If no answer can be verified, they are kept, since they have been paid for."""
        state = state._replace(solved=n)
        samples = self.stored(state)
        assert samples is not None
        try:
            found = solve_sampled(samples)
        except SolverError:
            found = Found(np.zeros(self.setup.dimension), *[math.nan] * 4)
        return state._replace(**found._asdict())

    def warm_up(self, state: State, made_up: Callable[[Ask], Answers], rng: np.random.Generator) -> None:
        """Does nothing: there is no compiled code, and an LP would be solved in vain."""

    def on(self, stored: Stored) -> tuple[ReadOut, Verdict | None]:
        """Solve the LP on samples that another planner stored: the policy, and the doubts, if any."""
        require_solvable(stored.n, CoreSetup.of_stored(stored), length(stored.initial_features))
        found = solve_sampled(stored)
        return ReadOut(found.theta, math.inf), with_stored(_at_bounds(found.slack, found.bound), stored)

    # Results.

    def policy(self, state: State) -> ReadOut:
        return ReadOut(state.theta.copy(), 1.0 if math.isnan(state.value) else math.inf)

    def beliefs(self, state: State) -> Beliefs | None:
        return None if math.isnan(state.value) else Beliefs(state.theta)

    def stored(self, state: State) -> Stored | None:
        return stored(state, self.setup.frame, self.setup.discount)

    def verdict(self, state: State) -> Verdict | None:
        if state.solved == 0:
            return doubts.NO_LP()
        if math.isnan(state.value):
            return doubts.NOT_VERIFIED(N=state.solved, discount=self.setup.discount)
        doubt = _at_bounds(state.slack, state.bound)
        if doubt is not None or self.samples is not None:
            return doubt
        return few_samples(state.solved, self.setup.m, all_same(state, self.setup.m, state.solved))

    def saved(self, state: State) -> State:
        return without_room(state)

    def rescaled(self, state: State, scale: float, shift: float) -> State:
        state = rescale(state, scale, shift)
        return self._solved(state, state.solved) if state.solved else state

    def check(self, state: State) -> None:
        setup = self.setup
        check_rows(
            state, self.init(np.random.default_rng(0)), setup.frame, setup.n_actions, setup.radius, full=True
        )
        checks.require_finite(state, "theta")
        found = np.array([state.value, state.slack, state.bound, state.error])
        none = bool(np.isnan(found).all())
        if not none and (state.solved == 0 or not (np.abs(found) <= checks.LARGEST).all()):
            raise ValueError("the optimum of its LP is no number")
        if none and state.theta.any():
            raise ValueError("'theta' belongs to no optimum of its LP")

    def told(self, state: State) -> int:
        return state.filled

    def numbers(self, state: State) -> Mapping[str, float]:
        return {
            "theta_norm": float(np.linalg.norm(state.theta)),
            "lp_value": state.value,
            "slack": state.slack,
            "bound": state.bound,
        }


def _at_bounds(slack: float, bound: float) -> Verdict | None:
    if max(slack, bound) <= _ACTIVE:
        return None
    return doubts.LP_AT_BOUNDS(slack=max(slack, 0.0), bound=bound)


def require_solvable(n: int, setup: CoreSetup, n_initial: int) -> None:
    """Raise InputError if n samples per core pair make the LP too large."""
    m, A = setup.m, setup.n_actions
    rows = (n * m + n_initial) * A
    if rows > LARGEST:
        most = (LARGEST // A - n_initial) // m
        cure = "Lower `n_initial`, take fewer core pairs"
        if most > 0:
            cure = f"Set `samples` to {most}, or the budget to {most * m:,}"
        raise InputError(
            f"{n} samples of each of m = {m} core pairs and {n_initial} initial states, with {A} actions, make an LP of "
            f"{rows:,} constraints; at most {LARGEST:,} are solved. {cure}, or use another planner."
        )
