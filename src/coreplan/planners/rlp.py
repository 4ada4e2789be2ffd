"""`RLP`: the approximate LP on constraints that are sampled (de Farias & Van Roy 2004)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..base import FloatArray, InputError, States, as_count, checks, settle
from ..features import available, dense
from ..sampled import (
    Beliefs,
    SolverError,
    first_ask,
    number_of_walks,
    random_action,
    require_fit,
    solve_states,
    state_rows,
)
from ..simulate import Answers, Ask
from . import doubts
from .doubts import Verdict
from .protocol import Planner, ReadOut, Setup, Tunable

PER_FEATURE = 40  # constraints per feature, by default; de Farias & Van Roy ask for O(d) of them
LEAST = 4  # samples per constraint, by default, where that leaves a constraint
RIDGE = 1e-9  # of the last fit


class State(NamedTuple):
    """The LP's optimum, NaN where there is none, constraints, and trajectories."""

    theta: FloatArray  # [d]
    value: float
    told: int  # queries
    filled: int  # constraints
    phi: FloatArray  # [N, d] features of the pairs
    here: FloatArray  # [N, d] psi at their states
    ahead: FloatArray  # [N, d] the mean of psi over their next states
    rewards: FloatArray  # [N]
    starts: FloatArray  # [n0, d] psi at initial states
    walk_states: States  # [c, ...]
    walk_phi: FloatArray  # [c, A, d]
    walk_free: FloatArray  # [c, A]: 1 where an action is available
    stops: FloatArray  # [c]: 1 if the trajectory ends with the next step


