"""Outcomes that no sample showed: how often a pair must be asked before what it may hide no longer matters.

n equal answers leave room for an outcome of probability 3/n, which they miss in 5% of the cases; 1/n is what one more sample
may be expected to show. The halves of samples by which a loss is estimated (`loss.py`) cannot know of such an outcome. So a
core pair is asked until an outcome of probability 1/n would lose or gain no more than the accuracy, on one of two paths:

- our policy's. There it may be a fall: reward 0, and nothing afterwards. At pair j, with lambda_j expected discounted visits
  and the value q_j, it loses lambda_j q_j / n_j.
- that of an optimist, who takes every pair that was asked too rarely to hide, with probability 1/n_j, the best that was
  seen: the largest reward, 1, and the best state. He plans with it: q+_j = (1 - 1/n_j) q_j + u / n_j, u = 1 + gamma max
  V. Where he gains no more than the accuracy, nothing that is hidden off our path matters; elsewhere his path shows which
  pairs to ask.

A pair that has been asked `HUNTED` times is asked no more for this reason, whatever it may hide: rarer outcomes than that
can tell remain unseen, and the result says so.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..base import FloatArray, IntArray
from ..core import Lift
from .occupancy import visits
from .policy_iteration import FixedPoint, SampledModel

HUNTED = 192  # samples of a pair after which it is no longer asked for what it may hide: .98^192 = 2%
CHANCE = 1.5  # n equal answers are taken to leave room for an outcome of probability CHANCE / n
VARIED = 56  # the same, on average, for pairs that vary: of these the halves of samples can tell something
MET = 0.1  # a policy meets a pair if it visits it so often


def needed(
    sampled: SampledModel, lift: Lift, solution: FixedPoint, target: float, open_: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray]:
    """Samples of each pair on our path, and on the optimist's, that exclude what loses more than `target`: `[m]` each.

    The optimist believes that the pairs `open_ [m]` may hide something. Infinity where it cannot be computed.
    """
    w = sampled.equal()
    ours: FloatArray = np.full(lift.m, np.inf)
    unit = CHANCE * (1.0 - sampled.discount) / target
    met = visits(sampled, lift, w, solution.theta, solution.choice)
    q = np.bincount(sampled.pair, w * sampled.outcomes(solution), lift.m).astype(np.float64)
    if met is not None:
        ours = unit * np.abs(met) * np.maximum(q, 0.0)
    return ours, _optimists(sampled, lift, solution, q, target, open_)


def _optimists(
    sampled: SampledModel,
    lift: Lift,
    solution: FixedPoint,
    q: FloatArray,
    target: float,
    open_: NDArray[np.bool_],
) -> FloatArray:
    """The samples that the optimist's path asks for, `[m]`; zero where he gains no more than the target."""
    p = np.where(open_, CHANCE / sampled.counts, 0.0)
    best = min(1.0 + sampled.discount * sampled.best(solution), sampled.top)
    model = sampled.with_rewards((1.0 - p) * sampled.r + p * best)
    w = sampled.equal() * (1.0 - p)[sampled.pair]
    his = model.solve(lift, w, start=solution.theta)
    met = visits(model, lift, w, his.theta, his.choice) if his.settled else None
    if met is None:
        return np.where(open_, np.inf, 0.0)
    gain = model.value(lift, w, his.theta, his.choice, q=his.q)
    gain -= sampled.value(lift, sampled.equal(), solution.theta, solution.choice, q=solution.q)
    if gain <= target:
        return np.zeros(lift.m)
    return CHANCE * (1.0 - sampled.discount) / target * np.abs(met) * np.maximum(best - q, 0.0) * open_


def fewest_met(sampled: SampledModel, lift: Lift, solution: FixedPoint) -> int:
    """The fewest samples of a pair that the policy meets; 0 if that cannot be computed."""
    met = visits(sampled, lift, sampled.equal(), solution.theta, solution.choice)
    return 0 if met is None or not (met >= MET).any() else int(sampled.counts[met >= MET].min())


def goals(
    ours: FloatArray, his: FloatArray, counts: IntArray, steady: NDArray[np.bool_], shared: bool = False
) -> IntArray:
    """The samples that each pair should have, `[m]`, given what is needed on both paths.

    Pairs that never varied (`steady`) are asked up to `HUNTED` times. The others `VARIED` times; on our path up to
    `HUNTED` times where others of them need less, so that they have `VARIED` on average at most. If they need more on
    average and their noise is `shared`, all have `VARIED`: errors that they share cancel at equal numbers only.
    """
    need = np.maximum(np.minimum(ours, HUNTED), np.minimum(his, np.where(steady, HUNTED, VARIED)))
    need = np.maximum(np.ceil(need).astype(np.int64), counts)
    varied, total = ~steady, VARIED * int((~steady).sum())
    if shared and need[varied].sum() > total:
        return np.where(varied, np.maximum(VARIED, counts), need)
    low, high = VARIED, HUNTED
    while low < high:
        level = (low + high + 1) // 2
        if np.maximum(np.minimum(need, level), counts)[varied].sum() <= total:
            low = level
        else:
            high = level - 1
    return np.where(varied, np.maximum(np.minimum(need, low), counts), need)
