"""`PlugIn`: sample once, then solve. The planner to start with wherever there is a core set."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..base import SHARE, FloatArray, InputError, IntArray, available_memory, require_count, require_positive
from ..core import unit_vectors
from ..features import as_sparse, entries, is_sparse, take
from ..sampled import (
    LARGE,
    MOST_COORDINATES,
    NOTHING,
    Accuracy,
    Sampled,
    Solution,
    Stored,
    Through,
    before,
    choose_ridge,
    losses,
    sobol,
)
from ..sampled import stored as kept
from ..simulate import REPEATED, Answers, Ask
from .doubts import Status, Verdict, few
from .protocol import Planner, ReadOut, Setup

FIRST = {"sobol": 8, "independent": 16}  # samples a core pair at the first solve; halves of fewer say little
BLIND = (
    128  # samples a core pair where they tell no policy from the uniform one: few may not show what matters
)
BATCH = 65_536  # pairs in an ask at most: what a fault of the simulator can cost
INITIAL = 512  # draws from nu0: values are told by them


class State(NamedTuple):
    """The samples (`kept.py`), and what came of them."""

    counts: IntArray  # [3] rows filled, samples a pair at the last solve, seed of the quasi-random noise
    theta: FloatArray  # [d]
    numbers: FloatArray  # [5] `NUMBERS`
    rewards: FloatArray  # [room]
    next_index: IntArray  # [room, A, k]; of dense features empty
    next_weight: FloatArray  # [room, A, k or d]
    initial_index: IntArray  # [n0, A, k]; of dense features empty
    initial_weight: FloatArray  # [n0, A, k or d]


NUMBERS = ("residual", "settled", "error", "scale", "reached")


@dataclass(frozen=True, kw_only=True, eq=False)
class PlugIn(Planner):
    """Sample once, then solve: N next states for each core pair, and the policy that is optimal for them.

    The sampled model has m core pairs and is solved exactly, by policy iteration through the core set (`bellman.py`).
    N grows from 8 or 16 until the stopping rule is met or the budget is used. Where the simulator is a function of
    its noise, all core pairs get the same scrambled Sobol points: errors are smaller, and those that are common to all
    actions do not change the policy (`inventory`: sub .0025 after 7,000 queries, .0040 after 113,000 independent ones).

    For an exact core set of a linear MDP this is the plug-in estimator of Wang, Yan & Fan (2021): the value lost falls
    like 1 / sqrt(N) at worst, without any step size. With misspecified features it finds what value iteration through the
    core would find, which no theorem calls good. Memory is m N features: for samples that should not be stored there
    is `core-mirror`.

    Parameters
    ----------
    samples: N, where it shall be fixed; else the budget or the accuracy decides.
    noise: "sobol", "independent", or "auto": Sobol where the simulator is a function of its noise.
    output: "greedy", or the scale b of softmax(b phi . theta) with theta in units of the normalised value.
    ridge: of the least squares through core features that are not unit vectors, relative to their size. By default the one
        with the least Bellman error on held-out samples.
    epsilon: stop when the value lost by sampling is estimated to be at most this: a normalised value, or "1%" of what the
        optimum is above the uniform policy. An estimate of the statistical error only (`halving.py`), missed now and then.
        Where memory ends before, so do the samples, and the run says so; with a budget alone, one that does not fit is
        refused.
    """

    name: ClassVar[str] = "plug-in"
    growing: ClassVar[frozenset[str]] = kept.GROWING

    samples: int | None = None
    noise: str = "auto"
    output: str | float = "greedy"
    ridge: float | None = None
    epsilon: float | str | None = None
    setup: Setup | None = field(default=None, repr=False)
    most: int | None = field(default=None, repr=False)  # samples a pair that memory has room for

    def __post_init__(self) -> None:
        require_count("PlugIn", samples=self.samples)
        if self.noise not in ("auto", "sobol", "independent"):
            raise InputError(
                f"`PlugIn(noise=...)` must be 'auto', 'sobol' or 'independent', got {self.noise!r}."
            )
        if self.output != "greedy" and isinstance(self.output, str):
            raise InputError(
                f"`PlugIn(output=...)` must be 'greedy' or a positive scale, got {self.output!r}."
            )
        if self.output != "greedy":
            require_positive("PlugIn", output=self.output)  # type: ignore[arg-type]
        if self.ridge != 0:
            require_positive("PlugIn", ridge=self.ridge)
        accuracy = Accuracy.of(self.epsilon)
        if accuracy is not None:  # one spelling of each: a resume compares settings
            share = f"{float(str(self.epsilon).strip().removesuffix('%')):.15g}%"
            object.__setattr__(self, "epsilon", share if accuracy.relative else accuracy.epsilon)

    def resolve(self, setup: Setup) -> PlugIn:
        if setup.core_features is None:
            raise InputError("PlugIn needs a core set. Give one, or use Grow, which finds its own pairs.")
        least, noise = setup.m * (self.samples or 1), self.noise
        if noise == "auto":
            able = 0 < (setup.noise_dimension or 0) <= MOST_COORDINATES and setup.budget >= least + REPEATED
            noise = "sobol" if able else "independent"
        if setup.budget < least + (REPEATED if noise == "sobol" else 0):
            raise InputError(
                f"A budget of {setup.budget} queries is below {least}: PlugIn queries each of the {setup.m} core pairs "
                f"{self.samples or 1} times at least, and with Sobol noise {REPEATED} pairs once more. Raise the budget."
            )
        if noise == "sobol" and not 0 < (setup.noise_dimension or 0) <= MOST_COORDINATES:
            raise InputError(
                "`PlugIn(noise='sobol')` needs a simulator that is a function of its noise: a NoiseModel, or a "
                "CompiledModel with a noise_kernel. Use noise='independent' with this one."
            )
        return replace(self, setup=setup, noise=noise, most=None)._within_memory()

    def _within_memory(self) -> PlugIn:
        """With a budget all of it must fit, or nothing is asked; with an accuracy, N stops doubling where memory ends."""
        setup = self._setup
        phi = setup.core_features
        assert phi is not None
        k = entries(phi).shape[1]
        row = (
            2 * setup.n_actions * k * (12 if is_sparse(phi) else 8) + 64
        )  # twice: arrays are copied when they grow
        units = unit_vectors(phi) is not None
        systems = 16 * (min(setup.m**2, LARGE) if units else setup.m * setup.dimension)
        room = SHARE * available_memory()
        most = int(min(max(room - systems, 0.0) / (row * setup.m), 2.0**40))
        least = self._cap if self.epsilon is None else min(self._cap, FIRST[self.noise])
        if most < least:
            raise InputError(
                f"PlugIn would store the features of {least * setup.m:,} next states, with its systems about "
                f"{(row * least * setup.m + systems) / 1e9:.3g} GB, and {room / 1e9:.3g} GB may be used here. "
                "Give a smaller budget or `samples`, or use the planner core-mirror, which stores none."
            )
        return replace(self, most=most)

    # Ask and tell.

    def init(self, rng: np.random.Generator) -> State:
        setup, seed = self._setup, int(rng.integers(0, 2**62))
        numbers = np.full(len(NUMBERS), np.nan)
        return State(
            np.array([0, 0, seed]), np.zeros(setup.dimension), numbers, **kept.empty(setup.n_actions)
        )

    def size(self, state: State) -> int | None:
        rows = int(state.counts[0])
        if state.numbers[NUMBERS.index("reached")] == 1.0:
            return None
        left = self._target(int(state.counts[1])) * self._setup.m - rows
        return min(left, BATCH) if left > 0 else None

    def ask(self, state: State, rng: np.random.Generator) -> Ask:
        size, m, start = self.size(state), self._setup.m, int(state.counts[0])
        assert size is not None
        rows = np.arange(start, start + size)
        noise = None
        if self.noise == "sobol":
            points = sobol(
                int(state.counts[2]), self._setup.noise_dimension or 1, start // m, rows[-1] // m + 1
            )
            noise = points[rows // m - start // m]
        return Ask(core_index=rows % m, n_initial=INITIAL if start == 0 else 0, noise=noise)

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        state = kept.appended(state, answers)
        N = self._target(int(state.counts[1]))
        return self._solved(state, N) if state.counts[0] == N * self._setup.m else state

    def warm_up(self, state: State, made_up: Callable[[Ask], Answers], rng: np.random.Generator) -> None:
        """A solve with two samples of at most four core pairs: a whole one may take long, and memory for all samples."""
        phi = self._setup.core_features
        assert phi is not None
        pairs = np.argsort(-np.abs(entries(phi)).max(axis=1))[:4]  # not all zero
        setup = replace(self._setup, core_features=take(phi, pairs), m=len(pairs), budget=100)
        small = replace(self, setup=setup, samples=2, most=None)
        small.tell(small.init(rng), made_up(Ask(core_index=np.tile(pairs, 2), n_initial=2)), rng)

    def _target(self, solved: int) -> int:
        """Samples a pair at the next solve: doubling, towards an accuracy with a step between; at the end the cap."""
        N = FIRST[self.noise]
        while solved >= N:
            twice = 1 << N.bit_length()  # the next power of two
            between = 3 * twice // 4  # of a quasi-random sequence still balanced
            N = between if self.epsilon is not None and between > N else twice
        return min(N, self._cap)

    @property
    def _cap(self) -> int:
        """Most samples a pair. Of a quasi-random sequence whole quarters of a doubling: odd ends unbalance it."""
        cap = (self._setup.budget - (REPEATED if self.noise == "sobol" else 0)) // self._setup.m
        if self.noise == "sobol" and self.samples is None:
            quarter = max(1, 2 ** (cap.bit_length() - 3))
            cap -= cap % quarter
        return min(cap, self.samples or cap, self.most or cap)

    # Solving.

    def _solved(self, state: State, N: int) -> State:
        """Solve on the first N samples of each pair; a function of them and the seed alone, however they were asked for."""
        setup = self._setup
        sampled = self._sampled(state, N)
        assert setup.core_features is not None
        ridge = (
            choose_ridge(sampled, setup.core_features, setup.dimension) if self.ridge is None else self.ridge
        )
        through = Through(setup.core_features, setup.dimension, ridge)
        solution = sampled.solve(through, sampled.equal())
        error = scale = math.nan
        reached = 0.0
        accuracy = Accuracy.of(self.epsilon)
        if accuracy is not None and FIRST[self.noise] <= N:
            error, scale = self._error(state, N, sampled, through, solution)
            seen = not scale <= NOTHING or N >= BLIND
            reached = float(seen and solution.settled and error <= accuracy.target(scale))
        numbers = np.array([solution.residual, float(solution.settled), error, scale, reached])
        counts = np.array([state.counts[0], N, state.counts[2]])
        return state._replace(counts=counts, theta=solution.theta, numbers=numbers)

    def _error(
        self, state: State, N: int, sampled: Sampled, through: Through, solution: Solution
    ) -> tuple[float, float]:
        """The estimated loss, of N samples and of the size before; the optimum less uniform in the sampled model."""
        rng = np.random.default_rng([int(state.counts[2]), N])
        rewards, M, shared = state.rewards[: N * through.m].reshape(N, -1), before(N), self.noise == "sobol"
        lost, scale = losses(sampled, through, solution, rewards, rng, shared)
        fewer = self._sampled(state, M)
        there = fewer.solve(through, fewer.equal(), start=solution.theta)
        more, _ = losses(fewer, through, there, rewards[:M], rng, shared)
        return float(np.maximum(lost, more).max()), scale

    def _sampled(self, state: State, N: int) -> Sampled:
        n, m = N * self._setup.m, self._setup.m
        rewards = state.rewards[:n].reshape(N, m).mean(axis=0)
        next_phi, initial = as_sparse(kept.following(state, n)), as_sparse(kept.initial(state))
        return Sampled(next_phi, rewards, initial, self._setup.discount)

    # What came of it.

    def policy(self, state: State) -> ReadOut:
        if not state.theta.any():  # before the first solve: uniform
            return ReadOut(state.theta.copy(), 1.0)
        if self.output == "greedy":
            return ReadOut(state.theta.copy(), math.inf)
        return ReadOut(state.theta * (1 - self._setup.discount), float(self.output))

    def stored(self, state: State) -> Stored | None:
        return kept.stored(state, self._setup)

    def verdict(self, state: State) -> Verdict | None:
        residual, settled, error, scale, reached = state.numbers
        cure = "Add extreme pairs to the core set (coreplan.core.select), or use Grow."
        if state.counts[1] == 0:
            reason = "No solve was finished: the policy is the uniform one. Resume, or raise the budget."
            return Verdict(Status.DOUBTFUL, reason)
        if not settled:
            reason = (
                f"Value iteration through the core set did not settle (residual {residual:.2g} of the value range): "
                f"features reached lie outside the core's hull, or the core is ill-conditioned. Raise `ridge`. {cure}"
            )
            return Verdict(Status.DIVERGED, reason)
        if self.epsilon is not None and not reached:
            return Verdict(Status.NOT_REACHED, self._not_reached(int(state.counts[1]), error, scale))
        if self.epsilon is not None:
            reason = f"Sampling is estimated to lose at most {error:.2g} of normalised value: the statistical error only."
            return Verdict(Status.FINISHED, reason)
        return (
            few(int(state.counts[1]), self._setup.m, kept.all_same(state, self._setup.m))
            if self.samples is None
            else None
        )

    def _not_reached(self, N: int, error: float, scale: float) -> str:
        """Why N samples a core pair are not enough, and what would be."""
        setup, accuracy, fixed = self._setup, Accuracy.of(self.epsilon), self._cap == self.samples
        assert accuracy is not None
        target, first = accuracy.target(scale), FIRST[self.noise]
        if first > N:
            least = first * setup.m + (REPEATED if self.noise == "sobol" else 0)
            cure = f"raise `samples` to {first}" if fixed else f"raise the budget to {least:,}"
            return f"Accuracy is estimated from {first} samples a core pair on: {cure}."
        if math.isnan(error) or math.isnan(target):
            return (
                "The accuracy cannot be estimated: a policy solved on half of the samples has no finite value in the "
                "model of all, as happens where features reached lie outside the core's hull. Add extreme pairs to the core "
                "set (coreplan.core.select), or give a budget and no epsilon."
            )
        if scale <= NOTHING and N < BLIND:
            return (
                f"{N} samples a core pair tell no policy from the uniform one. If that is so in truth, {BLIND} say it, and "
                f"else they may show what matters: raise the budget to {BLIND * setup.m + REPEATED:,}."
            )
        cure = f"Raise the budget above {setup.budget:,}"
        if fixed:
            cure = f"Raise `samples` above {self.samples}"
        elif self._cap == self.most:
            cure = "No more samples fit into memory: give more of it"
        return (
            f"The value lost by sampling is estimated to be up to {error:.2g}, and {target:.2g} was asked for. "
            f"{cure}, or ask for less."
        )

    def check(self, state: State) -> None:
        kept.check(state, self.init(np.random.default_rng(0)), self._setup)

    def diagnostics(self, state: State) -> Mapping[str, float]:
        numbers = dict(zip(NUMBERS, map(float, state.numbers), strict=True))
        return {
            "samples": float(state.counts[1]),
            "error": numbers["error"],
            "theta_norm": float(np.linalg.norm(state.theta)),
        }

    def settings(self) -> Mapping[str, Any]:
        return {name: getattr(self, name) for name in ("samples", "noise", "output", "ridge", "epsilon")}
