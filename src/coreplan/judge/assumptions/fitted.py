"""Values fitted on the core pairs, and rollouts of the policy that is greedy on them and of the uniform one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from ...base import FloatArray, IntArray, States
from ...core import Frame, Pool, all_actions
from ...features import Phi, Sparse, row_scores, with_constant
from ...policy import SoftmaxPolicy
from ...problem import Problem
from ...sampled import Equations, Transitions, WeightedSamples
from ...simulate import Simulator
from ..certificate.first_half import PolicyValues
from ..certificate.lower import Step, continuing, lengths, rollouts

ALARM = 0.001  # how often a lower limit may be wrong: it accuses
MISS = 0.05  # how often an upper limit may be wrong: it acquits
_STARTS = 1000  # initial states on which fitted values are averaged; they are no queries


@dataclass(frozen=True)
class Fit:
    """Fitted values: theta `[d + 1]`, whose last entry is the constant's, and V of the greedy and of the uniform policy."""

    problem: Problem
    theta: FloatArray
    greedy: PolicyValues
    uniform: PolicyValues
    noise: float  # standard deviation of r + gamma V(y) at a core pair, root mean square
    samples: int  # per core pair

    def Q(self, phi: Phi) -> FloatArray:
        """phi . theta for rows phi."""
        return row_scores(phi, self.theta[:-1]) + self.theta[-1]


def fit(problem: Problem, frame: Frame, drawn: Transitions) -> Fit:
    """Policy iteration on the core pairs' samples, as many of each."""
    d, pairs, gamma = frame.d, with_constant(frame.features, frame.d), problem.discount
    samples = WeightedSamples(
        phi=Sparse(pairs.index[drawn.pair], pairs.weight[drawn.pair]), rewards=drawn.rewards,
        next_phi=with_constant(drawn.phi, d), w=np.ones(len(drawn)),
    )  # fmt: skip
    equations = Equations(samples, d, ridge=1e-6)
    theta = equations.solve(gamma, np.zeros(d + 1))
    own = equations.uniform(gamma)
    policies = SoftmaxPolicy(theta[:-1], math.inf, problem.features), SoftmaxPolicy.uniform(problem.features)
    greedy, uniform = (
        PolicyValues(p, t[:-1], 1.0 / (1.0 - gamma), float(t[-1]))
        for p, t in zip(policies, (theta, own), strict=True)
    )
    target = drawn.rewards + gamma * greedy.values(problem, drawn.states)
    count = len(drawn) // frame.m
    noise = math.sqrt(float(target.reshape(frame.m, count).var(axis=1, ddof=1).mean()))
    return Fit(problem=problem, theta=theta, greedy=greedy, uniform=uniform, noise=noise, samples=count)


@dataclass(frozen=True)
class Estimate:
    """A mean with its standard error from n observations."""

    mean: float
    error: float
    n: int

    @classmethod
    def of(cls, x: FloatArray, *controls: FloatArray) -> Estimate:
        """The mean of `x [n]`; `controls` have mean zero, and what they explain of x is removed by regression."""
        n = len(x)
        if n > 4 + 4 * len(controls):
            C = np.column_stack([np.ones(n), *controls])
            x = x - C[:, 1:] @ np.linalg.lstsq(C, x, rcond=None)[0][1:]
        free = n - 1 - len(controls)
        if free < 1:
            return cls(float(x.mean()), math.inf, n)
        return cls(float(x.mean()), float(x.std()) / math.sqrt(free), free + 1)

    def __sub__(self, other: Estimate) -> Estimate:
        return Estimate(self.mean - other.mean, math.hypot(self.error, other.error), min(self.n, other.n))

    def margin(self, risk: float, factor: float = 1.0) -> float:
        """How far the truth may lie on one side, but for `risk`, with `factor` times as many observations."""
        degrees = max(self.n * factor - 1.0, 1.0)
        return float(stdtrit(degrees, 1.0 - risk)) * self.error / math.sqrt(factor)


