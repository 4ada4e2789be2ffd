"""`CoreStoMP`: stochastic mirror-prox on the LP over core states, for one state at a time (Shariff & Szepesvari 2020)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..base import FloatArray, InputError, IntArray, States, as_count, as_positive, checks, settle
from ..core import Frame
from ..features import available
from ..sampled import Beliefs, require_fit, state_rows
from ..simulate import Answers, Ask
from . import doubts
from .doubts import Verdict
from .protocol import CoreSetup, Planner, ReadOut, Tunable


class State(NamedTuple):
    """Both iterates, the half step, their sums, and what was sampled; M = m + A pairs: the core's and those of the start."""

    z: FloatArray  # [S] values of the core states, in [0, H]
    lam: FloatArray  # [M] a distribution over pairs
    z_half: FloatArray  # [S]
    lam_half: FloatArray  # [M]
    z_sum: FloatArray  # [S], of the half steps
    lam_sum: FloatArray  # [M]
    rewards: FloatArray  # [M] sums over the sweeps
    ahead: FloatArray  # [M, S] sums of the coefficients b(y) of next states
    pending: FloatArray  # [m, S + 1] of a sweep whose start is not yet sampled: b(y) and rewards
    starts: FloatArray  # [S], the mean coefficients of initial states
    here: FloatArray  # [S], those of the first one
    free: FloatArray  # [A]: 1 for its available actions
    start_states: States  # [1, ...], the first initial state
    asks: int  # answered so far; the first is for initial states, then the core's sweep and the start's pairs in turn


