"""Whether the state of `Grow` that was read from a file makes sense: every index in range, every number what it must be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base import checks
from ...features import Sparse
from ...sampled import check_features, gram
from ..protocol import Setup
from .kernels import first_S, inverse
from .race import POOL
from .state import DRAW, GATHER, OVER, RACE, RECENT, ends_of, noticed_ends


def check_samples(state: Any, setup: Setup, stored: tuple[str, ...], chains: tuple[str, ...]) -> None:
    """Raise ValueError unless samples and chains fit together and are what simulator and features can return."""
    n, c = state.filled, len(state.kind)
    once = ("next_index",) if len(state.next_index) == 1 else ()  # the same for all
    rows = {len(getattr(state, name)) for name in stored if name not in once}
    if rows != {n} or any(len(getattr(state, name)) != c for name in chains) or (n and not c):
        raise ValueError("its samples do not fit together")
    if not 0 <= state.solved <= n or not 0 <= state.rounds <= n or (state.solved > 0) != (state.rounds > 0):
        raise ValueError(f"it has {state.rounds} rounds with {state.solved} of {n} samples")
    checks.require_within(state, 0.0, 1.0, "rewards", "ends")
    checks.require_within(state, 0, setup.n_actions - 1, "actions")
    checks.require_finite(state, "theta", "half", "curious", "S", "gain_kept")
    if not np.isin(state.ends, (0.0, 1.0)).all():
        raise ValueError("'ends' has numbers other than 0 and 1")
    _check_doubts(state)
    K = state.chain_index.shape[-1]
    shapes = {"pair": (K,), "next": (setup.n_actions, K), "chain": (setup.n_actions, K)}
    for name in ("pair", "next") if n else ():
        check_features(state, name, shapes[name], setup.dimension, setup.radius)
    if c:
        check_features(state, "chain", shapes["chain"], setup.dimension, setup.radius)


def check_race(state: Any, setup: Setup) -> None:
    """Raise ValueError unless the race's rivals, scores and rollouts fit together."""
    checks.require_within(state, GATHER, OVER, "phase")
    checks.require_within(state, -1, 1, "random")
    checks.require_within(state, 0, setup.budget, "raced")
    checks.require_within(state, 0, 2**40, "run_step", "counts")
    checks.require_within(state, 0, state.raced, "began")
    checks.require_finite(state, "recent", "rivals", "scores", "run_sum", "run_done")
    d1, q, k, s = setup.dimension + 1, len(state.rivals), len(state.run_rival), len(state.pool_index)
    widths = {state.recent.shape[1:], state.rivals.shape[1:]}
    runs = (state.run_start, state.run_sum, state.run_states, state.run_index, state.run_weight)
    if widths != {(d1,)} or len(state.recent) > RECENT or any(len(part) != k for part in runs):
        raise ValueError("its race does not fit together")
    if (
        {len(state.scores), len(state.counts)} != {q}
        or len(state.pool_states) != s
        or len(state.pool_weight) != s
    ):
        raise ValueError("its rivals do not fit together")
    if state.phase == RACE and (k == 0 or s != POOL or len(state.run_done) != len(state.run_live)):
        raise ValueError("its race has no rollouts")
    if state.phase == DRAW and q == 0:
        raise ValueError("its race has no rivals")
    live = state.run_live
    if len(live) and (live.min() < 0 or live.max() >= q or (np.diff(live) <= 0).any()):
        raise ValueError("'run_live' names rivals that are none")
    if k and (
        not np.isin(state.run_rival, live).all()
        or state.run_start.min() < 0
        or state.run_start.max() >= state.run_done.shape[1]
    ):
        raise ValueError("'run_rival' names rivals that are none")
    if not np.isfinite(state.run_done).all() or (state.run_done < 0).any():
        raise ValueError("'run_done' has returns that cannot be")
    K = state.chain_index.shape[-1]
    for name in ("pool", "run"):
        if len(getattr(state, f"{name}_index")):
            check_features(state, name, (setup.n_actions, K), setup.dimension, setup.radius)


def _check_doubts(state: Any) -> None:
    """Leverages are infinite where they are not yet known, and only there."""
    checks.require_within(state, 0.0, math.inf, "leverage", "doubt")
    if not np.isfinite(state.doubt[: state.solved]).all() or (state.rounds == 0) != math.isinf(
        state.leverage
    ):
        raise ValueError(f"'doubt' or 'leverage' do not fit the {state.solved} samples of the last solve")


def check_ends(state: Any) -> None:
    """Raise ValueError unless the ends are those that the samples of the last solve show, to the same bits."""
    found, n = ends_of(state), state.solved
    if n == 0:
        if any(len(part) for part in found):
            raise ValueError("it has ends before the first solve")
        return
    true = noticed_ends(state, n)
    if not all(a.shape == b.shape and (a == b).all() for a, b in zip(found, true, strict=True)):
        raise ValueError("its ends are not those of its samples")


def check_systems(state: Any) -> None:
    """`gram` is summed again, to the same bits; S can only have shrunk since it was made from it: else a ValueError."""
    state.gram[:] = 0.0
    if state.solved == 0:
        if (first_S(len(state.S) - 1) != state.S).any():
            raise ValueError("'S' is not as before the first solve")
        return
    phi = Sparse(state.pair_index[: state.solved], state.pair_weight[: state.solved])
    gram(phi, np.ones(state.solved), state.gram)
    first = inverse(state.gram, state.solved, phi.weight.shape[1])
    if first.shape[1] == 1:  # a diagonal, which is made anew in every round
        if (first != state.S).any():
            raise ValueError("'S' is not that of 'gram'")
        return
    S, first = state.S, np.diag(first)
    rounding = 1e-6 * float(first.max())
    size = np.sqrt(np.maximum(np.diag(S), 0.0))
    shrunk = (np.diag(S) >= -rounding) & (np.diag(S) <= first + rounding)
    positive = np.abs(S) <= size[:, None] * size + rounding
    if not shrunk.all() or not positive.all() or not (np.abs(S - S.T) <= rounding).all():
        raise ValueError("'S' is no inverse of 'gram'")