@dataclass(frozen=True)
class Rolled:
    """Rollouts of a policy, and every pair that they visited; weighted, the visits follow its occupancy measure."""

    fitted: Estimate  # normalised value from nu0 by the fitted values
    earned: Estimate  # by the rollouts
    top: float  # the largest fitted value on the way, normalised
    states: States  # [N, ...]
    actions: IntArray  # [N]
    d: FloatArray  # [N], r + gamma V(y) - V(x)
    weights: FloatArray  # [N], sum N


def roll(simulator: Simulator, values: PolicyValues, queries: int, rng: np.random.Generator) -> Rolled:
    """Rollouts of the policy whose values these are.

    Each rollout has two outcomes of the same mean, the policy's value: its weighted rewards alone, and those with the fitted
    values as control variates (certificate/lower.py). Their difference, and V at the start minus its mean, have mean zero;
    what they explain is removed. So good values reduce the noise, and wrong ones do not add to it.
    """
    problem, steps = simulator.problem, list[Step]()
    scale = 1.0 - problem.discount
    starts = scale * values.values(problem, simulator.initial(_STARTS))
    planned = lengths(queries, continuing(problem.discount), rng)
    z = rollouts(simulator, values.policy, values, planned, -math.inf, rng, steps).z
    paid = np.zeros(len(z))
    for s in steps:
        paid[s.which] += s.weight * s.rewards
    first, last = (
        scale * values.values(problem, s)
        for s in (steps[0].states, np.concatenate([s.next_states for s in steps]))
    )
    weights = np.repeat([s.weight for s in steps], [len(s.d) for s in steps])
    states, actions, d = (
        np.concatenate([getattr(s, name) for s in steps]) for name in ("states", "actions", "d")
    )
    return Rolled(
        fitted=Estimate.of(starts), earned=Estimate.of(scale * paid, scale * (z - paid), first - starts.mean()),
        top=float(max(first.max(), last.max())),
        states=states, actions=actions, d=d, weights=weights * (len(weights) / weights.sum()),
    )  # fmt: skip


def enough_for_rollouts(discount: float) -> int:
    """Queries of a whole check with which there are about ten rollouts of either policy."""
    return 10 * math.ceil(16 / (1.0 - discount) - 1e-6)


def pool_of(problem: Problem, rolled: tuple[Rolled, ...]) -> Pool:
    """The pairs that were visited, and with zero visits the other actions of the same states."""
    states = np.concatenate([r.states for r in rolled])
    others = all_actions(problem, states)
    visits = np.concatenate([r.weights for r in rolled] + [np.zeros(len(others[1]))])
    actions = np.concatenate([r.actions for r in rolled] + [others[1]])
    return Pool.of(problem, np.concatenate([states, others[0]]), actions, visits)


@dataclass(frozen=True)
class Worth:
    """Normalised values from nu0: what the fit believes of its greedy policy, and what that and the uniform one earn."""

    believed: Estimate
    earned: Estimate
    uniform: Estimate
    uniform_fitted: Estimate  # by the fitted values, without rollouts
    top: float  # the most that the fit believes of a state on the way

    @property
    def known(self) -> bool:
        """Whether there were enough rollouts for errors."""
        return math.isfinite(self.earned.error + self.uniform.error)

    @property
    def believing(self) -> Worth:
        """The same if the fitted values were right, for guesses where rollouts are too few."""
        return replace(self, earned=self.believed, uniform=self.uniform_fitted)

    @property
    def presumed(self) -> float:
        """What the greedy policy presumably earns: what is believed of it, as far as the rollouts allow."""
        margin = self.earned.margin(MISS)
        return min(max(self.believed.mean, self.earned.mean - margin), self.earned.mean + margin)

    @property
    def beyond(self) -> Estimate:
        """How much more is earned than believed."""
        return self.earned - self.believed

    @property
    def promise(self) -> Estimate:
        """What the fit believes can be gained over the uniform policy."""
        return self.believed - self.uniform