@dataclass(frozen=True, kw_only=True, eq=False)
class RLP(Planner):
    """The reduced LP: de Farias & Van Roy, "On Constraint Sampling ...", Mathematics of Operations Research 29, 2004.

    The approximate LP (`ALP`) on N constraints, at pairs (x, a) that are sampled along trajectories of the uniform policy:

        min <c, V>  s.t.  V(x_i) >= r_i + gamma E V(y_i) for i = 1..N,  V(x) = psi(x) . w,

    where psi(x) is the mean of phi(x, a) over actions.

    *Setting*: trajectories from nu0; uniform play meets what matters; V* nearly linear in psi. *Rate*: with
    N = O(d / ((1 - gamma) e)) constraints, up to logarithms, sampled as an optimal policy meets states, w is with high
    probability within a factor 1 + e (in their norm) of what all constraints would give (their Theorem 3.1).

    *Departures*: the policy that samples is the uniform one, since an optimal one is not known. Expectations are means
    over n next states per pair (the paper computes them; each constraint is then wrong by O(1/sqrt(n)), and an LP picks
    out the errors in its favour). V >= 0 at sampled states takes the place of the paper's bounding set. The policy is
    greedy in one least-squares fit of r + gamma E V to the sampled pairs.

    Parameters
    ----------
    constraints: N; by default 40 per feature, or as many as the budget allows with 4 samples each.
    samples: n per constraint; by default as many as the budget allows.
    """

    name: ClassVar[str] = "rlp"
    tunable: ClassVar[Tunable] = {"samples": (1, 32)}
    needs_core: ClassVar[bool] = False
    first_budget: ClassVar[int] = 10_000
    growing: ClassVar[frozenset[str]] = frozenset(
        {"phi", "here", "ahead", "rewards", "starts", "walk_states", "walk_phi", "walk_free", "stops"}
    )
    visited: ClassVar[frozenset[str]] = frozenset({"walk_states"})

    constraints: int | None = None
    samples: int | None = None

    def __post_init__(self) -> None:
        settle(self, as_count, "constraints", "samples")

    def resolve(self, setup: Setup) -> Any:
        planner, d = self.bind(setup), setup.dimension
        N, n = planner._sizes
        if N < 1 or n < 1 or N * n > setup.budget:
            raise InputError(
                f"A budget of {setup.budget} queries is below {max(N, 1)} constraints with {max(n, 1)} samples each. Raise "
                "the budget, or lower `constraints` or `samples`."
            )
        require_fit(
            f"RLP would store {N:,} constraints on {d:,} numbers", 8.0 * d * (6 * N + d + 64 * setup.n_actions),
            "Lower `constraints`, or take fewer features.",
        )  # fmt: skip
        return planner

    @cached_property
    def _sizes(self) -> tuple[int, int]:
        """N and n."""
        budget, n = self.setup.budget, self.samples
        N = self.constraints or min(PER_FEATURE * self.setup.dimension, budget // (n or min(LEAST, budget)))
        return N, n or budget // max(N, 1)

    def init(self, rng: np.random.Generator) -> State:
        d, A = self.setup.dimension, self.setup.n_actions
        none = np.zeros((0, d))
        return State(
            theta=np.zeros(d), value=math.nan, told=0, filled=0, phi=none, here=none, ahead=none, rewards=np.zeros(0),
            starts=none, walk_states=np.zeros(0), walk_phi=np.zeros((0, A, d)), walk_free=np.zeros((0, A)),
            stops=np.zeros(0),
        )  # fmt: skip

    @property
    def _walks(self) -> int:
        N, n = self._sizes
        return min(N, number_of_walks(self.setup.budget // n, self.setup.discount))

    def size(self, state: State) -> int | None:
        N, n = self._sizes
        return min(len(state.stops), N - state.filled) * n if state.filled < N else None

    def ask(self, state: State, rng: np.random.Generator) -> Ask | None:
        if not len(state.stops):
            return first_ask(self._walks)
        size = self.size(state)
        if size is None:
            return None
        n = self._sizes[1]
        actions = random_action(state.walk_free > 0, rng.random(len(state.stops)))[: size // n]
        pairs = state.walk_states[: len(actions)]
        return Ask(
            states=np.repeat(pairs, n, axis=0),
            actions=np.repeat(actions, n),
            n_initial=int(state.stops.sum()),
        )

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        d, c = self.setup.dimension, len(state.stops)
        if not c:
            phi0, x0 = answers.initial_features, answers.initial_states
            assert phi0 is not None and x0 is not None
            began = _walking(x0, phi0, d, slice(self._walks))
            stops = self._stops(self._walks, rng)
            return state._replace(starts=state_rows(phi0, d).toarray(), stops=stops, **began)
        assert answers.next_features is not None and answers.ask.actions is not None
        n = self._sizes[1]
        used, actions = len(answers.ask.actions) // n, answers.ask.actions[::n]
        psi = state_rows(answers.next_features, d).toarray().reshape(used, n, d)
        free = state.walk_free[:used, :, None]
        new = {
            "phi": state.walk_phi[np.arange(used), actions],
            "here": (free * state.walk_phi[:used]).sum(axis=1) / free.sum(axis=1),
            "ahead": psi.mean(axis=1),
            "rewards": answers.rewards.reshape(used, n).mean(axis=1),
        }
        rows: dict[str, Any] = {
            name: np.concatenate([getattr(state, name), values]) for name, values in new.items()
        }
        state = state._replace(filled=state.filled + used, told=state.told + used * n, **rows)
        if state.filled == self._sizes[0]:
            return self._solved(state)
        return self._stepped(state, answers, n, rng)

    def _stepped(self, state: State, answers: Answers, n: int, rng: np.random.Generator) -> State:
        """Every trajectory goes to the first of its n next states, or to a new start."""
        d, over = self.setup.dimension, state.stops > 0
        walk = _walking(answers.next_states, answers.next_features, d, slice(None, None, n))
        if over.any():
            fresh = _walking(answers.initial_states, answers.initial_features, d, slice(None))
            for name, values in walk.items():
                values[over] = fresh[name]
        return state._replace(stops=self._stops(len(over), rng), **walk)

    def _stops(self, n: int, rng: np.random.Generator) -> FloatArray:
        return (rng.random(n) < 1.0 - self.setup.discount).astype(np.float64)

    def _solved(self, state: State) -> State:
        gamma = self.setup.discount
        try:
            found = solve_states(state.here, state.ahead, state.rewards, state.starts, gamma)
        except SolverError:
            return state
        q = state.rewards + gamma * (state.ahead @ found.w)
        G = state.phi.T @ state.phi
        G[np.diag_indices_from(G)] += RIDGE * max(np.trace(G) / len(G), np.finfo(float).tiny)
        theta = np.linalg.lstsq(G, state.phi.T @ q, rcond=None)[0]
        return state._replace(theta=theta, value=found.value)

    # Results.

    def policy(self, state: State) -> ReadOut:
        return ReadOut(state.theta.copy(), 1.0 if math.isnan(state.value) else math.inf)

    def beliefs(self, state: State) -> Beliefs | None:
        return None if math.isnan(state.value) else Beliefs(state.theta)

    def verdict(self, state: State) -> Verdict | None:
        if state.filled < self._sizes[0]:
            return doubts.NO_LP()
        if math.isnan(state.value):
            return doubts.NOT_VERIFIED(N=self._sizes[1], discount=self.setup.discount)
        return None

    def numbers(self, state: State) -> Mapping[str, float]:
        return {"constraints": float(state.filled), "lp_value": state.value}

    def told(self, state: State) -> int:
        return state.told

    def check(self, state: State) -> None:
        d, A, c = self.setup.dimension, self.setup.n_actions, len(state.stops)
        checks.require_finite(state, "theta", "phi", "here", "ahead", "starts", "walk_phi")
        checks.require_within(state, 0.0, 1.0, "rewards", "stops", "walk_free")
        N, n = self._sizes
        shapes = {"walk_phi": (c, A, d), "walk_free": (c, A), "stops": (c,), "rewards": (state.filled,)}
        shapes |= dict.fromkeys(("phi", "here", "ahead"), (state.filled, d))
        for name, shape in shapes.items():
            if getattr(state, name).shape != shape:
                raise ValueError(f"'{name}' has shape {getattr(state, name).shape}, where {shape} is right")
        if (
            not 0 <= state.filled <= N
            or state.told != state.filled * n
            or len(state.walk_states) != c
            or c > 64
        ):
            raise ValueError("its constraints do not fit together")
        if (
            (state.filled and not c)
            or (c and not state.walk_free.any(axis=1).all())
            or state.starts.shape[1:] != (d,)
        ):
            raise ValueError("its trajectories do not fit together")
        if not math.isnan(state.value) and not abs(state.value) <= checks.LARGEST:
            raise ValueError("the optimum of its LP is no number")


def _walking(states: Any, phi: Any, d: int, which: slice) -> dict[str, Any]:
    """The fields of trajectories that are at some of these states."""
    free = available(phi)[which]
    rows = np.where(free[..., None], dense(phi, d)[which], 0.0)
    return {"walk_states": states[which].copy(), "walk_phi": rows, "walk_free": free.astype(np.float64)}
