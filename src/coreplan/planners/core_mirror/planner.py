"""`CoreMirror`: value iteration through the core set on a stream of samples; its result is one softmax vector."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...base import FloatArray, InputError, as_choice, as_number, as_positive, checks, settle
from ...sampled import Beliefs
from ...simulate import Answers, Ask
from .. import doubts
from ..doubts import Verdict
from ..protocol import CoreSetup, Kernels, Planner, ReadOut, Sum, Tunable
from . import kernels
from .kernels import Hyper, Scratch, State

OUTPUTS = ("softmax", "greedy", "random")
ALLOCATIONS = ("even", "occupancy")


@dataclass(frozen=True, kw_only=True, eq=False)
class CoreMirror(Planner):
    """Mirror-descent value iteration through the core set: samples used once, memory O(m + d), nothing to tune.

    Each sweep asks for one fresh next state y_j of every core pair, uses it once and forgets it:

        A_t = t (t-1)/2 Phi mean,  mean = the average of theta_1..theta_{t-1}, with weight k for theta_k
        q_j = r_j + gamma (max_a A_t(y_j, a) - max_a A_{t-1}(y_j, a)) / (t-1)
        theta_t = theta_{t-1} + s_t (pinv(Phi~) q - theta_{t-1})

    The policy is softmax(b_t Phi mean), where b_t is 10 t^2 divided by the span of the mean's values at the core pairs. The
    value of y_j, a difference of maxima, is clipped to [0, 1/(1 - gamma)], and s_t is 1 for the first 1/(1 - gamma) sweeps,
    then falls as 1/sqrt(t). Of Algorithm 1 it keeps the queries at core pairs only, Q = Phi theta, and a softmax of a
    weighted sum of thetas; the descent on theta is replaced by one sampled Bellman backup, and there is no lambda. It needs
    thousands of times fewer queries than Algorithm 1, and about two to five times as many as planners that store their
    samples. It is weak as long as value has not spread: each sweep carries it by one step only. For a linear MDP whose
    features are convex combinations of linearly independent core features the last policy has a bound of order H^2 sqrt(log
    m / T), H = 1/(1 - gamma) (docs/core-mirror.md).

    Parameters
    ----------
    output: "softmax" is the last policy, "greedy" its limit at infinite scale. "random" is pi_J with J uniform on 1..T, for
        which the bound of docs/core-mirror.md holds; it needs `beta`.
    beta: a constant rate: pi_t = softmax(beta sum_{k<t} Phi theta_k). It has a bound, H/T + log A/(beta T) +
        beta H^3/4 on its mean policy, in the same setting. Values are then those of pi_t. The default
        schedule is better in practice by orders of magnitude.
    step: a constant s_t. The default is the schedule above (1 with `beta`), but at most 4 divided by the largest l1-norm of
        a feature's coefficients over the core features seen so far, since an ill-conditioned core set amplifies noise.
    allocation: "even", or "occupancy": half of the queries go where the policy is estimated to spend its time. The latter
        helps if few core pairs matter, and can hurt otherwise.

    A run uses whole sweeps: up to m - 1 queries of a budget remain unused. Its result is doubtful if it made fewer than
    1/(1 - gamma) sweeps.
    """

    name: ClassVar[str] = "core-mirror"
    tunable: ClassVar[Tunable] = {"step": (0.02, 1.0), "allocation": ("even", "occupancy")}

    output: str = "softmax"
    beta: float | None = None
    step: float | None = None
    allocation: str = "even"

    def __post_init__(self) -> None:
        settle(self, as_positive, "beta")
        settle(self, as_choice, "output", options=OUTPUTS)
        settle(self, as_choice, "allocation", options=ALLOCATIONS)
        whole = "a number above 0 and at most 1, the whole way"
        settle(self, as_number, "step", what=whole, good=lambda step: 0.0 < step <= 1.0)
        if self.output == "random" and self.beta is None:
            raise InputError(
                "`CoreMirror(output='random')` is for a constant rate: give `beta` too, or take output='softmax'."
            )

    def resolve(self, setup: CoreSetup) -> CoreMirror:
        if setup.budget < setup.m:
            raise InputError(
                f"A budget of {setup.budget} queries is below m = {setup.m}, one sweep over the core set. Raise the "
                f"budget; {math.ceil(setup.m / (1 - setup.discount))} queries are the least that make sense here."
            )
        planner = self.bind(setup)
        planner._hyper  # noqa: B018  # raises before the first query if the core set is too large
        return planner

    def init(self, rng: np.random.Generator) -> State:
        m, d = self.setup.m, self.setup.dimension
        count, even = np.zeros(1, dtype=np.int64), np.full(m, 1.0 / m)
        return State(
            theta=np.zeros(d), mean=np.zeros(d), mean_J=np.zeros(d), q=np.zeros(m), lam=even, mean_lam=even.copy(),
            sweeps=count, J=count.copy(), seen=np.zeros(1), td=np.zeros(2),
        )  # fmt: skip

    def size(self, state: State) -> int:
        return self.setup.m

    def ask(self, state: State, rng: np.random.Generator) -> Ask:
        core_index = np.empty(self.setup.m, dtype=np.int64)
        kernels.ask(rng.random(self._ask_draws), state, self._hyper, core_index)
        return Ask(core_index=core_index, n_initial=1, sweep=int(state.sweeps[0]) if self._sweeps else None)

    def following(self, state: State, ask: Ask) -> Ask | None:
        return None if ask.sweep is None else ask._replace(sweep=ask.sweep + 1)  # else it draws pairs

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        kernels.tell(
            rng.random(1), state, self._hyper, self.setup.core_features, answers.ask.core_index, answers.rewards,
            answers.initial_features, answers.next_features, self._scratch(),
        )  # fmt: skip
        return state

    def kernels(self) -> Kernels:
        return Kernels(
            ask=kernels.ask, tell=kernels.tell, hyper=self._hyper, scratch=self._scratch(), n_queries=self.setup.m,
            n_initial=1, ask_draws=self._ask_draws, tell_draws=1, sweep="sweeps" if self._sweeps else None,
        )  # fmt: skip

    def policy(self, state: State) -> ReadOut:
        if self.output == "random":
            assert self.beta is not None
            return ReadOut(state.mean_J.copy(), self.beta)
        scale = self._scale(state) if self.output == "softmax" else math.inf
        return ReadOut(state.mean.copy(), scale)

    def beliefs(self, state: State) -> Beliefs | None:
        return Beliefs(state.mean) if state.sweeps[0] else None

    def verdict(self, state: State) -> Verdict | None:
        sweeps, horizon = int(state.sweeps[0]), 1.0 / (1.0 - self.setup.discount)
        if sweeps >= horizon:
            return None
        least = math.ceil(self.setup.m / (1 - self.setup.discount))
        return doubts.FEW_SWEEPS(sweeps=sweeps, horizon=horizon, least=least)

    @staticmethod
    def weights(state: State) -> FloatArray:
        return state.mean_lam

    def numbers(self, state: State) -> Mapping[str, float | Sum]:
        return {
            "theta_norm": float(np.linalg.norm(state.theta)),
            "scale": self._scale(state),
            "temporal_difference": Sum(float(state.td[0]), float(state.td[1])),
            "coefficients": float(state.seen[0]),
        }

    def check(self, state: State) -> None:
        """Every q is a reward and a discounted value, and theta a mean of pinv(Phi~) q: what that bounds is checked."""
        setup, T = self.setup, int(state.sweeps[0])
        horizon = 1.0 / (1.0 - setup.discount)
        if not 0 <= state.J[0] <= T <= checks.MOST // setup.m:
            raise ValueError(f"'sweeps' is {T} and 'J' is {state.J[0]}")
        checks.require_finite(state, "td", "theta", "mean", "mean_J")
        checks.require_within(state, 0.0, checks.LARGEST, "seen")
        checks.require_within(state, 0.0, horizon * (1 + 1e-9), "q")
        checks.require_distribution(state, "lam", "mean_lam")
        if not T * self._sweeps <= state.td[1] / setup.m <= T:
            raise ValueError(f"'td' counts {state.td[1]:g} temporal differences in {T} sweeps")
        most = 1.001 * setup.frame.radius(setup.discount)
        for name in ("theta", "mean", "mean_J"):
            times = max(T, 1) if self.beta is not None and name != "theta" else 1
            if not np.linalg.norm(getattr(state, name)) <= times * most:
                raise ValueError(f"'{name}' is longer than any mean of values at the core pairs makes it")

    def told(self, state: State) -> int:
        return int(state.sweeps[0]) * self.setup.m

    @property
    def _sweeps(self) -> bool:
        """Whether every ask consists of all core pairs once, in order."""
        return self.allocation == "even"

    @property
    def _ask_draws(self) -> int:
        return 1 if self.allocation == "occupancy" else 0

    @cached_property
    def _hyper(self) -> Hyper:
        return make_hyper(self.setup, self.beta, self.step, self.allocation == "occupancy")

    def _scratch(self) -> Scratch:
        m, d, A = self.setup.m, self.setup.dimension, self.setup.n_actions
        return Scratch(
            p=np.empty(A), total=np.empty(m), number=np.empty(m), target=np.empty(d), f=np.empty(d)
        )

    def _scale(self, state: State) -> float:
        """b_{T+1}, the scale of the next policy."""
        return float(
            kernels.scale_of(int(state.sweeps[0]) + 1, state.mean, self._hyper, self.setup.core_features)
        )


def make_hyper(setup: CoreSetup, beta: float | None, step: float | None, occupancy: bool) -> Hyper:
    """The constants of a run, which determine theta from the backups at the core pairs."""
    m, d, axes = setup.m, setup.dimension, setup.frame.axes
    at, c = axes or (np.zeros(m, dtype=np.int64), np.ones(m))
    square, reach, pinv = np.zeros(d), np.zeros(d), np.empty((0, 0))
    if axes is not None:
        np.add.at(square, at, c**2)
        np.add.at(reach, at, np.abs(c))
        reach[square > 0] /= square[square > 0]
    else:
        pinv = np.ascontiguousarray(setup.frame.inverse().T)
    return Hyper(
        gamma=setup.discount, beta=beta or 0.0, step=step or 0.0, occupancy=occupancy, unit=axes is not None, at=at,
        c=c, square=square, reach=reach, pinv=pinv,
    )  # fmt: skip
