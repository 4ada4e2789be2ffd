"""`Search`: direct search over theta, by the cross-entropy method on rollouts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ...base import (
    FloatArray,
    InputError,
    IntArray,
    as_array,
    as_count,
    as_number,
    as_positive,
    settle,
    shown,
)
from ...features import Features, Phi, fingerprint
from ...simulate import REPEATED, Answers, Ask
from .. import doubts
from ..doubts import Verdict
from ..protocol import ReadOut, Setup, Tunable
from .checking import check_state
from .comparing import Comparing
from .distribution import best, decided, drawn, fitted, normalised, roots
from .kernels import act, add_spread
from .state import COMPARE, DONE, GROWING, PILOT, PROBE, SEARCH, State, at_end, bounds, fresh_state

LARGEST = 500  # the largest dimension
LENGTH = 4.0  # horizons after which a rollout is cut
ELITE = 0.1  # of a generation
FEWEST, MOST = 50, 1000  # candidates of a generation, but for small budgets
GENERATIONS = 50  # that a budget is cut into while rollouts are short
FEW = 10  # generations below which the result is doubtful
PROBES = 16  # rollouts before the first generation
NOISE, FADES = (
    0.5,
    8.0,
)  # variance that is added after a generation, and the number of generations in which it fades
AGING = 0.5  # weight of the spread of earlier generations


@dataclass(frozen=True, kw_only=True, eq=False)
class Search(Comparing):
    """Direct search over theta, for small d where values are hard to fit, or as a last improvement of a policy.

    Candidates theta are drawn from a normal distribution and rolled out greedily, side by side, all from the same initial
    state and, where the simulator is a function of its noise, with the same noise. The distribution is moved to the best
    tenth, the *elite*, and widened by noise that fades: the cross-entropy method with noise (Szita & Lorincz 2006). Rollouts
    stop as soon as it is certain who the elite is, or after 4 horizons, or at an end.

    A candidate's score is its discounted sum of rewards. Where processes end and the elite lives longer than the
    horizon 1 / (1 - discount), the discount cannot tell its members apart any more; then the score's horizon is the
    elite's mean life. Such a score is a surrogate: `plan` measures what the policy earns at the true discount.

    Parameters
    ----------
    start: a SoftmaxPolicy or a vector `[d]` to begin at; it keeps its place unless paired rollouts at the end, a quarter of
        the budget, show a gain that they can resolve. None: begin at zero.
    horizon: fixes the score's horizon, in units of 1 / (1 - discount); at least 1.
    rollouts: per candidate and generation.
    width: the first candidates' standard deviation, relative to a start; 1 without a start.

    No guarantee is known. It needs far more queries than `Grow` where values can be fitted: use it where they cannot. As a
    last improvement it seldom finds a gain that can be resolved; what it costs then is its budget, not the start.
    """

    name: ClassVar[str] = "search"
    tunable: ClassVar[Tunable] = {"horizon": (1.0, 5.0), "rollouts": (1, 4), "width": (0.05, 2.0)}
    needs_core: ClassVar[bool] = False
    first_budget: ClassVar[int] = 1_000_000
    growing: ClassVar[frozenset[str]] = GROWING
    visited: ClassVar[frozenset[str]] = frozenset({"chain_states"})

    start: Any = field(default=None, metadata={"array": True})
    # Of a start that is a policy: its scale (None: greedy), and the fingerprint of its features. They are read from it.
    start_scale: float | None = field(default=None, metadata={"array": True})
    start_features: str = field(default="", metadata={"array": True})
    horizon: float | None = None
    rollouts: int = 1
    width: float = 0.3

    def __post_init__(self) -> None:
        settle(self, as_count, "rollouts")
        settle(self, as_positive, "start_scale")
        settle(
            self, as_number, "width", what="a positive number of at most 100", good=lambda w: 0.0 < w <= 100.0
        )
        settle(self, as_number, "horizon", what="a finite number of at least 1", good=lambda h: h >= 1.0)
        if not isinstance(self.start_features, str):
            raise InputError(
                f"`Search(start_features=...)` must be a fingerprint, got {shown(self.start_features)}."
            )
        policy = getattr(self.start, "policy", self.start)  # a plan is taken by its policy
        if hasattr(policy, "theta") and hasattr(policy, "scale"):
            scale = float(policy.scale)
            object.__setattr__(self, "start_scale", scale if math.isfinite(scale) else None)
            if isinstance(policy.features, Features):
                object.__setattr__(self, "start_features", fingerprint(policy.features))
            policy = policy.theta
        if policy is not None:
            policy = as_array("Search", "a policy, or a vector of finite numbers", 1, start=policy).astype(
                float
            )
            if len(policy) and np.abs(policy).max() > 1e100:
                raise InputError(
                    "`Search(start=...)` has numbers beyond 1e100: divide it, which changes no greedy action."
                )
        object.__setattr__(self, "start", policy)

    def resolve(self, setup: Setup) -> Search:
        if setup.dimension > LARGEST:
            raise InputError(
                f"Search draws candidates from all of R^d, and these features have d = {setup.dimension}, more than "
                f"{LARGEST}. Use fewer features, or the planner `grow`."
            )
        if self.start is not None and len(self.start) != setup.dimension:
            raise InputError(
                f"`Search(start=...)` has {len(self.start)} numbers and the features have dimension {setup.dimension}. "
                "Start from a policy for these features."
            )
        if self.start_features and setup.features and self.start_features != setup.features:
            raise InputError(
                "`Search(start=...)` is a policy for other features, whose numbers mean something else here. Start from a "
                "policy that was planned with the features of this problem."
            )
        return self.bind(setup)

    # Ask and tell.

    def init(self, rng: np.random.Generator) -> State:
        state = fresh_state(self.setup.dimension, self._steps)
        return state if self.start is None else state._replace(theta=self.start.copy())

    def size(self, state: State) -> int | None:
        if state.rolling:
            return len(state.chain)
        return 0 if state.stage in (PILOT, COMPARE) or self._room(state) else None

    def ask(self, state: State, rng: np.random.Generator) -> Ask | None:
        if self.size(state) is None:
            return None
        if not state.rolling:
            return Ask(states=np.zeros(0), actions=np.zeros(0, dtype=np.int64), n_initial=self._starts(state))
        noise, k = None, self.setup.noise_dimension
        if k:  # common to all candidates
            noise = rng.random((state.score.shape[1], k))[state.chain % state.score.shape[1]]
        return Ask(states=state.chain_states, actions=state.chain_action, noise=noise)

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        if not state.rolling:
            return self._begun(state, answers, rng)
        return self._stepped(state, answers, rng)

    def _begun(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        """Initial states have come: every candidate starts from each of them, but for a probe, which has one each."""
        assert answers.initial_states is not None and answers.initial_features is not None
        if state.stage == DONE:  # a run that goes on with a larger budget
            state = state._replace(stage=SEARCH, chosen=-1, wanted=-1)
        x, k = answers.initial_states, len(answers.initial_states)
        thetas, scales = self._candidates(state, rng)
        N = len(thetas)
        chain = np.arange(N * k)
        state = state._replace(
            rolling=True, thetas=thetas, scales=scales, score=np.zeros((N, k)), true_score=np.zeros((N, k)),
            life=np.zeros((N, k), dtype=np.int64), open=np.ones((N, k), dtype=np.bool_), t=0, chain=chain,
            chain_states=x[chain % k].copy(), new_spread=np.zeros_like(state.spread), new_states=0,
        )  # fmt: skip
        state = state._replace(
            chain_action=self._actions(state, answers.initial_features, chain % k, rng),
            length=state.length or float(self._cut(state)),
        )
        return state if N * k <= self._left(state) else self._over(state)

    def _candidates(self, state: State, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """The candidates of the next stage, thetas `[N, d]` and scales `[N]`."""
        if state.stage == PROBE:
            return state.theta[None].copy(), np.full(1, self._start_scale if self.start is not None else 1.0)
        if state.stage == SEARCH:
            thetas = drawn(rng, self._population(state), state.center, state.var, roots(state.spread).inverse)
            return thetas, np.full(len(thetas), math.inf)
        return np.stack([self.start, state.theta]), np.array([self._start_scale, math.inf])

    def _actions(self, state: State, phi: Phi, rows: IntArray, rng: np.random.Generator) -> IntArray:
        n = len(rows)
        u = np.zeros(n) if np.isinf(state.scales).all() else rng.random(n)
        actions, p = np.empty(n, dtype=np.int64), np.empty(self.setup.n_actions)
        act(phi, rows, state.chain // state.score.shape[1], state.thetas, state.scales, u, p, actions)
        return actions

    def _stepped(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        """One step of all rollouts."""
        assert answers.next_features is not None
        phi, y, r = answers.next_features, answers.next_states, answers.rewards
        gamma, true = 1.0 - 1.0 / state.steps, self.setup.discount
        ended = at_end(state.chain_states, y, phi, self.setup.dimension)
        for score, discount in ((state.score, gamma), (state.true_score, true)):
            worth = np.where(ended, r / (1.0 - discount), r)  # an end pays the same for ever
            score.reshape(-1)[state.chain] += discount**state.t * worth
        state.open.reshape(-1)[state.chain] = ~ended
        state.life.reshape(-1)[state.chain] += 1
        rows = np.flatnonzero(~ended)
        state = state._replace(
            told=state.told + len(r), t=state.t + 1, chain=state.chain[rows], chain_states=y[rows].copy()
        )
        state = self._seen(state, phi, rows)
        state = state._replace(chain_action=self._actions(state, phi, rows, rng))
        full = state.t >= self._cut(state) or len(rows) == 0 or len(rows) > self._left(state)
        if full or (state.stage == SEARCH and self._decided(state, gamma)):
            return self._over(state)
        return state

    def _decided(self, state: State, gamma: float) -> bool:
        return decided(*bounds(state, gamma, cut=False), self._elite(state))

    def _seen(self, state: State, phi: Phi, rows: IntArray) -> State:
        """Note how far features differ among actions, at some of the states."""
        A, d = self.setup.n_actions, self.setup.dimension
        if state.stage > SEARCH or (state.t >= 64 and state.t % 16):
            return state
        some = rows[:: max(1, -(-len(rows) // max(1, min(16, 400_000 // (A * d * d)))))]
        add_spread(phi, some, np.empty((A + 1, d)), state.new_spread)
        return state._replace(new_states=state.new_states + len(some))

    # Generations.

    def _over(self, state: State) -> State:
        """All rollouts of this stage are over, or the budget is."""
        state = state._replace(rolling=False)
        if state.stage == PROBE:
            state = self._with_spread(state, 0.0)
            root = roots(state.spread).root
            center = normalised(root @ state.theta)[0]
            state = state._replace(
                stage=SEARCH, center=center, var=np.full(len(center), self._width**2), length=0.0
            )
        elif state.stage == SEARCH:
            state = self._updated(state)
        elif state.stage == PILOT:
            return self._piloted(state)
        else:
            return self._compared(state)
        return self._next(state)

    def _with_spread(self, state: State, keep: float) -> State:
        if state.new_states == 0:
            return state
        new = state.new_spread / state.new_states
        return state._replace(spread=keep * state.spread + (1.0 - keep) * new)

    def _updated(self, state: State) -> State:
        """The distribution moves to the elite, unless the budget cut the rollouts too early to tell who that is."""
        gamma, k = 1.0 - 1.0 / state.steps, state.score.shape[1]
        low, high = bounds(state, gamma, cut=state.t >= self._cut(state))
        e = self._elite(state)
        if state.t < min(state.steps, self._cut(state)) and not decided(low, high, e):
            return state
        if np.ptp(low) == 0.0:
            return state._replace(skipped=state.skipped + 1)
        elite = best(low, high, e)
        state = self._with_spread(state, AGING)
        root, inverse = roots(state.spread)
        center, var = fitted(state.thetas[elite], root)
        g = state.generations + 1
        return state._replace(
            generations=g, center=center, var=var + NOISE * self._width**2 * math.exp(-g / FADES),
            theta=center @ inverse, steps=self._new_steps(state, elite), length=float(state.life.sum()) / (len(low) * k),
            elite_score=float(low[elite].mean()) * (1.0 - gamma),
        )  # fmt: skip

    def _new_steps(self, state: State, elite: IntArray) -> float:
        """The horizon of the next generation's scores, in steps: that of the problem, or the elite's mean life if longer."""
        if self.horizon is not None or state.open.all():
            return state.steps
        return max(self._steps, float(state.life[elite].mean()))

    def _room(self, state: State) -> bool:
        """Whether the budget has room for the first step of another generation."""
        return state.stage == PROBE or self._left(state) >= self._population(state) * self.rollouts

    def _next(self, state: State) -> State:
        """The next generation if there is room for it; else the comparison, or the end."""
        if self._room(state):
            return state
        compare = self.start is not None and state.generations > 0
        return state._replace(stage=PILOT if compare else DONE)

    # What follows from state and setup.

    @property
    def _steps(self) -> float:
        return (self.horizon or 1.0) / (1.0 - self.setup.discount)

    @property
    def _width(self) -> float:
        return 1.0 if self.start is None else self.width

    @property
    def _start_scale(self) -> float:
        return math.inf if self.start_scale is None else self.start_scale

    def _starts(self, state: State) -> int:
        """How many initial states the next rollouts start from."""
        if state.stage == PROBE:
            return max(1, min(PROBES, self.setup.budget // 100))
        return self._pairs(state) if state.stage in (PILOT, COMPARE) else self.rollouts

    def _cut(self, state: State) -> int:
        """The number of steps after which rollouts are cut."""
        if state.stage == PROBE:
            most = self.setup.budget // (30 * self._starts(state))
            return max(1, min(math.ceil(LENGTH * self._steps), most))
        return math.ceil(LENGTH * state.steps)

    def _left(self, state: State) -> int:
        """Queries that are left for this stage; after the end, for more generations."""
        reserved = 0 if state.stage in (PILOT, COMPARE) else self._reserved
        checked = REPEATED if self.setup.noise_dimension else 0
        return int(self.setup.budget) - checked - reserved - state.told

    def _population(self, state: State) -> int:
        """N, the size of the next generation: a fiftieth of the budget, within limits."""
        budget, cost = self.setup.budget - self._reserved, self.rollouts * (state.length or self._cut(state))
        fewest = int(np.clip(budget / (2 * FEW * cost), 10, FEWEST))
        return int(np.clip(budget / (GENERATIONS * cost), fewest, MOST))

    def _elite(self, state: State) -> int:
        N = len(state.thetas)
        return max(round(ELITE * N), min(5, N // 2), 1)

    # Results.

    def policy(self, state: State) -> ReadOut:
        if self.start is not None and state.chosen != 1:
            return ReadOut(self.start.copy(), self._start_scale)
        return ReadOut(state.theta.copy(), math.inf if state.theta.any() else 1.0)

    def verdict(self, state: State) -> Verdict | None:
        if state.generations == 0:
            return doubts.SAME_SCORES(n=state.told) if state.skipped else doubts.NO_GENERATION()
        if state.generations < FEW:
            return doubts.FEW_GENERATIONS(generations=state.generations, least=FEW)
        if self.start is not None and state.chosen != 1:
            return doubts.START_STAYS()
        return None

    def told(self, state: State) -> int:
        return state.told

    def check(self, state: State) -> None:
        check_state(state, self.setup)

    def numbers(self, state: State) -> Mapping[str, float]:
        size = float(np.linalg.norm(state.center))
        return {
            "generations": float(state.generations),
            "elite_score": state.elite_score,
            "horizon": state.steps,
            "rollout": state.length,
            "width": math.sqrt(float(state.var.sum())) / size if size else math.nan,
        }
