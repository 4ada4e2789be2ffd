"""The state of `Refine`, and what follows from it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...base import FloatArray, IntArray, States
from ...features import UNAVAILABLE, Box, Phi, dense
from .growth import fresh_cells

BEGIN, SCOUT, PROBE, NODES, DRAW, TRY, ROLL, LAST_DRAW, LAST_ROLL, DONE = range(10)  # phases
KEPT = 7  # policies that are kept for the comparison at the end, besides the last

Flags = NDArray[np.bool_]


class State(NamedTuple):
    """Tree, samples, chains that roll out, and the best policies so far. x and y are coordinates, `states` are opaque."""

    phase: int
    told: int  # queries answered
    rounds: int  # done so far
    quota: int  # queries that the phase may still take
    samples: int  # n, per new node and action; 0 while it is not known whether the simulator is deterministic
    random: int  # 1 if the simulator draws random numbers
    hold: int  # steps that an action is held at most, in what the samples say; 0 while it is not decided
    trial: int  # number of the hold that is tried, or was chosen
    trial_quota: int  # queries for each
    end_value: float  # of the terminated state
    length: float  # mean length of finished greedy chains in the last round
    solved: int  # nodes at the last solve
    low: FloatArray  # [D], the box; infinite until scouts have found a bound that was not given
    high: FloatArray  # [D]
    # The tree: cells, nodes that were queried (in this order), and keys of nodes to be queried.
    axis: IntArray  # [N]
    child: IntArray  # [N]
    wanted: Flags  # [N]
    keys: IntArray  # [J]
    pending: IntArray  # [P]
    theta: FloatArray  # [solved A]
    # Samples: each holds its action for one step or more, and all its steps are stored, one sample after the other.
    pair: IntArray  # [S], node times A plus action
    first: IntArray  # [S], the number of its first step
    R: FloatArray  # [W], discounted rewards of the sample up to this step
    y: FloatArray  # [W, D], coordinates after it
    end: Flags  # [W], whether the process has ended there
    # The pairs that are being sampled, with the keys of those nodes that are new; the steps so far; who still holds.
    batch: IntArray  # [b]
    batch_pair: IntArray  # [B]
    walk_step: int  # steps of the batch so far
    walk_sample: IntArray  # [w]
    walk_R: FloatArray
    walk_y: FloatArray  # [w, D]
    walk_end: Flags
    held: IntArray  # [h], numbers of samples in the batch
    held_sum: FloatArray  # [h], their discounted rewards so far
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
    chain_start: (
        IntArray  # [c], number of the initial state at the end; before, the round in which the chain began
    )
    chain_stay: IntArray  # [c], steps since the state last changed
    trial_returns: (
        FloatArray  # [h, c], what the policies of the holds tried so far have earned, chain by chain
    )
    # Steps of this round's chains.
    step_x: FloatArray  # [k, D]
    step_action: IntArray
    step_reward: FloatArray
    step_y: FloatArray  # [k, D]
    step_end: Flags
    step_weight: FloatArray
    returns: FloatArray  # [f], of greedy chains that began and ended in this round
    lengths: FloatArray  # [f]
    # The best policies: cells and nodes that they know, what they earned, theta padded with zeros.
    kept_cells: IntArray  # [KEPT + 1], the last place is for the last policy
    kept_nodes: IntArray
    kept_score: FloatArray
    kept_theta: FloatArray  # [KEPT + 1, ...]
    final: FloatArray  # [KEPT + 1, w], what each earned from each initial state at the end; NaN: not finished
    chosen: int  # number of the policy that is returned, -1: the current one


CHAIN = (
    "states",
    "x",
    "t",
    "sum",
    "kind",
    "start",
    "stay",
)  # what there is of every chain: chain_states, chain_x, ...
FIXED = ("kept_cells", "kept_nodes", "kept_score", "low", "high")
GROWING = frozenset(
    name
    for name, kind in State.__annotations__.items()
    if str(kind) not in ("int", "float") and name not in FIXED
)
VISITED = frozenset({"held_states", "pool_states", "chain_states"})


def fresh_state(box: Box) -> State:
    """The state before the first query."""
    none, whole, flags = np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool)
    rows, kept, cells = np.zeros((0, box.dimension)), np.zeros(KEPT + 1, dtype=np.int64), fresh_cells()
    return State(
        phase=BEGIN, told=0, rounds=0, quota=0, samples=0, random=1, hold=0, trial=0, trial_quota=0, end_value=0.0,
        length=0.0, solved=0,
        low=box.low.copy(), high=box.high.copy(), axis=cells.axis, child=cells.child, wanted=cells.wanted, keys=whole,
        pending=whole, theta=none, pair=whole, first=whole, R=none, y=rows, end=flags, batch=whole, batch_pair=whole,
        walk_step=0, walk_sample=whole, walk_R=none, walk_y=rows, walk_end=flags, held=whole, held_sum=none,
        held_states=none, pool_states=none, pool_x=rows, pool_used=0, chain_states=none, chain_x=rows, chain_t=whole,
        chain_sum=none, chain_kind=whole, chain_start=whole, chain_stay=whole, trial_returns=np.zeros((0, 0)),
        step_x=rows, step_action=whole, step_reward=none, step_y=rows,
        step_end=flags, step_weight=none, returns=none, lengths=none, kept_cells=kept, kept_nodes=kept.copy(),
        kept_score=np.full(KEPT + 1, -np.inf), kept_theta=np.zeros((KEPT + 1, 0)), final=np.zeros((KEPT + 1, 0)), chosen=-1,
    )  # fmt: skip


def coordinates(phi: Phi, box: Box, dimension: int) -> tuple[FloatArray, Flags]:
    """Coordinates `[n, D]` of states, from features `[n, A, d]`, and which of them have ended; ValueError for masks."""
    rows = dense(phi, dimension)
    if (rows[:, :, 0] == UNAVAILABLE).any():
        raise ValueError("masked")
    D = box.dimension
    end = rows[:, 0, D + 1] != 0.0 if dimension > D + 1 else np.zeros(len(rows), dtype=bool)
    return box.states(rows[:, 0, :D]), end


def as_opaque(x: FloatArray, like: States, terminal: bool) -> States:
    """States in the simulator's own form, of coordinates `[n, D]` (and a terminal column), shaped like `like`."""
    rows = np.concatenate([x, np.zeros((len(x), 1))], axis=1) if terminal else x
    rows = np.rint(rows) if like.dtype.kind in "iu" else rows
    return np.ascontiguousarray(rows.reshape(len(x), *like.shape[1:]).astype(like.dtype))


def kept_chains(state: State, keep: Any) -> State:
    """The state with some of its chains, which `keep` tells: a slice or an array of flags."""
    return state._replace(**{f"chain_{name}": getattr(state, f"chain_{name}")[keep] for name in CHAIN})


def joined(state: State, prefix: str, **more: Any) -> State:
    """The state with rows appended to its fields of that prefix."""
    fields = {f"{prefix}{name}": rows for name, rows in more.items()}
    new: dict[str, Any] = {
        name: np.concatenate([getattr(state, name), rows]) for name, rows in fields.items()
    }
    return state._replace(**new)
