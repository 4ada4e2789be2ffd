"""What `Refine` reads from its state, and the comparison of its best policies at the end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import FloatArray, InputError, IntArray, States
from ...features import Box, Tree, tick_sizes
from ...simulate import Answers
from ..protocol import Planner
from .growth import Base, finest_base, q_values, widest_cells
from .samples import moves
from .scouting import provisional
from .state import DONE, KEPT, LAST_DRAW, LAST_ROLL, State, as_opaque, coordinates, kept_chains

POOL = 64  # initial states drawn at a time
PROBES = 8  # initial states at which every action is tried twice: how random is the simulator?
FEW = 4  # samples where the noise cannot be compared with a cell: ends, or too few probes
CALM = 0.5  # of a cell: noise in the mean of a pair's samples that is no harm
CLEAR = 0.35  # of what the choice of an action does to the next state: the same
LENGTH = 3.0  # horizons 1 / (1 - gamma) after which a chain is cut
UNKNOWN = 1e9  # less the round: the score of a policy of which no chain has ended
LAST = 0.12  # share of the budget for the comparison at the end
ROOM = 1.25  # chains are taken to be this much longer than the mean of those before
LEAST = 8  # rollouts of each policy that should be affordable at the end; else fewer policies are compared
CLEARLY = 1.5  # standard errors by which a policy must earn more than the last to be taken instead


def clearly_positive(gaps: FloatArray, errors: float) -> Any:
    """Whether the mean of differences `[..., c]` is more than so many standard errors above 0; one alone never is."""
    c = gaps.shape[-1]
    if c < 2:
        return np.zeros(gaps.shape[:-1], dtype=bool)
    return gaps.mean(axis=-1) > errors * gaps.std(axis=-1, ddof=1) / math.sqrt(c)


def hidden_choice(one: FloatArray, two: FloatArray) -> float:
    """How much larger the noise of a step is than what the choice of an action does to it: a ratio of variances.

    `one` and `two` are moves `[n, A, D]` by every action, from the same states.
    """
    noise = float(((one - two) ** 2).sum(axis=2).mean()) / 2
    means = (one + two) / 2
    A = means.shape[1]
    if A < 2 or noise == 0.0:
        return 0.0
    spread = float(means.var(axis=1, ddof=1).sum(axis=1).mean()) - noise / 2
    return noise / max(spread, 1e-12 * noise)


class Comparing(Planner):
    """The part of `Refine` that keeps policies and compares them."""

    samples: int

    # What follows from state and setup.

    @property
    def _terminal(self) -> bool:
        return bool(self.setup.dimension > self.setup.box.dimension + 1)

    @property
    def _T(self) -> int:
        """The longest chain."""
        return max(1, math.ceil(LENGTH / (1.0 - self.setup.discount)))

    @property
    def _last(self) -> int:
        return int(LAST * self.setup.budget)

    def _box(self, state: State) -> Box:
        """The box, with the bounds that scouts have found."""
        given = self.setup.box
        if given.finite.all():
            return given
        cache = self.__dict__.setdefault("_boxes", {})
        key = (state.low.tobytes(), state.high.tobytes())
        if key not in cache:
            cache[key] = provisional(Box(state.low, state.high, given.periodic, given.whole))
        return cache[key]

    def _base(self, state: State) -> Base:
        per_node = self.setup.n_actions * max(state.samples, 1)
        return finest_base(self._box(state), 0.3 * self.setup.budget / per_node)

    def _cell(self, state: State) -> FloatArray:
        """The width of the base's cells, `[D]`, as a part of the box."""
        return np.full(self.setup.box.dimension, 0.999 * 0.5 ** self._base(state).level)

    def _tree(self, state: State, cells: int | None = None, nodes: int | None = None) -> Tree:
        """The tree of the first `cells` and `nodes`, by default those of the last solve; the last few are cached."""
        cells = int(state.kept_cells[KEPT]) if cells is None else cells
        nodes = state.solved if nodes is None else nodes
        cache = self.__dict__.setdefault("_trees", {})
        found = cache.get((cells, nodes))
        if found is None or found[1] is not state.keys:
            child = state.child[:cells]
            tree = Tree(
                self._box(state), state.axis[:cells], np.where(child >= cells, -1, child), state.keys[:nodes]
            )
            for key in list(cache)[: max(len(cache) - KEPT - 1, 0)]:
                del cache[key]
            cache[cells, nodes] = found = (tree, state.keys)
        return found[0]

    def _n(self, state: State) -> int:
        return max(state.samples, 1)

    def _kept(self, state: State, k: int) -> tuple[Tree, FloatArray]:
        cells, nodes = int(state.kept_cells[k]), int(state.kept_nodes[k])
        return self._tree(state, cells, nodes), state.kept_theta[k, : nodes * self.setup.n_actions]

    def _compared_actions(self, state: State) -> IntArray:
        """The greedy actions of all chains at the end, each by its own policy."""
        actions = np.zeros(len(state.chain_t), dtype=np.int64)
        for k in np.unique(state.chain_kind):
            tree, theta = self._kept(state, int(k))
            who = state.chain_kind == k
            actions[who] = q_values(tree, theta, state.chain_x[who]).argmax(axis=1)
        return actions

    def _where(self, phi: Any) -> tuple[FloatArray, Any]:
        try:
            return coordinates(phi, self.setup.box, self.setup.dimension)
        except ValueError:
            raise InputError(
                "Refine does not know masks: it makes states of its own, and cannot tell which actions they have. Let a "
                "forbidden action do nothing, or give features of your own."
            ) from None

    def _places(self, state: State, keys: IntArray) -> FloatArray:
        """The coordinates `[n, D]` of nodes."""
        box = self._box(state)
        sizes = tick_sizes(box)
        ticks = np.stack(np.unravel_index(keys, tuple(sizes + 1)), axis=1).astype(np.int64)
        return box.states(ticks / sizes)

    def _end(self, state: State) -> States:
        """The terminated state, a batch of one."""
        end = as_opaque(np.zeros((1, self.setup.box.dimension)), state.pool_states, True)
        end.reshape(-1)[-1] = 1
        return end

    def _enough(self, state: State, answers: Answers, y: FloatArray, end: Any) -> int:
        """How many samples per pair are enough: their mean should vary by less than `CALM` of a cell of the base.

        And by less than `CLEAR` of what the choice of an action does, since it must tell actions apart; the rewards by less
        than a tenth of `CALM` (these ask for eight samples at most). All is judged by two answers each to the same pairs.
        """
        A, first, most = self.setup.n_actions, int(self._terminal), max(self.samples, 1)
        half = (len(y) - first) // 2
        one, two = slice(first, first + half), slice(first + half, first + 2 * half)
        if not answers.drew:
            return 1
        if half < PROBES * A or (end[one] != end[two]).any():
            return min(most, FEW)
        box, x = self._box(state), np.repeat(state.pool_x[:PROBES], A, axis=0)
        noise = (moves(box, y[one], y[two]) ** 2).mean(axis=0)
        rewards = ((answers.rewards[one] - answers.rewards[two]) ** 2).mean() / (0.1 * CALM) ** 2
        first_moves, again = (moves(box, x, y[part]).reshape(PROBES, A, -1) for part in (one, two))
        hidden = hidden_choice(first_moves, again) / CLEAR**2
        for n in range(1, most):
            cell = widest_cells(box, self._base(state._replace(samples=n))) / tick_sizes(box)
            if max((noise / (CALM * cell) ** 2).max(), min(rewards, 2 * FEW), hidden) <= n:
                return n
        return most

    # The comparison at the end.

    def _keep(self, state: State, score: float) -> State:
        """Keep the current policy for the worst one, if it is better; if nothing is known of it, for the oldest such."""
        kept = state.kept_score[:KEPT]
        if not math.isnan(score):
            k = int(np.argmin(kept))
            return state if score <= kept[k] else self._put(state, k, score)
        unknown = np.flatnonzero((kept < 0) & (kept > -np.inf))
        k = int(unknown[np.argmin(kept[unknown])]) if len(unknown) > KEPT // 2 else int(np.argmin(kept))
        return self._put(state, k, state.rounds - UNKNOWN)

    def _put(self, state: State, k: int, score: float) -> State:
        theta = np.zeros((KEPT + 1, max(state.kept_theta.shape[1], len(state.theta))))
        theta[:, : state.kept_theta.shape[1]] = state.kept_theta
        theta[k] = 0.0
        theta[k, : len(state.theta)] = state.theta
        state.kept_cells[k], state.kept_nodes[k], state.kept_score[k] = (
            state.kept_cells[KEPT],
            state.solved,
            score,
        )
        return state._replace(kept_theta=theta)

    def _ended(self, state: State) -> State:
        return self._put(state, KEPT, math.inf)._replace(phase=LAST_DRAW)

    def _last_chains(self, state: State) -> State:
        """The next comparison: all kept policies from common initial states, if there are queries for it."""
        left = self.setup.budget - state.told
        first = state.final.shape[1] == 0
        length = self._T if state.length == 0 else min(max(state.length * ROOM, 1.0), self._T)
        affordable = int(left / length)
        who = np.flatnonzero(state.kept_score > -np.inf)
        if first:  # so many that each can be rolled out a few times; the last has the score infinity
            most = max(affordable // LEAST, 2)
            who = np.sort(who[np.argsort(-state.kept_score[who], kind="stable")[:most]])
        else:  # the better half goes on, and the last
            means = np.where(who == KEPT, np.inf, np.nanmean(state.final[who], axis=1))
            who = np.sort(who[np.argsort(-means, kind="stable")[: max((len(who) + 1) // 2, 2)]])
        c = min(int(affordable / max(len(who), 1) / (1 if len(who) <= 2 else 2) + 0.5), POOL)
        c = min(c, affordable // max(len(who), 1))
        if c == 0 or len(who) <= 1 or state.final.shape[1] >= 1024:
            return self._chosen(state)
        score = np.full(KEPT + 1, -np.inf)
        score[who] = state.kept_score[who]
        start = np.repeat(np.arange(c), len(who))
        return state._replace(
            phase=LAST_ROLL, chain_states=state.pool_states[start].copy(), chain_x=state.pool_x[start].copy(),
            chain_t=np.zeros(len(start), dtype=np.int64), chain_sum=np.zeros(len(start)), chain_kind=np.tile(who, c),
            chain_start=start + state.final.shape[1], chain_stay=np.zeros(len(start), dtype=np.int64), kept_score=score,
            final=np.concatenate([state.final, np.full((KEPT + 1, c), np.nan)], axis=1),
        )  # fmt: skip

    def _compared(self, state: State, over: Any, value: FloatArray) -> State:
        state.final[state.chain_kind[over], state.chain_start[over]] = value[over]
        on = ~over
        state = kept_chains(state, on)
        if on.any() and int(on.sum()) <= self.setup.budget - state.told:
            return state
        return self._chosen(state) if on.any() else state._replace(phase=LAST_DRAW)

    def _chosen(self, state: State) -> State:
        """The last policy, which knows most; or the best, if it earns clearly more from the same initial states."""
        who = np.flatnonzero(state.kept_score > -np.inf)
        found = state.final[:, np.isfinite(state.final[who]).all(axis=0)]
        if found.shape[1] == 0:
            return state._replace(phase=DONE, chosen=KEPT)
        best = int(who[np.argmax(found[who].mean(axis=1))])
        better = clearly_positive(found[best] - found[KEPT], CLEARLY)
        return state._replace(phase=DONE, chosen=best if better else KEPT)
