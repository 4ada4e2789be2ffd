"""Features of states with a clock, for problems with a horizon: the features of the state, crossed with time.

A state with a clock is a row of numbers: those of the state, the step t, and the terminal column (`terminal.py`).
`TimeFeatures` is the map of the living rows, without that column: psi(t) (x) phi(x, a), with one block of coordinates for
every step, or with fewer blocks at nodes in time and linear interpolation between them. The product of convex weights is
convex: a core set of phi, repeated at every node, is one of the product, and just as exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import FeatureError, FloatArray, InputError, IntArray, SimulatorError, States, shown
from .batch import Phi, available, crossed, forbid, leading
from .protocol import Features, checked, fingerprint
from .terminal import alive, as_rows, ended

_EXACT = 2**53  # the largest whole number up to which float64 holds every one


def at_time(states: Any, t: Any) -> FloatArray:
    """States `[n, ...]` at step t, as a problem with a horizon has them: the state's numbers, t, and 0 for "not ended".

    `t` is a number, the same for all, or one per state `[n]`. A policy that was planned with a horizon acts on
    `at_time(states, t)`. Where the states have a terminal column of their own, leave it out.
    """
    rows = as_rows("at_time", states)
    try:
        clock = np.broadcast_to(np.asarray(t, dtype=np.float64), (len(rows),))
    except Exception:  # whatever NumPy, or an object of the user's, raises
        raise InputError(
            f"`at_time(states, t)` needs one step, or one per state, here {len(rows)}; got {shown(t)}."
        ) from None
    return alive(np.column_stack([rows, clock]))


@dataclass(frozen=True)
class Rows:
    """How states `[n, *shape]` of a dtype are written as rows of float64 `[n, D]`, and read back.

    With `terminal`, the states' last column is a terminal column: rows are without it, and those that are read back live.
    """

    shape: tuple[int, ...]
    dtype: Any
    terminal: bool = False

    @property
    def columns(self) -> int:
        """D, the numbers of a row."""
        return int(np.prod(self.shape)) - self.terminal

    def write(self, states: States) -> FloatArray:
        """States as rows `[n, D]`."""
        if states.shape[1:] != self.shape or states.dtype.kind not in "fiub":
            raise SimulatorError(
                f"States must be numbers of shape {self.shape} each, like the first initial state; got an array of shape "
                f"{states.shape} and dtype {states.dtype}."
            )
        if states.dtype.kind in "iu" and states.size:
            largest = max(abs(int(states.min())), abs(int(states.max())))
            if largest > _EXACT:
                raise SimulatorError(
                    f"The state holds the whole number {largest}, beyond 2^53. With a horizon states are rows of float64, "
                    "which would round it."
                )
        rows = states.reshape(len(states), int(np.prod(self.shape))).astype(np.float64)
        return rows[:, :-1] if self.terminal else rows

    def read(self, rows: FloatArray) -> States:
        """States `[n, *shape]` from rows `[n, D]`."""
        if self.terminal:
            rows = alive(rows)
        whole = np.dtype(self.dtype).kind in "iub"
        return (np.rint(rows) if whole else rows).astype(self.dtype).reshape(len(rows), *self.shape)

    def over(self, states: States) -> Any:
        """Which of the states have ended by themselves, bool `[n]`."""
        return ended(states) if self.terminal else np.zeros(len(states), dtype=bool)


@dataclass(frozen=True)
class TimeFeatures:
    """The map of living states with a clock `[n, D + 1]`; `with_terminal` adds the feature of the end.

    `nodes [T]` are the steps that have a block of coordinates, rising from 0 to the last step; with all steps, the
    features are exact in time. Always sparse: k entries, or 2 k between nodes. If the base map is dense, k is its d.
    """

    base: Features
    rows: Rows
    nodes: IntArray

    @property
    def n_actions(self) -> int:
        return self.base.n_actions

    @property
    def block(self) -> int:
        """The coordinates per node in time: those of the base, without its own for the end, which no living state has."""
        return self.base.dimension - self.rows.terminal

    @property
    def dimension(self) -> int:
        return len(self.nodes) * self.block

    @property
    def radius(self) -> float:
        return self.base.radius

    @property
    def exact(self) -> bool:
        """Whether every step is a node."""
        return len(self.nodes) == self.steps

    @property
    def steps(self) -> int:
        """The horizon: the clock goes from 0 to steps - 1."""
        return int(self.nodes[-1]) + 1

    @property
    def nonzeros(self) -> int:
        k = self.block if self.base.nonzeros is None else self.base.nonzeros
        return k if self.exact else 2 * k

    @property
    def name(self) -> str:
        return f"{getattr(self.base, 'name', type(self.base).__name__)} by time"

    @property
    def state_shape(self) -> tuple[int, ...]:
        return (self.rows.columns + 1,)

    @property
    def state_dtype(self) -> Any:
        return np.float64

    def whole(self, states: States) -> tuple[States, bool]:
        """States `[n, D + 2]` as a batch, and whether ONE was given. No column may be missing.

        A row that lacks the clock but has the terminal column would pass for one at step 0 that lacks the other.
        """
        columns = self.rows.columns + 2
        if states.shape[-1:] != (columns,) or states.ndim > 2:
            raise InputError(
                f"The policy was planned with a horizon of {self.steps}: it acts on the {columns - 2} numbers of the state, "
                f"the step and the terminal column. Give coreplan.problem.at_time(states, t), of shape (n, {columns}); got "
                f"{states.shape}."
            )
        return (states[None], True) if states.ndim == 1 else (states, False)

    @property
    def core(self) -> Callable[[], tuple[States, IntArray]] | None:
        """The base's core set at every node in time, if it carries one."""
        carried = getattr(self.base, "core", None)
        return None if carried is None else lambda: self.at_nodes(*carried())

    def at_nodes(self, states: States, actions: IntArray) -> tuple[FloatArray, IntArray]:
        """Core pairs of the base at every node in time: rows with a clock `[T m, D + 1]`, actions `[T m]`."""
        states, actions = np.asarray(states), np.asarray(actions)
        living = ~self.rows.over(states)
        rows, T = self.rows.write(states[living]), len(self.nodes)
        clock = np.repeat(self.nodes, len(rows))
        return np.column_stack([np.tile(rows, (T, 1)), clock]), np.tile(actions[living], T)

    def covered(self, states: States) -> tuple[Features, States]:
        """For the check of the box: the base map, and the states as it sees them."""
        return self.base, self.rows.read(states[:, :-1])

    def __call__(self, states: States) -> Phi:
        states = np.asarray(states, dtype=np.float64)
        clock = states[:, -1]
        wrong = np.flatnonzero(~((clock >= 0) & (clock < self.steps) & (clock == np.rint(clock))))
        if len(wrong):
            raise FeatureError(
                f"The clock of the state {shown(states[wrong[0]])} is {clock[wrong[0]]:g}; with a horizon of {self.steps} "
                f"it is a whole number from 0 to {self.steps - 1}. coreplan.problem.at_time(states, t) sets it."
            )
        phi = leading(checked(self.base, self.rows.read(states[:, :-1])), self.block)
        blocks, weights = self._times(clock)
        return forbid(crossed(phi, blocks, weights, self.block), ~available(phi))

    def _times(self, clock: FloatArray) -> tuple[IntArray, FloatArray]:
        """psi(t): the numbers of the nodes next to each step `[n, 1 or 2]`, and their weights."""
        if self.exact:
            return clock.astype(np.int64)[:, None], np.ones((len(clock), 1))
        j = np.clip(np.searchsorted(self.nodes, clock, side="right") - 1, 0, len(self.nodes) - 2)
        z = (clock - self.nodes[j]) / (self.nodes[j + 1] - self.nodes[j])
        return np.column_stack([j, j + 1]), np.column_stack([1.0 - z, z])

    @property
    def description(self) -> Mapping[str, Any]:
        return {
            "kind": "TimeFeatures",
            "n_actions": int(self.n_actions),
            "dimension": int(self.dimension),
            "radius": float(self.radius),
            "nonzeros": int(self.nonzeros),
            "base": fingerprint(self.base),
            "steps": self.steps,
            "nodes": len(self.nodes),
        }


def time_nodes(steps: int, nodes: int | None) -> IntArray:
    """`nodes` steps spread evenly from 0 to steps - 1, whole numbers; all steps by default."""
    return np.rint(np.linspace(0, steps - 1, steps if nodes is None else nodes)).astype(np.int64)
