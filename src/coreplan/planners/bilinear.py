"""`Bilinear`: stochastic primal-dual learning with features of states and of pairs (Chen, Li & Wang 2018)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..base import FloatArray, InputError, as_array, as_count, as_positive, checks, settle
from ..features import Phi
from ..sampled import into_ball, raised, state_rows
from ..simulate import Answers, Ask
from . import doubts
from .doubts import Verdict
from .protocol import CoreSetup, Planner, ReadOut, Tunable
from .saddle import here, require_matrix
from .tabular_smd import draw

MOST = 5_000  # iterations, by default
LEAST = 4  # pairs per estimate, by default
_FLOOR = 1e-12  # the least weight that is told apart from zero


class State(NamedTuple):
    """Both iterates, and the mean of the second."""

    v: FloatArray  # [k]
    u: FloatArray  # [m]
    mean: FloatArray  # [m], of u, step t with weight t
    steps: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Bilinear(Planner):
    """Bilinear pi learning: Chen, Li & Wang, "Scalable Bilinear pi Learning Using State and Action Features", ICML 2018.

    Values are linear in features of states, V(x) = psi(x) . v, and weights of pairs in those of pairs, mu = sum_j u_j W_j.
    Stochastic steps on  (1 - gamma) <nu0, V> + sum_j u_j (r_j + gamma E V(y_j) - V(x_j)),  with x0 from nu0, a pair from u
    for the first and a uniform one for the second:

        v <- the nearest point of the ball to  v - eta_v ((1 - gamma) psi(x0) + gamma psi(y) - psi(x)),
        u <- u exp(eta_u m (r + gamma V(y) - V(x)) e_j) / sum;   the policy is mu of the mean u, normalised per state.

    *Setting*: V* linear in psi AND the optimal occupancy a mixture of the W_j. *Rate*: a duality gap of eps after about
    k m H^4 / eps^2 queries in values up to H, up to logarithms (theirs is for average rewards, with the mixing time in
    place of H). A small gap does NOT make the policy good: Bas-Serrano & Neu (2020) show it, and our test has a case with
    three states, a gap of eps and a policy that loses 2/3. Values can hide that a state has hardly any weight, and there the
    policy is what that little weight happens to be. `Saddle` reads the policy off the values instead.

    *Departures*: discounted rewards. W_j is the core pair j. psi(x) = C' mean_a phi(x, a). Between core pairs mu is
    interpolated in logarithms, since the result is one softmax vector: theta = log u where the core features are
    different unit vectors. Where they are not, the policy is greedy in phi . sum_j u_j phi_j. g is the mean of a batch; the
    steps are those of mirror descent, times `rate`; the mean of u has weight t for step t.

    Parameters
    ----------
    batch: pairs per estimate; by default so many that there are 5,000 iterations, and at least 4.
    rate: both step sizes, in units of those of mirror descent.
    radius: of the ball of v; by default the D of `PrimalDual`.
    C: `[d, k]`, which makes features of states from those of pairs; by default the identity.
    """

    name: ClassVar[str] = "bilinear"
    tunable: ClassVar[Tunable] = {"rate": (0.1, 30.0)}
    first_budget: ClassVar[int] = 1_000_000

    batch: int | None = None
    rate: float = 1.0
    radius: float | None = None
    C: FloatArray | None = field(default=None, metadata={"array": True})

    def __post_init__(self) -> None:
        settle(self, as_count, "batch")
        settle(self, as_positive, "rate", "radius")

    def resolve(self, setup: CoreSetup) -> Bilinear:
        planner = self.bind(setup)
        if planner._iterations < 1:
            raise InputError(
                f"A budget of {setup.budget} queries is below {2 * planner._batch}, those of one iteration. Raise the "
                "budget, or lower `batch`."
            )
        require_matrix(self.name, setup)
        if self.C is not None:
            form = f"an array of finite numbers, [d, k] with d = {setup.dimension}"
            if len(as_array("Bilinear", form, ndim=2, C=self.C)) != setup.dimension:
                raise InputError(f"`Bilinear(C=...)` must be {form}, got shape {np.shape(self.C)}.")
        return planner

    @property
    def _batch(self) -> int:
        return self.batch or max(LEAST, self.setup.budget // (2 * MOST))

    @property
    def _iterations(self) -> int:
        return int(self.setup.budget) // (2 * self._batch)

    def _psi(self, phi: Phi) -> FloatArray:
        """Features of states, `[n, k]`."""
        rows: Any = state_rows(phi, self.setup.dimension)
        return rows.toarray() if self.C is None else np.asarray(rows @ self.C)

    @cached_property
    def _here(self) -> FloatArray:
        """psi at the states of the core pairs, `[m, k]`."""
        rows = here(self.setup)
        return rows if self.C is None else np.asarray(rows @ self.C)

    @cached_property
    def _rates(self) -> tuple[float, float, float]:
        """The radius D, and the steps of mirror descent: eta^2 = 2 (size of the domain) / (iterations x second moment)."""
        T, m, H = self._iterations, self.setup.m, 1.0 / (1.0 - self.setup.discount)
        D = self.radius or self.setup.frame.radius(self.setup.discount)
        moment_v = 2.0 * max(float((self._here**2).sum(axis=1).max()), 1e-12)
        moment_u = H**2 * (1 + m / self._batch)
        return (
            D,
            self.rate * D / math.sqrt(T * moment_v),
            self.rate * math.sqrt(2 * math.log(max(m, 2)) / (T * moment_u)),
        )

    def init(self, rng: np.random.Generator) -> State:
        m = self.setup.m
        k = self.setup.dimension if self.C is None else self.C.shape[1]
        return State(v=np.zeros(k), u=np.full(m, 1.0 / m), mean=np.full(m, 1.0 / m), steps=0)

    def size(self, state: State) -> int | None:
        return 2 * self._batch if state.steps < self._iterations else None

    def ask(self, state: State, rng: np.random.Generator) -> Ask | None:
        if self.size(state) is None:
            return None
        B = self._batch
        pairs = draw(state.u, rng.random(B)), rng.integers(0, self.setup.m, B)
        return Ask(core_index=np.concatenate(pairs), n_initial=B)

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        gamma, m, B, index = self.setup.discount, self.setup.m, self._batch, answers.ask.core_index
        assert (
            index is not None and answers.next_features is not None and answers.initial_features is not None
        )
        D, eta_v, eta_u = self._rates
        move = gamma * self._psi(answers.next_features) - self._here[index]  # [2 B, k]
        g_v = (1 - gamma) * self._psi(answers.initial_features).mean(axis=0) + move[:B].mean(axis=0)
        excess = answers.rewards[B:] + move[B:] @ state.v
        g_u = np.bincount(index[B:], excess, m) * (m / B)
        v = into_ball(state.v - eta_v * g_v, D)
        u = raised(state.u, eta_u * g_u)
        t = state.steps + 1
        return State(v=v, u=u, mean=state.mean + 2.0 / (t + 1.0) * (u - state.mean), steps=t)

    # Results.

    def extracted(self, u: FloatArray) -> ReadOut:
        """The policy of weights u of the core pairs."""
        frame, theta = self.setup.frame, np.zeros(self.setup.dimension)
        if frame.units is None:
            return ReadOut(frame.matrix.T @ u, math.inf)
        theta[frame.units] = np.log(np.maximum(u / u.max(), _FLOOR))
        return ReadOut(theta, 1.0)

    def policy(self, state: State) -> ReadOut:
        return self.extracted(state.mean)

    def verdict(self, state: State) -> Verdict | None:
        return None if state.steps else doubts.NO_SWEEP()

    @staticmethod
    def weights(state: State) -> FloatArray:
        return state.mean

    def numbers(self, state: State) -> Mapping[str, float]:
        return {"v_norm": float(np.linalg.norm(state.v)), "largest_weight": float(state.u.max())}

    def told(self, state: State) -> int:
        return state.steps * 2 * self._batch

    def check(self, state: State) -> None:
        checks.require_finite(state, "v")
        checks.require_within(state, 0, self._iterations, "steps")
        checks.require_distribution(state, "u", "mean")
