"""`SampledLP`: the paper's relaxed LP on samples that were drawn once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from ..base import FloatArray, InputError, IntArray, require_count
from ..core import Coordinates
from ..features import Phi, as_matrix, available, flat, length
from ..sampled import Pair, SolverError, Stored, solve_pair
from ..sampled import stored as kept
from ..simulate import Answers, Ask
from .doubts import Status, Verdict, few, with_stored
from .primal_dual.rates import default_D
from .protocol import Planner, ReadOut, Setup, stored_setup

LARGEST = 100_000  # constraints: sampled states times actions
BATCH = 4096  # pairs in an ask at most: what a fault of the simulator can cost
PRICE = 2.0  # of slack; the multipliers sum to 1 where the core is complete, so that slack is never worth it there
SPREAD = 0.5  # share of the objective that lies on all sampled next states
_ACTIVE = 1e-5  # slack, or the multipliers of theta's bounds, above this are no rounding


class Found(NamedTuple):
    """The verified optimum of the sampled LP, and what to plan with."""

    theta: FloatArray  # [d], V backed up once
    value: float
    slack: float  # the largest
    bound: float  # what the bounds on theta are worth: the sum of their multipliers
    error: float  # how far the value may be off


class State(NamedTuple):
    """The samples (`kept.py`), and what the LP made of them."""

    counts: IntArray  # [2] rows filled, samples a pair at the last solve
    theta: FloatArray  # [d]
    found: FloatArray  # [4] value, slack, bound, error; NaN where no optimum was verified
    rewards: FloatArray  # [room]
    next_index: IntArray  # [room, A, k]
    next_weight: FloatArray  # [room, A, k or d]
    initial_index: IntArray  # [n0, A, k]
    initial_weight: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class SampledLP(Planner):
    """The paper's relaxed LP on samples: n next states of every core pair are drawn once, and the LP on them is solved.

    It is `eq:QRALP-dual` with P^ in place of P:

        min <start, V>  s.t.  V(y) >= phi(y, a) . theta at every sampled state,  Phi~ theta + slack >= r + gamma P^ V.

    Two things keep it finite where the core set is incomplete: bounds on theta, and slack at a price above its worth
    where the core is complete. Either being used makes the result doubtful. Half of the start is spread over all sampled
    states, so that V is pinned down everywhere (for a complete core it does not change the optimum). The LP's own theta
    is not unique and never acted on: V is backed up once, theta = pinv(Phi~) (r + gamma P^ V), and the policy is greedy.

    On an exact linear MDP this is the optimal policy of the sampled model, the same as value iteration finds on it, in
    more time: it is here for study, and for its verified optimum. At most 100,000 constraints.

    Parameters
    ----------
    samples: n, for each core pair; by default what the budget allows, and more where a resumed run's budget is raised.
    n_initial: draws from nu0.
    """

    name: ClassVar[str] = "sampled-lp"
    first_budget: ClassVar[int] = 10_000
    growing: ClassVar[frozenset[str]] = kept.GROWING

    samples: int | None = None
    n_initial: int = 100
    setup: Setup | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_count("SampledLP", samples=self.samples, n_initial=self.n_initial)

    def resolve(self, setup: Setup) -> SampledLP:
        planner = replace(self, setup=setup)
        n = planner._n
        if n < 1 or n * setup.m > setup.budget:
            raise InputError(
                f"A budget of {setup.budget} queries is below {max(n, 1) * setup.m} = {max(n, 1)} samples of each of the "
                f"m = {setup.m} core pairs. Raise the budget."
            )
        require_solvable(n, setup, self.n_initial)
        _ = planner._coordinates  # refuses what is too large, before samples are paid for
        return planner

    def init(self, rng: np.random.Generator) -> State:
        setup, counts = self._setup, np.zeros(2, dtype=np.int64)
        return State(counts, np.zeros(setup.dimension), np.full(4, np.nan), **kept.empty(setup.n_actions))

    @property
    def _n(self) -> int:
        """Samples of each core pair."""
        return self.samples or self._setup.budget // self._setup.m

    def size(self, state: State) -> int | None:
        start = int(state.counts[0])
        left = self._n * self._setup.m - start
        # Batches end where they would in a run that was given its last budget at once, and so do blocks of noise (of the
        # default size).
        return min(left, BATCH - start % BATCH) if left > 0 else None

    def ask(self, state: State, rng: np.random.Generator) -> Ask:
        size, start = self.size(state), int(state.counts[0])
        assert size is not None
        pairs = np.arange(start, start + size) % self._setup.m
        return Ask(core_index=pairs, n_initial=0 if start else self.n_initial)

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        state = kept.appended(state, answers)
        return self._solved(state) if state.counts[0] == self._n * self._setup.m else state

    def _solved(self, state: State) -> State:
        """Solve on all samples. They are paid for, so that they are kept where no answer can be verified."""
        state = state._replace(counts=np.array([state.counts[0], self._n]))
        samples = self.stored(state)
        assert samples is not None
        try:
            found = solve_sampled(samples, self._coordinates)
        except SolverError:
            found = Found(np.zeros(self._setup.dimension), *[math.nan] * 4)
        return state._replace(theta=found.theta, found=np.array(found[1:]))

    def warm_up(self, state: State, made_up: Callable[[Ask], Answers], rng: np.random.Generator) -> None:
        """Nothing of it is compiled, and an LP would be solved for nothing."""

    def on(self, stored: Stored) -> tuple[ReadOut, Verdict | None]:
        """The LP on samples that another planner stored: the policy, and the doubts, if any."""
        planner = replace(self, setup=stored_setup(stored))
        n = length(stored.next_features) // stored.m
        require_solvable(n, planner._setup, length(stored.initial_features))
        found = solve_sampled(stored, planner._coordinates)
        verdict = with_stored(planner._verdict(found), stored)
        return ReadOut(found.theta, math.inf), verdict

    # What came of it.

    def policy(self, state: State) -> ReadOut:
        return ReadOut(state.theta.copy(), 1.0 if math.isnan(state.found[0]) else math.inf)

    def stored(self, state: State) -> Stored | None:
        return kept.stored(state, self._setup)

    def verdict(self, state: State) -> Verdict | None:
        if state.counts[1] == 0:
            reason = "No LP was solved: the policy is the uniform one. Resume, or raise the budget."
            return Verdict(Status.DOUBTFUL, reason)
        if math.isnan(state.found[0]):
            return Verdict(
                Status.DIVERGED,
                f"No answer for the LP on {state.counts[1]} samples of each core pair could be verified: the policy is the "
                f"uniform one. Core features that are nearly dependent and a discount near 1 ({self._setup.discount:g}) do "
                "that. The samples are kept. Choose core pairs or features further apart, lower the discount, or use "
                "another planner.",
            )
        doubt = self._verdict(Found(state.theta, *(float(x) for x in state.found)))
        return doubt or (
            few(int(state.counts[1]), self._setup.m, kept.all_same(state, self._setup.m))
            if self.samples is None
            else None
        )

    def _verdict(self, found: Found) -> Verdict | None:
        if max(found.slack, found.bound) <= _ACTIVE:
            return None
        return Verdict(
            Status.DOUBTFUL,
            f"The LP is finite only by its slack ({max(found.slack, 0.0):.2g}) or its bounds on theta (worth "
            f"{found.bound:.2g}): the core set is incomplete, or the features cannot represent the values. Add core pairs "
            "or features.",
        )

    def check(self, state: State) -> None:
        kept.check(state, self.init(np.random.default_rng(0)), self._setup)

    def diagnostics(self, state: State) -> Mapping[str, float]:
        return {
            "theta_norm": float(np.linalg.norm(state.theta)),
            "lp_value": float(state.found[0]),
            "slack": float(state.found[1]),
            "bound": float(state.found[2]),
        }

    def settings(self) -> Mapping[str, Any]:
        return {"samples": self.samples, "n_initial": self.n_initial}

    @cached_property
    def _coordinates(self) -> Coordinates:
        assert self._setup.core_features is not None, "plan() sees to it"
        return Coordinates(self._setup.core_features, self._setup.dimension)


# The LP.


def require_solvable(n: int, setup: Setup, n_initial: int) -> None:
    """An InputError where n samples of each core pair make a larger LP than is solved."""
    m, A = setup.m, setup.n_actions
    rows = (n * m + n_initial) * A
    if rows > LARGEST:
        most = (LARGEST // A - n_initial) // m
        cure = "Lower `n_initial`, take fewer core pairs"
        if most > 0:
            cure = f"Set `samples` to {most}, or the budget to {most * m:,}"
        raise InputError(
            f"{n} samples of each of m = {m} core pairs and {n_initial} initial states, with {A} actions, make an LP of "
            f"{rows:,} constraints; at most {LARGEST:,} are solved. {cure}, or use another planner."
        )


def solve_sampled(stored: Stored, co: Coordinates) -> Found:
    """The sampled LP, verified; V backed up once."""
    m, d, gamma = co.m, co.d, stored.discount
    next_rows, allowed = _matrix(stored.next_features, d)
    initial_rows, allowed0 = _matrix(stored.initial_features, d)
    rows, which = _distinct(sparse.vstack([next_rows, initial_rows]), np.concatenate([allowed, allowed0]))
    n0, N = len(allowed0), int(which.max()) + 1
    n = (len(which) - n0) // m
    P = sparse.csr_matrix(
        (np.full(m * n, 1.0 / n), (np.repeat(np.arange(m), n), which[: m * n])), shape=(m, N)
    )
    start = np.bincount(which[m * n :], minlength=N) / n0
    start = (1 - gamma) * ((1 - SPREAD) * start + SPREAD * np.asarray(P.mean(axis=0)).ravel())
    D = default_D(stored.core_features, d, gamma)
    pair = _pair(rows, P, stored.rewards, co.core, start, gamma, D)
    found = solve_pair(
        pair, "sampled", 1.0 / (1.0 - gamma), lambda: "This should not happen: theta is bounded."
    )
    V, slack, k = found.w[:N], found.w[N + d :], rows.features.shape[0]
    q = stored.rewards + gamma * (P @ V)
    theta = q if co.identity else co.pinv @ q
    bounds = found.y[k + 2 * m :]
    return Found(theta, float(start @ V), float(slack.max()), float(bounds.sum()), found.error)


class _Rows(NamedTuple):
    """The pairs (y, a) of distinct sampled states, y their number."""

    features: Any  # [K, d] csr
    state: IntArray  # [K]


def _pair(
    rows: _Rows, P: Any, r: FloatArray, core: FloatArray, start: FloatArray, gamma: float, D: float
) -> Pair:
    """w = (V, theta, slack): V - phi theta >= 0; Phi~ theta + slack - gamma P^ V >= r; slack >= 0; |theta_i| <= D."""
    K, (m, d), N = len(rows.state), core.shape, len(start)
    E = sparse.csr_matrix((np.ones(K), (np.arange(K), rows.state)), shape=(K, N))
    I_m, I_d = sparse.identity(m), sparse.identity(d)
    GT = sparse.bmat(
        [[E, -rows.features, None], [-gamma * P, sparse.csr_matrix(core), I_m], [None, None, I_m],
         [None, I_d, None], [None, -I_d, None]], format="csr",
    )  # fmt: skip
    c = np.concatenate([np.zeros(K), r, np.zeros(m), np.full(2 * d, -D)])
    g = np.concatenate([start, np.zeros(d), np.full(m, PRICE)])
    return Pair(c, sparse.csc_matrix(GT.T), g, N)


def _matrix(phi: Phi, d: int) -> tuple[Any, Any]:
    """All features of a batch, `[n A, d]` csr with forbidden rows empty; and which actions are allowed, `[n, A]`."""
    allowed = available(phi)
    matrix = sparse.csr_matrix(as_matrix(flat(phi), d))
    matrix.data[np.repeat(~allowed.ravel(), np.diff(matrix.indptr))] = 0.0
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix, allowed


def _distinct(matrix: Any, allowed: Any) -> tuple[_Rows, IntArray]:
    """The allowed rows of states with distinct features, and for each state which of those it is, `[n]`."""
    n, A = allowed.shape
    matrix = sparse.csr_matrix(matrix)
    number: dict[bytes, int] = {}
    first: list[int] = []
    which = np.empty(n, dtype=np.int64)
    for i in range(n):
        a, b = matrix.indptr[i * A], matrix.indptr[(i + 1) * A]
        shape = np.diff(matrix.indptr[i * A : (i + 1) * A + 1]).tobytes() + allowed[i].tobytes()
        key = shape + matrix.indices[a:b].tobytes() + matrix.data[a:b].tobytes()
        which[i] = number.setdefault(key, len(number))
        if which[i] == len(first):
            first.append(i)
    states = np.array(first)
    keep = (states[:, None] * A + np.arange(A))[allowed[states]]
    return _Rows(matrix[keep], np.repeat(np.arange(len(states)), allowed[states].sum(axis=1))), which
