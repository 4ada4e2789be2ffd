"""When `PlugIn` believes that an accuracy is reached, what it says then of what may be unseen, and why it does not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...core import Lift
from ...sampled import NOTHING, Accuracy, FixedPoint, SampledModel, constant_pairs, estimated_loss, unseen
from .. import doubts
from ..doubts import Verdict
from .rounds import GROWTH, grown, hunted, in_turn, weighted
from .state import State


class Wish(NamedTuple):
    """What a run to an accuracy needs to know of its planner."""

    accuracy: Accuracy
    first: int  # samples of each pair before anything is believed
    shared: bool  # whether all pairs share quasi-random noise
    calm: bool  # whether all answers of a simulator that draws random numbers were the same
    last: bool  # whether no more samples may be asked for
    free: bool  # whether pairs may be asked unequally often


def towards(
    wish: Wish,
    state: State,
    sampled: SampledModel,
    lift: Lift,
    solution: FixedPoint,
    fewer: Callable[[], SampledModel],
) -> State:
    """The state after a solve: with the accuracy reached, or with the pairs to ask next.

    What may be hidden is hunted for first (`sampled/unseen.py`); then the loss is estimated, which takes many more
    solves, and reduced.
    """
    scale, counts, none = _gain(sampled, lift, solution), sampled.counts, np.zeros(0, dtype=np.int64)
    if state.certain:
        return state._replace(error=0.0, scale=scale, reached=solution.settled)
    steady = constant_pairs(state, (sampled.order, sampled.first))
    calm = wish.calm and bool(steady.all())
    state = state._replace(scale=scale, error=math.nan)
    if wish.calm and not calm:
        state = state._replace(random=True, repeats=0)
    if counts.min() < wish.first and not calm:
        behind = in_turn(counts, np.maximum(counts, wish.first)) if wish.free and wish.calm else state.ahead
        return state._replace(ahead=behind)
    hidden, target = none, wish.accuracy.target(scale)
    if wish.free and solution.settled and math.isfinite(target):
        alike = steady | (
            scale <= NOTHING
        )  # where nothing is told apart, rare outcomes may be all that matters
        hidden = hunted(sampled, lift, solution, alike, target, 0 if calm else wish.first, wish.shared)
    if len(hidden) and not wish.last:
        return state._replace(ahead=hidden)
    error, scale = estimated_loss(
        sampled, fewer, lift, solution, rng=np.random.default_rng([state.seed, state.at]), shared=wish.shared,
        accuracy=wish.accuracy, last=wish.last,
    )  # fmt: skip
    reached = bool(solution.settled and error <= target and not len(hidden))
    state = state._replace(error=error, reached=reached, met=unseen.fewest_met(sampled, lift, solution))
    if reached or not wish.free or len(state.ahead):
        return state
    if not len(hidden):
        deciding = weighted(sampled, lift, solution, int(GROWTH * state.at), wish.shared)
        hidden = grown(counts, steady, wish.shared) if deciding is None else deciding
    return state._replace(ahead=hidden)


def _gain(sampled: SampledModel, lift: Lift, solution: FixedPoint) -> float:
    """The optimum minus the value of the uniform policy in the sampled model."""
    w = sampled.equal()
    best = sampled.value(lift, w, solution.theta, solution.choice, q=solution.q)
    return float(best - sampled.value(lift, w, None, None, guess=solution.q))


def reached(error: float, fewest: int, met: int) -> Verdict:
    """The accuracy is reached; `fewest` samples of any pair, `met` of those that the policy meets."""
    where = f"below {3 / fewest:.1%} for {fewest} samples"
    if met > fewest:
        on_path = f"below {3 / met:.1%} at pairs that the policy meets ({met} samples or more)"
        where = f"{on_path}, below {3 / fewest:.1%} elsewhere"
    return doubts.REACHED(error=error, where=where)


def not_reached(
    state: State, target: float, first: int, m: int, repeated: int, fixed: bool, cure: str
) -> Verdict:
    """Why the samples are not enough for the requested accuracy, and what would be."""
    N = state.solved
    if first > N and not state.repeats:
        more = f"raise `samples` to {first}" if fixed else f"raise the budget to {first * m + repeated:,}"
        return doubts.TOO_FEW_TO_TELL(first=first, cure=more)
    if math.isnan(state.error) or math.isnan(target):
        return doubts.NO_ESTIMATE()
    if state.scale <= NOTHING and unseen.HUNTED > N:
        least = unseen.HUNTED * m + repeated
        return doubts.NOTHING_TOLD_APART(N=N, blind=unseen.HUNTED, least=least)
    if state.error <= target:
        return doubts.TOO_FEW_TO_SEE(error=state.error, met=max(state.met, N), cure=cure)
    return doubts.NOT_REACHED(error=state.error, target=target, cure=cure)
