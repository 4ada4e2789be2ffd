"""The statistics of a comparison over several problems: seeds are the unit of replication.

Scores are matrices `[runs, tasks]`, one column per task (a problem at a budget), one row per seed. The definitions are those
of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (NeurIPS 2021), whose library is
`rliable`: the interquartile mean over runs and tasks, performance profiles, the average probability of improvement, and
percentile intervals by a bootstrap that draws seeds again within each task (stratified).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import trim_mean

from ...base import FloatArray

REPEATS = 2000  # bootstrap samples
CONFIDENCE = 0.95


class Estimate(NamedTuple):
    """A statistic with its bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


def interquartile_mean(scores: FloatArray) -> float:
    """The mean of the middle half of all scores `[runs, tasks]`: a quarter of them is cut off at each end."""
    return float(trim_mean(scores, 0.25, axis=None))


def profile(scores: FloatArray, levels: FloatArray) -> FloatArray:
    """The fraction of runs `[levels]` whose score `[runs, tasks]` is at most each level; every task weighs the same."""
    return np.asarray((scores[..., None] <= levels).mean(axis=(0, 1)))


def probability_of_improvement(x: FloatArray, y: FloatArray) -> float:
    """The probability that a run of x has a lower score than a run of y, on a task drawn uniformly; ties count one half.

    Both are `[runs, tasks]` with the same tasks; the numbers of runs may differ. On one task it is the statistic U of Mann
    and Whitney, divided by the number of pairs.
    """
    x, y = x[:, None], y[None]  # [runs, runs, tasks]
    return float((x < y).mean() + 0.5 * (x == y).mean())


def bootstrap(
    statistic: Callable[..., float], *scores: FloatArray, seed: int = 0, repeats: int = REPEATS
) -> Estimate:
    """A statistic of one or more matrices of scores, with the interval between percentiles of its bootstrap distribution.

    Each sample draws runs with replacement, within each task and each matrix by itself.
    """
    rng = np.random.default_rng(seed)
    drawn = [statistic(*(_resampled(rng, x) for x in scores)) for _ in range(repeats)]
    tail = 50.0 * (1.0 - CONFIDENCE)
    low, high = np.percentile(drawn, [tail, 100.0 - tail])
    return Estimate(statistic(*scores), float(low), float(high))


def _resampled(rng: np.random.Generator, scores: FloatArray) -> FloatArray:
    rows = rng.integers(0, len(scores), scores.shape)
    return np.asarray(np.take_along_axis(scores, rows, axis=0))


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The median and both quartiles: median, lower, upper."""
    low, middle, high = np.percentile(np.asarray(values, dtype=np.float64), [25, 50, 75])
    return float(middle), float(low), float(high)
