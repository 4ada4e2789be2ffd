"""The state of `Refine`, and what follows from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...base import FloatArray, IntArray, States
from ...features import UNAVAILABLE, Box, Phi, dense
from .growth import fresh_cells

BEGIN, PROBE, NODES, DRAW, ROLL, LAST_DRAW, LAST_ROLL, DONE = range(8)  # phases
KEPT = 3  # policies that are kept for the comparison at the end, besides the last

Flags = NDArray[np.bool_]


class State(NamedTuple):
    """Tree, samples, chains that roll out, and the best policies so far. x and y are coordinates, `states` are opaque."""

    phase: int
    told: int  # queries answered
    rounds: int  # done so far
    quota: int  # queries that the phase may still take
    samples: int  # n, per node and action; 0 while it is not known whether the simulator is deterministic
    end_value: float  # of the terminated state
    length: float  # mean length of finished greedy chains in the last round
    solved: int  # nodes at the last solve
    # The tree: cells, nodes that were queried (in this order), and keys of nodes to be queried.
    axis: IntArray  # [N]
    child: IntArray  # [N]
    wanted: Flags  # [N]
    keys: IntArray  # [J]
    pending: IntArray  # [P]
    theta: FloatArray  # [solved A]
    # Samples, A n per node: discounted reward, gamma^steps, coordinates after them, and whether the process has ended.
    R: FloatArray  # [S]
    g: FloatArray  # [S]
    y: FloatArray  # [S, D]
    end: Flags  # [S]
    # The nodes that are being queried, and their samples; those that still hold their action.
    batch: IntArray  # [b]
    batch_R: FloatArray  # [b A n]
    batch_g: FloatArray
    batch_y: FloatArray  # [b A n, D]
    batch_end: Flags
    held: IntArray  # [h], numbers of samples in the batch
    held_states: States  # [h, ...]
    # Initial states, and the chains.
    pool_states: States  # [p, ...]
    pool_x: FloatArray  # [p, D]
    pool_used: int
    chain_states: States  # [c, ...]
    chain_x: FloatArray  # [c, D]
    chain_t: IntArray  # [c]
    chain_sum: FloatArray  # [c], discounted rewards so far
    chain_kind: IntArray  # [c]: 0 greedy, 1 with random actions; at the end the number of the policy
    chain_start: IntArray  # [c], number of the initial state
    # Steps of this round's chains.
    step_x: FloatArray  # [k, D]
    step_action: IntArray
    step_reward: FloatArray
    step_y: FloatArray  # [k, D]
    step_end: Flags
    step_weight: FloatArray
    returns: FloatArray  # [f], of finished greedy chains in this round
    lengths: FloatArray  # [f]
    # The best policies: cells and nodes that they know, what they earned, theta padded with zeros.
    kept_cells: IntArray  # [KEPT + 1], the last place is for the last policy
    kept_nodes: IntArray
    kept_score: FloatArray
    kept_theta: FloatArray  # [KEPT + 1, ...]
    final: (
        FloatArray  # [KEPT + 1, w], what each earned from each initial state at the end; NaN if not finished
    )
    chosen: int  # number of the policy that is returned, -1: the current one


GROWING = frozenset(
    name
    for name, kind in State.__annotations__.items()
    if str(kind) not in ("int", "float") and name not in ("kept_cells", "kept_nodes", "kept_score")
)
VISITED = frozenset({"held_states", "pool_states", "chain_states"})


def fresh_state(D: int) -> State:
    """The state before the first query."""
    none, whole, flags, rows = (
        np.zeros(0),
        np.zeros(0, dtype=np.int64),
        np.zeros(0, dtype=bool),
        np.zeros((0, D)),
    )
    kept = np.zeros(KEPT + 1, dtype=np.int64)
    cells = fresh_cells()
    return State(
        phase=BEGIN, told=0, rounds=0, quota=0, samples=0, end_value=0.0, length=0.0, solved=0, axis=cells.axis,
        child=cells.child, wanted=cells.wanted, keys=whole, pending=whole, theta=none, R=none, g=none, y=rows, end=flags,
        batch=whole, batch_R=none, batch_g=none, batch_y=rows, batch_end=flags, held=whole, held_states=none,
        pool_states=none, pool_x=rows, pool_used=0, chain_states=none, chain_x=rows, chain_t=whole, chain_sum=none,
        chain_kind=whole, chain_start=whole, step_x=rows, step_action=whole, step_reward=none, step_y=rows, step_end=flags,
        step_weight=none, returns=none, lengths=none, kept_cells=kept, kept_nodes=kept.copy(),
        kept_score=np.full(KEPT + 1, -np.inf), kept_theta=np.zeros((KEPT + 1, 0)), final=np.zeros((KEPT + 1, 0)), chosen=-1,
    )  # fmt: skip


def coordinates(phi: Phi, box: Box, dimension: int) -> tuple[FloatArray, Flags]:
    """Coordinates `[n, D]` of states, from features `[n, A, d]`, and which of them have ended; ValueError for masks."""
    rows = dense(phi, dimension)
    if (rows[:, :, 0] == UNAVAILABLE).any():
        raise ValueError("masked")
    D = box.dimension
    unit = rows[:, 0, :D]
    end = rows[:, 0, D + 1] != 0.0 if dimension > D + 1 else np.zeros(len(rows), dtype=bool)
    return box.low + unit * box.width, end


def as_opaque(x: FloatArray, like: States, terminal: bool) -> States:
    """States in the simulator's own form, of coordinates `[n, D]` (and a terminal column), shaped like `like`."""
    rows = np.concatenate([x, np.zeros((len(x), 1))], axis=1) if terminal else x
    rows = np.rint(rows) if like.dtype.kind in "iu" else rows
    return np.ascontiguousarray(rows.reshape(len(x), *like.shape[1:]).astype(like.dtype))
