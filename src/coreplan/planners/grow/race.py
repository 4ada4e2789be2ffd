"""The race of `Grow`, where the simulator has no noise: rivals side by side from common initial states; the best is kept.

Least squares with other ridges and horizons, or with a few samples less, may give a policy that earns half as much, and
no quantity of the fit tells. Rollouts do. With noise they rarely can: what two good fits differ by drowns in it, and queries
are worth more as samples.

The race is a row of *heats*. In each, the rivals that are left play from initial states that no heat has had yet, side by
side, and the better half goes on. What a rollout may still earn lies between the smallest and the largest reward for ever,
discounted: so a heat ends as soon as these bounds tell which half is the better one. Where episodes end early if all goes
well, rivals that would play on for long are then given up when the good ones arrive, and queries remain for more initial
states. Where episodes end early if all goes badly, rollouts that go on tell nothing yet: a heat that is cut there would
choose among equals. So if no other heat as long as this one can be paid, this one goes on until it has found the best.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...base import FloatArray, IntArray
from ...features import Sparse
from ...sampled import Equations, WeightedSamples, differ, greedy, which_end
from ...simulate import Answers
from ..protocol import Planner
from .kernels import inverse, uncertainty
from .state import DRAW, OVER, RACE, RECENT, State, ends_of

SHARE = 0.25  # of the budget, for the race
LONGEST = 5.0  # horizons 1 / (1 - gamma) after which a rollout is cut
ROOM = (
    3.5  # horizons for which one rollout of each rival must be affordable: so many rivals there are at most
)
MOST = 10  # rivals: with more, few initial states are left to those that are good
POOL = 64  # initial states that are drawn, and the most rollouts of one rival at a time
FAMILY = (
    (1.35, 1e-3),
    (1.35, 5e-3),
    (1.0, 1e-3),
    (2.0, 1e-3),
    (1.25, 1e-2),
)  # horizon and ridge of bounded fits
INFLUENCE = 0.6  # bounded fits weigh a sample by its uncertainty to the power of minus this
AVERAGED = (
    5  # last rounds, whose mean theta is a rival too: it differs less from run to run than each of them
)


def rivals(state: State, samples: WeightedSamples, dimension: int, discount: float, most: int) -> FloatArray:
    """Bounded fits, the last theta, and earlier ones, `[q <= most, d + 1]`: each acts differently."""
    kept: list[FloatArray] = []
    for other in _candidates(state, samples, dimension, discount):
        if len(kept) >= max(most, 1):
            break
        if all(differ(samples.next_phi, other, one) for one in kept):
            kept.append(other)
    return np.array(kept)


def _candidates(
    state: State, samples: WeightedSamples, dimension: int, discount: float
) -> Iterator[FloatArray]:
    """Bounded fits in turn with the last theta, every fourth one before it, the mean of the last ones, and all others."""
    back = np.arange(1, len(state.recent))  # rounds before the last
    earlier = [state.theta]
    earlier += [
        state.recent[-1 - k]
        for step in (4, 2, 1)
        for k in back
        if k % step == 0 and (step == 4 or k % (2 * step))
    ]
    earlier.insert(3, state.recent[-AVERAGED:].mean(axis=0))
    fits, bounded = list(FAMILY), bounded_influence(state, samples)
    while earlier or fits:
        if fits:
            horizon, ridge = fits.pop(0)
            short = max(0.0, 1 - horizon * (1 - discount))
            yield Equations(bounded, dimension, ridge).solve(short, state.theta)
        if earlier:
            yield earlier.pop(0)


def bounded_influence(state: State, samples: WeightedSamples) -> WeightedSamples:
    """The samples, weighed so that those at the rim of what was met do not decide the fit.

    The uncertainty u = sqrt(phi' S phi) is large where few samples are like this one (`kernels.uncertainty`). Least squares
    bends most for such samples (their *influence*), while a policy acts elsewhere; with weights u^-INFLUENCE it bends less.
    """
    n, k = len(samples.w), samples.phi.weight.shape[1]
    u = np.maximum(
        uncertainty(samples.phi, inverse(state.gram, n, k, floor=0.01)), 1e-6
    )  # rounding can make it 0
    return samples._replace(w=np.where(samples.w > 0.0, u**-INFLUENCE, 0.0))


def remembered(state: State, theta: FloatArray) -> FloatArray:
    """The thetas of the last rounds, `[<= RECENT, d + 1]`, with a new one."""
    return np.concatenate([state.recent, theta[None]])[-RECENT:]


def begun(state: State, live: IntArray, room: int, steps: int) -> State:
    """A heat: the rivals `live` from common initial states; so many that rollouts of `steps` steps cost `room` queries."""
    first = int(state.counts[live[0]])
    s = int(np.clip(room // (len(live) * steps), 1, POOL - first))
    rival, start = np.repeat(live, s), np.tile(np.arange(s), len(live))
    at = first + start
    return state._replace(
        began=state.raced, run_rival=rival, run_start=start, run_step=0, run_sum=np.zeros(len(rival)),
        run_states=state.pool_states[at].copy(), run_index=state.pool_index[at], run_weight=state.pool_weight[at],
        run_done=np.zeros((len(live), s)), run_live=live,
    )  # fmt: skip


def race_actions(state: State) -> IntArray:
    """The greedy action of every rollout, by its own rival."""
    actions, choice = (
        np.zeros(len(state.run_rival), dtype=np.int64),
        np.empty(len(state.run_rival), dtype=np.int64),
    )
    phi = Sparse(state.run_index, state.run_weight)
    for k in np.unique(state.run_rival):
        greedy(phi, state.rivals[k], choice)
        who = state.run_rival == k
        actions[who] = choice[who]
    return actions


def stepped(state: State, answers: Answers, next_phi: Sparse, discount: float) -> State:
    """One step of all rollouts: those that have ended are worth what their end pays, for ever."""
    ends = ends_of(state)
    at = which_end(next_phi, ends)
    total = state.run_sum + discount**state.run_step * answers.rewards
    tail = np.where(at >= 0, ends.rewards[np.maximum(at, 0)] if len(ends.rewards) else 0.0, 0.0)
    total = total + discount ** (state.run_step + 1) * tail / (1.0 - discount)
    place = np.searchsorted(state.run_live, state.run_rival)
    state.run_done[place, state.run_start] = total  # the last word of those that end, and of all so far
    on = at < 0
    assert answers.next_states is not None
    return state._replace(
        raced=state.raced + len(at), run_step=state.run_step + 1, run_rival=state.run_rival[on],
        run_start=state.run_start[on], run_sum=total[on], run_states=answers.next_states[on].copy(),
        run_index=next_phi.index[on], run_weight=next_phi.weight[on],
    )  # fmt: skip


def bounds(state: State, discount: float) -> FloatArray:
    """The least and the most that the sums of returns of the heat's rivals can become, `[2, l]`."""
    place = np.searchsorted(state.run_live, state.run_rival)
    on = np.bincount(place, minlength=len(state.run_live))  # rollouts that go on
    rest = on * discount**state.run_step / (1.0 - discount)
    rewards = state.rewards[: state.filled]
    sure = state.scores[state.run_live] + state.run_done.sum(axis=1)
    return np.array([sure + rest * rewards.min(), sure + rest * rewards.max()])


def survivors(state: State, left: int) -> int:
    """How many of the heat's rivals go on: the better half, or one where `left` queries pay for no other heat as long."""
    half = (len(state.run_live) + 1) // 2
    return half if half * state.run_step <= left else 1


def heat_over(state: State, left: int, discount: float) -> bool:
    """Whether no rollout need go on: all have ended, are long enough, cannot be paid, or cannot change who goes on.

    A heat that has cost half of what was left ends too, as soon as no other rival can still become the best.
    """
    n, spent = len(state.run_rival), state.raced - state.began
    if n == 0 or n > left or state.run_step >= round(LONGEST / (1.0 - discount)):
        return True
    low, high = bounds(state, discount)
    order = np.argsort(-low, kind="stable")
    kept = 1 if spent >= left else survivors(state, left)
    on, out = np.split(order, [kept])
    return bool(high[out].max() <= low[on].min())


def scored(state: State, left: int, discount: float) -> State:
    """The heat's returns, added to the scores of its rivals; the better half goes on (ties: the earlier rival).

    A rollout that goes on counts as what it has earned and the middle of what may follow.
    """
    scores, counts, live = state.scores.copy(), state.counts.copy(), state.run_live
    scores[live] = bounds(state, discount).mean(axis=0)
    counts[live] += state.run_done.shape[1]
    best = np.argsort(-scores[live], kind="stable")[: survivors(state, left)]
    return state._replace(scores=scores, counts=counts, run_live=live[np.sort(best)], **no_runs(state))


def expected(state: State, discount: float) -> int:
    """How many steps the next heat's rollouts will take: as many as this one's, if the best rival's have all ended."""
    place = int(np.argmax(bounds(state, discount)[0]))
    goes_on = (state.run_rival == state.run_live[place]).any()
    return round(LONGEST / (1.0 - discount)) if goes_on else max(state.run_step, 1)


def race_over(state: State, left: int) -> bool:
    """Whether one rival is left, or no initial states or queries for another heat."""
    live = state.run_live
    return len(live) < 2 or int(state.counts[live[0]]) >= POOL or len(live) > left


def best(state: State) -> int:
    """The rival with the largest mean return of those that are left."""
    live = state.run_live
    return int(live[np.argmax(state.scores[live] / np.maximum(state.counts[live], 1))])


def no_runs(state: State) -> dict[str, Any]:
    """Fields of a race without rollouts."""
    return {
        "run_rival": state.run_rival[:0], "run_start": state.run_start[:0], "run_sum": state.run_sum[:0],
        "run_states": state.run_states[:0], "run_index": state.run_index[:0], "run_weight": state.run_weight[:0],
        "run_done": state.run_done[:0], "run_step": 0,
    }  # fmt: skip


class Racing(Planner):
    """The part of `Grow` that races: without noise, rollouts choose among the last policies and other fits."""

    def _gathered(self, state: State) -> int:
        """Queries before the race."""
        return self.setup.budget - (int(SHARE * self.setup.budget) if state.random == 0 else 0)

    def told(self, state: State) -> int:
        return state.filled + state.raced

    def _to_the_race(self, state: State, s: WeightedSamples) -> State:
        left = self.setup.budget - self.told(state)
        state = state._replace(phase=OVER)
        if state.random or self.setup.n_actions == 1 or not np.ptp(state.rewards[: state.filled]):
            return state
        most = min(MOST, int(left * (1.0 - self.setup.discount) / ROOM))
        theta = rivals(state, s, self.setup.dimension, self.setup.discount, most)
        if len(theta) < 2:
            return state
        zero, none = np.zeros(len(theta)), np.zeros(len(theta), dtype=np.int64)
        return state._replace(phase=DRAW, rivals=theta, scores=zero, counts=none)

    def _drawn(self, state: State, pool: tuple[Any, Any, Any]) -> State:
        """Initial states have come: states, and the two arrays of their features."""
        states, index, weight = pool
        state = state._replace(pool_states=states, pool_index=index, pool_weight=weight)
        return self._heat(state, np.arange(len(state.rivals)), self.setup.budget)

    def _heat(self, state: State, live: IntArray, steps: int) -> State:
        """The next heat, where rollouts are expected to take so many steps; half of what is left is for later ones."""
        left = self.setup.budget - self.told(state)
        return begun(state, live, left if len(live) <= 3 else left // 2, steps)._replace(phase=RACE)

    def _raced(self, state: State) -> State:
        """After a step of the race: on, or to the next heat, or to the policy that won."""
        left = self.setup.budget - self.told(state)
        if not heat_over(state, left, self.setup.discount):
            return state
        steps = expected(state, self.setup.discount)
        state = scored(state, left, self.setup.discount)
        if not race_over(state, left):
            return self._heat(state, state.run_live, steps)
        return state._replace(phase=OVER, theta=state.rivals[best(state)].copy(), **no_runs(state))
