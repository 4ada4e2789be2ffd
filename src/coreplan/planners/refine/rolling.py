"""The rounds of `Refine`: rollouts of its policy, and what is split and sampled again after them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import FloatArray, IntArray
from ...simulate import Answers
from .comparing import LAST, POOL, ROOM, clearly_positive
from .growth import Cells, Steps, q_values, split_leaves, split_scores
from .samples import doubtful_pairs
from .sampling import BASE, Sampling
from .state import DRAW, LAST_ROLL, ROLL, TRY, State, joined, kept_chains

TRIALS = 0.08  # share of the budget for trying how long an action should be held
UNCLEAR = 2  # rounds after which a hold is taken although all earn the same
AGAIN = 0.25  # share of a round's samples that goes to pairs that have some, at most
STAYS = (
    10  # steps in one place after which a chain is over, where the simulator is random; else one is enough
)
RANDOM = 0.15  # of the actions of every third chain


def chosen_hold(returns: FloatArray) -> tuple[int, bool]:
    """The number of the shortest hold that is not clearly worse than the best; and whether the returns `[h, c]` tell.

    Clearly worse: by more than the standard error of the difference, chain by chain. Where all earn the same, as when none
    reaches a goal, they do not; the longest is named.
    """
    means = returns.mean(axis=1)
    gap = returns[np.argmax(means)] - returns
    if len(returns) > 1 and np.ptp(means) <= 1e-9 * max(np.abs(means).max(), 1e-9):
        return len(returns) - 1, False
    return int(np.argmax(~clearly_positive(gap, 1.0))), True


class Rolling(Sampling):
    """The part of `Refine` that rolls out, and decides what to split."""

    share: float
    rounds: int

    def _after_solve(self, state: State) -> State:
        """Roll out; or compare, if the budget is used up."""
        setup = self.setup
        left = setup.budget - state.told - self._last
        if state.phase == TRY:
            return self._next_trial(state)
        if left < max(self._round(state) // 4, 2) or state.rounds >= 4 * self.rounds:
            return self._ended(state)
        quota = self.share * self._round(state)
        if not state.hold:
            quota = max(quota, TRIALS * setup.budget)
        return state._replace(phase=DRAW, quota=min(max(int(quota), 1), left))

    def _round(self, state: State) -> int:
        """Queries of one round: what the base has left, in equal parts."""
        return max(int((1.0 - LAST - 0.5 * BASE) * self.setup.budget / self.rounds), 1)

    # How long should an action be held? Samples are cut after 1, 2, 4, ... steps, and the policies rolled out.

    def _first_trial(self, state: State) -> State:
        """Chains from the same initial states for every hold that differs from shorter ones."""
        longest = int(np.diff(np.append(state.first, len(state.R))).max())
        number = 1 + next(i for i, k in enumerate(self._holds) if k >= min(longest, self.hold))
        c = int(np.clip(state.quota // number // self._T, 2, POOL))
        D = self.setup.box.dimension
        state = state._replace(
            phase=TRY, trial=0, trial_quota=state.quota // number, trial_returns=np.full((number, c), np.nan),
            step_x=np.zeros((0, D)), step_action=state.pair[:0], step_reward=np.zeros(0), step_y=np.zeros((0, D)),
            step_end=np.zeros(0, dtype=bool), step_weight=np.zeros(0), lengths=np.zeros(0), returns=np.zeros(0),
        )  # fmt: skip
        return self._solved(state)

    def _next_trial(self, state: State) -> State:
        """Solved with the hold to be tried: roll out. Or with the one that was chosen: split."""
        if state.hold:
            return self._split(state)
        c = state.trial_returns.shape[1]
        none = np.zeros(c, dtype=np.int64)
        return state._replace(
            quota=max(state.trial_quota, c), pool_used=c, chain_states=state.pool_states[:c].copy(),
            chain_x=state.pool_x[:c].copy(), chain_t=none, chain_sum=np.zeros(c), chain_kind=none.copy(),
            chain_start=np.arange(c), chain_stay=none.copy(),
        )  # fmt: skip

    def _tried(self, state: State, over: Any, value: FloatArray) -> State:
        """One step of a trial: chains that are over stop."""
        found = state.trial_returns[state.trial]
        found[state.chain_start] = state.chain_sum
        found[state.chain_start[: len(value)][over]] = value[over]
        on = np.append(~over, np.ones(len(state.chain_t) - len(value), dtype=bool))
        state = joined(state, "", lengths=state.chain_t[~on].astype(float))
        state = kept_chains(state, on)
        if on.any() and state.quota > 0:
            return state
        state = self._keep(state, float(found.mean()))
        if state.trial + 1 < len(state.trial_returns):
            return self._solved(state._replace(trial=state.trial + 1))
        k, clear = chosen_hold(state.trial_returns)
        decided = clear or state.rounds >= UNCLEAR
        state = kept_chains(state, slice(0))
        return self._solved(state._replace(trial=k, hold=self._holds[k] if decided else -1))

    def _chains(self, state: State) -> State:
        """Begin a round: new chains, if they can come to their ends; else those of the last round go on."""
        length = min(ROOM * state.length, self._T) if state.length > 0 else self._T
        c = min(int(np.clip(state.quota // length, 2, 24)), max(state.quota, 1))
        old = min(len(state.chain_t), c) if state.quota < 2 * length else 0
        new = c - old
        D = self.setup.box.dimension
        rows, none, whole = np.zeros((0, D)), np.zeros(0), np.zeros(0, dtype=np.int64)
        joint = {
            "states": state.pool_states[:new], "x": state.pool_x[:new], "t": np.zeros(new, dtype=np.int64),
            "sum": np.zeros(new), "kind": np.zeros(new, dtype=np.int64), "start": np.zeros(new, dtype=np.int64),
            "stay": np.zeros(new, dtype=np.int64),
        }  # fmt: skip
        chains: dict[str, Any] = {
            f"chain_{name}": (
                np.concatenate([getattr(state, f"chain_{name}")[:old], part]) if old else part.copy()
            )
            for name, part in joint.items()
        }
        chains["chain_kind"] = ((np.arange(c) + state.rounds) % 3 == 2).astype(np.int64)
        chains["chain_start"][old:] = state.rounds
        return state._replace(
            phase=ROLL, pool_used=new, **chains, step_x=rows, step_action=whole, step_reward=none, step_y=rows,
            step_end=np.zeros(0, dtype=bool), step_weight=none, returns=none, lengths=none,
        )  # fmt: skip

    def _rolling_actions(self, state: State, size: int, rng: np.random.Generator) -> IntArray:
        """Greedy, but for some random actions in every third chain."""
        greedy = q_values(self._tree(state), state.theta, state.chain_x[:size]).argmax(axis=1)
        u, other = rng.random(size), rng.integers(0, self.setup.n_actions, size)
        return np.where((state.chain_kind[:size] == 1) & (u < RANDOM), other, greedy)

    def _rolled(self, state: State, answers: Answers, y: FloatArray, end: Any) -> State:
        """One step of the chains."""
        size, gamma = len(y), self.setup.discount
        x, t = state.chain_x[:size].copy(), state.chain_t[:size]
        actions, r = answers.ask.actions, answers.rewards
        assert actions is not None
        weight = gamma ** t.astype(float)
        state.chain_sum[:size] += weight * r
        t += 1
        same = (answers.next_states == state.chain_states[:size]).reshape(size, -1).all(axis=1)
        stay = state.chain_stay[:size]
        stay[:] = np.where(same, stay + 1, 0)
        stuck = ~end & (stay >= (STAYS if answers.drew else 1))
        tail = np.where(end, state.end_value, np.where(stuck, r / (1.0 - gamma), 0.0))
        over = end | stuck | (t >= self._T)
        value = state.chain_sum[:size] + gamma ** t.astype(float) * tail
        state.chain_x[:size] = y
        state.chain_states[:size] = answers.next_states
        if state.phase == LAST_ROLL:
            return self._compared(state, over, value)
        state = joined(state, "step_", x=x, action=actions, reward=r, y=y, end=end, weight=weight)
        if state.phase == TRY:
            return self._tried(state, over, value)
        done = np.flatnonzero(over)
        whole = done[(state.chain_kind[done] == 0) & (state.chain_start[done] == state.rounds)]
        greedy = done[state.chain_kind[done] == 0]
        state = joined(state, "", returns=value[whole], lengths=t[greedy].astype(float))
        for i in done:  # go on from another initial state
            j = state.pool_used % len(state.pool_x)
            state.chain_states[i], state.chain_x[i] = state.pool_states[j], state.pool_x[j]
            state.chain_t[i], state.chain_sum[i], state.chain_start[i] = 0, 0.0, state.rounds
            state.chain_stay[i] = 0
            state = state._replace(pool_used=state.pool_used + 1)
        return state if state.quota > 0 else self._split(state)

    def _split(self, state: State) -> State:
        """A round of rollouts is over: keep its policy if it is among the best, and split leaves on its path."""
        setup, box = self.setup, self._box(state)
        if state.phase == ROLL:
            state = self._keep(state, float(state.returns.mean()) if len(state.returns) else math.nan)
        state = state._replace(hold=max(state.hold, 0), phase=ROLL)
        if len(state.lengths):
            state = state._replace(length=float(state.lengths.mean()))
        left = setup.budget - state.told - self._last
        quota = min(self._round(state) - int(self.share * self._round(state)), left)
        steps = Steps(*(getattr(state, f"step_{name}") for name in Steps._fields))
        tree = self._tree(state)
        leaves, _, curvature, error = split_scores(tree, state.theta, steps, setup.discount, state.end_value)
        low, high = tree.edges
        able = (high - low >= 2)[leaves].any(axis=1)  # others are as small as whole coordinates allow
        again = self._again(state, steps, quota, error if able.any() else 0.0)
        cost = 2 ** (box.dimension - 1) * setup.n_actions * self._n(state) * self._steps(state)
        most = int(np.clip((quota - len(again)) // cost, 1, max(len(leaves) // 2, 1)))
        cells = Cells(state.axis, state.child, state.wanted)
        grown = split_leaves(box, cells, leaves[able][:most], curvature[able][:most])
        state = state._replace(rounds=state.rounds + 1, quota=quota, **grown._asdict())
        seen = np.concatenate([steps.x, steps.y[~steps.end]])
        state = self._touched(state, seen, first=True)
        return self._next_batch(state, again) if len(again) else self._next_batch(state)

    def _again(self, state: State, steps: Steps, quota: int, error: float) -> IntArray:
        """Pairs to be sampled once more, each as often as it was: as large a share as sampling has in the errors seen.

        At most `AGAIN` of the quota; all of it if no error is left that a split could mend.
        """
        if not state.random:
            return np.zeros(0, dtype=np.int64)
        samples = self._samples(state)
        pairs, _, noise = doubtful_pairs(
            self._tree(state), state.theta, samples, steps, self.setup.discount, state.end_value
        )
        share = AGAIN * min(1.0, noise / error) if error > 0.0 else 1.0
        n = np.diff(samples.first)[pairs]
        most = int(np.searchsorted(np.cumsum(n * self._steps(state)), share * quota))
        return np.repeat(pairs[:most], n[:most])
