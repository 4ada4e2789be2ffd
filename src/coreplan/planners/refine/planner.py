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
from ..protocol import ReadOut, Setup, Tunable
from .checking import check_state
from .comparing import POOL, PROBES
from .growth import COARSEST, Cells, base_nodes, needed_nodes
from .rolling import Rolling
from .sampling import BASE
from .scouting import first_scouts, found_bounds, provisional, scouted, scouting_actions
from .state import (
    BEGIN,
    DRAW,
    GROWING,
    LAST_DRAW,
    LAST_ROLL,
    NODES,
    PROBE,
    ROLL,
    SCOUT,
    TRY,
    VISITED,
    State,
    as_opaque,
    fresh_state,
)

SAME = 1e-9  # rewards that differ by less are the same
SCOUTS = 0.04  # share of the budget for finding bounds that are not given


@dataclass(frozen=True, kw_only=True, eq=False)
class Refine(Rolling):
    """Planning for a problem with bounds and no features: interpolation on a tree that is split where it pays.

    The box is cut into cells where states go. The corners of cells are nodes; every node is queried with every action, and
    policy iteration on those samples gives each (node, action) a value. Between nodes values are interpolated. So the
    features are convex weights of nodes, the nodes with all actions are an exact core set, and what remains of the paper's
    errors is the inherent Bellman error. Then the policy is rolled out, and leaves on its real path are split where the
    Bellman error, the spread of values or the doubt about the action is largest; where the simulator is random, pairs on the
    path are sampled again. In the end the best policies are rolled out from common initial states, and the best is kept. No
    guarantee is known.

    Parameters
    ----------
    samples: per new node and action, at most; fewer where the simulator's noise is small compared with a cell.
    hold: an action is held until the state has moved by a cell of the base, at most this many steps. All steps are stored;
        after how many of them a sample is cut is found by rolling out the policies of 1, 2, 4, ... steps.
    rounds: of rollouts and splits.
    share: of a round's queries, for rollouts.
    """

    name: ClassVar[str] = "refine"
    tunable: ClassVar[Tunable] = {"samples": (4, 64), "hold": (1, 16), "rounds": (4, 20)}
    needs_core: ClassVar[bool] = False
    needs_box: ClassVar[bool] = True
    first_budget: ClassVar[int] = 50_000
    growing: ClassVar[frozenset[str]] = GROWING
    visited: ClassVar[frozenset[str]] = VISITED

    samples: int = 32
    hold: int = 8
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
        box = provisional(box)
        tick_sizes(box)  # refuses a box that no tree can hold
        corners = base_nodes(box, COARSEST)
        least = corners * setup.n_actions
        if least > BASE * setup.budget:
            raise InputError(
                f"Refine needs {corners:,.0f} nodes for the corners of this box of {box.dimension} coordinates, "
                f"and {setup.n_actions} queries at each: {least:,.0f} of the {setup.budget:,} queries there are, where at "
                f"most {BASE:.0%} should go there. Raise the budget, or give features of your own and plan with `grow`."
            )
        return self.bind(setup)

    # Ask and tell.

    def init(self, rng: np.random.Generator) -> State:
        return fresh_state(self.setup.box)

    def size(self, state: State) -> int | None:
        A, left = self.setup.n_actions, self.setup.budget - state.told
        if state.phase in (BEGIN, DRAW, LAST_DRAW):
            return 0
        if state.phase == PROBE:
            return min(2 * PROBES * A + self._terminal, left)
        if state.phase == NODES:
            return len(state.held)
        if state.phase in (SCOUT, TRY, ROLL):
            return min(len(state.chain_t), max(state.quota, 1))
        return len(state.chain_t) if state.phase == LAST_ROLL else None

    def ask(self, state: State, rng: np.random.Generator) -> Ask | None:
        A, size = self.setup.n_actions, self.size(state)
        if size is None:
            return None
        if size == 0:
            return Ask(states=np.zeros(0), actions=np.zeros(0, dtype=np.int64), n_initial=POOL)
        if state.phase == PROBE:
            return self._probes(state, size)
        if state.phase == NODES:
            actions = state.batch_pair[state.held] % A
            return Ask(states=state.held_states, actions=actions, noise=self._noise(state, rng))
        if state.phase == SCOUT:
            actions = scouting_actions(state, size, A, rng)
        elif state.phase in (TRY, ROLL):
            actions = self._rolling_actions(state, size, rng)
        else:
            actions = self._compared_actions(state)
        return Ask(states=state.chain_states[:size], actions=actions)

    def _probes(self, state: State, size: int) -> Ask:
        """Every action twice at some initial states; and once at the terminated state, if there is one."""
        A, pool = self.setup.n_actions, state.pool_states
        states = np.tile(np.repeat(pool[:PROBES], A, axis=0), (2, *[1] * (pool.ndim - 1)))
        actions = np.tile(np.arange(A), 2 * min(PROBES, len(pool)))
        if self._terminal:
            states = np.concatenate([self._end(state), states])
            actions = np.concatenate([np.zeros(1, dtype=np.int64), actions])
        return Ask(states=states[:size], actions=actions[:size])

    def tell(self, state: State, answers: Answers, rng: np.random.Generator) -> State:
        if state.phase in (BEGIN, DRAW, LAST_DRAW):
            return self._drawn(state, answers)
        assert answers.next_features is not None
        y, end = self._where(answers.next_features)
        state = state._replace(told=state.told + len(y), quota=state.quota - len(y))
        if state.phase == SCOUT:
            state = scouted(state, answers, y, end)
            return state if state.quota > 0 else found_bounds(state, self.setup.box)._replace(phase=PROBE)
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
        fractional = np.flatnonzero(~self.setup.box.whole)
        if pool.dtype.kind in "iu" and len(fractional):
            raise InputError(
                f"The states are whole numbers ({pool.dtype}), and coordinate {fractional[0]} of the box is not declared "
                "so: states between whole numbers could not be simulated. Declare it, whole=[True, ...], or let the "
                "simulator take and return floats."
            )
        state = state._replace(pool_states=pool.copy(), pool_x=x, pool_used=0)
        if state.phase == BEGIN and not self.setup.box.finite.all():
            return first_scouts(state, int(SCOUTS * self.setup.budget))
        if state.phase == BEGIN:
            return state._replace(phase=PROBE)
        if state.phase == DRAW and not state.hold:
            return self._first_trial(state)
        return self._chains(state) if state.phase == DRAW else self._last_chains(state)

    def _probed(self, state: State, answers: Answers, y: FloatArray, end: Any) -> State:
        value = float(answers.rewards[0]) / (1.0 - self.setup.discount) if self._terminal else 0.0
        n = self._enough(state, answers, y, end)
        state = state._replace(samples=n, random=int(answers.drew), end_value=value)
        cells = Cells(state.axis, state.child, state.wanted)
        root = needed_nodes(self._box(state), cells, state.keys)
        state = state._replace(pending=root, quota=int(BASE * self.setup.budget))
        return self._next_batch(self._touched(state, np.concatenate([state.pool_x, y[~end]]), first=True))

    # Results.

    def _read(self, state: State) -> tuple[Tree, FloatArray]:
        if state.chosen >= 0:
            return self._kept(state, state.chosen)
        if state.solved == 0:
            box = self._box(state)
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
        if state.solved == 0:
            return doubts.NO_ROUND()
        rewards = state.R[state.first]  # of first steps
        at_end = state.end_value * (1.0 - self.setup.discount) if state.end.any() else rewards[0]
        same = max(np.ptp(rewards), abs(at_end - rewards[0])) < SAME
        return doubts.SAME_REWARDS(n=f"{len(rewards):,}") if same else None

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
