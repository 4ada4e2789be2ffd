"""`check`: which of the paper's assumptions hold for a problem and a core set, as numbers with a plain verdict each.

They are measured by simulation, on pairs that the uniform policy and a fitted greedy policy reach. Nothing is known about
pairs that these do not reach.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import FloatArray, InputError, Lane, as_generator, key_of, require_count
from ..core import (
    CoreSet,
    Frame,
    HullWatch,
    Lift,
    Pool,
    hull_distances,
    is_inside,
    measurable,
    pair_features,
    rollout_pool,
)
from ..features import (
    Phi,
    Sparse,
    dense,
    entries,
    mass_outside,
    outside_box,
    row_scores,
    stack,
    with_constant,
)
from ..policy import SoftmaxPolicy
from ..problem import Problem
from ..sampled import Equations, Transitions, WeightedSamples, draw
from ..simulate import Simulator

GREEN, AMBER, RED, GREY = "green", "amber", "red", "grey"
_DENSE = 3000  # the largest dimension d for which dense d x d systems are solved


@dataclass(frozen=True)
class Measurement:
    """One measurement. Its light is green (holds), amber (be careful), red (does not hold) or grey (not measured)."""

    name: str
    value: float
    light: str
    verdict: str


@dataclass(frozen=True)
class Report:
    """The measurements, one row each, and the number of simulator queries that they took."""

    rows: tuple[Measurement, ...]
    queries: int

    def __getitem__(self, name: str) -> Measurement:
        return next(row for row in self.rows if row.name == name)

    @property
    def worst(self) -> str:
        """The worst light of all rows."""
        return max((row.light for row in self.rows), key=[GREY, GREEN, AMBER, RED].index)

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON types; values that were not measured are null."""
        rows = [{**vars(r), "value": r.value if math.isfinite(r.value) else None} for r in self.rows]
        return {"rows": rows, "worst": self.worst, "queries": self.queries}