@dataclass(frozen=True, kw_only=True, eq=False)
class CoreStoMP(Planner):
    """CoreStoMP: Shariff & Szepesvari, "Efficient Planning in Large MDPs with Weak Linear Function Approximation", 2020.

    For a start x0, the LP over values with constraints at core states and at x0 only,

        min_V max_lam  (1 - gamma) V(x0) + sum_xa lam(x, a) (r(x, a) + gamma E V(y) - V(x)),  lam a distribution,

    is solved by stochastic mirror-prox: a step to a half point, and a step from the old point along the gradient at the half
    point, each from fresh samples; Euclidean steps for V, multiplicative ones for lam. V is linear in psi, the mean of
    phi(x, a) over actions, and so V(x) = b(x) . z, with z the values at core states and b(x) the coefficients of psi(x).

    *Setting*: core states, whose psi span those of all states with nonnegative coefficients; V* linear in psi (no other
    policy's values need be). *Rate*: an eps-optimal action from polynomially many queries in m, A, H and 1/eps, 1/eps^2 in
    eps, AT EVERY STATE that is visited: it is a local planner, and its policy is no vector.
    `coreplan.planning.LocalPolicy` acts so.

    *Departures*: each gradient is from one next state of every pair, where the paper draws a few pairs. The action at x0 is
    greedy in the mean of r + gamma V(y) over its own samples. Planned for a whole problem, it starts from the mean of 100
    draws from nu0, and returns the vector that the core states' values imply by one backup; this the paper does not do, and
    it is right only where Q is linear in phi too.

    Parameters
    ----------
    rate: both step sizes, in units of those of mirror-prox without noise.
    n_initial: draws from nu0.
    """

    name: ClassVar[str] = "core-stomp"
    core_of: ClassVar[str] = "states"
    first_budget: ClassVar[int] = 100_000
    tunable: ClassVar[Tunable] = {"rate": (0.1, 10.0)}
    visited: ClassVar[frozenset[str]] = frozenset({"start_states"})
    growing: ClassVar[frozenset[str]] = frozenset({"start_states"})

    rate: float = 1.0
    n_initial: int = 100

    def __post_init__(self) -> None:
        settle(self, as_positive, "rate")
        settle(self, as_count, "n_initial")

    def resolve(self, setup: CoreSetup) -> Any:
        planner, S = self.bind(setup), int(setup.core_states.of.max()) + 1
        if setup.budget < 2 * (setup.m + setup.n_actions):
            raise InputError(
                f"A budget of {setup.budget} queries is below {2 * (setup.m + setup.n_actions)}, those of one iteration: "
                f"two sweeps over {setup.m} pairs at core states and {setup.n_actions} at the start. Raise the budget."
            )
        require_fit(
            f"CoreStoMP would store how {setup.m:,} pairs depend on {S:,} core states",
            8.0 * S * (4 * setup.m + 2 * setup.dimension), "Take a smaller core set.",
        )  # fmt: skip
        _ = planner._R, setup.frame.coordinates
        return planner

    @cached_property
    def _places(self) -> tuple[Any, IntArray]:
        """psi of the core states, csr `[S, d]`, and which of them each core pair has, `[m]`."""
        places = self.setup.core_states
        return state_rows(places.features, self.setup.dimension), places.of

    @cached_property
    def _R(self) -> FloatArray:
        """b(x) = psi(x) R, `[d, S]`: the pseudo-inverse of psi of the core states."""
        return Frame(self._places[0].toarray(), self.setup.dimension).inverse()

    @cached_property
    def _b(self) -> FloatArray:
        """b at the states of the core pairs, `[m, S]`."""
        rows, of = self._places
        return np.asarray(rows @ self._R)[of]

    @property
    def _M(self) -> int:
        return int(self.setup.m + self.setup.n_actions)

    def init(self, rng: np.random.Generator) -> State:
        S, m, M, A = self._R.shape[1], self.setup.m, self._M, self.setup.n_actions
        z, lam = np.full(S, 0.5 / (1 - self.setup.discount)), np.full(M, 1.0 / M)
        return State(
            z=z, lam=lam, z_half=z.copy(), lam_half=lam.copy(), z_sum=np.zeros(S), lam_sum=np.zeros(M), rewards=np.zeros(M),
            ahead=np.zeros((M, S)), pending=np.zeros((m, S + 1)), starts=np.zeros(S), here=np.zeros(S), free=np.ones(A),
            start_states=np.zeros(0), asks=0,
        )  # fmt: skip

    def size(self, state: State) -> int | None:
        if state.asks == 0:
            return 0
        return self.setup.m if state.asks % 2 else int(state.free.sum())

    def ask(self, state: State, rng: np.random.Generator) -> Ask | None:
        if state.asks == 0:
            return Ask(states=np.zeros(0), actions=np.zeros(0, dtype=np.int64), n_initial=self.n_initial)
        if state.asks % 2:
            return Ask(core_index=np.arange(self.setup.m), sweep=state.asks // 2)
        actions = np.flatnonzero(state.free)
        return Ask(states=np.repeat(state.start_states, len(actions), axis=0), actions=actions)

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        d, R, m = self.setup.dimension, self._R, self.setup.m
        if state.asks == 0:
            phi0, x0 = answers.initial_features, answers.initial_states
            assert phi0 is not None and x0 is not None
            b, free = state_rows(phi0, d) @ R, available(phi0)[0].astype(np.float64)
            lam = np.append(np.ones(m), free) / (m + free.sum())
            return state._replace(
                starts=b.mean(axis=0), here=b[0].copy(), free=free, start_states=x0[:1].copy(), lam=lam, lam_half=lam.copy(),
                asks=1,
            )  # fmt: skip
        assert answers.next_features is not None
        b = np.column_stack([state_rows(answers.next_features, d) @ R, answers.rewards])
        if state.asks % 2:
            return state._replace(pending=b, asks=state.asks + 1)
        sample = np.zeros((self._M, b.shape[1]))
        sample[:m] = state.pending
        sample[m:][state.free > 0] = b
        return self._stepped(state._replace(asks=state.asks + 1), sample[:, :-1], sample[:, -1])

    def _stepped(self, state: State, ahead: FloatArray, r: FloatArray) -> State:
        """One prox step on a sample of every pair: to the half point, or from the old point along its gradient."""
        state = state._replace(rewards=state.rewards + r, ahead=state.ahead + ahead)
        first = (state.asks - 1) // 2 % 2 == 1  # the number of samples so far is odd
        at_z, at_lam = (state.z, state.lam) if first else (state.z_half, state.lam_half)
        here = np.vstack([self._b, np.tile(state.here, (self.setup.n_actions, 1))])
        g_z, g_lam = gradients(at_z, at_lam, here, ahead, r, state.starts, self.setup.discount)
        eta_z, eta_lam = self._rates
        z = np.clip(state.z - eta_z * g_z, 0.0, 1 / (1 - self.setup.discount))
        lam = state.lam * np.exp(eta_lam * (g_lam - g_lam.max()))
        lam = np.maximum(lam, 1e-300 * (state.lam > 0))
        lam /= lam.sum()
        if first:
            return state._replace(z_half=z, lam_half=lam, z_sum=state.z_sum + z, lam_sum=state.lam_sum + lam)
        return state._replace(z=z, lam=lam)

    @cached_property
    def _rates(self) -> tuple[float, float]:
        """Mirror-prox: 1 / L, weighed by the sizes of the two domains; L = 2 bounds |gamma b(y) - b(x)|."""
        S, H = self._R.shape[1], 1 / (1 - self.setup.discount)
        ratio = math.sqrt(H**2 * S / 8 / math.log(self._M))
        return self.rate * ratio / 2, self.rate / ratio / 2

    # Results.

    def _values(self, state: State) -> FloatArray:
        """The averaged values of the core states, `[S]`."""
        return state.z_sum / max(self._halves(state), 1)

    @staticmethod
    def _halves(state: State) -> int:
        return int(((state.asks - 1) // 2 + 1) // 2)

    def _backup(self, state: State) -> FloatArray:
        """The mean of r + gamma V(y) over the samples of every pair, `[M]`."""
        n = max((state.asks - 1) // 2, 1)
        return (state.rewards + self.setup.discount * (state.ahead @ self._values(state))) / n

    def action(self, state: State) -> int | None:
        if self._halves(state) == 0:
            return None
        q = self._backup(state)[self.setup.m :]
        return int(np.where(state.free > 0, q, -np.inf).argmax())

    def policy(self, state: State) -> ReadOut:
        if self._halves(state) == 0:
            return ReadOut(np.zeros(self.setup.dimension), 1.0)
        theta = self.setup.frame.coordinates.solve(self._backup(state)[: self.setup.m])
        return ReadOut(theta, math.inf)

    def beliefs(self, state: State) -> Beliefs | None:
        return Beliefs(self.policy(state).theta) if self._halves(state) else None

    def verdict(self, state: State) -> Verdict | None:
        return None if self._halves(state) else doubts.NO_SWEEP()

    def numbers(self, state: State) -> Mapping[str, float]:
        value = (1 - self.setup.discount) * float(state.starts @ self._values(state))
        return {"start_value": value, "iterations": float(self._halves(state))}

    def told(self, state: State) -> int:
        return (state.asks // 2) * self.setup.m + max(state.asks - 1, 0) // 2 * int(state.free.sum())

    def check(self, state: State) -> None:
        H, S = 1 / (1 - self.setup.discount), self._R.shape[1]
        checks.require_finite(state, "ahead", "pending", "starts", "here")
        checks.require_within(state, 0.0, H, "z", "z_half")
        checks.require_within(state, 0.0, 1.0, "free")
        checks.require_within(state, 0, self.setup.budget, "asks")
        checks.require_within(state, 0.0, H * (self._halves(state) + 1e-6), "z_sum")
        checks.require_distribution(state, "lam", "lam_half")
        if len(state.start_states) != min(state.asks, 1) or not state.free.any() or len(state.z) != S:
            raise ValueError("its start does not fit its samples")


def gradients(
    z: FloatArray,
    lam: FloatArray,
    here: FloatArray,
    ahead: FloatArray,
    r: FloatArray,
    starts: FloatArray,
    gamma: float,
) -> tuple[FloatArray, FloatArray]:
    """Of (1 - gamma) starts . z + lam . (r + gamma ahead z - here z): in z, to descend, and in lam, to ascend."""
    return (1 - gamma) * starts + lam @ (gamma * ahead - here), r + (gamma * ahead - here) @ z
