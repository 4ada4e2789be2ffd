"""Which core pairs `PlugIn` asks next, once every pair was asked equally often: as lists of pairs, first things first."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...base import IntArray
from ...core import Lift
from ...sampled import FixedPoint, SampledModel, allocation, unseen
from ...sampled import balanced as to_balance

GROWTH = 1.5  # samples of the next solve to those of this one, towards an accuracy
DOUBLE = 2.0  # the same with a budget


def hunted(
    sampled: SampledModel, lift: Lift, solution: FixedPoint, steady: NDArray[np.bool_], target: float, first: int,
    balanced: bool,
) -> IntArray:  # fmt: skip
    """The pairs to ask before a solution is believed, since they may hide what loses more than `target`; none if none may.

    Every pair is asked `first` times. No number of samples is more than doubled at once: the policy may change. Noise that
    pairs share is quasi-random, and to be `balanced`.
    """
    counts = sampled.counts
    open_ = counts < np.where(steady, unseen.HUNTED, unseen.VARIED)
    ours, his = unseen.needed(sampled, lift, solution, target, open_)
    goals = np.maximum(unseen.goals(ours, his, counts, steady, balanced), first)
    goals = np.minimum(goals, np.maximum(2 * counts, first))
    return in_turn(counts, np.array([to_balance(int(n)) for n in goals]) if balanced else goals)


def rounded(goals: IntArray, counts: IntArray) -> IntArray:
    """The goals that are above the counts, raised to sizes at which quasi-random points are balanced: `[m]`."""
    up = np.array([allocation.after(int(n) - 1) for n in goals])
    return np.where(goals > counts, up, counts)


def in_turn(counts: IntArray, goals: IntArray) -> IntArray:
    """The pairs that lead from counts to goals `[m]`, those with the fewest samples first."""
    more = np.maximum(goals - counts, 0)
    pairs = np.repeat(np.arange(len(counts)), more)
    number = np.arange(len(pairs)) - np.repeat(np.cumsum(more) - more, more) + counts[pairs]
    return pairs[np.lexsort((pairs, number))]


def weighted(
    sampled: SampledModel, lift: Lift, solution: FixedPoint, total: int, shared: bool, always: bool = False
) -> IntArray | None:
    """The pairs whose noise decides, up to `total` samples of all; None if asking all equally often is predicted as good."""
    given, counts = allocation.decisions(sampled, lift, solution, shared), sampled.counts
    if given is None:
        return None
    sizes = allocation.steps(counts, allocation.shares(given, counts), total, shared)
    if not len(sizes[0]) or not (always or allocation.pays(given, counts, sizes)):
        return None
    return np.repeat(*sizes)


def grown(counts: IntArray, steady: NDArray[np.bool_], balanced: bool, factor: float = GROWTH) -> IntArray:
    """The pairs with which every pair that varies (all, if none does) has `factor` times as many samples."""
    varies = ~steady if not steady.all() else steady
    goals = np.where(varies, [math.ceil(factor * int(n)) for n in counts], counts)
    return in_turn(counts, rounded(goals, counts) if balanced else goals)
