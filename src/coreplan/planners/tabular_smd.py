"""`TabularSMD`: stochastic mirror descent on the LP of a table (Jin & Sidford 2020, and two others' estimators)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..base import FloatArray, InputError, as_choice, as_count, as_positive, checks, settle
from ..sampled import raised
from ..simulate import Answers, Ask
from . import doubts
from .doubts import Verdict
from .protocol import CoreSetup, Planner, ReadOut, Tunable
from .tables import Table

MOST = 10_000  # iterations, by default
ESTIMATORS = ("jin-sidford", "wang-chen", "cheng")


class State(NamedTuple):
    """Both iterates and their sums."""

    v: FloatArray  # [S] values, in [0, H]
    mu: FloatArray  # [m] a distribution over pairs
    v_sum: FloatArray  # [S]
    mu_sum: FloatArray  # [m]
    steps: int


@dataclass(frozen=True, kw_only=True, eq=False)
class TabularSMD(Planner):
    """Stochastic mirror descent on the Lagrangian of the LP: Jin & Sidford, ICML 2020.

    With H = 1 / (1 - gamma), v in the box [0, H]^S and mu in the simplex over the m pairs, it solves

        min_v max_mu  (1 - gamma) <nu0, v> + sum_xa mu(x, a) (r(x, a) + gamma E v(y) - v(x))

    by steps on unbiased estimates: x0 from nu0, (x, a) from mu for v, and a pair from the uniform distribution for mu,

        g_v = (1 - gamma) e_x0 + gamma e_y - e_x,   g_mu = m (v(x) - gamma v(y) - r) e_xa,
        v <- clip(v - eta_v g_v),   mu <- mu exp(-eta_mu g_mu) / sum.

    The policy is the average mu, normalised in each state.

    *Setting*: a table, that is, one-hot features and states that can be enumerated; every pair can be queried. *Rate*:
    O(m H^4 / eps^2) queries for values that are not normalised, up to logarithms.

    *Variants* of the estimators: "wang-chen" (Wang & Chen 2016) takes one uniform pair for both and weighs it in g_v
    by m mu; "cheng" (Cheng et al. 2020) adds H to g_mu's bracket, so that it is nonnegative, as an analysis by local norms
    wants it.

    *Departures*: g is the mean of a batch of `batch` estimates. The steps are those of mirror descent for that many
    iterations and these variances, times `rate`; the papers' have constants that make them useless in practice. The box is
    [0, H], where Jin & Sidford take twice that.

    Parameters
    ----------
    estimator: "jin-sidford", "wang-chen" or "cheng".
    batch: pairs per estimate; by default so many that there are 10,000 iterations, and at least one.
    rate: both step sizes, in units of those above; larger ones than 1 do better on river-swim (seeds from 1000 on).
    """

    name: ClassVar[str] = "tabular-smd"
    needs_table: ClassVar[bool] = True
    core_of: ClassVar[str] = "all"
    from_uniform: ClassVar[bool] = True
    first_budget: ClassVar[int] = 1_000_000
    tunable: ClassVar[Tunable] = {"rate": (0.1, 10.0), "estimator": ESTIMATORS}

    estimator: str = "jin-sidford"
    batch: int | None = None
    rate: float = 10.0

    def __post_init__(self) -> None:
        as_choice("TabularSMD", ESTIMATORS, estimator=self.estimator)
        settle(self, as_count, "batch")
        settle(self, as_positive, "rate")

    def resolve(self, setup: CoreSetup) -> Any:
        planner = self.bind(setup)
        if planner._iterations < 1:
            raise InputError(
                f"A budget of {setup.budget} queries is below {planner._size}, those of one iteration. Raise the budget, or "
                "lower `batch`."
            )
        _ = planner._table  # raises if there is none
        return planner

    @cached_property
    def _table(self) -> Table:
        return Table(self.setup, self.name)

    @property
    def _pairs(self) -> int:
        """Pairs per iteration and estimate."""
        return 1 if self.estimator == "wang-chen" else 2

    @cached_property
    def _batch(self) -> int:
        return self.batch or max(1, self.setup.budget // (self._pairs * MOST))

    @property
    def _size(self) -> int:
        return self._pairs * self._batch

    @property
    def _iterations(self) -> int:
        return int(self.setup.budget) // self._size

    def init(self, rng: np.random.Generator) -> State:
        S, m = self._table.S, self._table.m
        return State(
            v=np.full(S, 0.5 / (1 - self.setup.discount)), mu=np.full(m, 1.0 / m), v_sum=np.zeros(S), mu_sum=np.zeros(m),
            steps=0,
        )  # fmt: skip

    def size(self, state: State) -> int | None:
        return self._size if state.steps < self._iterations else None

    def ask(self, state: State, rng: np.random.Generator) -> Ask | None:
        if self.size(state) is None:
            return None
        B, m = self._batch, self._table.m
        uniform = rng.integers(0, m, B)
        pairs = [uniform] if self._pairs == 1 else [draw(state.mu, rng.random(B)), uniform]
        return Ask(core_index=np.concatenate(pairs), n_initial=B)

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        table, B = self._table, self._batch
        index, y = answers.ask.core_index, table.states(answers.next_features)
        assert index is not None
        weight = self._m * state.mu[index] if self._pairs == 1 else np.ones(B)
        g_v = gradient_v(
            table, index[:B], y[:B], table.states(answers.initial_features), weight, self.setup.discount
        )
        shift = 1 / (1 - self.setup.discount) if self.estimator == "cheng" else 0.0
        g_mu = gradient_mu(
            table, index[-B:], y[-B:], answers.rewards[-B:], state.v, shift, self.setup.discount
        )
        eta_v, eta_mu = self._rates
        v = np.clip(state.v - eta_v * g_v, 0.0, 1 / (1 - self.setup.discount))
        mu = raised(state.mu, -eta_mu * g_mu)
        return State(v=v, mu=mu, v_sum=state.v_sum + v, mu_sum=state.mu_sum + mu, steps=state.steps + 1)

    @property
    def _m(self) -> int:
        return self._table.m

    @cached_property
    def _rates(self) -> tuple[float, float]:
        """Mirror descent: eta^2 = 2 (radius of the domain) / (iterations x second moment of the gradient)."""
        T, B, m, S, H = self._iterations, self._batch, self._m, self._table.S, 1 / (1 - self.setup.discount)
        moment_v = 2.0 + (m if self._pairs == 1 else 2.0) / B
        moment_mu = H**2 * (1 + m / B)
        return (
            self.rate * H * math.sqrt(S / (T * moment_v)),
            self.rate * math.sqrt(2 * math.log(max(m, 2)) / (T * moment_mu)),
        )

    # Results.

    def policy(self, state: State) -> ReadOut:
        return ReadOut(self._table.log_policy(state.mu_sum if state.steps else state.mu), 1.0)

    def verdict(self, state: State) -> Verdict | None:
        return None if state.steps else doubts.NO_SWEEP()

    def numbers(self, state: State) -> Mapping[str, float]:
        n = max(state.steps, 1)
        return {"mean_value": float((state.v_sum / n).mean()), "largest_mu": float((state.mu_sum / n).max())}

    def told(self, state: State) -> int:
        return state.steps * self._size

    def check(self, state: State) -> None:
        H, n = 1 / (1 - self.setup.discount), state.steps
        checks.require_within(state, 0, self._iterations, "steps")
        checks.require_within(state, 0.0, H, "v")
        checks.require_within(state, 0.0, H * (n + 1e-6), "v_sum")
        checks.require_within(state, 0.0, n + 1e-6, "mu_sum")
        checks.require_distribution(state, "mu")


def draw(mu: FloatArray, u: FloatArray) -> Any:
    """Indices drawn from the distribution mu, by uniforms u."""
    total = np.cumsum(mu)
    return np.minimum(np.searchsorted(total, u * total[-1], side="right"), len(mu) - 1)


def gradient_v(table: Table, pairs: Any, y: Any, x0: Any, weight: FloatArray, gamma: float) -> FloatArray:
    """The mean of (1 - gamma) e_x0 + weight (gamma e_y - e_x), `[S]`."""
    B, S = len(pairs), table.S
    out = (1 - gamma) * np.bincount(x0, minlength=S) + gamma * np.bincount(y, weight, S)
    return (out - np.bincount(table.of[pairs], weight, S)) / B


def gradient_mu(
    table: Table, pairs: Any, y: Any, rewards: FloatArray, v: FloatArray, shift: float, gamma: float
) -> FloatArray:
    """The mean of m (v(x) - gamma v(y) - r + shift) e_xa, `[m]`."""
    bracket = v[table.of[pairs]] - gamma * v[y] - rewards + shift
    return np.asarray(np.bincount(pairs, bracket, table.m) * (table.m / len(pairs)), dtype=np.float64)
