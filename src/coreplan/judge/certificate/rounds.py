"""`certify`: an interval that contains the policy's value and the optimum, from simulator queries alone.

A certificate is made in rounds: a pilot on core pairs, a pilot of rollouts, a split of the queries that are left, the upper
bound, the lower bound, the check of the condition. There is one round, unless a gap is asked for and the first one
misses it: then the samples of a round are the pilot of the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ...base import FloatArray, InputError, Lane, as_count, as_function, as_generator, key_of, one_thread
from ...core import CoreSet
from ...features import best_scores
from ...policy import SoftmaxPolicy, policy_of, with_own_features
from ...problem import Problem
from ...sampled import Transitions, repeats_needed, share_below, together
from ...simulate import Simulator, by_executor, by_log
from ..value import Evaluation, as_confidence, evaluate
from .alone import fit_on_rollouts
from .certificate import ONLY_RANGE, Certificate, assumptions
from .condition import check_condition
from .first_half import Basis, PolicyValues
from .fitted import FittedUpper
from .limits import (
    PER_PAIR,
    as_target,
    as_theta,
    checked_core,
    no_upper,
    require_enough,
    require_room,
    rollouts_at_least,
    says_deterministic,
)
from .lower import Pilot, lower_bound, pilot_queries, predicted_width
from .shared import KnownUpper, SharedUpper
from .spending import Prices

_PILOT = 0.2  # of the queries: on core pairs, evenly
_PILOT_OF = (
    50_000  # queries, of which the pilot is a part where a gap is asked for and so the number is not known
)
_FIT = 0.15  # of the queries where there is no core set: rollouts on which values are fitted; the others give the bound
_RISKS = (0.8, 0.15, 0.05)  # parts of the risk of up to three rounds for a gap
_FEW = 10  # a round for a gap has so many times the least that rollouts take: with fewer, square roots do not predict it
_MORE = 1.3  # times the queries that a round is expected to take


class UpperBound(Protocol):
    """How an upper bound is had, after its pilot."""

    theta: FloatArray  # [d], the estimate of Q*

    def excess(self, n: int) -> float: ...
    def bound(self, simulator: Simulator, n: int) -> tuple[float, Transitions]: ...


@one_thread
@by_executor
@by_log
def certify(
    problem: Problem,
    core: CoreSet | None,
    policy: SoftmaxPolicy,
    theta: FloatArray | None = None,
    *,
    queries: int = 50_000,
    confidence: float = 0.95,
    seed: int | np.random.Generator = 0,
    target: float | None = None,
    tell: Callable[[str], Any] | None = None,
    executor: Any = None,
    log: Any = None,
) -> Certificate:
    """A bound on how far a policy is from optimal, from fresh queries.

    Parameters
    ----------
    core: the core set; None for the problem's own. Where there is none either, or more than 5,000 pairs or features that are
        no multiples of unit vectors, only the policy's value is bounded, from below, and all queries and all of the risk go
        to that bound.
    policy: the policy, or the plan that found it.
    theta: `[d]`, used as it is for the upper bound, in place of one that is fitted. One of your own is rarely better.
    queries: in total; each simulated pair counts. The gap shrinks like 1/sqrt(queries).
    confidence: of both bounds together: each has half of the risk.
    target: a gap, above 0 and at most 1, at which to stop; `queries` are then the most that may be spent. About how many it
        will take is known after a pilot: it is told, and if it is more than `queries` that is an InputError with the number.
    tell: a function that is given that sentence.
    executor: who simulates: "processes", an engine of `coreplan.executors`, or any `concurrent.futures.Executor`; by default
        this process. The answer is the same to the last bit (docs/scale.md).
    log: a file that keeps every paid answer, and from which none that it has is paid for again (docs/scale.md).

    The queries go where they narrow the interval. Bounds are wide if rewards or values have rare large jumps: no method can
    exclude what it has not sampled. A model that says it has no noise (NoiseModel, CompiledModel) is asked once per pair.
    """
    policy = policy_of("certify", policy)
    problem = with_own_features(problem, policy)
    core = checked_core(problem, core, policy)
    theta = None if theta is None else as_theta(theta, problem.features.dimension)
    budget, confidence = as_count("certify", queries=queries), as_confidence("certify", confidence)
    target, why = as_target(target), no_upper(problem, core)
    tell = None if tell is None else as_function("certify", "tell(text)", tell=tell)
    if core is None or why:
        for name, given in (("theta", theta), ("target", target)):
            if given is not None:
                raise InputError(
                    f"`certify({name}=...)` is for an upper bound, which cannot be had: {why}. Leave it out."
                )
        require_enough(problem, 0, budget, False)
        return _below(problem, policy, budget, confidence, why, seed)
    require_enough(
        problem, len(core), budget, deterministic=True
    )  # as it may be; if not, it shows after a sweep
    basis = Basis.of(problem, core)
    require_room(problem, basis, budget)
    simulator = Simulator(problem, core, key_of(seed), lane=Lane.CERTIFICATE)
    rounds = _Rounds(
        simulator, basis, policy, theta=theta, confidence=confidence, rng=as_generator(seed), budget=budget
    )  # fmt: skip
    if target is None:
        pilot = rounds.first(int(_PILOT * budget))
        return rounds.round(pilot, 1.0 - confidence, budget, None)
    return rounds.until(target, budget, tell)


class _Rounds:
    """A certificate on its way."""

    def __init__(
        self, simulator: Simulator, basis: Basis, policy: SoftmaxPolicy, theta: FloatArray | None, confidence: float,
        rng: np.random.Generator, budget: int,
    ) -> None:  # fmt: skip
        self.simulator, self.basis, self.policy, self.theta = simulator, basis, policy, theta
        self.rng, self.budget = rng, budget
        self.confidence, self.gamma = confidence, simulator.problem.discount
        self.deterministic = ""  # why the simulator counts as deterministic; empty if it does not

    @property
    def known(self) -> bool:
        """Whether one sample of each pair tells all."""
        return bool(self.deterministic)

    def first(self, queries: int) -> Transitions:
        """The first samples: once each where there is no noise, else evenly, and about so many."""
        rho, simulator = len(self.basis.J), self.simulator
        once = self.basis.draw(simulator, np.arange(rho))
        if self.basis.independent and self.theta is None:
            self.deterministic = self._why_deterministic(once)
        if self.known:
            return once
        require_enough(simulator.problem, rho, self.budget, deterministic=False)
        return together(once, self.basis.draw(simulator, np.arange(max(queries - rho, rho)) % rho))

    def _why_deterministic(self, once: Transitions) -> str:
        """By the model's own word; or, as far as that can be told, since it draws nothing and repeats agree."""
        if says_deterministic(self.simulator.problem):
            return "its model says so (noise_dimension=0)"
        k = min(repeats_needed(len(once), False), self.budget // 10)
        if self.simulator.drew or k < 1:
            return ""
        pair = self.rng.choice(len(once), size=min(k, len(once)), replace=False)
        again, before = self.basis.draw(self.simulator, pair), once.take(pair)
        same = np.array_equal(again.rewards, before.rewards) and np.array_equal(again.states, before.states)
        share = share_below(len(pair))
        return (
            f"it drew no random numbers, and {len(pair)} repeated queries agreed; at most {share:.2g} of its answers can "
            "differ then, with a confidence of 95%, and no more is known"
        ) * (same and not self.simulator.drew)

    def upper(self, pilot: Transitions, alpha: float) -> UpperBound:
        """How the upper bound is had."""
        if self.known:
            return KnownUpper(self.basis, pilot, self.gamma, alpha)
        if self.basis.independent and self.theta is None:
            return SharedUpper(self.basis, pilot, self.gamma, alpha)
        return FittedUpper(self.basis, pilot, gamma=self.gamma, alpha=alpha, theta=self.theta, rng=self.rng)

    def plan(
        self, pilot: Transitions, alpha: float, budget: int
    ) -> tuple[UpperBound, PolicyValues, Pilot, Prices]:
        """What the rest will cost, after a pilot of rollouts; `alpha` is the risk of each bound."""
        simulator = self.simulator
        upper, values = self.upper(pilot, alpha), PolicyValues.of(self.basis, pilot, self.gamma, self.policy)
        half = max((budget - simulator.queries) // 2, 4)  # about what the lower bound will have
        tried = Pilot.run(
            simulator, self.policy, values, pilot_queries(half, self.gamma), self.rng, half, alpha
        )
        middle = max((budget - simulator.queries) // 2, 1)
        x = pilot.rewards + self.gamma * best_scores(pilot.phi, upper.theta)
        mean = np.bincount(pilot.pair, x) / np.bincount(pilot.pair)
        variance = float(((x - mean[pilot.pair]) ** 2).mean())
        return upper, values, tried, Prices(
            upper=upper.excess(middle) * np.sqrt(middle), lower=predicted_width(tried.spread, 1, alpha, self.gamma),
            variance=0.0 if self.known else variance, spread=0.0 if self.known else float(x.max() - x.min()),
        )  # fmt: skip

    def until(self, target: float, budget: int, tell: Callable[[str], Any] | None) -> Certificate:
        """Rounds until the gap is at most the target, or the queries are used up."""
        least = PER_PAIR // 3 * len(self.basis.J)
        pilot = self.first(max(int(_PILOT * min(budget, _PILOT_OF)), min(least, budget // 4)))
        for number, part in enumerate(_RISKS):
            risk = part * (1.0 - self.confidence)
            plan = self.plan(pilot, risk / 2, min(budget, self.simulator.queries + _PILOT_OF))
            left = budget - self.simulator.queries
            few = _FEW * rollouts_at_least(self.gamma) + (0 if self.known else PER_PAIR * len(self.basis.J))
            wanted = max(plan[3].queries_for(target), min(few, left))
            expected = self.simulator.queries + wanted
            text = f"a gap of {target:g} will take about {expected:,} queries, as a pilot of {self.simulator.queries:,} says"
            if number == 0 and expected > budget:
                raise InputError(
                    f"`certify(target={target:g})` is out of reach of {budget:,} queries: {text}. Give "
                    f"queries={_rounded(_MORE * expected):,}, or a larger target."
                )
            if tell is not None:
                tell(text[0].upper() + text[1:] + ".")
            spend = self.simulator.queries + min(int(_MORE * wanted), left)
            found = self.round(pilot, risk, spend, plan)
            if (
                number + 1 == len(_RISKS)
                or found.gap is None
                or found.gap <= target
                or 2 * wanted > budget - spend
            ):
                return found
            pilot = together(pilot, self.second)
        raise AssertionError("the last round returns")

    def round(self, pilot: Transitions, risk: float, budget: int, plan: Any) -> Certificate:
        """A certificate from fresh queries, until `budget` are spent in total; for a gap if there is a plan."""
        problem, simulator, rng = self.simulator.problem, self.simulator, self.rng
        upper, values, tried, prices = plan or self.plan(pilot, risk / 2, budget)
        left = budget - simulator.queries
        a, b = prices.split_of_gap(left) if plan else prices.split(left)
        bound, second = upper.bound(simulator, max(a, 1))
        self.second = second
        lower = lower_bound(simulator, self.policy, values, b, risk / 2, rng, tried)
        met = np.concatenate(
            [pilot.initial[:200], pilot.states[-2000:], second.states[-2000:], lower.visited]
        )
        condition = check_condition(
            simulator, self.basis, upper.theta, second, met, budget - simulator.queries, rng, self.known
        )
        bound = min(bound + condition.excess, 1.0)
        return Certificate(
            lower=lower.bound, upper=bound, confidence=self.confidence,
            assumes=assumptions(condition, lower.bound, bound, self.deterministic),
            holds=condition.holds and lower.bound <= bound,
            queries=simulator.queries, initial_draws=simulator.initial_draws, condition=condition,
            exact=_exact(problem, self.policy),
        )  # fmt: skip


def _rounded(queries: float) -> int:
    """Two digits, rounded up."""
    unit = 10 ** max(len(str(int(queries))) - 2, 0)
    return -int(-queries // unit) * unit


def _below(
    problem: Problem, policy: SoftmaxPolicy, queries: int, confidence: float, why: str, seed: int | np.random.Generator
) -> Certificate:  # fmt: skip
    """The certificate with the lower bound alone; `why` says why there is no upper one."""
    rng, simulator = as_generator(seed), Simulator(problem, seed=key_of(seed), lane=Lane.CERTIFICATE)
    values = fit_on_rollouts(simulator, policy, int(_FIT * queries), rng)
    lower = lower_bound(simulator, policy, values, queries - simulator.queries, 1 - confidence, rng)
    return Certificate(
        lower=lower.bound, upper=None, confidence=confidence, assumes=(ONLY_RANGE, why), holds=None,
        queries=simulator.queries, initial_draws=simulator.initial_draws, condition=None, exact=_exact(problem, policy),
    )  # fmt: skip


def _exact(problem: Problem, policy: SoftmaxPolicy) -> Evaluation | None:
    return evaluate(problem, policy) if problem.tabular is not None else None
