"""Whether the state of `Refine` that was read from a file makes sense."""

from __future__ import annotations

import numpy as np

from ...base import checks
from ...features import Box, Tree
from ..protocol import Setup
from .scouting import provisional
from .state import BEGIN, DONE, KEPT, LAST_ROLL, SCOUT, TRY, VISITED, State, fresh_state


def check_state(state: State, setup: Setup) -> None:
    """Raise ValueError unless tree, samples, chains and kept policies fit together."""
    assert setup.box is not None
    A = setup.n_actions
    like = fresh_state(setup.box)
    for name in State._fields:
        old, new = np.asarray(getattr(like, name)), np.asarray(getattr(state, name))
        if name not in VISITED and (
            new.dtype != old.dtype or new.ndim != old.ndim or new.shape[1:2] != old.shape[1:2]
        ):
            padded = name in ("kept_theta", "final", "trial_returns") and new.ndim == 2
            if padded and new.dtype == old.dtype and (name == "trial_returns" or len(new) == len(old)):
                continue
            raise ValueError(f"'{name}' has dtype {new.dtype} and shape {new.shape}")
    checks.require_within(state, BEGIN, DONE, "phase")
    names = (
        "told",
        "rounds",
        "samples",
        "solved",
        "pool_used",
        "length",
        "trial",
        "trial_quota",
        "walk_step",
    )
    checks.require_within(state, 0, 2**40, *names)
    checks.require_within(state, -1, KEPT, "chosen")
    checks.require_within(state, 0, 1, "random")
    checks.require_within(state, -1, 2**20, "hold")
    checks.require_finite(
        state, "theta", "R", "y", "end_value", "kept_theta", "chain_x", "pool_x", "walk_R", "walk_y", "held_sum", "step_x"
    )  # fmt: skip
    box = _box(state, setup)
    _check_tree(state, box, A)
    _check_samples(state, A)
    _check_chains(state, A)
    _check_kept(state, A)


def _box(state: State, setup: Setup) -> Box:
    """The box with the bounds that were found; any bounds if they are yet to be found."""
    given = setup.box
    assert given is not None
    found = Box(state.low, state.high, given.periodic, given.whole)
    if not (np.array_equal(found.edges, given.edges) or (found.finite.all() and given.contains(found))):
        raise ValueError("its bounds do not fit the problem's")
    if len(state.keys) and not found.finite.all():
        raise ValueError("it has nodes without bounds")
    return provisional(found)


def _check_tree(state: State, box: Box, A: int) -> None:
    if (
        len(state.axis) != len(state.child)
        or len(state.wanted) != len(state.child)
        or state.solved > len(state.keys)
    ):
        raise ValueError("its tree does not fit together")
    keys = np.concatenate([state.keys, state.batch, state.pending])
    if len(keys):
        Tree(box, state.axis, state.child, keys)
    if len(state.theta) != state.solved * A:
        raise ValueError("'theta' does not fit the nodes")


def _check_samples(state: State, A: int) -> None:
    """Every pair has a sample, every sample a step, and the batch fits the nodes that it is for."""
    S, W, m = len(state.pair), len(state.R), len(state.keys) * A
    if len(state.first) != S or {len(state.y), len(state.end)} - {W}:
        raise ValueError("its samples do not fit together")
    if S and (state.first[0] != 0 or state.first[-1] >= W or (np.diff(state.first) <= 0).any()):
        raise ValueError("'first' names steps that are none")
    if (state.pair < 0).any() or not np.array_equal(np.unique(state.pair), np.arange(m)):
        raise ValueError("its samples do not fit the nodes")
    B, w = len(state.batch_pair), len(state.walk_sample)
    pairs, samples = state.batch_pair, state.walk_sample
    if B and (pairs.min() < 0 or pairs.max() >= m + len(state.batch) * A):
        raise ValueError("its batch does not fit the nodes")
    if len(state.batch) and not np.isin(m + np.arange(len(state.batch) * A), pairs).all():
        raise ValueError("its batch does not fit the nodes")
    if {len(state.walk_R), len(state.walk_y), len(state.walk_end)} - {w} or (
        w and (samples.min() < 0 or (B and samples.max() >= B))
    ):
        raise ValueError("its batch does not fit together")
    h = state.held
    if (len(h) and (h.min() < 0 or h.max() >= B)) or (B and len(state.held_states) != len(h)):
        raise ValueError("'held' names samples that are none")
    if B and len(state.held_sum) != len(h):
        raise ValueError("'held' names samples that are none")


def _check_chains(state: State, A: int) -> None:
    checks.require_within(state, 0.0, 1.0, "step_weight")
    c, k = len(state.chain_t), len(state.step_x)
    chains = (
        state.chain_states,
        state.chain_x,
        state.chain_sum,
        state.chain_kind,
        state.chain_start,
        state.chain_stay,
    )
    steps = (state.step_action, state.step_reward, state.step_end, state.step_weight)
    scouts = state.phase == SCOUT
    if any(len(part) != c for part in chains) or any(len(part) != k for part in steps):
        raise ValueError("its chains do not fit together")
    if len(state.step_y) != k and not scouts:
        raise ValueError("its chains do not fit together")
    checks.require_within(state, 0, A - 1 if scouts else KEPT, "chain_kind")
    checks.require_within(state, 0, A - 1, "step_action")
    if state.phase == TRY and (
        state.trial >= len(state.trial_returns)
        or (c and (state.chain_start.min() < 0 or state.chain_start.max() >= state.trial_returns.shape[1]))
    ):
        raise ValueError("its trials do not fit together")
    if len(state.pool_states) != len(state.pool_x) or (state.phase > BEGIN and not len(state.pool_x)):
        raise ValueError("its initial states do not fit together")


def _check_kept(state: State, A: int) -> None:
    known = state.kept_score > -np.inf
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
        state.phase == LAST_ROLL
        and len(starts)
        and (starts.min() < 0 or starts.max() >= state.final.shape[1])
    ):
        raise ValueError("'chain_start' names initial states that are none")
