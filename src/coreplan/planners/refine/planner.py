"""`Refine`: planning with bounds and no features. Features and core set grow together, on a tree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...base import FloatArray, InputError, as_count, as_number, settle
from ...core import CoreSet
from ...features import Features, Tree, tick_sizes, tree_features
from ...sampled import Beliefs
from ...simulate import Answers, Ask
from .. import doubts
from ..doubts import Verdict
from ..protocol import ReadOut, Setup
from .checking import check_state
from .comparing import LAST, POOL, PROBES, Comparing
from .growth import Cells, Steps, base_nodes, grown_to, needed_nodes, q_values, split_leaves, split_scores
from .kernels import solve
from .state import (
    BEGIN,
    DRAW,
    GROWING,
    KEPT,
    LAST_DRAW,
    LAST_ROLL,
    NODES,
    PROBE,
    ROLL,
    VISITED,
    State,
    as_opaque,
    fresh_state,
)

BATCH = 4096  # pairs that are queried at a time
RANDOM = 0.15  # of the actions of every third chain
BASE = 0.4  # share of the budget for the base, at most
SWEEPS = 1500  # of one solve, at most


@dataclass(frozen=True, kw_only=True, eq=False)
class Refine(Comparing):
    """Planning for a problem with bounds and no features: interpolation on a tree that is split where it pays.

    The box is cut into cells where states go. The corners of cells are nodes; every node is queried with every action, and
    policy iteration on those samples gives each (node, action) a value. Between nodes values are interpolated. So the
    features are convex weights of nodes, the nodes with all actions are an exact core set, and what remains of the paper's
    errors is the inherent Bellman error. Then the policy is rolled out, and leaves on its real path are split where the
    Bellman error, the spread of values or the doubt about the action is largest. In the end the best three policies and the
    last are rolled out from common initial states, and the best is kept. No guarantee is known.

    Parameters
    ----------
    samples: per node and action; one where the simulator is deterministic, or its noise small compared with a cell.
    hold: an action is held until the state has moved by a cell, at most this many steps.
    rounds: of rollouts and splits.
    share: of a round's queries, for rollouts.
    """

    name: ClassVar[str] = "refine"
    needs_core: ClassVar[bool] = False
    needs_box: ClassVar[bool] = True
    first_budget: ClassVar[int] = 50_000
    growing: ClassVar[frozenset[str]] = GROWING
    visited: ClassVar[frozenset[str]] = VISITED

    samples: int = 4
    hold: int = 5
    rounds: int = 10
    share: float = 0.25

    def __post_init__(self) -> None:
        settle(self, as_count, "samples", "hold", "rounds")
        settle(self, as_number, "share", what="a number between 0 and 1", good=lambda s: 0.0 < s < 1.0)

    def resolve(self, setup: Setup) -> Refine:
        box = setup.box
        if box is None:
            raise InputError(
                "Refine makes its own features from the bounds of a state: give the problem a box and no features, "
                "Problem(model=..., features=None, box=(low, high), ...)."
            )
        if not box.finite.all():
            i = int(np.argmin(box.finite))
            raise InputError(
                f"Refine needs bounds for every coordinate: coordinate {i} goes from {box.low[i]:g} to {box.high[i]:g}."
            )
        tick_sizes(box)  # refuses a box that no tree can hold
        least = base_nodes(box, 0) * setup.n_actions
        if least > BASE * setup.budget:
            raise InputError(
                f"Refine needs {base_nodes(box, 0):,.0f} nodes for the corners of this box of {box.dimension} coordinates, "
                f"and {setup.n_actions} queries at each: {least:,.0f} of the {setup.budget:,} queries there are, where at "
                f"most {BASE:.0%} should go there. Raise the budget, or give features of your own and plan with `grow`."
            )
        return self.bind(setup)

    # Ask and tell.

    def init(self, rng: np.random.Generator) -> State:
        return fresh_state(self.setup.box.dimension)

    def size(self, state: State) -> int | None:
        A, left = self.setup.n_actions, self.setup.budget - state.told
        if state.phase in (BEGIN, DRAW, LAST_DRAW):
            return 0
        if state.phase == PROBE:
            return min(2 * PROBES * A + self._terminal, left)
        if state.phase == NODES:
            return len(state.held)
        if state.phase in (ROLL, LAST_ROLL):
            return (
                len(state.chain_t)
                if state.phase == LAST_ROLL
                else min(len(state.chain_t), max(state.quota, 1))
            )
        return None

    def ask(self, state: State, rng: np.random.Generator) -> Ask | None:
        A, size = self.setup.n_actions, self.size(state)
        if size is None:
            return None
        if size == 0:
            return Ask(states=np.zeros(0), actions=np.zeros(0, dtype=np.int64), n_initial=POOL)
        if state.phase == PROBE:
            states = np.tile(
                np.repeat(state.pool_states[:PROBES], A, axis=0), (2, *[1] * (state.pool_states.ndim - 1))
            )
            if self._terminal:
                states = np.concatenate([self._end(state), states])
            actions = np.concatenate(
                [np.zeros(int(self._terminal), dtype=np.int64), np.tile(np.arange(A), 2 * PROBES)]
            )
            return Ask(states=states[:size], actions=actions[:size])
        if state.phase == NODES:
            return Ask(states=state.held_states, actions=state.held // self._n(state) % A)
        actions = self._actions(state)[:size]
        if state.phase == ROLL:
            u, other = rng.random(size), rng.integers(0, A, size)
            actions = np.where((state.chain_kind[:size] == 1) & (u < RANDOM), other, actions)
        return Ask(states=state.chain_states[:size], actions=actions)

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        if state.phase in (BEGIN, DRAW, LAST_DRAW):
            return self._drawn(state, answers)
        assert answers.next_features is not None
        y, end = self._where(answers.next_features)
        state = state._replace(told=state.told + len(y), quota=state.quota - len(y))
        if state.phase == PROBE:
            return self._probed(state, answers, y, end)
        if state.phase == NODES:
            return self._queried(state, answers, y, end)
        return self._rolled(state, answers, y, end)

    def _drawn(self, state: State, answers: Answers) -> State:
        """Initial states have come."""
        assert answers.initial_features is not None and answers.initial_states is not None
        x, _ = self._where(answers.initial_features)
        pool, D = answers.initial_states, self.setup.box.dimension
        if pool[0].size != D + self._terminal or pool.dtype.kind not in "fiu":
            raise InputError(
                f"Refine must be able to make states: they must be {D + self._terminal} numbers, its coordinates"
                f"{' and the terminal column' if self._terminal else ''}; got {pool[0].size} of dtype {pool.dtype}."
            )
        state = state._replace(pool_states=pool.copy(), pool_x=x, pool_used=0)
        if state.phase == BEGIN:
            return state._replace(phase=PROBE)
        return self._chains(state) if state.phase == DRAW else self._last_chains(state)

    def _probed(self, state: State, answers: Answers, y: FloatArray, end: Any) -> State:
        value = float(answers.rewards[0]) / (1.0 - self.setup.discount) if self._terminal else 0.0
        noisy = answers.drew and not self._calm(state, answers, y, end)
        state = state._replace(samples=self.samples if noisy else 1, end_value=value)
        cells = Cells(state.axis, state.child, state.wanted)
        root = needed_nodes(self.setup.box, cells, state.keys)
        state = state._replace(pending=root, quota=int(BASE * self.setup.budget))
        return self._next_batch(self._touched(state, np.concatenate([state.pool_x, y[~end]]), first=True))

    def _touched(self, state: State, x: FloatArray, first: bool) -> State:
        """Cells and nodes where states are; nodes of rollouts come before those that samples lead to."""
        box = self.setup.box
        cells = grown_to(box, Cells(state.axis, state.child, state.wanted), x, self._level(state))
        fresh = needed_nodes(box, cells, np.concatenate([state.keys, state.batch, state.pending]))
        roots = state.pending if len(state.keys) == 0 else state.pending[:0]
        rest = state.pending[len(roots) :]
        order = (roots, fresh, rest) if first else (roots, rest, fresh)
        return state._replace(pending=np.concatenate(order), **cells._asdict())

    # Nodes.

    def _next_batch(self, state: State) -> State:
        """Query the next nodes, or solve if there are none or no queries for them."""
        A, n, box = self.setup.n_actions, self._n(state), self.setup.box
        left = min(state.quota, self.setup.budget - state.told - (self._last if len(state.keys) else 0))
        most = max(min(left, BATCH) // (A * n), 0 if len(state.keys) else 2**box.dimension)
        batch = state.pending[:most]
        if len(batch) == 0:
            return self._solved(state)
        S = len(batch) * A * n
        x = box.states(self._ticks(batch) / tick_sizes(box))
        states = as_opaque(np.repeat(x, A * n, axis=0), state.pool_states, self._terminal)
        return state._replace(
            phase=NODES, batch=batch, pending=state.pending[most:], batch_R=np.zeros(S), batch_g=np.ones(S),
            batch_y=np.repeat(x, A * n, axis=0), batch_end=np.zeros(S, dtype=bool), held=np.arange(S), held_states=states,
        )  # fmt: skip

    def _queried(self, state: State, answers: Answers, y: FloatArray, end: Any) -> State:
        """Answers about nodes have come: hold the action on, or store the samples."""
        h, gamma, box = state.held, self.setup.discount, self.setup.box
        state.batch_R[h] += state.batch_g[h] * answers.rewards
        state.batch_g[h] *= gamma
        state.batch_y[h], state.batch_end[h] = y, end
        steps = np.log(state.batch_g[h]) / math.log(gamma)
        x = box.states(self._ticks(state.batch) / tick_sizes(box))[
            h // (self.setup.n_actions * self._n(state))
        ]
        moved = np.abs(y - x) / box.width
        moved = np.where(box.periodic, np.minimum(moved, 1.0 - moved), moved)
        near = (moved < self._cell(state, x)).all(axis=1)
        on = near & ~end & (np.rint(steps) < self.hold) & (not box.whole.any())
        room = self.setup.budget - state.told - self._last
        if on.any() and int(on.sum()) <= min(room, state.quota):
            return state._replace(held=h[on], held_states=answers.next_states[on].copy())
        old = {"R": state.R, "g": state.g, "y": state.y, "end": state.end}
        new: dict[str, Any] = {
            name: np.concatenate([values, getattr(state, f"batch_{name}")]) for name, values in old.items()
        }
        empty = state.batch[:0]
        seen = state.batch_y[~state.batch_end]
        state = state._replace(keys=np.concatenate([state.keys, state.batch]), batch=empty, held=empty, **new)
        return self._next_batch(self._touched(state, seen, first=False))

    # Solving.

    def _solved(self, state: State) -> State:
        """Solve on all samples from the last values on; then roll out, or compare if the budget is used up."""
        A, J, setup = self.setup.n_actions, len(state.keys), self.setup
        state.kept_cells[KEPT], before = len(state.child), int(state.kept_cells[KEPT])
        theta = np.zeros(J * A)
        if state.solved:
            old = self._tree(state, before, state.solved)
            new = Tree(
                setup.box, state.axis[:1], state.child[:1] * 0 - 1, state.keys
            )  # for the places of its nodes
            theta = q_values(old, state.theta, new.nodes()).ravel()
        state = state._replace(solved=J, theta=theta)
        node, weight, _ = self._tree(state).places(state.y)
        H = 1.0 / (1.0 - setup.discount)
        action = np.full(len(state.R), -1)
        solve(
            node, weight, action, state.R, state.g, state.end, state.end_value, theta, A, self._n(state), 1e-7 * H, SWEEPS,
        )  # fmt: skip
        left = setup.budget - state.told - self._last
        if left < max(self._round(state) // 4, 2) or state.rounds >= 4 * self.rounds:
            return self._ended(state)
        return state._replace(phase=DRAW, quota=min(max(int(self.share * self._round(state)), 1), left))

    def _round(self, state: State) -> int:
        """Queries of one round: what the base has left, in equal parts."""
        return max(int((1.0 - LAST - 0.5 * BASE) * self.setup.budget / self.rounds), 1)

    # Rollouts.

    def _chains(self, state: State) -> State:
        """Start a round's chains: every third takes random actions."""
        c = int(np.clip(state.quota // max(state.length, self._T / 3), 3, 24))
        c = min(c, max(state.quota, 1))
        numbers = np.arange(c)
        rows = np.zeros((0, self.setup.box.dimension))
        none, whole = np.zeros(0), np.zeros(0, dtype=np.int64)
        return state._replace(
            phase=ROLL, pool_used=c, chain_states=state.pool_states[:c].copy(), chain_x=state.pool_x[:c].copy(),
            chain_t=np.zeros(c, dtype=np.int64), chain_sum=np.zeros(c), chain_kind=(numbers % 3 == 2).astype(np.int64),
            chain_start=numbers, step_x=rows, step_action=whole, step_reward=none, step_y=rows,
            step_end=np.zeros(0, dtype=bool), step_weight=none, returns=none, lengths=none,
        )  # fmt: skip

    def _rolled(self, state: State, answers: Answers, y: FloatArray, end: Any) -> State:
        """One step of the chains."""
        size, gamma = len(y), self.setup.discount
        x, t = state.chain_x[:size].copy(), state.chain_t[:size]
        actions, r = answers.ask.actions, answers.rewards
        assert actions is not None
        weight = gamma ** t.astype(float)
        state.chain_sum[:size] += weight * r
        t += 1
        stuck = ~end & (y == x).all(axis=1) & (not answers.drew)
        tail = np.where(end, state.end_value, np.where(stuck, r / (1.0 - gamma), 0.0))
        over = end | stuck | (t >= self._T)
        value = state.chain_sum[:size] + gamma ** t.astype(float) * tail
        state.chain_x[:size] = y
        state.chain_states[:size] = answers.next_states
        if state.phase == LAST_ROLL:
            return self._compared(state, over, value)
        state = state._replace(
            step_x=np.concatenate([state.step_x, x]), step_action=np.concatenate([state.step_action, actions]),
            step_reward=np.concatenate([state.step_reward, r]), step_y=np.concatenate([state.step_y, y]),
            step_end=np.concatenate([state.step_end, end]), step_weight=np.concatenate([state.step_weight, weight]),
        )  # fmt: skip
        done = np.flatnonzero(over)
        greedy = done[state.chain_kind[done] == 0]
        state = state._replace(
            returns=np.concatenate([state.returns, value[greedy]]),
            lengths=np.concatenate([state.lengths, t[greedy]]),
        )
        for i in done:  # go on from another initial state
            j = state.pool_used % len(state.pool_x)
            state.chain_states[i], state.chain_x[i] = state.pool_states[j], state.pool_x[j]
            state.chain_t[i], state.chain_sum[i] = 0, 0.0
            state = state._replace(pool_used=state.pool_used + 1)
        return state if state.quota > 0 else self._split(state)

    def _split(self, state: State) -> State:
        """A round of rollouts is over: keep its policy if it is among the best, and split leaves on its path."""
        setup, box = self.setup, self.setup.box
        if len(state.returns):
            state = self._keep(state, float(state.returns.mean()))._replace(
                length=float(state.lengths.mean())
            )
        left = setup.budget - state.told - self._last
        quota = min(self._round(state) - int(self.share * self._round(state)), left)
        steps = Steps(*(getattr(state, f"step_{name}") for name in Steps._fields))
        cost = 2 ** (box.dimension - 1) * setup.n_actions * self._n(state)
        leaves, _, curvature = split_scores(
            self._tree(state), state.theta, steps, setup.discount, state.end_value
        )
        able = leaves < len(state.child)
        most = int(np.clip(quota // cost, 1, max(len(leaves) // 2, 1)))
        cells = Cells(state.axis, state.child, state.wanted)
        grown = split_leaves(box, cells, leaves[able][:most], curvature[able][:most])
        state = state._replace(rounds=state.rounds + 1, quota=quota, **grown._asdict())
        seen = np.concatenate([steps.x, steps.y[~steps.end]])
        return self._next_batch(self._touched(state, seen, first=True))

    # Results.

    def _read(self, state: State) -> tuple[Tree, FloatArray]:
        if state.chosen >= 0:
            return self._kept(state, state.chosen)
        if state.solved == 0:
            box = self.setup.box
            keys = needed_nodes(
                box, Cells(state.axis[:1], np.array([-1]), np.array([True])), np.zeros(0, dtype=np.int64)
            )
            return Tree(box, state.axis[:1], np.array([-1]), keys), np.zeros(len(keys) * self.setup.n_actions)
        return self._tree(state), state.theta

    def policy(self, state: State) -> ReadOut:
        theta = self._read(state)[1]
        full = np.append(theta, state.end_value) if self._terminal else theta.copy()
        return ReadOut(full, math.inf if theta.any() else 1.0)

    def features(self, state: State) -> Features:
        return tree_features(self._read(state)[0], self.setup.n_actions)

    def core(self, state: State) -> CoreSet | None:
        if state.solved == 0:
            return None
        x, A = self._read(state)[0].nodes(), self.setup.n_actions
        states = as_opaque(np.repeat(x, A, axis=0), state.pool_states, self._terminal)
        actions = np.tile(np.arange(A), len(x))
        if self._terminal:
            states, actions = np.concatenate([states, self._end(state)]), np.append(actions, 0)
        return CoreSet(states, actions)

    def beliefs(self, state: State) -> Beliefs | None:
        return Beliefs(self.policy(state).theta) if state.solved else None

    def verdict(self, state: State) -> Verdict | None:
        return doubts.NO_ROUND() if state.solved == 0 else None

    def told(self, state: State) -> int:
        return state.told

    def check(self, state: State) -> None:
        check_state(state, self.setup)

    def numbers(self, state: State) -> Mapping[str, float]:
        return {
            "rounds": float(state.rounds),
            "nodes": float(len(state.keys)),
            "cells": float(len(state.child)),
        }
