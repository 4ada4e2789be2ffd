"""Choosing, from samples alone, how strongly to regularise least squares on core features that are not unit vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..base import FloatArray, IntArray
from ..core import Frame, Lift
from ..features import row_scores
from .policy_iteration import SampledModel, back_up, improve

RIDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


def choose_ridge(sampled: SampledModel, frame: Frame, certain: bool = False) -> float:
    """The ridge whose solution on one half of the samples has the least Bellman error at the core pairs on the other half.

    If the simulator is deterministic (`certain`), one sample per pair stands for both halves.
    It is 0 if the core features are unit vectors or a well-conditioned basis, which need no regularisation.
    """
    m = frame.m
    if frame.units is not None or (m <= frame.d and frame.rank == m and frame.condition < 1e3):
        return 0.0
    fewest = int(sampled.counts.min())
    if fewest < 2 and not certain:
        return RIDGES[2]
    parity = sampled.number % 2
    halves = [sampled.equal()] * 2 if fewest < 2 else [_half(parity == p, sampled.pair) for p in (0, 1)]
    errors = [_held_out_error(sampled, Lift(frame, ridge), halves) for ridge in RIDGES]
    return RIDGES[int(np.argmin(errors))]


def _half(inside: NDArray[np.bool_], pair: IntArray) -> FloatArray:
    """The weights of the rows of one half of the samples of each pair, `[n]`."""
    return inside / np.bincount(pair, inside)[pair]


def _held_out_error(sampled: SampledModel, lift: Lift, halves: list[FloatArray]) -> float:
    """Mean squared Bellman error at the core pairs: solved on one half, measured on the other, summed over both ways."""
    total = 0.0
    for w, other in (halves, halves[::-1]):
        solution = sampled.solve(lift, w)
        if not solution.settled:
            return np.inf
        value, q = np.empty(sampled.n), np.zeros(lift.m)
        improve(sampled.rows, solution.theta, solution.choice, value)
        back_up(value, other, sampled.pair, sampled.top, q)
        here = row_scores(lift.frame.features, solution.theta)
        total += float(((here - sampled.r - sampled.discount * q) ** 2).mean())
    return total
