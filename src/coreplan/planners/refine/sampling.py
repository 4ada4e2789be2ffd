"""The samples of `Refine` while they come: cells where states go, nodes that are queried, and the solve on all of it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ...base import FloatArray, IntArray
from ...simulate import Answers
from .comparing import Comparing
from .growth import Cells, base_nodes, grown_to, needed_nodes, q_values
from .kernels import solve
from .samples import Samples, cut, moved_parts
from .state import KEPT, NODES, State, as_opaque, joined

BATCH = 4096  # pairs that are queried at a time
BASE = 0.4  # share of the budget for the base, at most
OVER = 2.0  # a base of long samples may cost this much more than there is: not all of it is reached
SWEEPS = 1500  # of one solve, at most


class Sampling(Comparing, ABC):
    """The part of `Refine` that samples nodes and solves."""

    hold: int

    @property
    def _holds(self) -> tuple[int, ...]:
        """The holds that are tried: 1, 2, 4, ... and the longest."""
        return (*(2**i for i in range(20) if 2**i < self.hold), self.hold)

    def _touched(self, state: State, x: FloatArray, first: bool) -> State:
        """Cells and nodes where states are; nodes of rollouts come before those that samples lead to."""
        box = self._box(state)
        cells = grown_to(box, Cells(state.axis, state.child, state.wanted), x, self._base(state))
        fresh = needed_nodes(box, cells, np.concatenate([state.keys, state.batch, state.pending]))
        roots = state.pending if len(state.keys) == 0 else state.pending[:0]
        rest = state.pending[len(roots) :]
        order = (roots, fresh, rest) if first else (roots, rest, fresh)
        return state._replace(pending=np.concatenate(order), **cells._asdict())

    # Nodes.

    def _steps(self, state: State) -> float:
        """Queries per sample so far."""
        return len(state.R) / max(len(state.pair), 1) if len(state.pair) else 1.0

    def _longest(self, state: State) -> int:
        """Steps for which an action is held at most, in new samples: before it is decided, so that the base can be paid."""
        if state.hold:
            return state.hold
        base = base_nodes(self._box(state), self._base(state)) * self.setup.n_actions * self._n(state)
        return int(np.clip(math.ceil(OVER * BASE * self.setup.budget / base), 1, self.hold))

    def _still_near(self, state: State, x: FloatArray, y: FloatArray) -> Any:
        """Which states have not yet moved by a cell of the base from x to y, in any coordinate."""
        return (moved_parts(self._box(state), x, y) < self._cell(state)).all(axis=1)

    def _next_batch(self, state: State, again: IntArray | None = None) -> State:
        """Sample pairs `again`, or the next nodes; or solve if there are none or no queries for them."""
        A, n, J = self.setup.n_actions, self._n(state), len(state.keys)
        if again is None:
            left = min(state.quota, self.setup.budget - state.told - (self._last if J else 0))
            per_node = A * n * self._steps(state)
            most = int(max(min(left, BATCH) // per_node, 0 if J else 2**self.setup.box.dimension))
            batch, pending = state.pending[:most], state.pending[most:]
            if len(batch) == 0:
                return self._solved(state)
            pair = np.repeat(J * A + np.arange(len(batch) * A), n)
        else:
            batch, pending, pair = state.batch[:0], state.pending, again
        keys = np.concatenate([state.keys, batch])
        x = self._places(state, keys[pair // A])
        rows, none, whole = np.zeros((0, self.setup.box.dimension)), np.zeros(0), np.zeros(0, dtype=np.int64)
        return state._replace(
            phase=NODES, batch=batch, pending=pending, batch_pair=pair, walk_step=0, walk_sample=whole,
            walk_R=none, walk_y=rows, walk_end=np.zeros(0, dtype=bool), held=np.arange(len(pair)),
            held_sum=np.zeros(len(pair)), held_states=as_opaque(x, state.pool_states, self._terminal),
        )  # fmt: skip

    def _noise(self, state: State, rng: np.random.Generator) -> FloatArray | None:
        """Noise `[h, k]` for the samples of new nodes: common to a node's actions, and evenly spread over a pair's samples.

        None where a pair has one sample: there is nothing to spread, and common noise would err alike for all actions.
        """
        n, k, A = self._n(state), self.setup.noise_dimension, self.setup.n_actions
        if not k or n == 1 or not len(state.batch):
            return None
        node, number = state.held // (n * A), state.held % n
        even = np.stack([rng.permutation(n) for _ in range(k)], axis=1) / n  # [n, k]
        shift = rng.random((len(state.batch), k))
        return (even[number] + shift[node]) % 1.0

    def _queried(self, state: State, answers: Answers, y: FloatArray, end: Any) -> State:
        """Answers about nodes have come: hold the action on, or store the samples."""
        h, A = state.held, self.setup.n_actions
        total = state.held_sum + self.setup.discount**state.walk_step * answers.rewards
        state = joined(state, "walk_", sample=h, R=total, y=y, end=end)._replace(
            walk_step=state.walk_step + 1
        )
        keys = np.concatenate([state.keys, state.batch])
        x = self._places(state, keys[state.batch_pair[h] // A])
        on = ~end & self._still_near(state, x, y) & (not self.setup.box.whole.any())
        room = self.setup.budget - state.told - self._last
        if state.walk_step < self._longest(state) and on.any() and int(on.sum()) <= min(room, state.quota):
            return state._replace(held=h[on], held_sum=total[on], held_states=answers.next_states[on].copy())
        return self._next_batch(self._stored(state))

    def _stored(self, state: State) -> State:
        """The batch's samples, stored; cells and nodes where they went."""
        order = np.argsort(state.walk_sample, kind="stable")
        first = np.searchsorted(state.walk_sample[order], np.arange(len(state.batch_pair)))
        state = joined(
            state, "", pair=state.batch_pair, first=len(state.R) + first, R=state.walk_R[order], y=state.walk_y[order],
            end=state.walk_end[order], keys=state.batch,
        )  # fmt: skip
        seen, empty = state.walk_y[~state.walk_end], state.batch[:0]
        state = state._replace(batch=empty, batch_pair=empty, held=empty)
        return self._touched(state, seen, first=False)

    def _samples(self, state: State) -> Samples:
        """The samples as the present tree sees them."""
        A, box = self.setup.n_actions, self._box(state)
        keys = state.keys[: state.solved]
        x = self._places(state, keys)[state.pair // A]
        return cut(
            state.pair, state.first, state.R, state.y, state.end, x=x, far=self._cell(state), box=box,
            discount=self.setup.discount, hold=self._holds[state.trial], n_pairs=len(keys) * A,
        )  # fmt: skip

    # Solving.

    def _solved(self, state: State) -> State:
        """Solve on all samples, from the last values on."""
        A, J, setup = self.setup.n_actions, len(state.keys), self.setup
        theta = np.zeros(J * A)
        if state.solved:
            old = self._tree(state)
            theta = q_values(old, state.theta, self._places(state, state.keys)).ravel()
        state.kept_cells[KEPT] = len(state.child)
        state = state._replace(solved=J, theta=theta)
        samples = self._samples(state)
        node, weight, _ = self._tree(state).places(samples.y)
        H = 1.0 / (1.0 - setup.discount)
        solve(
            node, weight, np.full(len(node), -1), samples.R, samples.g, samples.end, state.end_value, theta, A,
            samples.first, 1e-7 * H, SWEEPS,
        )  # fmt: skip
        return self._after_solve(state)

    @abstractmethod
    def _after_solve(self, state: State) -> State:
        """What comes after a solve: the rounds say it."""
