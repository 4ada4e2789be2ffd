"""How well the features can carry the values they lead to: the Bellman residual, and what it may cost.

Let Q = phi . theta be the fitted values, V = max_a Q, pi the greedy policy and delta = r + gamma P V - Q the residual, all
per step, with rewards in [0, 1]. For a policy with (normalised) occupancy measure mu the flow equation says

    its value = (1 - gamma) nu0 . V + <mu, r + gamma P V - V>,

where Q <= V, with equality at the actions of pi. So optimum - value of pi <= <mu*, delta> - <mu_pi, delta>: in normalised
value a residual of size e at every step of both policies costs up to 2 e (its 1/(1 - gamma) steps, times 1 - gamma). Here
e is measured where the uniform and the fitted policy go, instead of where the optimal one goes, and as a root mean square.
So 2 e is a stand-in for what the features may cost, not a bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from ...base import FloatArray, IntArray
from ...core import Pool
from ...features import dense, take, used_columns
from ...simulate import Simulator
from .fitted import ALARM, MISS, Fit, Worth, enough_for_rollouts
from .region import Region, worst_region
from .report import GREEN, GREY, RULE_OF_THREE, Measurement, light_of, resolving

NAME = "Bellman residual"
SHARE = 0.25  # of the queries
AMBER_FROM, GREEN_UP_TO, RED_FROM = (
    0.2,
    0.4,
    0.8,
)  # of what there is to gain, set against what the residual may cost
_ENTRIES = 2e7  # of the matrix of features at the pairs that are measured
_FEWEST = 32  # pairs
_TAIL = 10.0  # the most that squared residuals are believed to spread, relative to their mean


@dataclass(frozen=True)
class Design:
    """n pairs, drawn by visits, each simulated k times in either half of the queries."""

    n: int
    k: int

    @classmethod
    def of(cls, queries: float, columns: int, noise: float, largest: float) -> Design | None:
        """The design whose upper limit is least if the residual is zero; None if the queries are too few.

        Many pairs leave little unseen, and few pairs with many samples each leave little noise. At least half of the
        degrees of freedom must be left when the linear part, in `columns` coordinates, is removed.
        """
        fewest = max(_FEWEST, 2 * columns)
        most = min(queries / 2, max(_ENTRIES / columns, fewest))
        if most < fewest:
            return None
        pairs = np.unique(np.geomspace(fewest, most, 40).astype(np.int64))
        seen = np.sqrt(2.0 * noise**2 * np.sqrt(pairs) / queries * pairs / (pairs - columns))
        n = int(pairs[np.argmin(1.3 * seen + RULE_OF_THREE * largest / pairs)])
        return cls(n, int(queries // (2 * n)))


@dataclass(frozen=True)
class Residual:
    """The mean square of the residual over visits; the part that is linear in the features, noise of the fit, is removed."""

    square: float  # can be negative, by noise
    error: float  # its standard error
    terms: int  # distinct pairs, which give the error its degrees of freedom
    design: Design
    columns: int
    noise: float  # of one sample
    spread: float  # standard deviation of the squared residual over pairs
    largest: float  # what the residual at a pair that was not met might be
    region: Region | None  # where it is largest, if there is more than noise

    @property
    def low(self) -> float:
        """A lower limit on the root mean square."""
        return math.sqrt(max(self.square - float(stdtrit(self.terms - 1, 1.0 - ALARM)) * self.error, 0.0))

    @property
    def high(self) -> float:
        """An upper limit. A share of three in n of the visits may have been missed, and counts with the largest residual."""
        seen = max(self.square, 0.0) + float(stdtrit(self.terms - 1, 1.0 - MISS)) * self.error
        return math.sqrt(seen) + RULE_OF_THREE / self.design.n * self.largest

    def with_queries(self, queries: float) -> Residual | None:
        """What as many queries would presumably find: the mean square, less what noise may have added, and another error."""
        design = Design.of(queries, self.columns, self.noise, self.largest)
        if design is None:
            return None
        free = design.n / (design.n - self.columns)
        error = math.hypot(self.noise**2 / design.k * free, self.spread) / math.sqrt(design.n)
        square = max(self.square - self.error, 0.0)
        return replace(self, square=square, error=error, terms=design.n, design=design)


def measure(
    simulator: Simulator, fitted: Fit, pool: Pool, queries: int, rng: np.random.Generator
) -> Residual | int:
    """The residual on pairs of the pool, with fresh noise; or the least number of queries that it takes.

    Two independent halves of the samples of a pair give two estimates of its residual; the mean of their product is its
    square, so that noise adds nothing on average. Both are first projected onto the complement of the features' span,
    which is what no theta can remove, and the loss of degrees of freedom is corrected.
    """
    columns = used_columns(pool.features)
    largest = _largest(fitted, pool)
    design = Design.of(queries, len(columns), fitted.noise, largest)
    if design is None:
        return 2 * max(_FEWEST, 2 * len(columns))
    which, count = np.unique(rng.choice(len(pool), size=design.n, p=pool.weights), return_counts=True)
    one, two = _halves(simulator, fitted, pool, which, count * design.k)
    root = np.sqrt(count)
    F = root[:, None] * dense(take(pool.features, which), fitted.problem.features.dimension)[:, columns]
    U, s, _ = np.linalg.svd(F, full_matrices=False)
    U = U[:, s > s[0] * 1e-10]
    one, two = (root * h - U @ (U.T @ (root * h)) for h in (one, two))
    J, n, free = len(which), design.n, len(which) - U.shape[1]
    if free <= 0:  # the features tell all pairs apart: every residual is linear in them
        return Residual(
            square=0.0, error=0.0, terms=J + 1, design=design, columns=len(columns), noise=0.0, spread=0.0,
            largest=largest, region=None,
        )  # fmt: skip
    each = one * two * (J / free)
    square, error = float(each.sum()) / n, float(each.std()) * math.sqrt(J) / n
    # The halves' differences tell what noise adds to the products; for normal noise their fourth moments are 12 s^4.
    noise = (
        math.sqrt(float(((one - two) ** 4).mean()) / 12.0) * J / free
    )  # s^2, of a pair's mean over one half
    spread = math.sqrt(max(float(each.var()) - noise**2, 0.0))
    found = Residual(
        square=square, error=error, terms=max(free, 2), design=design, columns=len(columns),
        noise=math.sqrt(noise * design.k), spread=min(spread, _TAIL * max(square, 0.0)), largest=largest, region=None,
    )  # fmt: skip
    if found.low > 0.0:
        region = worst_region(fitted.problem, pool.states[which], each, count.astype(float))
        found = replace(found, region=region)
    return found


def _halves(
    simulator: Simulator, fitted: Fit, pool: Pool, which: IntArray, repeats: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Two estimates of r + gamma E V - Q at the pairs `which`, each from `repeats` samples."""
    problem, phi = fitted.problem, take(pool.features, which)
    Q, pair = fitted.Q(phi), np.repeat(np.arange(len(which)), repeats)
    halves = []
    for _ in range(2):
        r, y = simulator.step(pool.states[which[pair]], pool.actions[which[pair]])
        target = r + problem.discount * fitted.greedy.values(problem, y)
        halves.append(np.bincount(pair, target, len(which)) / repeats - Q)
    return halves[0], halves[1]


