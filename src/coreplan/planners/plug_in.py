"""`PlugIn`: sample once, then solve. The planner to start with if there is a core set."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base import FloatArray, InputError, IntArray, as_choice, as_count, as_number, settle
from ..core import Frame, Lift
from ..features import as_sparse, entries, take
from ..sampled import (
    GROWING,
    MOST_COORDINATES,
    NOTHING,
    Accuracy,
    Beliefs,
    FixedPoint,
    Room,
    SampledModel,
    Stored,
    Thinning,
    Trial,
    all_same,
    balanced,
    check_rows,
    check_solved,
    choose_ridge,
    differ,
    estimated_loss,
    initial_features,
    next_features,
    next_packed,
    next_rows,
    next_size,
    no_rows,
    repeated_pairs,
    rescale,
    sobol_points,
    stored,
    without_room,
)
from ..simulate import REPEATED, Answers, Ask
from . import doubts
from .doubts import Verdict, few_samples, no_noise
from .protocol import CoreSetup, Earlier, Planner, ReadOut, Tunable

# Samples per core pair at the first solve; halves of fewer samples would not be informative.
FIRST = {"sobol": 8, "independent": 16}
BLIND = 128  # samples per core pair before "no policy differs from the uniform one" is believed
BATCH = 65_536  # the most pairs per ask
HEAVY = 20_000_000  # entries of next features above which a solve starts from that of fewer samples
SEEN = 10_000  # next states at which two solves are compared
INITIAL = 512  # draws from nu0, by which values are estimated


class State(NamedTuple):
    """The result of the last solve, and the samples (`sampled/samples.py`)."""

    seed: int  # of the quasi-random noise
    theta: FloatArray  # [d]
    before: FloatArray  # [d], theta of the solve before the last one; zero if there is none
    residual: float  # of the last solve, as a fraction of the value range
    settled: bool  # whether the last solve found a solution
    error: float  # estimated loss of sampling; NaN if no accuracy was requested
    scale: float  # optimum minus uniform value in the sampled model
    reached: bool  # whether the requested accuracy is reached
    drew: bool  # whether the simulator has drawn random numbers
    random: bool  # whether it counts as random
    certain: bool  # whether it counts as deterministic
    repeats: int  # queries that were repeated and gave the same answer
    probed: int  # queries that were repeated only to compare, and are not stored
    steady: NDArray[np.bool_]  # [m], core pairs that have given one answer only and are asked more rarely
    thinned: bool  # whether there were any, so that asks are no longer whole sweeps
    owed: IntArray  # [k], rows of samples that were taken for granted and are to be queried after all
    filled: int  # the fields of `Rows`
    solved: int
    rewards: FloatArray
    next_index: IntArray
    next_weight: FloatArray
    next_step: IntArray
    initial_index: IntArray
    initial_weight: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class PlugIn(Planner):
    """Sample once, then solve: draws N next states per core pair, and finds the policy that is optimal for them.

    The sampled model has m core pairs and is solved exactly, by policy iteration through the core set
    (`sampled/policy_iteration.py`). N grows from 8 or 16 until the stopping rule is met or the budget is used up. If the
    simulator is a function of its noise, all core pairs get the same scrambled Sobol points: errors are smaller, and errors
    that are common to all actions do not change the policy. A deterministic simulator is queried once per core pair if it
    declares that it has no noise, or if it draws no random numbers and some queries that are repeated agree
    (`sampled/repeats.py`). With an accuracy, core pairs that never vary are asked a quarter as often
    (`sampled/thinning.py`). (On `inventory`, sub = (optimum - value) / (optimum - uniform)
    is .0025 after 7,000 queries, and .0040 after 113,000 queries with independent noise.)

    For an exact core set of a linear MDP this is the plug-in estimator of Wang, Yan & Fan (2021): the value lost falls
    at least as fast as 1 / sqrt(N), without any step size. With misspecified features it finds what value iteration through
    the core set would find, for which there is no guarantee. Memory is m N features; `core-mirror` stores no samples.

    Parameters
    ----------
    samples: N, if it is to be fixed; by default the budget or the accuracy determines it.
    noise: "sobol", "independent", or "auto": Sobol if the simulator is a function of its noise.
    output: "greedy", or the scale b of softmax(b phi . theta) with theta in units of the normalised value.
    ridge: of the least squares on core features that are not unit vectors, relative to their size. By default the one
        with the least Bellman error on held-out samples.
    epsilon: stop when the value lost by sampling is estimated to be at most this: a normalised value, or "1%" of the
        difference between the optimum and the uniform policy. The estimate covers the statistical error only
        (`sampled/loss.py`), and is occasionally too small. If memory runs out first, sampling stops and the run says so;
        with a budget alone, a budget that does not fit into memory is refused.
    """

    name: ClassVar[str] = "plug-in"
    growing: ClassVar[frozenset[str]] = GROWING | {"owed"}
    tunable: ClassVar[Tunable] = {"ridge": (1e-12, 1e-2)}

    samples: int | None = None
    noise: str = "auto"
    output: str | float = "greedy"
    ridge: float | None = None
    epsilon: float | str | None = None

    def __post_init__(self) -> None:
        settle(self, as_count, "samples")
        settle(self, as_choice, "noise", options=("auto", "sobol", "independent"))
        if not isinstance(self.output, str) or self.output != "greedy":
            settle(self, as_number, "output", what="'greedy' or a positive scale", good=lambda b: b > 0.0)
        settle(
            self, as_number, "ridge", what="a finite number of at least 0", good=lambda ridge: ridge >= 0.0
        )
        accuracy = Accuracy.of(
            self.epsilon
        )  # one spelling for each accuracy, since a resume compares settings
        object.__setattr__(self, "epsilon", None if accuracy is None else accuracy.spelled)

    def resolve(self, setup: CoreSetup) -> PlugIn:
        least, noise = setup.m * (self.samples or 1), self.noise
        if noise == "auto":
            able = 0 < (setup.noise_dimension or 0) <= MOST_COORDINATES and setup.budget >= least + REPEATED
            noise = "sobol" if able else "independent"
        if setup.budget < least + (REPEATED if noise == "sobol" else 0):
            raise InputError(
                f"A budget of {setup.budget} queries is below {least}: PlugIn queries each of the {setup.m} core pairs "
                f"{self.samples or 1} times at least, and with Sobol noise {REPEATED} pairs once more. Raise the budget."
            )
        if noise == "sobol" and setup.noise_dimension == 0:
            noise = "independent"  # there is none
        if noise == "sobol" and not 0 < (setup.noise_dimension or 0) <= MOST_COORDINATES:
            raise InputError(
                "`PlugIn(noise='sobol')` needs a simulator that is a function of its noise: a NoiseModel, or a "
                "CompiledModel with a noise_kernel. Use noise='independent' with this one."
            )
        setup.frame.require_fit()
        planner = replace(self, noise=noise).bind(setup)
        planner._require_memory()
        return planner

    @cached_property
    def _room(self) -> Room:
        return Room(self.setup.frame, self.setup.n_actions)

    def _require_memory(self) -> None:
        """Raise InputError if a budget does not fit into memory; with an accuracy, only if the first solve does not."""
        cap = self._wanted()
        self._room.require("PlugIn", cap if self.epsilon is None else min(cap, FIRST[self.noise]))

    # Ask and tell.

    def init(self, rng: np.random.Generator) -> State:
        return State(
            seed=int(rng.integers(0, 2**62)), theta=np.zeros(self.setup.dimension),
            before=np.zeros(self.setup.dimension), residual=math.nan, settled=False, error=math.nan, scale=math.nan,
            reached=False, drew=False, random=False, certain=False, repeats=0, probed=0, thinned=False,
            steady=np.zeros(self.setup.m, dtype=bool), owed=np.zeros(0, dtype=np.int64), **no_rows(self.setup.n_actions),
        )  # fmt: skip

    def size(self, state: State) -> int | None:
        if state.reached or state.certain:
            return None
        if self._trial.probing(state):
            return min(self._trial.needed(state) - state.repeats, BATCH)
        if len(state.owed):
            return min(len(state.owed), BATCH)
        stop = self._stop(state)
        return len(self._thinning.rows(state, stop)) if stop > state.filled else None

    def ask(self, state: State, rng: np.random.Generator) -> Ask | None:
        size, m, start = self.size(state), self.setup.m, state.filled
        if size is None:
            return None
        if self._trial.probing(state):
            return Ask(core_index=repeated_pairs(state.seed, m, state.repeats, state.repeats + size))
        rows = state.owed[:size] if len(state.owed) else self._thinning.rows(state, self._stop(state))
        noise = None
        if self.noise == "sobol" and size:
            noise = sobol_points(state.seed, self.setup.noise_dimension, rows // m)
        elif self._trial.declared:
            noise = np.empty((size, 0))  # so that it is checked that the simulator needs none
        sweep = start // m if not state.thinned and size % m == 0 and noise is None else None
        return Ask(core_index=rows % m, n_initial=0 if start else INITIAL, noise=noise, sweep=sweep)

    def _stop(self, state: State) -> int:
        """The row after the last one of the next ask."""
        m = self.setup.m
        return state.filled + (next_rows(state.filled, self._target(state) * m, m, BATCH) or 0)

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        m, look = self.setup.m, self._trial.look(state)
        if self._trial.probing(state):
            state = self._trial.compared(state, answers)
        elif len(state.owed):
            state = self._thinning.repaid(state, answers)
        else:
            state = self._thinning.told(state, answers, self._stop(state))
            state = state._replace(drew=state.drew or answers.drew)
            if look is not None and state.filled == look * m:
                state = self._trial.looked(state, look)
        due = (
            not self._trial.probing(state) and state.filled == self._target(state) * m and not len(state.owed)
        )
        return self._solved(state, state.filled // m) if due or state.certain else state

    def warm_up(self, state: State, made_up: Callable[[Ask], Answers], rng: np.random.Generator) -> None:
        """Solve with two samples of at most four core pairs; a whole solve may take long, and memory for all samples."""
        phi = self.setup.core_features
        pairs = np.argsort(-np.abs(entries(phi)).max(axis=1))[:4]  # not all zero
        frame = Frame(take(phi, pairs), self.setup.dimension)
        small = replace(self, samples=2).bind(replace(self.setup, frame=frame, budget=100))
        small.tell(small.init(rng), made_up(Ask(core_index=np.tile(pairs, 2), n_initial=2)), rng)

    def _target(self, state: State) -> int:
        """Samples per core pair at the next solve: doubled each time (with an accuracy, in two steps), up to the cap."""
        first = self._trial.look(state) or FIRST[self.noise]
        return min(next_size(first, state.solved, finer=self.epsilon is not None), self._cap(state))

    def _cap(self, state: State) -> int:
        """The most samples per core pair that budget, settings and memory allow."""
        return min(self._wanted(state.probed, int(state.steady.sum())), self._room.most(state))

    def _wanted(self, probed: int = 0, steady: int = 0) -> int:
        """The most samples per core pair that budget and settings allow, if `probed` queries are not stored."""
        queries = self.setup.budget - probed - (REPEATED if self.noise == "sobol" else 0)
        cap = self._thinning.affordable(queries, steady)
        if self.noise == "sobol" and self.samples is None:
            cap = balanced(cap)
        return min(cap, self.samples or cap)

    @cached_property
    def _trial(self) -> Trial:
        """How it is found out whether the simulator is deterministic. With Sobol noise it is not: it would say so."""
        setup = self.setup
        free = self.samples is None
        return Trial(
            m=setup.m, active=free and self.noise == "independent", first=FIRST[self.noise],
            declared=free and setup.noise_dimension == 0 and setup.budget >= setup.m + REPEATED,
            budget=setup.budget, to_accuracy=self.epsilon is not None,
        )  # fmt: skip

    @cached_property
    def _thinning(self) -> Thinning:
        """Which samples are queried. With a budget alone all are, since it is to be used."""
        active = self.samples is None and self.epsilon is not None
        return Thinning(m=self.setup.m, first=FIRST[self.noise], active=active)

    # Solving.

    def _solved(self, state: State, N: int) -> State:
        """Solve on the first N samples of each pair. The result depends on these and the seed only, not on the asks."""
        frame, sampled = self.setup.frame, self._sampled(state, N)
        lift = Lift(frame, choose_ridge(sampled, frame, state.certain) if self.ridge is None else self.ridge)
        solution = sampled.solve(lift, sampled.equal(), start=self._start(state, N, lift))
        state = state._replace(
            solved=N, theta=solution.theta, before=state.theta if state.solved < N else np.zeros(frame.d),
            residual=solution.residual, settled=solution.settled,
        )  # fmt: skip
        accuracy = Accuracy.of(self.epsilon)
        if accuracy is not None and state.certain:
            return self._reached(state, sampled, lift, solution)
        if accuracy is None or FIRST[self.noise] > N:
            return state
        error, scale = estimated_loss(
            lambda M: sampled if M == N else self._sampled(state, M), lift, solution,
            rewards=state.rewards[: N * lift.m].reshape(N, -1), rng=np.random.default_rng([state.seed, N]),
            shared=self.noise == "sobol", accuracy=accuracy, last=self._cap(state) == N,
        )  # fmt: skip
        seen = not scale <= NOTHING or N >= BLIND
        reached = bool(seen and solution.settled and error <= accuracy.target(scale))
        state = state._replace(error=error, scale=scale, reached=reached)
        return state if reached else self._thinning.begun(state)

    def _start(self, state: State, N: int, lift: Lift) -> FloatArray | None:
        """Where the solve starts: from that of an eighth of the samples if it is large, which saves most of its steps."""
        size = N * self.setup.m * self.setup.n_actions * entries(self.setup.core_features).shape[1]
        if N < 8 or size < HEAVY:
            return None
        small = self._sampled(state, N // 8)
        return small.solve(lift, small.equal()).theta

    def _reached(self, state: State, sampled: SampledModel, lift: Lift, solution: FixedPoint) -> State:
        """The state of a run whose simulator is deterministic: sampling loses nothing."""
        best, uniform = (sampled.value(lift, sampled.equal(), *p) for p in (solution[:2], (None, None)))
        if state.drew and best - uniform <= NOTHING:  # rare noise may be all that matters
            return state._replace(certain=False, random=True, repeats=0)
        return state._replace(error=0.0, scale=best - uniform, reached=solution.settled)

    def _sampled(self, state: State, N: int) -> SampledModel:
        n, m = N * self.setup.m, self.setup.m
        rewards = state.rewards[:n].reshape(N, m).mean(axis=0)
        initial = as_sparse(initial_features(state))
        return SampledModel(next_packed(state, n), rewards, initial, self.setup.discount)

    # Results.

    def policy(self, state: State) -> ReadOut:
        if not state.theta.any():  # before the first solve: uniform
            return ReadOut(state.theta.copy(), 1.0)
        if self.output == "greedy":
            return ReadOut(state.theta.copy(), math.inf)
        return ReadOut(state.theta * (1 - self.setup.discount), float(self.output))

    def beliefs(self, state: State) -> Beliefs | None:
        return Beliefs(state.theta) if state.solved else None

    def earlier(self, state: State) -> Earlier | None:
        if not state.before.any() or not differ(
            as_sparse(next_features(state, SEEN)), state.theta, state.before
        ):
            return None
        policy = self.policy(state._replace(theta=state.before))
        return Earlier(policy, Beliefs(state.before), "on fewer samples per core pair")

    def stored(self, state: State) -> Stored | None:
        return stored(state, self.setup.frame, self.setup.discount)

    def verdict(self, state: State) -> Verdict | None:
        if state.solved == 0:
            return doubts.NO_SOLVE()
        if not state.settled:
            return doubts.NOT_SETTLED(residual=state.residual)
        if state.certain:
            return no_noise(state.solved, state.repeats, self.epsilon is not None)
        if self.epsilon is not None:
            return doubts.REACHED(error=state.error) if state.reached else self._not_reached(state)
        same = all_same(state, self.setup.m, state.solved)
        return few_samples(state.solved, self.setup.m, same) if self.samples is None else None

    def _not_reached(self, state: State) -> Verdict:
        """Why the samples are not enough for the requested accuracy, and what would be."""
        N, m, accuracy = state.solved, self.setup.m, Accuracy.of(self.epsilon)
        assert accuracy is not None
        fixed = self._cap(state) == self.samples
        target, first = accuracy.target(state.scale), FIRST[self.noise]
        if first > N:
            least = first * m + (REPEATED if self.noise == "sobol" else 0)
            cure = f"raise `samples` to {first}" if fixed else f"raise the budget to {least:,}"
            return doubts.TOO_FEW_TO_TELL(first=first, cure=cure)
        if math.isnan(state.error) or math.isnan(target):
            return doubts.NO_ESTIMATE()
        if state.scale <= NOTHING and N < BLIND:
            return doubts.NOTHING_TOLD_APART(N=N, blind=BLIND, least=BLIND * m + REPEATED)
        cure = f"Raise the budget above {self.setup.budget:,}"
        if fixed:
            cure = f"Raise `samples` above {self.samples}"
        elif self._cap(state) == self._room.most(state):
            cure = "No more samples fit into memory: give more of it"
        return doubts.NOT_REACHED(error=state.error, target=target, cure=cure)

    def saved(self, state: State) -> State:
        return without_room(state)

    def rescaled(self, state: State, scale: float, shift: float) -> State:
        state = rescale(state, scale, shift)
        return self._solved(state, state.solved) if state.solved else state

    def check(self, state: State) -> None:
        s = self.setup
        check_rows(state, self.init(np.random.default_rng(0)), s.frame, s.n_actions, s.radius, full=True)
        check_solved(state)
        self._thinning.check(state)

    def told(self, state: State) -> int | None:
        return state.filled + state.probed if self.epsilon is None else None

    def numbers(self, state: State) -> Mapping[str, float]:
        norm = float(np.linalg.norm(state.theta))
        return {"samples": float(state.solved), "error": state.error, "theta_norm": norm}
