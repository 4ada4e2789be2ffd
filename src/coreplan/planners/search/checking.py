"""Whether the state of `Search` that was read from a file makes sense."""

from __future__ import annotations

import math

import numpy as np

from ...base import checks
from ..protocol import Setup
from .state import DONE, PROBE, State


def check_state(state: State, setup: Setup) -> None:
    """Raise ValueError unless every index is in range and every number is what it must be."""
    N, k = state.score.shape if state.score.ndim == 2 else (-1, -1)
    c, d = len(state.chain), setup.dimension
    tables = {"score": np.float64, "true_score": np.float64, "life": np.int64, "open": np.bool_}
    for name, dtype in tables.items():
        if getattr(state, name).shape != (N, k) or getattr(state, name).dtype != dtype:
            raise ValueError(f"'{name}' has shape {getattr(state, name).shape}")
    rows = {"thetas": (N, d), "scales": (N,), "chain": (c,), "chain_action": (c,)}
    for name, shape in rows.items():
        dtype = np.int64 if name.startswith("chain") else np.float64
        if getattr(state, name).shape != shape or getattr(state, name).dtype != dtype:
            raise ValueError(f"'{name}' has shape {getattr(state, name).shape}")
    if len(state.chain_states) != c or (state.rolling and c == 0):
        raise ValueError(f"it has {len(state.chain_states)} states for {c} rollouts")
    for name in ("gains", "true_gains"):
        if getattr(state, name).dtype != np.float64 or getattr(state, name).ndim != 1:
            raise ValueError(f"'{name}' has shape {getattr(state, name).shape}")
    _check_numbers(state, setup, N * k)


def _check_numbers(state: State, setup: Setup, rollouts: int) -> None:
    names = ("theta", "spread", "center", "thetas", "new_spread", "elite_score", "gains", "true_gains")
    checks.require_finite(state, *names)
    checks.require_within(state, 0.0, checks.LARGEST, "var", "score", "true_score", "length")
    checks.require_within(state, 0, checks.MOST, "life", "t", "told", "generations", "skipped", "new_states")
    checks.require_within(state, PROBE, DONE, "stage")
    checks.require_within(state, 1.0, checks.LARGEST, "steps")
    checks.require_within(state, -1, 1, "chosen")
    checks.require_within(state, -1, checks.MOST, "wanted")
    if len(state.chain):
        checks.require_within(state, 0, rollouts - 1, "chain")
        checks.require_within(state, 0, setup.n_actions - 1, "chain_action")
    if not (state.scales > 0).all() or math.isnan(float(state.scales.sum())):
        raise ValueError("'scales' has numbers that are not positive")
