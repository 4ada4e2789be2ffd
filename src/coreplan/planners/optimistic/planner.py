"""`OptimisticPrimalDual`: Algorithm 1's game, played with optimistic steps, memory, and no rate to tune."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ...base import FloatArray, InputError, as_count, as_number, as_positive, checks, settle
from ...features import Phi, length
from ...sampled import Beliefs, Stored
from ...simulate import Answers, Ask
from .. import doubts
from ..doubts import Verdict
from ..protocol import CoreSetup, Planner, ReadOut, Tunable
from ..verdicts import with_stored
from . import kernels
from .kernels import Game

BALANCE = 2.0  # z's scale, as a multiple of the spread of values; 1 and 4 gave the same results
_NOTHING = 1e-12  # values with a smaller spread count as equal


class State(NamedTuple):
    """What is carried from sweep to sweep; k is the rank of the core features, coordinates are `Frame.coordinates`."""

    z: FloatArray  # [k] theta_t, in coordinates
    lam: FloatArray  # [m] lambda_t
    F: FloatArray  # [m, k] running mean of sum_a pi(a|y_j) phi(y_j, a), in coordinates
    f0: FloatArray  # [k] the same for initial states
    r: FloatArray  # [m] mean rewards
    sum_z: FloatArray  # [k] sum_t t theta_t, in coordinates
    Theta: FloatArray  # [d] the policy is softmax(Phi Theta)
    sweeps: int  # done so far
    imbalance: float  # |c|_1: how far lambda is from being an occupancy measure
    residual: float  # max delta - <lambda, delta>: zero at a saddle point


class Solved(NamedTuple):
    """The result on stored samples: the policy softmax(scale * phi . theta), and the doubts, if any."""

    theta: FloatArray  # [d]
    scale: float
    verdict: Verdict | None


@dataclass(frozen=True, kw_only=True, eq=False)
class OptimisticPrimalDual(Planner):
    """Algorithm 1's saddle point by optimistic steps, as the paper conjectures to be possible, with one default setting.

    One sweep queries every core pair once, then plays the game on running means. It differs from Algorithm 1 in:

    - queries: every core pair once, instead of K draws from lambda and one uniform draw, so that no estimate has a factor m;
    - actions: expectations sum_a pi(a|y) phi(y, a) instead of sampled actions; unbiased, with less variance;
    - gradients: of running means over all sweeps (weight 2/(t+1) for the newest, 1/t for rewards). They are stored as an
      m x k matrix, so that old samples still count, under the policies of their time;
    - the inner loop: `steps` optimistic steps 2 g_i - g_{i-1} of theta AND lambda on that game, instead of K stochastic
      steps of theta and one of lambda. Both restart from their means, as theta does in Algorithm 1; and lambda first
      follows the flow once, since mirror ascent alone is slow to move where a new policy leads;
    - rates: theta is expressed by its values at the core pairs, and moves at each by the imbalance of flow there, relative
      to the largest flow seen; log lambda moves relative to the spread of values. The remaining step size is 1/2 divided by
      the game's Lipschitz constant in these norms. So scaling rewards or features changes nothing;
    - start: a fraction `restart` of it is moved from nu0 to the core pairs, so that theta is right everywhere;
    - policy: softmax of the sum of t theta_t (growing weights), scaled by `beta` over the spread of its values. The last
      policy is returned, still ONE softmax vector.

    Of Theorem 1 the decomposition carries over (any run's gap is the sum of three regrets), with a factor 1/(1 - restart),
    since an optimal policy is optimal from every start; so does its treatment of core errors. Its rate does not: gradients
    from old samples are biased by the change of the policy, and growing weights are not analysed. No bound is claimed.

    Parameters
    ----------
    steps: optimistic steps per sweep; 50 and 100 gave the same results. More steps cost time, never queries.
    beta: learning rate of the policy, relative to the spread of values; positive.
    restart: the fraction of the start that is moved to the core pairs; above 0 and below 1.
    n_initial: draws from nu0 per sweep.

    It needs memory for m x k numbers, k being the rank of the core features. `on(stored)` plays the same game on stored
    samples, using all of them in every iteration.
    """

    name: ClassVar[str] = "optimistic"
    tunable: ClassVar[Tunable] = {"steps": (20, 200), "beta": (2.0, 200.0), "restart": (0.05, 0.95)}

    steps: int = 100
    beta: float = 20.0
    restart: float = 0.5
    n_initial: int = 8

    def __post_init__(self) -> None:
        settle(self, as_count, "steps", "n_initial")
        settle(self, as_positive, "beta")
        settle(
            self, as_number, "restart", what="a number between 0 and 1", good=lambda share: 0.0 < share < 1.0
        )

    def resolve(self, setup: CoreSetup) -> OptimisticPrimalDual:
        if setup.budget < setup.m:
            raise InputError(
                f"A budget of {setup.budget} queries is below m = {setup.m}: one sweep queries every core pair. Raise it."
            )
        _ = setup.frame.coordinates  # raises if the core set is too large, before any query is made
        return self.bind(setup)

    # Ask and tell.

    def init(self, rng: np.random.Generator) -> State:
        co = self.setup.frame.coordinates
        m, k = co.m, co.k
        return State(
            z=np.zeros(k), lam=np.full(m, 1.0 / m), F=np.zeros((m, k)), f0=np.zeros(k), r=np.zeros(m), sum_z=np.zeros(k),
            Theta=np.zeros(self.setup.dimension), sweeps=0, imbalance=math.inf, residual=math.inf,
        )  # fmt: skip

    def size(self, state: State) -> int:
        return self.setup.m

    def ask(self, state: State, rng: np.random.Generator) -> Ask:
        return Ask(core_index=np.arange(self.setup.m), n_initial=self.n_initial, sweep=state.sweeps)

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        assert answers.next_features is not None and answers.initial_features is not None
        t = state.sweeps + 1
        self._observe(state, answers.next_features, answers.initial_features, 1, 2.0 / (t + 1))
        state.r[:] += (answers.rewards - state.r) / t
        return self._play(state)

    def on(self, stored: Stored, iterations: int = 300) -> Solved:
        """Play the same game on stored samples, with full gradients and without new queries."""
        iterations = as_count("OptimisticPrimalDual.on", iterations=iterations)
        planner = self.bind(CoreSetup.of_stored(stored))
        state = planner.init(np.random.default_rng(0))
        state.r[:] = stored.rewards
        for _ in range(iterations):
            planner._observe(state, stored.next_features, stored.initial_features, stored.n, 1.0)
            state = planner._play(state)
        return Solved(*planner.policy(state), with_stored(planner.verdict(state), stored))

    def _observe(self, state: State, following: Phi, initial: Phi, n: int, weight: float) -> None:
        """Update the running means with n next states of each core pair and initial states, under the current policy."""
        co = self.setup.frame.coordinates
        p, f, row = np.empty(self.setup.n_actions), np.empty(self.setup.dimension), np.empty(co.k)
        kernels.observe(following, n, state.Theta, co.W, weight, p, f, row, state.F)
        kernels.observe(initial, length(initial), state.Theta, co.W, weight, p, f, row, state.f0[None])

    def _play(self, state: State) -> State:
        """One epoch of the game on the running means, then the policy update."""
        co = self.setup.frame.coordinates
        game, step = self._game(state)
        t = state.sweeps + 1
        before = co.U @ state.sum_z * (2 / max(t * (t - 1), 1))
        s = BALANCE * max(before.std(), state.r.std(), _NOTHING)
        if co.k == co.m:  # coordinates are core pairs, so lambda can follow the flow
            kernels.follow(game, state.lam)
        kernels.epoch(game, state.z, state.lam, self.steps, step, s)
        imbalance, residual = _balance(game, state.z, state.lam)
        state.sum_z[:] += t * state.z
        state.Theta[:] = self._policy(state.sum_z, t)
        return state._replace(sweeps=t, imbalance=imbalance, residual=residual)

    def _policy(self, sum_z: FloatArray, t: int) -> FloatArray:
        """Theta after t sweeps."""
        co = self.setup.frame.coordinates
        spread = np.ptp(co.U @ sum_z) * 2 / (t * (t + 1))
        scale = self.beta / spread if spread > 1e3 * _NOTHING / (1 - self.setup.discount) else 0.0
        return co.theta(scale * sum_z)

    def _game(self, state: State) -> tuple[Game, float]:
        co, gamma = self.setup.frame.coordinates, self.setup.discount
        M, MT = np.empty((co.m, co.k)), np.empty((co.k, co.m))
        row_sum = kernels.set_game(co.U, state.F, gamma, M, MT)
        start = (1 - self.restart) * state.f0 + self.restart * co.U.mean(axis=0)
        game = Game(M=M, MT=MT, r=state.r, q=(1 - gamma) * start, radius=math.sqrt(co.m) / (1 - gamma))
        return game, kernels.STEP / math.sqrt(row_sum)

    def check(self, state: State) -> None:
        """z lies in its ball, F and f0 are means of features, sum_z is a sum of t z_t, and Theta follows from it."""
        t, co, setup = state.sweeps, self.setup.frame.coordinates, self.setup
        if not 0 <= t <= 2**31:
            raise ValueError(f"'sweeps' is {t}")
        checks.require_distribution(state, "lam")
        checks.require_within(state, -1e-9, 1.0 + 1e-9, "r")
        checks.require_within(state, 0.0 if t else math.inf, checks.LARGEST if t else math.inf, "imbalance")
        checks.require_within(
            state, -checks.LARGEST if t else math.inf, checks.LARGEST if t else math.inf, "residual"
        )
        longest = setup.radius * (float(np.linalg.norm(co.W)) if co.W.size else 1.0)
        checks.require_within(state, -longest * 1.001, longest * 1.001, "F", "f0")
        ball = 1.001 * math.sqrt(co.m) / (1 - setup.discount)
        for name, most in (("z", ball), ("sum_z", ball * t * (t + 1) / 2)):
            if not np.linalg.norm(getattr(state, name)) <= most:
                raise ValueError(f"'{name}' lies outside the ball of z")
        Theta = self._policy(state.sum_z, t) if t else 0.0 * state.Theta
        if not np.allclose(Theta, state.Theta, rtol=1e-6, atol=1e-6 * float(np.abs(Theta).max())):
            raise ValueError("'Theta' does not follow from 'sum_z'")

    def told(self, state: State) -> int:
        return state.sweeps * self.setup.m

    # Results.

    def policy(self, state: State) -> ReadOut:
        return ReadOut(state.Theta.copy(), 1.0)

    def beliefs(self, state: State) -> Beliefs | None:
        t = state.sweeps
        mean = state.sum_z * 2 / (t * (t + 1)) if t else state.sum_z
        return Beliefs(self.setup.frame.coordinates.theta(mean)) if t else None

    def verdict(self, state: State) -> Verdict | None:
        inflow = 1 - self.setup.discount
        if state.sweeps == 0:
            return doubts.NO_SWEEP()
        if not state.imbalance <= inflow:
            return doubts.OUT_OF_BALANCE(imbalance=state.imbalance, inflow=inflow)
        return None

    @staticmethod
    def weights(state: State) -> FloatArray:
        return state.lam

    def numbers(self, state: State) -> Mapping[str, float]:
        lam, finite = state.lam, state.sweeps > 0
        return {
            "theta_norm": float(np.linalg.norm(self.setup.frame.coordinates.theta(state.z))),
            "Theta_norm": float(np.linalg.norm(state.Theta)),
            "lambda_entropy": float(-np.sum(lam * np.log(lam))),
            "imbalance": state.imbalance if finite else math.nan,
            "residual": state.residual if finite else math.nan,
        }


def _balance(game: Game, z: FloatArray, lam: FloatArray) -> tuple[float, float]:
    """|q - M' lam|_1 and max delta - <lam, delta>: both zero at a saddle point."""
    delta = game.r - game.M @ z
    return float(np.abs(game.q - lam @ game.M).sum()), float(delta.max() - lam @ delta)
