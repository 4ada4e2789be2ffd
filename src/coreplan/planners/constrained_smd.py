"""`ConstrainedSMD`: mirror descent on the LP's objective and constraints in turn (Tiapkin & Gasnikov 2022)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit

from ..base import FloatArray, InputError, IntArray, as_count, checks, settle
from ..sampled import require_fit
from ..simulate import Answers, Ask
from . import doubts
from .doubts import Verdict
from .protocol import CoreSetup, Planner, ReadOut, Tunable
from .tables import Table


class State(NamedTuple):
    """The samples, and what was found on them."""

    nexts: IntArray  # [n, m] the numbers of next states
    rewards: FloatArray  # [m] sums over the sweeps
    starts: FloatArray  # [S] the distribution of initial states
    v: FloatArray  # [S] the mean over steps along the objective
    mu: FloatArray  # [m] the share of each pair in the steps along constraints
    sweeps: int
    solved: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class ConstrainedSMD(Planner):
    """Stochastic mirror descent with inexact constraints on the LP: Tiapkin & Gasnikov, AISTATS 2022.

    The LP  min <nu0, v>  s.t.  g_xa(v) = r(x, a) + gamma E v(y) - v(x) <= 0  is solved by steps of one size h, along
    whichever of two directions is due: if the most violated constraint exceeds delta, along its own,

        v <- clip(v - h (gamma e_y - e_x)),   with y a random next state of that pair,

    else along the objective, v <- clip(v - h e_x0). The share of the steps that a pair has got is its multiplier, mu: the
    policy is mu, normalised in each state.

    *Setting*: a table (one-hot features, states that can be enumerated); every pair can be queried. *Rate*: with constraints
    known to O(delta), both the objective and the constraints are within delta after O(S H^2 / delta^2) steps, and
    constraints are known so from O(H^2 / delta^2) samples of each pair, up to logarithms.

    *Departures*: the paper treats average rewards; here they are discounted. It estimates all constraints anew at each step
    (in parallel); here the n samples of each pair are drawn once, and all steps use their means: fewer queries, and an error
    that is common to all steps. delta and h follow from the number of steps, for a start in the middle of the box [0, H].

    Parameters
    ----------
    samples: n of each pair; by default as many as the budget allows.
    steps: of mirror descent, which cost no queries.
    n_initial: draws from nu0.
    """

    name: ClassVar[str] = "constrained-smd"
    tunable: ClassVar[Tunable] = {"steps": (30_000, 1_000_000)}
    needs_table: ClassVar[bool] = True
    core_of: ClassVar[str] = "all"
    first_budget: ClassVar[int] = 10_000

    samples: int | None = None
    steps: int = 300_000
    n_initial: int = 100

    def __post_init__(self) -> None:
        settle(self, as_count, "samples", "steps", "n_initial")

    def resolve(self, setup: CoreSetup) -> Any:
        planner = self.bind(setup)
        if not 1 <= planner._n <= setup.budget // setup.m:
            raise InputError(
                f"A budget of {setup.budget} queries is below {max(planner._n, 1) * setup.m} = {max(planner._n, 1)} samples "
                f"of each of the m = {setup.m} pairs. Raise the budget."
            )
        S, m = planner._table.S, setup.m
        require_fit(
            f"ConstrainedSMD would store {planner._n:,} samples of {m:,} pairs and how they depend on {S:,} states",
            8.0 * (m * (planner._n + S) + planner.steps), "Give a smaller budget, or plan with another planner.",
        )  # fmt: skip
        return planner

    @cached_property
    def _table(self) -> Table:
        return Table(self.setup, self.name)

    @property
    def _n(self) -> int:
        return self.samples or int(self.setup.budget // self.setup.m)

    def init(self, rng: np.random.Generator) -> State:
        S, m = self._table.S, self._table.m
        return State(
            nexts=np.zeros((self._n, m), dtype=np.int64), rewards=np.zeros(m), starts=np.zeros(S), v=np.zeros(S),
            mu=np.full(m, 1.0 / m), sweeps=0, solved=False,
        )  # fmt: skip

    def size(self, state: State) -> int | None:
        return self._table.m if state.sweeps < self._n else None

    def ask(self, state: State, rng: np.random.Generator) -> Ask | None:
        if state.sweeps == self._n:
            return None
        n_initial = 0 if state.sweeps else self.n_initial
        return Ask(core_index=np.arange(self._table.m), n_initial=n_initial, sweep=state.sweeps)

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        if answers.initial_features is not None:
            x0 = self._table.states(answers.initial_features)
            state = state._replace(starts=np.bincount(x0, minlength=self._table.S) / len(x0))
        state.nexts[state.sweeps] = self._table.states(answers.next_features)
        state = state._replace(rewards=state.rewards + answers.rewards, sweeps=state.sweeps + 1)
        return self._solved(state, rng) if state.sweeps == self._n else state

    def _solved(self, state: State, rng: np.random.Generator) -> State:
        table, gamma = self._table, self.setup.discount
        H, T = 1 / (1 - gamma), self.steps
        # Gradients have squared norms of at most 2, and v starts at most H sqrt(S) / 2 away.
        delta = H * math.sqrt(table.S / T)
        v, v_sum, mu = np.full(table.S, H / 2), np.zeros(table.S), np.zeros(table.m)
        along = descend(
            rng.random(T), table.of, state.nexts, state.rewards / self._n, state.starts, gamma, delta, delta / 2, v, v_sum,
            mu,
        )  # fmt: skip
        mu = mu / mu.sum() if mu.any() else np.full(table.m, 1.0 / table.m)
        return state._replace(v=v_sum / max(along, 1), mu=mu, solved=True)

    # Results.

    def policy(self, state: State) -> ReadOut:
        return ReadOut(self._table.log_policy(state.mu), 1.0)

    def verdict(self, state: State) -> Verdict | None:
        return None if state.solved else doubts.NO_SOLVE()

    def numbers(self, state: State) -> Mapping[str, float]:
        return {
            "sweeps": float(state.sweeps),
            "start_value": float(state.starts @ state.v) * (1 - self.setup.discount),
        }

    def told(self, state: State) -> int:
        return state.sweeps * self._table.m

    def check(self, state: State) -> None:
        H = 1 / (1 - self.setup.discount)
        checks.require_within(state, 0, self._n, "sweeps")
        checks.require_within(state, 0, self._table.S - 1, "nexts")
        checks.require_within(state, 0.0, state.sweeps + 1e-6, "rewards")
        checks.require_within(state, 0.0, 1.0, "starts")
        checks.require_within(state, 0.0, H, "v")
        checks.require_distribution(state, "mu")
        if state.solved != (state.sweeps == self._n):
            raise ValueError(f"'solved' is {state.solved} after {state.sweeps} of {self._n} sweeps")


@njit(cache=True, nogil=True)
def descend(u, of, nexts, r, starts, gamma, delta, h, v, v_sum, mu):
    """len(u) steps from v, in place; sums v over the steps along the objective, and counts those along constraints in mu.

    The constraints' values are kept up to date: a change of v(x) by c changes those of the pairs at x by -c, and those of
    pair j by gamma c times the share of x among its samples. Returns the number of steps along the objective.
    """
    n, m, S = nexts.shape[0], len(r), len(v)
    share = np.zeros((S, m))
    for i in range(n):
        for k in range(m):
            share[nexts[i, k], k] += gamma / n
    for k in range(m):
        share[of[k], k] -= 1.0
    g = r + v @ share  # [m]
    high, along = 1.0 / (1.0 - gamma), 0
    total = np.cumsum(starts)
    for t in range(len(u)):
        j = np.argmax(g)
        if g[j] > delta:
            mu[j] += 1.0
            _move(v, g, share, nexts[int(u[t] * n), j], -h * gamma, high)
            _move(v, g, share, of[j], h, high)
        else:
            along += 1
            for x in range(S):
                v_sum[x] += v[x]
            _move(v, g, share, min(np.searchsorted(total, u[t] * total[-1]), S - 1), -h, high)
    return along


@njit(cache=True, nogil=True)
def _move(v, g, share, x, by, high):
    """v[x] + by, within [0, high], and the constraints' values with it."""
    to = min(max(v[x] + by, 0.0), high)
    c = to - v[x]
    v[x] = to
    if c != 0.0:
        for j in range(len(g)):
            g[j] += c * share[x, j]