def _largest(fitted: Fit, pool: Pool) -> float:
    """How large a residual can be, with rewards in [0, 1] and values like those that were met."""
    Q, gamma = fitted.Q(pool.features), fitted.problem.discount
    top = 1.0 / (1.0 - gamma)
    low, high = float(np.clip(Q.min(), 0.0, top)), float(np.clip(Q.max(), 0.0, top))
    return max(1.0 + gamma * high - low, high - gamma * low)


def row(found: Residual | int, fitted: Fit, worth: Worth, queries: int) -> Measurement:
    """The row of the report: what the residual may cost, as a share of what there is to gain."""
    if isinstance(found, int):
        least_of_all = math.ceil(found / SHARE)
        why = f"{queries:,} queries are too few to tell noise from what features cannot express: give {least_of_all:,}."
        return Measurement(NAME, math.nan, GREY, why, needed=least_of_all)
    least, most = _shares(found, worth, 1.0)
    light = light_of(least, most, AMBER_FROM, GREEN_UP_TO, RED_FROM)
    value = math.sqrt(max(found.square, 0.0))
    text = (
        f"between {found.low:.3g} and {found.high:.3g} per step, root mean square over visits. A policy greedy on such "
        f"values may lose twice that: {least:.0%} to {_percent(most)} of what is to be gained over the uniform policy. (A "
        "stand-in, not a bound.)"
    )
    needed: int | None = None
    if light == GREY:
        guess = worth if worth.known else worth.believing
        needed = resolving(queries, lambda factor: _resolved(found, guess, queries, factor))
        if not worth.known and needed is not None:
            needed = max(needed, enough_for_rollouts(fitted.problem.discount))
        text += _unresolved(guess, needed)
    elif light != GREEN:
        text += _remedy(found.region)
    return Measurement(NAME, value, light, text, interval=(found.low, found.high), needed=needed)


def _shares(found: Residual, worth: Worth, factor: float) -> tuple[float, float]:
    """What the residual may cost, at least and at most, as a share of optimum - uniform.

    The optimum is at least what the fitted policy earns. It is taken to be at most that, or what the fit believes.
    """
    earned, believed, uniform = worth.earned, worth.believed, worth.uniform
    mean = earned.mean if factor == 1.0 else worth.presumed
    fewest = (mean - earned.margin(MISS, factor)) - (uniform.mean + uniform.margin(MISS, factor))
    top = max(mean + earned.margin(MISS, factor), believed.mean + believed.margin(MISS, factor))
    widest = top - (uniform.mean - uniform.margin(MISS, factor))
    return (
        2.0 * found.low / widest if widest > 0.0 else math.inf if found.low else 0.0,
        2.0 * found.high / fewest if fewest > 0.0 else math.inf,
    )


def _resolved(found: Residual, worth: Worth, queries: int, factor: float) -> bool:
    then = found.with_queries(SHARE * queries * factor)
    if then is None:
        return False
    return light_of(*_shares(then, worth, factor), AMBER_FROM, GREEN_UP_TO, RED_FROM) != GREY


def _unresolved(worth: Worth, needed: int | None) -> str:
    if needed is not None:
        return f" That is too wide to tell: give about {needed:,} queries."
    if worth.presumed <= worth.uniform.mean:
        return " The fitted policy earns no more than the uniform one, so there is nothing to set it against."
    return " No number of queries resolves it: what the policy earns and what its values promise are too far apart."


def _remedy(region: Region | None) -> str:
    if region is not None and region.concentrated:
        return (
            f" {region.share:.0%} of it lies in {region.visits:.0%} of the visits, where {region.where}: put more nodes, or "
            "features that tell more apart, there."
        )
    where = "" if region is None or region.where == "everywhere" else f" (largest where {region.where})"
    return (
        f" It is spread over the visited states{where}: a finer grid everywhere, or another family of features "
        "(aggregation, radial, fourier); more samples do not help."
    )


def _percent(share: float) -> str:
    return f"{share:.0%}" if share < 100.0 else "far more than all"
