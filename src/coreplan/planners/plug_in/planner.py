"""`PlugIn`: sample once, then solve. The planner to start with if there is a core set."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...base import FloatArray, InputError, as_choice, as_count, as_number, settle
from ...core import Frame, Lift
from ...features import as_sparse, entries, take
from ...sampled import (
    GROWING,
    MOST_COORDINATES,
    Accuracy,
    Beliefs,
    FixedPoint,
    Room,
    SampledModel,
    Stored,
    Trial,
    append,
    balanced,
    before,
    by_pair,
    check_rows,
    check_solved,
    choose_ridge,
    constant_pairs,
    differ,
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
from ...simulate import REPEATED, Answers, Ask
from .. import doubts
from ..doubts import Verdict, few_samples, no_noise
from ..protocol import CoreSetup, Earlier, Planner, ReadOut, Tunable
from .belief import Wish, not_reached, reached, towards
from .rounds import DOUBLE, in_turn, weighted
from .state import State, check_rounds, numbered, pairs_of, taken

# Samples per core pair at the first solve; halves of fewer samples would not be informative.
FIRST = {"sobol": 8, "independent": 16}
BATCH = 65_536  # the most pairs per ask
HEAVY = 20_000_000  # entries of next features above which a solve starts from that of fewer samples
SEEN = 10_000  # next states at which two solves are compared
INITIAL = 512  # draws from nu0, by which values are estimated


@dataclass(frozen=True, kw_only=True, eq=False)
class PlugIn(Planner):
    """Sample once, then solve: draws N next states per core pair, and finds the policy that is optimal for them.

    The sampled model has m core pairs and is solved exactly, by policy iteration through the core set
    (`sampled/policy_iteration.py`). N grows from 8 or 16 until the stopping rule is met or the budget is used up. If the
    simulator is a function of its noise, all core pairs get the same scrambled Sobol points: errors are smaller, and errors
    that are common to all actions do not change the policy. Where it is predicted to lose less, pairs whose noise decides
    between actions are asked more often than others (`sampled/allocation.py`). With an accuracy, pairs are asked more often
    where a rare outcome that no sample showed would matter (`sampled/unseen.py`). A deterministic simulator is queried
    once per core pair if it declares that it has no noise, or if it draws no random numbers and some queries that are
    repeated agree (`sampled/repeats.py`). (On `inventory`, sub = (optimum - value) / (optimum - uniform) is .0025 after
    7,000 queries.)

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
    growing: ClassVar[frozenset[str]] = GROWING | {"extra", "ahead"}
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
        none = np.zeros(0, dtype=np.int64)
        return State(
            seed=int(rng.integers(0, 2**62)), theta=np.zeros(self.setup.dimension),
            before=np.zeros(self.setup.dimension), residual=math.nan, settled=False, error=math.nan, scale=math.nan,
            reached=False, drew=False, random=False, certain=False, repeats=0, probed=0, extra=none, ahead=none,
            at=0, ended=0, fewer=0, met=0, **no_rows(self.setup.n_actions),
        )  # fmt: skip

    def size(self, state: State) -> int | None:
        if state.reached or state.certain:
            return None
        if self._trial.probing(state):
            return min(self._trial.needed(state) - state.repeats, BATCH)
        if len(state.ahead):
            return min(len(state.ahead), BATCH, max(self._most_rows(state) - state.filled, 0)) or None
        return next_rows(state.filled, self._target(state) * self.setup.m, self.setup.m, BATCH)

    def ask(self, state: State, rng: np.random.Generator) -> Ask | None:
        size, m = self.size(state), self.setup.m
        if size is None:
            return None
        if self._trial.probing(state):
            return Ask(core_index=repeated_pairs(state.seed, m, state.repeats, state.repeats + size))
        rows = np.arange(state.filled, state.filled + size)
        pairs, number, noise = rows % m, rows // m, None
        if len(state.ahead):
            pairs = state.ahead[:size]
            number = numbered(pairs_of(state, m), pairs, m)
        if self.noise == "sobol":
            noise = sobol_points(state.seed, self.setup.noise_dimension, number)
        elif self._trial.declared:
            noise = np.empty((size, 0))  # so that it is checked that the simulator needs none
        whole = not len(state.ahead) and size % m == 0 and noise is None
        sweep = state.filled // m if whole else None
        return Ask(core_index=pairs, n_initial=0 if state.filled else INITIAL, noise=noise, sweep=sweep)

    def following(self, state: State, ask: Ask) -> Ask | None:
        m, look = self.setup.m, self._trial.look(state)
        after = taken(state, ask.size)._replace(filled=state.filled + ask.size)
        if self._trial.undecided(state) or (look is not None and after.filled == look * m):
            return None
        solves = not len(after.ahead) if len(state.ahead) else after.filled == self._target(state) * m
        if solves and (len(state.ahead) or self.samples is None or self.epsilon is not None):
            return None
        if solves:  # a solve changes nothing if the number of samples is fixed
            after = after._replace(solved=after.filled // m)
        return self.ask(after, np.random.default_rng(0))

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        m, look = self.setup.m, self._trial.look(state)
        if self._trial.probing(state):
            state = self._trial.compared(state, answers)
            return self._planned(*self._solve(state, state.filled)) if state.certain else state
        rounds, n = len(state.ahead) > 0, len(answers.rewards)
        state = append(state, answers)._replace(drew=state.drew or answers.drew)
        if rounds:
            state = taken(state, n)
            due = not len(state.ahead) or state.filled >= self._most_rows(state)
        else:
            if look is not None and state.filled == look * m:
                state = self._trial.looked(state, look)
            due = state.filled == self._target(state) * m and not self._trial.probing(state)
        return self._planned(*self._solve(state, state.filled)) if due or state.certain else state

    def warm_up(self, state: State, made_up: Callable[[Ask], Answers], rng: np.random.Generator) -> None:
        """Solve with two samples of at most four core pairs; a whole solve may take long, and memory for all samples."""
        phi = self.setup.core_features
        pairs = np.argsort(-np.abs(entries(phi)).max(axis=1))[:4]  # not all zero
        frame = Frame(take(phi, pairs), self.setup.dimension)
        small = replace(self, samples=2).bind(replace(self.setup, frame=frame, budget=100))
        small.tell(small.init(rng), made_up(Ask(core_index=np.tile(pairs, 2), n_initial=2)), rng)

    def _target(self, state: State) -> int:
        """Samples per core pair at the next solve: doubled each time (with an accuracy, in two steps), up to the cap."""
        if self._calm(state) and not state.solved:
            return state.filled // self.setup.m
        first = self._trial.look(state) or FIRST[self.noise]
        return min(next_size(first, state.solved, finer=self.epsilon is not None), self._cap(state))

    @staticmethod
    def _calm(state: State) -> bool:
        """Whether the simulator drew random numbers, and all repeats gave the same answers."""
        return state.drew and state.repeats > 0 and not state.random

    def _cap(self, state: State) -> int:
        """The most samples per core pair that budget, settings and memory allow, if all have equally many."""
        return min(self._wanted(state.probed), self._room.most(state))

    def _most_rows(self, state: State) -> int:
        """The most rows that budget and memory allow."""
        queries = self.setup.budget - state.probed - (REPEATED if self.noise == "sobol" else 0)
        return min(queries, self._room.most(state) * self.setup.m)

    def _wanted(self, probed: int = 0) -> int:
        """The most samples per core pair that budget and settings allow, if `probed` queries are not stored."""
        cap = (self.setup.budget - probed - (REPEATED if self.noise == "sobol" else 0)) // self.setup.m
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

    # Solving.

    def _solve(self, state: State, rows: int) -> tuple[State, SampledModel, Lift, FixedPoint]:
        """Solve on the first rows. The result depends on these and the seed only, not on the asks."""
        frame, sampled = self.setup.frame, self._sampled(state, rows)
        lift = Lift(frame, choose_ridge(sampled, frame, state.certain) if self.ridge is None else self.ridge)
        solution = sampled.solve(lift, sampled.equal(), start=self._start(state, rows, lift))
        again, ended = rows == state.at, not len(state.ahead) and rows != state.ended
        state = state._replace(
            solved=int(sampled.counts.min()), theta=solution.theta, at=rows, residual=solution.residual,
            settled=solution.settled, before=np.zeros(frame.d) if again else state.theta,
            fewer=state.ended if ended else state.fewer, ended=rows if ended else state.ended,
        )  # fmt: skip
        return state, sampled, lift, solution

    def _planned(self, state: State, sampled: SampledModel, lift: Lift, solution: FixedPoint) -> State:
        """The state with the pairs to ask next, or with its accuracy reached."""
        accuracy = Accuracy.of(self.epsilon)
        if accuracy is not None:
            wish = Wish(
                accuracy=accuracy, first=FIRST[self.noise], shared=self.noise == "sobol", calm=self._calm(state),
                last=self._full(state), free=self.samples is None,
            )  # fmt: skip
            return towards(
                wish, state, sampled, lift, solution, lambda: self._sampled(state, self._fewer(state))
            )
        rounds, N = len(state.extra) > 0, state.solved
        free = self.samples is None and not state.certain and FIRST[self.noise] <= N
        # Whether pairs are asked unequally often is decided at powers of two, which no budget moves.
        if not free or len(state.ahead) or not (rounds or N & (N - 1) == 0):
            return state
        ahead = weighted(
            sampled, lift, solution, int(DOUBLE * state.at), self.noise == "sobol", always=rounds
        )
        if ahead is None and rounds:
            ahead = in_turn(sampled.counts, 2 * sampled.counts)
        return state if ahead is None else state._replace(ahead=ahead)

    def _full(self, state: State) -> bool:
        """Whether no more samples may be asked for."""
        if self.samples is not None:
            return state.filled >= self._cap(state) * self.setup.m
        return state.filled >= self._most_rows(state)

    def _fewer(self, state: State) -> int:
        """The rows of an earlier solve, which the estimate of the loss looks at too."""
        m = self.setup.m
        if not len(state.extra):
            return before(state.at // m) * m if state.at >= 3 * m else state.at
        return state.fewer if state.at == state.ended else state.ended

    def _start(self, state: State, rows: int, lift: Lift) -> FloatArray | None:
        """Where the solve starts: from that of an eighth of the samples if it is large, which saves most of its steps."""
        m, whole = self.setup.m, rows - max(len(state.extra) - (state.filled - rows), 0)
        small = min(whole, rows // 8) // m * m
        size = rows * self.setup.n_actions * entries(self.setup.core_features).shape[1]
        if not small or size < HEAVY:
            return None
        model = self._sampled(state, small)
        return model.solve(lift, model.equal()).theta

    def _sampled(self, state: State, rows: int) -> SampledModel:
        return SampledModel.of_rows(
            next_packed(state, rows), state.rewards[:rows], pairs_of(state, self.setup.m)[:rows], self.setup.m,
            as_sparse(initial_features(state)), self.setup.discount,
        )  # fmt: skip

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
        return stored(state, self.setup.frame, self.setup.discount, pairs_of(state, self.setup.m))

    def verdict(self, state: State) -> Verdict | None:
        m, N, none = self.setup.m, state.solved, state.certain
        if N == 0:
            return doubts.NO_SOLVE()
        if not state.settled:
            return doubts.NOT_SETTLED(residual=state.residual)
        if none:
            return no_noise(N, state.repeats, self.epsilon is not None)
        if self.epsilon is None:
            same = constant_pairs(state, by_pair(pairs_of(state, m), m)).all()
            return few_samples(N, m, bool(same)) if self.samples is None else None
        if state.reached:
            return reached(state.error, N, state.met)
        extra = REPEATED if self.noise == "sobol" else 0
        fixed, cap = self._cap(state) == self.samples, self._cap(state)
        cure = f"Raise the budget above {self.setup.budget:,}"
        if fixed:
            cure = f"Raise `samples` above {self.samples}"
        elif self._room.most(state) * m <= max(state.filled, cap * m):
            cure = "No more samples fit into memory: give more of it"
        accuracy = Accuracy.of(self.epsilon)
        assert accuracy is not None
        return not_reached(state, accuracy.target(state.scale), FIRST[self.noise], m, extra, fixed, cure)

    def saved(self, state: State) -> State:
        return without_room(state)

    def rescaled(self, state: State, scale: float, shift: float) -> State:
        state = rescale(state, scale, shift)
        if not state.solved:
            return state
        solved = self._solve(state, state.at)
        return self._planned(*solved) if state.at == state.filled else solved[0]

    def check(self, state: State) -> None:
        s = self.setup
        check_rows(state, self.init(np.random.default_rng(0)), s.frame, s.n_actions, s.radius, full=True)
        check_solved(state)
        check_rounds(state, s.m)

    def told(self, state: State) -> int | None:
        return state.filled + state.probed if self.epsilon is None else None

    def numbers(self, state: State) -> Mapping[str, float]:
        norm = float(np.linalg.norm(state.theta))
        return {"samples": float(state.solved), "error": state.error, "theta_norm": norm}
