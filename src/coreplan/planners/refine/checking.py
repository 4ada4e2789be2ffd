"""Whether the state of `Refine` that was read from a file makes sense."""

from __future__ import annotations

import numpy as np

from ...base import checks
from ...features import Tree
from ..protocol import Setup
from .state import BEGIN, DONE, KEPT, VISITED, State, fresh_state


def check_state(state: State, setup: Setup) -> None:
    """Raise ValueError unless tree, samples, chains and kept policies fit together."""
    assert setup.box is not None
    D, A = setup.box.dimension, setup.n_actions
    like = fresh_state(D)
    for name in State._fields:
        old, new = np.asarray(getattr(like, name)), np.asarray(getattr(state, name))
        if name not in VISITED and (
            new.dtype != old.dtype or new.ndim != old.ndim or new.shape[1:2] != old.shape[1:2]
        ):
            padded = name in ("kept_theta", "final") and new.ndim == 2
            if padded and new.dtype == old.dtype and len(new) == len(old):
                continue
            raise ValueError(f"'{name}' has dtype {new.dtype} and shape {new.shape}")
    checks.require_within(state, BEGIN, DONE, "phase")
    checks.require_within(state, 0, 2**40, "told", "rounds", "samples", "solved", "pool_used", "length")
    checks.require_within(state, -1, KEPT, "chosen")
    checks.require_finite(
        state, "theta", "R", "g", "y", "end_value", "kept_theta", "chain_x", "pool_x", "batch_y", "step_x"
    )
    _check_tree(state, setup, D, A)
    _check_rows(state, A)
    _check_kept(state, A)


def _check_tree(state: State, setup: Setup, D: int, A: int) -> None:
    if (
        len(state.axis) != len(state.child)
        or len(state.wanted) != len(state.child)
        or state.solved > len(state.keys)
    ):
        raise ValueError("its tree does not fit together")
    keys = np.concatenate([state.keys, state.batch, state.pending])
    if len(keys):
        Tree(setup.box, state.axis, state.child, keys)  # type: ignore[arg-type]
    if len(state.theta) != state.solved * A:
        raise ValueError("'theta' does not fit the nodes")


def _check_rows(state: State, A: int) -> None:
    n = max(state.samples, 1)
    if {len(state.R), len(state.g), len(state.y), len(state.end)} != {len(state.keys) * A * n}:
        raise ValueError("its samples do not fit the nodes")
    S = len(state.batch_R)
    if len(state.batch) and len(state.batch) * A * n != S:
        raise ValueError("its batch does not fit the nodes")
    if {len(state.batch_g), len(state.batch_y), len(state.batch_end)} != {S}:
        raise ValueError("its batch does not fit together")
    if len(state.held) and (
        state.held.min() < 0 or state.held.max() >= S or len(state.held_states) < len(state.held)
    ):
        raise ValueError("'held' names samples that are none")
    checks.require_within(state, 0.0, 1.0, "g", "batch_g", "step_weight")
    c, k = len(state.chain_t), len(state.step_x)
    chains = (state.chain_states, state.chain_x, state.chain_sum, state.chain_kind, state.chain_start)
    steps = (state.step_action, state.step_reward, state.step_y, state.step_end, state.step_weight)
    if any(len(part) != c for part in chains) or any(len(part) != k for part in steps):
        raise ValueError("its chains do not fit together")
    checks.require_within(state, 0, KEPT, "chain_kind")
    checks.require_within(state, 0, A - 1, "step_action")
    if len(state.pool_states) != len(state.pool_x) or (state.phase > BEGIN and not len(state.pool_x)):
        raise ValueError("its initial states do not fit together")


def _check_kept(state: State, A: int) -> None:
    known = np.isfinite(state.kept_score)
    cells, nodes = state.kept_cells, state.kept_nodes
    if (
        (cells < 0).any()
        or (cells > len(state.child)).any()
        or (nodes < 0).any()
        or (nodes > len(state.keys)).any()
    ):
        raise ValueError("it keeps policies of other trees")
    if (
        (nodes[known] * A > state.kept_theta.shape[1]).any()
        or (nodes[known] == 0).any()
        or (cells[known] == 0).any()
    ):
        raise ValueError("it keeps policies of other trees")
    if state.chosen >= 0 and not known[state.chosen]:
        raise ValueError("it has chosen a policy that it does not keep")
    if state.solved and not cells[KEPT]:
        raise ValueError("'kept_cells' does not fit the last solve")
    starts = state.chain_start
    if (
        state.final.shape[1]
        and len(starts)
        and (starts.min() < 0 or starts.max() >= max(state.final.shape[1], 64))
    ):
        raise ValueError("'chain_start' names initial states that are none")
