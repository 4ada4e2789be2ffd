"""`Grow`: planning without a core set. It finds the pairs worth querying, and reports if it has not found enough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...base import FloatArray, InputError, IntArray, States, as_count, as_number, as_positive, checks, settle
from ...core import CoreSet
from ...features import Sparse, available
from ...sampled import (
    Beliefs,
    Equations,
    completed,
    differ,
    gram,
    greedy,
    halves,
    kept_gain,
    random_action,
    require_fit,
    resolved,
    stored_pairs,
    which_end,
)
from ...simulate import Answers, Ask
from .. import doubts
from ..doubts import Verdict
from ..protocol import Earlier, ReadOut, Setup, Tunable
from .checking import check_ends, check_race, check_samples, check_systems
from .kernels import absorb_all, first_S, inverse, leverage, measured, no_gram, pick, uncertainty
from .race import POOL, Racing, race_actions, remembered, stepped
from .state import (
    CHAINS,
    CURIOUS,
    DRAW,
    ENDS,
    GATHER,
    GREEDY,
    RACE,
    RACING,
    STORED,
    UNIFORM,
    WEIGHTS,
    State,
    alike,
    appended,
    ends_of,
    features_told,
    noisy,
    noticed_ends,
    room,
    samples,
)

RANDOM = 0.1  # fraction of random actions in a greedy chain
LENGTH = 4.0  # mean length of a chain in horizons 1 / (1 - gamma)
NOISY, NOISELESS = 1e-2, 1e-3  # the ridge with a simulator that has noise, and with one that has shown none
BELIEF = 1e-5  # the ridge with which the policy is evaluated: that of the search would flatten its values
KEPT = 0.8  # fraction of the gain that must remain on the other half of the samples
FLIPPING = (
    0.05  # policy iteration has not settled if its last step changed more than this share of next actions
)
QUICK = 600  # up to this dimension the frontier is updated at every step: d x d numbers per sample


@dataclass(frozen=True, kw_only=True, eq=False)
class Grow(Racing):
    """Planning without a core set: least-squares policy iteration on pairs that the planner finds by itself.

    In each round, chains of states are rolled out by querying next states again, and at every visited state EVERY
    action is queried once. Some chains act greedily on the policy so far, some uniformly, and some are curious: they
    follow a policy that is rewarded for features that the samples hardly cover. After the round LSTD-Q policy iteration
    fits theta on all samples. It uses a shorter horizon, with which misspecified features do less harm (measured on
    `queue-network-cut:features=polynomial`: greedy with the true discount loses .05, with 1.5 times 1 - gamma .017).
    Then it examines every next state that it has SEEN: if phi' (sum phi phi' + g I)^-1 phi exceeds 1, a pair is within
    reach that the samples do not cover. As long as there are such places, most chains are sent there, step by step.

    If no noise was seen, a quarter of the budget goes to a race: the policies of the last rounds, and other fits in which
    samples at the rim of what was met count less, are rolled out from common initial states, and the best is returned
    (`race.py`).

    The result is doubtful if such a place is left at the end, if all rewards were the same, or if policies fitted on two
    halves of the samples keep less than 80% of their gain on each other's half. These are warnings, not a certificate.

    Parameters
    ----------
    rounds: the number of rounds, each with one solve; at least 2.
    horizon: the policy is fitted with discount 1 - horizon (1 - gamma); at least 1.
    ridge: of the least squares, relative to the features' size; positive. None: 1e-2, or 1e-3 if no noise was seen.

    No guarantee is known. It needs no core set, and returns the pairs that it queried as one. It takes 8 A K bytes of
    memory per query for features with K nonzeros, 12 A K with a mask. Up to d = 1,500 it solves d x d systems. Above, it
    solves them by products with the samples (`sampled/systems.py`), in O(K) per sample and product: 50,000 queries at
    d = 100,000 with 8 nonzeros take half a minute. The frontier is then that of the coordinates (`kernels.py`).
    """

    name: ClassVar[str] = "grow"
    tunable: ClassVar[Tunable] = {"rounds": (5, 50), "horizon": (1.0, 5.0), "ridge": (1e-5, 1e-1)}
    needs_core: ClassVar[bool] = False
    first_budget: ClassVar[int] = 100_000
    growing: ClassVar[frozenset[str]] = frozenset(STORED + CHAINS + ENDS + RACING)
    visited: ClassVar[frozenset[str]] = frozenset(
        {"chain_states", "states", "next_states", "pool_states", "run_states"}
    )

    rounds: int = 20
    horizon: float = 1.35
    ridge: float | None = None

    def __post_init__(self) -> None:
        settle(self, as_count, "rounds", least=2)
        settle(self, as_positive, "ridge")
        settle(self, as_number, "horizon", what="a finite number of at least 1", good=lambda h: h >= 1.0)

    def resolve(self, setup: Setup) -> Grow:
        least = self.rounds * setup.n_actions
        if setup.budget < least:
            raise InputError(
                f"A budget of {setup.budget} queries is below {least}: Grow queries every action at each state it visits, "
                f"in {self.rounds} rounds. Raise the budget."
            )
        require_fit(
            f"Grow would store the features of {setup.budget:,} next states, and solve systems of size {setup.dimension:,}",
            room(setup),
            "Give a smaller budget, or fewer features.",
        )
        return self.bind(setup)

    # Ask and tell.

    def init(self, rng: np.random.Generator) -> State:
        d1 = self.setup.dimension + 1
        none, no_int = np.zeros(0), np.zeros(0, dtype=np.int64)
        kinds: tuple[Any, Any] = (np.int32, np.float32)
        index, weight, indices, weights = (np.zeros((0,) * n, dtype=t) for n in (2, 3) for t in kinds)
        return State(
            filled=0, rounds=0, solved=0, theta=np.zeros(d1), half=np.zeros(d1), curious=np.zeros(d1),
            leverage=math.inf, S=first_S(d1 - 1), gram=no_gram(d1 - 1), end_index=indices,
            end_weight=weights, end_rewards=none, gain_kept=1.0, changed=0.0, phase=GATHER, random=-1, raced=0,
            began=0, recent=np.zeros((0, d1)), rivals=np.zeros((0, d1)), scores=none, counts=no_int, pool_states=none,
            pool_index=indices, pool_weight=weights, run_live=no_int, run_rival=no_int, run_start=no_int, run_step=0,
            run_sum=none, run_states=none, run_index=indices, run_weight=weights, run_done=np.zeros((0, 0)), kind=no_int,
            ends=none,
            chain_states=none, chain_index=indices, chain_weight=weights, states=none, actions=no_int, next_states=none,
            pair_index=index, pair_weight=weight, next_index=indices, next_weight=weights, rewards=none,
            doubt=none,
        )  # fmt: skip

    def size(self, state: State) -> int | None:
        if len(state.kind) == 0 or state.phase == DRAW:
            return 0
        if state.phase == RACE:
            return len(state.run_rival)
        size = int(available(state.chains).sum())
        return size if self.told(state) + size <= self._gathered(state) else None

    def ask(self, state: State, rng: np.random.Generator) -> Ask | None:
        if self.size(state) is None:
            return None
        if self.size(state) == 0:
            empty = np.zeros(0, dtype=np.int64)
            return Ask(
                states=np.zeros(0), actions=empty, n_initial=POOL if state.phase == DRAW else self._chains
            )
        if state.phase == RACE:
            return Ask(states=state.run_states, actions=race_actions(state))
        chain, action = np.nonzero(available(state.chains))
        return Ask(states=state.chain_states[chain], actions=action, n_initial=int(state.ends.sum()))

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        state, next_phi, initial = features_told(state, answers, self.setup.dimension)
        fresh = None if initial is None else (answers.initial_states, *initial)
        if len(state.kind) == 0:
            assert fresh is not None
            kind = np.full(self._chains, UNIFORM)
            chains: dict[str, Any] = dict(zip(CHAINS[2:], fresh, strict=True))
            return state._replace(kind=kind, ends=self._draw_ends(self._chains, rng), **chains)
        if state.phase == DRAW:
            assert fresh is not None
            return self._drawn(state, fresh)
        assert next_phi is not None
        if state.phase == RACE:
            return self._raced(stepped(state, answers, next_phi, self.setup.discount))
        chain, action = np.nonzero(available(state.chains))
        before = state.filled
        state = appended(state, chain, action, answers, next_phi, self.setup.budget)
        if before:  # the first pairs are asked twice: is there noise?
            state = self._move(state, chain, action, answers.next_states, next_phi, rng)
        if fresh is not None:
            for name, values in zip(CHAINS[2:], fresh, strict=True):
                getattr(state, name)[state.ends > 0] = values
        state = self._with_ends(state, rng)
        if self._round_is_over(state):
            return self._next_round(state)
        step_by_step = state.rounds and state.leverage > 1 and len(state.S) <= QUICK
        return self._to_the_frontier(state, before) if step_by_step else state

    def _move(
        self,
        state: State,
        chain: IntArray,
        action: IntArray,
        y: States,
        next_phi: Sparse,
        rng: np.random.Generator,
    ) -> State:
        """Move each chain to the next state of the action that its policy takes."""
        here = state.chains
        n = len(state.kind)
        u, random = rng.random(n), random_action(available(here), rng.random(n))
        choice, curious = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
        greedy(here, state.theta, choice)
        greedy(here, state.curious, curious)
        choice = np.where(state.kind == CURIOUS, curious, choice)
        choice = np.where((state.kind == UNIFORM) | ((state.kind == GREEDY) & (u < RANDOM)), random, choice)
        taken = np.flatnonzero(action == choice[chain])  # one row per chain, in their order
        return state._replace(
            chain_states=y[taken].copy(),
            chain_index=next_phi.index[taken],
            chain_weight=next_phi.weight[taken],
        )

    def _draw_ends(self, n: int, rng: np.random.Generator) -> FloatArray:
        return (rng.random(n) < (1 - self.setup.discount) / LENGTH).astype(np.float64)

    def _with_ends(self, state: State, rng: np.random.Generator) -> State:
        """Chains end by chance, and at the end of an episode: there after one more query, which may show that it is none."""
        ends = self._draw_ends(len(state.kind), rng)
        here = which_end(state.chains, ends_of(state))
        return state._replace(ends=np.where(here >= 0, 1.0, ends))

    # Rounds.

    def _round_is_over(self, state: State) -> bool:
        k, budget = state.rounds, self._gathered(state)
        # If the budget was raised after the last round, further rounds have the length of the new budget's rounds.
        done = budget * (k + 1) // self.rounds if k < self.rounds else state.solved + budget // self.rounds
        size = self.size(state)
        return size is None or self.told(state) + size > done

    def _next_round(self, state: State) -> State:
        """Solve on all samples, then give the chains new tasks."""
        n, setup = state.filled, self.setup
        ends = noticed_ends(state, n)
        state = state._replace(end_index=ends.index, end_weight=ends.weight, end_rewards=ends.rewards)
        s, ridge = samples(state, n), self._ridge(state)
        equations = Equations(s, setup.dimension, ridge)
        discount = max(0.0, 1 - self.horizon * (1 - setup.discount))
        found = equations.solve_all(discount, state.theta)
        theta = found.theta
        new = slice(state.solved, n)
        gram(Sparse(s.phi.index[new], s.phi.weight[new]), np.ones(new.stop - new.start), state.gram)
        k = s.phi.weight.shape[1]
        S = inverse(state.gram, n, k)
        state.doubt[:n] = measured(s.next_phi, S, state.doubt[:n], new.start)
        state = state._replace(
            rounds=state.rounds + 1,
            solved=n,
            theta=theta,
            recent=remembered(state, theta),
            random=int(noisy(state, n)),
            phase=GATHER,
            half=theta if state.rounds < (self.rounds + 1) // 2 else state.half,
            S=S,
            leverage=float(state.doubt[:n].max()),
        )
        if self.size(state) is None:
            parts = halves(s, setup.dimension, ridge)
            if found.changed > FLIPPING:
                state = state._replace(theta=resolved(parts, found.thetas, discount))
            state = state._replace(gain_kept=float(kept_gain(parts, discount)), changed=found.changed)
            return self._to_the_race(state, s)
        bonus = uncertainty(s.phi, inverse(state.gram, n, k, floor=0.01))
        return self._sent(
            state._replace(curious=equations.iterate(bonus, discount, state.curious, (0.0, 1.0)).theta)
        )

    def _ridge(self, state: State) -> float:
        """What was given; else as much as noise asks for."""
        return self.ridge if self.ridge is not None else NOISY if noisy(state, state.filled) else NOISELESS

    def _sent(self, state: State) -> State:
        """Give the chains new kinds: more are curious while there is a frontier, or while all rewards were the same."""
        c, n = len(state.kind), state.filled
        blind = np.ptp(state.rewards[:n]) == 0
        m = max(1, round(c * (0.75 if blind or state.leverage > 1 else 0.25)))
        kind = np.full(c, UNIFORM)
        # Without noise greedy chains hardly differ from one another, and many of them would outweigh all other samples.
        acting = (c - m) * 2 // 3 if noisy(state, n) else (c - m) // 3
        kind[:m], kind[m : m + acting] = CURIOUS, GREEDY
        state = state._replace(kind=kind)
        return self._relocated(state, least=0.0 if blind else 1.0)

    def _to_the_frontier(self, state: State, before: int) -> State:
        """Let curious chains continue from the frontier as it is now, not from where their last step led."""
        n = state.filled
        absorb_all(
            Sparse(state.pair_index[before:n], state.pair_weight[before:n]), state.S, np.empty(len(state.S))
        )
        leverage(stored_pairs(state, n)[1], state.S, np.arange(before, n), state.doubt[before:n])
        return self._relocated(state, least=1.0)

    def _relocated(self, state: State, least: float) -> State:
        n, curious = state.filled, np.flatnonzero(state.kind == CURIOUS)
        bounds = state.doubt[:n]
        next_phi = stored_pairs(state, n)[1]
        places = pick(next_phi, state.S, bounds, len(curious), least)
        for chain, place in zip(curious, places, strict=False):
            state.chain_states[chain] = state.next_states[place]
            state.chain_index[chain] = next_phi.index[place]
            state.chain_weight[chain] = next_phi.weight[place]
        return state._replace(leverage=float(bounds.max()))

    # Results.

    def policy(self, state: State) -> ReadOut:
        theta = state.theta[:-1].copy()
        return ReadOut(theta, math.inf if theta.any() else 1.0)  # before the first solve: uniform

    def core(self, state: State) -> CoreSet | None:
        n = state.filled
        if n == 0:
            return None
        return CoreSet.distinct(state.states[:n], state.actions[:n])

    def beliefs(self, state: State) -> Beliefs | None:
        """Values of the policy at the true discount; the policy itself was found with a shorter horizon."""
        return self._evaluated(state, state.theta) if state.rounds else None

    def _evaluated(self, state: State, policy: FloatArray) -> Beliefs:
        equations = Equations(samples(state, state.solved), self.setup.dimension, BELIEF)
        theta = equations.evaluate(policy, self.setup.discount)
        completed(theta, ends_of(state), ~equations.sampled, self.setup.discount)
        return Beliefs(theta[:-1], float(theta[-1]))

    def earlier(self, state: State) -> Earlier | None:
        s = samples(state, state.solved)
        if state.rounds <= self.rounds // 2 or not differ(s.next_phi, state.theta, state.half):
            return None
        theta = self._evaluated(state, state.half)
        return Earlier(self.policy(state._replace(theta=state.half)), theta, "on half of the samples")

    def verdict(self, state: State) -> Verdict | None:
        n, choice = state.filled, self.setup.n_actions > 1
        if state.rounds == 0:
            return doubts.NO_ROUND()
        if np.ptp(state.rewards[:n]) == 0:
            return doubts.SAME_REWARDS(n=n)
        if state.leverage > 1:
            return doubts.UNEXPLORED(leverage=state.leverage)
        if state.gain_kept == 0 and choice:
            return doubts.no_gain(alike(*stored_pairs(state, min(n, 4096))[1]))
        if state.gain_kept < KEPT and choice:
            return doubts.HALVES_DISAGREE(kept=state.gain_kept)
        raced = len(state.rivals) > 1  # rollouts have chosen
        return doubts.FLIPPING(changed=state.changed) if state.changed > FLIPPING and not raced else None

    def saved(self, state: State) -> State:
        return state._replace(**{name: getattr(state, name)[: state.filled] for name in STORED})

    def check(self, state: State) -> None:
        like = self.init(np.random.default_rng(0))
        for name in self.growing - self.visited:
            old, new = getattr(like, name), getattr(state, name)
            double = name in WEIGHTS and state.pair_weight.dtype == new.dtype == np.float64
            if (new.dtype != old.dtype and not double) or new.ndim != old.ndim:
                raise ValueError(f"'{name}' has dtype {new.dtype} and shape {new.shape}")
        check_samples(state, self.setup, STORED, CHAINS)
        check_ends(state)
        checks.require_within(state, UNIFORM, CURIOUS, "kind")
        check_systems(state)
        check_race(state, self.setup)

    def numbers(self, state: State) -> Mapping[str, float]:
        return {
            "rounds": float(state.rounds),
            "leverage": state.leverage if math.isfinite(state.leverage) else math.nan,
            "theta_norm": float(np.linalg.norm(state.theta[:-1])),
        }

    @property
    def _chains(self) -> int:
        """The number of chains: a fifth of the budget gives each a few restarts; at least 4, so that every kind has one."""
        setup = self.setup
        states = 0.2 * setup.budget / setup.n_actions
        most = max(1, setup.budget // (self.rounds * setup.n_actions))
        return min(most, 4 * int(np.clip(round(states * (1 - setup.discount) / LENGTH / 4), 1, 64)))
