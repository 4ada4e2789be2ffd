"""What `Refine` reads from its state, and the comparison of its best policies at the end."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import FloatArray, InputError, IntArray, States
from ...features import Tree, tick_sizes
from ...simulate import Answers
from ..protocol import Planner
from .growth import base_level, q_values
from .state import DONE, KEPT, LAST_DRAW, LAST_ROLL, ROLL, State, as_opaque, coordinates

POOL = 64  # initial states drawn at a time
PROBES = 8  # initial states at which every action is tried twice: how random is the simulator?
CALM = 0.25  # of a cell: with less noise than that, one sample is enough
LENGTH = 3.0  # horizons 1 / (1 - gamma) after which a chain is cut
LAST = 0.12  # share of the budget for the comparison at the end


class Comparing(Planner):
    """The part of `Refine` that keeps policies and compares them."""

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

    def _level(self, state: State) -> int:
        per_node = self.setup.n_actions * max(state.samples, 1)
        return max(base_level(self.setup.box, 0.3 * self.setup.budget / per_node), 0)

    def _tree(self, state: State, cells: int | None = None, nodes: int | None = None) -> Tree:
        """The tree of the first `cells` and `nodes`, by default those of the last solve; the last few are cached."""
        cells = int(state.kept_cells[KEPT]) if cells is None else cells
        nodes = state.solved if nodes is None else nodes
        cache = self.__dict__.setdefault("_trees", {})
        found = cache.get((cells, nodes))
        if found is None or found[1] is not state.keys:
            child = state.child[:cells]
            tree = Tree(
                self.setup.box, state.axis[:cells], np.where(child >= cells, -1, child), state.keys[:nodes]
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

    def _actions(self, state: State) -> IntArray:
        """The greedy actions of all chains, at the end each by its own policy."""
        if state.phase == ROLL:
            return q_values(self._tree(state), state.theta, state.chain_x).argmax(axis=1)
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

    def _ticks(self, keys: IntArray) -> IntArray:
        sizes = tick_sizes(self.setup.box)
        return np.stack(np.unravel_index(keys, tuple(sizes + 1)), axis=1).astype(np.int64)

    def _end(self, state: State) -> States:
        """The terminated state, a batch of one."""
        end = as_opaque(np.zeros((1, self.setup.box.dimension)), state.pool_states, True)
        end.reshape(-1)[-1] = 1
        return end

    def _calm(self, state: State, answers: Answers, y: FloatArray, end: Any) -> bool:
        """Whether two answers to the same pair are so near to each other, compared with a cell, that one is enough."""
        box, first = self.setup.box, int(self._terminal)
        half = (len(y) - first) // 2
        one, two = slice(first, first + half), slice(first + half, first + 2 * half)
        apart = np.abs(y[one] - y[two]) / box.width
        apart = np.where(box.periodic, np.minimum(apart, 1.0 - apart), apart)
        rewards = answers.rewards[one] - answers.rewards[two]
        if half < PROBES * self.setup.n_actions or (end[one] != end[two]).any():
            return False
        spread = np.sqrt((apart**2).mean(axis=0))
        return bool(
            (spread < CALM * self._cell(state, y)).all() and np.sqrt((rewards**2).mean()) < 0.1 * CALM
        )

    def _cell(self, state: State, x: FloatArray) -> FloatArray:
        """The width of the base's cells, relative to the box, `[D]`."""
        return np.full(x.shape[1], 0.5 ** self._level(state)) * 0.999

    # The comparison at the end.

    def _keep(self, state: State, score: float) -> State:
        """Keep the current policy in the place of the worst, if it is better."""
        k = int(np.argmin(state.kept_score[:KEPT]))
        return state if score <= state.kept_score[k] else self._put(state, k, score)

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
        return self._put(state, KEPT, 0.0)._replace(phase=LAST_DRAW)

    def _last_chains(self, state: State) -> State:
        """The next comparison: all kept policies from common initial states, if there are queries for it."""
        who = np.flatnonzero(np.isfinite(state.kept_score))
        first = state.final.shape[1] == 0
        left = self.setup.budget - state.told
        length = self._T if first or state.length == 0 else min(max(state.length * 1.5, 1.0), self._T)
        c = min(int(left / (length * len(who))), POOL // 2 if first else POOL)
        if c == 0 or len(who) == 1 or state.final.shape[1] >= 1024:
            return self._chosen(state)
        start = np.repeat(np.arange(c), len(who))
        return state._replace(
            phase=LAST_ROLL, chain_states=state.pool_states[start].copy(), chain_x=state.pool_x[start].copy(),
            chain_t=np.zeros(len(start), dtype=np.int64), chain_sum=np.zeros(len(start)), chain_kind=np.tile(who, c),
            chain_start=start + state.final.shape[1],
            final=np.concatenate([state.final, np.full((KEPT + 1, c), np.nan)], axis=1),
        )  # fmt: skip

    def _compared(self, state: State, over: Any, value: FloatArray) -> State:
        state.final[state.chain_kind[over], state.chain_start[over]] = value[over]
        on = ~over
        names = ("states", "x", "t", "sum", "kind", "start")
        state = state._replace(**{f"chain_{name}": getattr(state, f"chain_{name}")[on] for name in names})
        if on.any() and int(on.sum()) <= self.setup.budget - state.told:
            return state
        return self._chosen(state) if on.any() else state._replace(phase=LAST_DRAW)

    def _chosen(self, state: State) -> State:
        """The policy with the largest mean over the initial states from which all have finished; ties to the last."""
        who = np.flatnonzero(np.isfinite(state.kept_score))
        good = np.isfinite(state.final[who]).all(axis=0)
        means = state.final[who][:, good].mean(axis=1) if good.any() else np.zeros(len(who))
        best = who[len(who) - 1 - int(np.argmax(means[::-1]))]
        return state._replace(phase=DONE, chosen=int(best))
