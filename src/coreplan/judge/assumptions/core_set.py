"""Rows about the features and the core set: their size, rank, condition, hull and reach."""

from __future__ import annotations

import math

import numpy as np

from ...base import FloatArray
from ...core import Frame, HullWatch, Lift, Pool, column_sizes, hull_errors, is_inside, measurable
from ...features import Phi, dense, entries, mass_outside, outside_box, over, row_scores
from ...problem import Problem
from ...sampled import Transitions
from .report import AMBER, GREEN, GREY, RED, Measurement

LARGEST = 3000  # the largest dimension d for which dense d x d systems are solved
_FEW = 8  # samples per core pair below which fitted values are mostly noise


def features(problem: Problem, pool: Pool) -> tuple[Measurement, ...]:
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
        box = Measurement("coverage", share, RED if share > 0.1 else AMBER, outside.said(problem.state_names))
    elif getattr(getattr(f, "base", f), "box", None) is None:
        box = Measurement("coverage", math.nan, GREY, "the features declare no box.")
    return R, box


def no_core(problem: Problem, pool: Pool) -> Measurement:
    if problem.bounds is not None:
        return Measurement(
            "core set", math.nan, GREY,
            f"the problem has bounds on {problem.bounds.dimension} numbers and no features. Plan with `refine`, which makes "
            "features and an exact core set.",
        )  # fmt: skip
    rank = _rank(pool.features, problem.features.dimension)
    return Measurement(
        "core set", 0.0, RED,
        f"the problem has none (features met have rank {rank} of d = {problem.features.dimension}). Plan with `grow`, "
        "which needs none, or choose one: coreplan.core.select on a rollout_pool.",
    )  # fmt: skip


# The core set.


def spectrum(frame: Frame) -> tuple[Measurement, Measurement]:
    m, d = frame.m, frame.d
    if frame.axes is None and not frame.fits:
        why = f"m = {m}, d = {d}: too large for singular values."
        return Measurement("rank", math.nan, GREY, why), Measurement("condition", math.nan, GREY, why)
    rank, condition = frame.level.rank, frame.level.condition  # at any scale of the columns
    full = rank == d
    text = f"rank {rank} of d = {d} from m = {m} core pairs."
    light = GREEN if condition < 1e3 else AMBER if condition < 1e8 else RED
    advice = (
        ""
        if condition < 1e3
        else " Noise in the fitted values grows with it: choose core pairs farther apart, or features that differ more."
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


def hull(frame: Frame, pool: Pool) -> tuple[Measurement, ...]:
    if not measurable(frame):
        return (
            Measurement(
                "hull error",
                math.nan,
                GREY,
                f"m = {frame.m} core pairs are too many; choose some with coreplan.core.select.",
            ),
        )
    error = hull_errors(frame, pool.features)
    largest, mean = float(error.max()), float(pool.weights @ error)
    light = GREEN if is_inside(largest) else AMBER if mean <= 0.05 else RED
    advice = (
        ""
        if light == GREEN
        else " Assumption 1 fails by this much: add core pairs there (coreplan.core.select), or use `grow`."
    )
    text = (
        f"largest distance of a reachable feature from the core's hull {largest:.3g}, {mean:.3g} on average over visits, "
        f"where every feature is divided by its range over the states met.{advice}"
    )
    return (Measurement("hull error", largest, light, text),)


def successors(problem: Problem, frame: Frame, drawn: Transitions | None) -> Measurement:
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


def reach(frame: Frame, pool: Pool) -> Measurement:
    """Whether reachable features lie in the span of the core features: the largest part of one outside it.

    It is measured in units of the features' ranges over the states met.
    """
    if frame.level.axes is not None:
        known = np.zeros(frame.d, dtype=bool)
        known[frame.level.axes[0]] = True
        rows = over(pool.features, column_sizes(frame.d, frame.features, pool.features))
        value = float(mass_outside(rows, known).max(initial=0.0))
    elif not frame.fits:
        return Measurement(
            "reach", math.nan, GREY, f"m = {frame.m}, d = {frame.d}: too large for it to be measured."
        )
    else:
        value = float(frame.outside_span(pool.features).max())
    light = GREEN if value <= 1e-6 else RED
    return Measurement(
        "reach", value, light,
        "every reachable feature is in the span of the core's." if light == GREEN else
        f"reachable features leave the span of the core's by up to {value:.3g}: values there are arbitrary. Add core pairs.",
    )  # fmt: skip


def radius_of_theta(frame: Frame, theta: FloatArray, samples: int, noise: float, queries: int) -> Measurement:
    """D: the norm of the smallest theta that has the fitted values at the core pairs, if these are more than noise."""
    if frame.units is None and not frame.fits:
        return Measurement("D", math.nan, GREY, f"m = {frame.m}, d = {frame.d}: too large for least squares.")
    norm = float(np.linalg.norm(Lift(frame).theta(row_scores(frame.features, theta[:-1]) + theta[-1])))
    text = f"theta of the fitted values has norm {norm:.4g}; a ball for theta must contain it."
    if noise == 0.0 or samples >= _FEW:
        return Measurement("D", norm, GREEN, text)
    needed = math.ceil(queries * _FEW / samples)
    few = f"{text} But {samples} samples per core pair are few: give {needed:,} queries."
    return Measurement("D", norm, GREY, few, needed=needed)


def _rank(phi: Phi, d: int) -> str:
    return str(int(np.linalg.matrix_rank(dense(phi, d)))) if d <= LARGEST else "unknown"