def check(
    problem: Problem,
    core: CoreSet | None = None,
    *,
    queries: int = 20_000,
    seed: int | np.random.Generator = 0,
) -> Report:
    """Measure the assumptions for a problem with a core set, by default its own.

    Half of the queries are used to fit values on the core pairs, a quarter to gather reachable pairs by rollouts, and a
    quarter to measure the Bellman residual of the fitted values there, with fresh noise.
    """
    if not isinstance(problem, Problem):
        raise InputError(f"`check(problem=...)` must be a Problem, got {type(problem).__name__}.")
    if core is not None and not isinstance(core, CoreSet):
        raise InputError(f"`check(core=...)` must be a CoreSet(states, actions), got {type(core).__name__}.")
    require_count("check", least=100, queries=queries)
    rng = as_generator(seed)
    if core is None and problem.core_pairs is not None:
        core = CoreSet.of(problem)
    if core is None:
        pool = rollout_pool(problem, None, max(queries // 4, 1), actions="all", seed=rng)
        rows = (*_features(problem, pool), _no_core(problem, pool))
        return Report(rows, pool.queries)
    return _with_core(problem, core, queries, rng)


def _with_core(problem: Problem, core: CoreSet, queries: int, rng: np.random.Generator) -> Report:
    d = problem.features.dimension
    frame = Frame(core.features(problem.features), d)
    simulator = Simulator(problem, core, key_of(rng), lane=Lane.CHECK)
    spectrum = _spectrum(frame)
    n = queries // 2 // len(core)
    pair = np.repeat(np.arange(len(core)), n)
    drawn = draw(simulator, core.states, core.actions, pair) if n else None
    inside = _successors(problem, frame, drawn)
    if n < 2 or d > _DENSE:
        pool = rollout_pool(problem, None, max(queries // 4, 1), actions="all", seed=rng)
        few = f"{queries} queries are too few to fit values on {len(core)} core pairs; give at least {4 * len(core)}."
        if d > _DENSE:
            few = f"d = {d} is too large for values to be fitted here; `plan` can."
        rows = (
            *_features(problem, pool),
            *spectrum,
            *_hull(problem, frame, pool),
            inside,
            Measurement("Bellman residual", math.nan, GREY, few),
        )
        return Report(rows, simulator.queries + pool.queries)
    assert drawn is not None
    theta = _fitted(problem, frame, drawn)
    greedy = SoftmaxPolicy(theta[:-1], math.inf, problem.features)
    pools = [rollout_pool(problem, p, max(queries // 8, 1), actions="all", seed=rng) for p in (None, greedy)]
    pool = Pool(
        np.concatenate([p.states for p in pools]),
        np.concatenate([p.actions for p in pools]),
        stack([p.features for p in pools]),
        np.concatenate([p.visits for p in pools]),
    )
    residual = _residual(simulator, theta, pool, queries // 8, rng)
    rows = (
        *_features(problem, pool), *spectrum, *_hull(problem, frame, pool), inside, _reach(frame, pool),
        _radius_of_theta(frame, theta), residual,
    )  # fmt: skip
    return Report(rows, simulator.queries + sum(p.queries for p in pools))


# The features themselves.


def _features(problem: Problem, pool: Pool) -> tuple[Measurement, ...]:
    f = problem.features
    longest = float(np.sqrt((entries(pool.features) ** 2).sum(axis=1).max()))
    loose = longest < f.radius / 10
    R = Measurement(
        "R", longest, AMBER if loose else GREEN,
        f"longest feature met {longest:.4g}, declared {f.radius:.4g}."
        + (" The declared radius is more than ten times too large, and every bound with it." if loose else ""),
    )  # fmt: skip
    outside = outside_box(f, pool.states)
    box = Measurement("coverage", 0.0, GREEN, "no state met lies outside the features' box.")
    if outside is not None:
        share = outside.outside / outside.total
        box = Measurement("coverage", share, RED if share > 0.1 else AMBER, str(outside))
    elif getattr(getattr(f, "base", f), "box", None) is None:
        box = Measurement("coverage", math.nan, GREY, "the features declare no box.")
    return R, box


def _no_core(problem: Problem, pool: Pool) -> Measurement:
    rank = _rank(pool.features, problem.features.dimension)
    return Measurement(
        "core set", 0.0, RED,
        f"the problem has none (features met have rank {rank} of d = {problem.features.dimension}). Plan with `grow`, "
        "which needs none, or choose one: coreplan.core.select on a rollout_pool.",
    )  # fmt: skip


# The core set.


def _spectrum(frame: Frame) -> tuple[Measurement, Measurement]:
    m, d = frame.m, frame.d
    if frame.axes is None and not frame.fits:
        why = f"m = {m}, d = {d}: too large for singular values."
        return Measurement("rank", math.nan, GREY, why), Measurement("condition", math.nan, GREY, why)
    rank, condition = frame.rank, frame.condition
    full = rank == d
    text = f"rank {rank} of d = {d} from m = {m} core pairs."
    light = GREEN if condition < 1e3 else AMBER if condition < 1e8 else RED
    advice = (
        ""
        if condition < 1e3
        else " Noise in the fitted values grows with it: scale the features, or choose other core pairs."
    )
    return (
        Measurement(
            "rank",
            rank,
            GREEN if full else AMBER,
            text + ("" if full else " Some directions of theta are not determined by the core."),
        ),
        Measurement(
            "condition", condition, light, f"condition number {condition:.3g} of the core features.{advice}"
        ),
    )


def _hull(problem: Problem, frame: Frame, pool: Pool) -> tuple[Measurement, ...]:
    if not measurable(frame):
        return (
            Measurement(
                "hull error",
                math.nan,
                GREY,
                f"m = {frame.m} core pairs are too many; choose some with coreplan.core.select.",
            ),
        )
    distance = hull_distances(frame, pool.features)
    largest, mean = float(distance.max()), float(pool.weights @ distance)
    R = problem.features.radius
    light = GREEN if is_inside(largest, frame.features) else AMBER if mean <= 0.05 * R else RED
    advice = (
        ""
        if light == GREEN
        else " Assumption 1 fails by this much: add core pairs there (coreplan.core.select), or use `grow`."
    )
    text = (
        f"largest distance of a reachable feature from the core's hull {largest:.3g}, {mean:.3g} on average over visits "
        f"(R = {R:.3g}).{advice}"
    )
    return (Measurement("hull error", largest, light, text),)


def _successors(problem: Problem, frame: Frame, drawn: Transitions | None) -> Measurement:
    """Whether features of next states of core pairs lie in the core's hull: planners rely on it, and runs watch it."""
    if drawn is None:
        why = f"too few queries to ask every core pair once; give at least {2 * frame.m}."
        return Measurement("next states", math.nan, GREY, why)
    watch = HullWatch(frame, problem.discount)
    watch.look(drawn.phi)
    if not watch.finding:
        inside = "features at next states of core pairs lie in the core's hull."
        return Measurement("next states", watch.far, GREEN, inside)
    return Measurement(
        "next states", watch.outside, GREY if math.isnan(watch.outside) else RED, watch.finding
    )


def _reach(frame: Frame, pool: Pool) -> Measurement:
    """Whether reachable features lie in the span of the core features: the largest part of one outside it."""
    if frame.axes is not None:
        known = np.zeros(frame.d, dtype=bool)
        known[frame.axes[0]] = True
        value = float(mass_outside(pool.features, known).max(initial=0.0))
    elif not frame.fits:
        return Measurement(
            "reach", math.nan, GREY, f"m = {frame.m}, d = {frame.d}: too large for it to be measured."
        )
    else:
        value = float(frame.outside_span(dense(pool.features, frame.d)).max())
    light = GREEN if value <= 1e-6 else RED
    return Measurement(
        "reach", value, light,
        "every reachable feature is in the span of the core's." if light == GREEN else
        f"reachable features leave the span of the core's by up to {value:.3g}: values there are arbitrary. Add core pairs.",
    )  # fmt: skip


def _radius_of_theta(frame: Frame, theta: FloatArray) -> Measurement:
    """D: the norm of the smallest theta that has the fitted values at the core pairs."""
    if frame.units is None and not frame.fits:
        return Measurement("D", math.nan, GREY, f"m = {frame.m}, d = {frame.d}: too large for least squares.")
    norm = float(np.linalg.norm(Lift(frame).theta(_values(frame.features, theta))))
    return Measurement(
        "D", norm, GREEN, f"theta of the fitted values has norm {norm:.4g}; a ball for theta must contain it."
    )


# Fitted values, and how well they solve Bellman's equation at other pairs.


def _fitted(problem: Problem, frame: Frame, drawn: Transitions) -> FloatArray:
    """theta `[d + 1]` from policy iteration on the core pairs' samples; the last entry is the constant's."""
    d, pairs = frame.d, with_constant(frame.features, frame.d)
    samples = WeightedSamples(
        phi=Sparse(pairs.index[drawn.pair], pairs.weight[drawn.pair]), rewards=drawn.rewards,
        next_phi=with_constant(drawn.phi, d), w=np.ones(len(drawn)),
    )  # fmt: skip
    return Equations(samples, d, ridge=1e-6).iterate(drawn.rewards, problem.discount, np.zeros(d + 1))


def _residual(
    simulator: Simulator, theta: FloatArray, pool: Pool, n: int, rng: np.random.Generator
) -> Measurement:
    """The part of r + gamma E max_a Q - Q that is not linear in the features, at n reachable pairs drawn by visits.

    The linear part is noise of the fit, which another theta would remove. Two independent samples of a pair give two
    estimates of the residual; the mean of their product is its square, so that simulation noise adds nothing on average.
    Both are first projected onto the complement of the features' span, and the loss of degrees of freedom is corrected.
    """
    problem = simulator.problem
    if problem.features.dimension > _DENSE:
        why = f"d = {problem.features.dimension} is too large for it to be measured."
        return Measurement("Bellman residual", math.nan, GREY, why)
    which = rng.choice(len(pool), size=n, p=pool.weights)
    states, actions = pool.states[which], pool.actions[which]
    phi = pair_features(problem.features, states, actions)
    Q, F = _values(phi, theta), dense(phi, problem.features.dimension)
    top, halves = 1.0 / (1.0 - problem.discount), []
    for _ in range(2):
        r, y = simulator.step(states, actions)
        halves.append(r + problem.discount * np.clip(_best(problem, y, theta), 0.0, top) - Q)
    U, s, _ = np.linalg.svd(F, full_matrices=False)
    U = U[:, s > s[0] * 1e-10]
    free = n - U.shape[1]
    if free < n // 2:
        why = f"{n} pairs are too few for features of rank {U.shape[1]}; give at least {16 * U.shape[1]} queries."
        return Measurement("Bellman residual", math.nan, GREY, why)
    one, two = (h - U @ (U.T @ h) for h in halves)
    mean, error = float(one @ two) / free, float((one * two).std()) / math.sqrt(free)
    value, least, most = (math.sqrt(max(mean + c * error, 0.0)) for c in (0.0, -2.0, 2.0))
    light = GREEN if least <= 0.01 else AMBER if least <= 0.05 else RED
    advice = (
        " At this number of queries nothing smaller than that can be seen."
        if light == GREEN
        else " The features cannot express the values they lead to: enrich them."
    )
    return Measurement(
        "Bellman residual", value, light,
        f"between {least:.3g} and {most:.3g} (two standard errors; root mean square over visits, a stand-in for the "
        f"inherent Bellman error). A policy greedy on such values may lose twice that.{advice}",
    )  # fmt: skip


def _values(phi: Phi, theta: FloatArray) -> FloatArray:
    """phi . theta for rows phi, where the last entry of theta `[d + 1]` is the constant's."""
    return row_scores(phi, theta[:-1]) + theta[-1]


def _best(problem: Problem, states: Any, theta: FloatArray) -> FloatArray:
    """max_a Q(x, a) over the available actions, `[n]`."""
    policy = SoftmaxPolicy(theta[:-1], math.inf, problem.features)
    actions = policy.act(states, 0)
    return _values(pair_features(problem.features, states, actions), theta)


def _rank(phi: Phi, d: int) -> str:
    return str(int(np.linalg.matrix_rank(dense(phi, d)))) if d <= _DENSE else "unknown"
