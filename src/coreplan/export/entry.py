"""What a generated file does with what it is given and what it computed; its formulas are in `formulas.py`.

`--numpy` copies these functions, too. So they raise ValueError, and know of nothing but NumPy.
"""

from __future__ import annotations

import numpy as np


def as_rows(states, columns, end_may_lack):
    """States as rows of float64; the last column, 1 where an episode has ended, may be left out for living states."""
    states = np.asarray(states, dtype=np.float64)
    if end_may_lack and states.ndim == 2 and states.shape[1] == columns - 1:
        states = np.column_stack([states, np.zeros(len(states))])
    if states.ndim != 2 or states.shape[1] != columns:
        raise ValueError(f"states must be a batch of shape (n, {columns}), got {states.shape}")
    return states


def as_numbers(states):
    """States as whole numbers [n]."""
    states = np.asarray(states)
    if states.ndim != 1 or states.dtype.kind not in "iu":
        raise ValueError(f"states must be whole numbers of shape (n,), got {states.dtype} {states.shape}")
    return states


def as_features(phi, n_actions, dimension):
    """Features phi [n, A, d] as float64."""
    phi = np.asarray(phi, dtype=np.float64)
    if phi.shape[1:] != (n_actions, dimension):
        raise ValueError(f"phi must have shape (n, {n_actions}, {dimension}), got {phi.shape}")
    return phi


def as_mask(mask, n_actions):
    """The mask [n, A]: True where an action can be taken."""
    mask = np.asarray(mask)
    if mask.dtype != bool or mask.ndim != 2 or mask.shape[1] != n_actions:
        raise ValueError(
            f"mask must be bool of shape (n, {n_actions}), True where an action can be taken; got {mask.dtype} {mask.shape}"
        )
    return mask


def answered(values):
    """The values, unless some are none: then the features do not know the state, or no action of it can be taken."""
    wrong = np.flatnonzero(np.isnan(values).any(axis=1) | np.isneginf(values).all(axis=1))
    if len(wrong):
        raise ValueError(f"state number {wrong[0]} is not known, or none of its actions can be taken")
    return values


def drawn(p, scale, rng):
    """One action for each row of p [n, A]: the best for an infinite scale, else drawn by rng, a generator or a seed."""
    if scale == np.inf:
        return np.argmax(p, axis=1)
    if rng is None:
        raise ValueError(
            "this policy draws its actions at random: act(states, rng=0), with a seed or a generator"
        )
    total = np.cumsum(p, axis=1)
    u = np.random.default_rng(rng).random(len(p))[:, None] * total[:, -1:]
    last = p.shape[1] - 1 - np.argmax(p[:, ::-1] > 0.0, axis=1)  # rounding must not lead beyond it
    return np.minimum(np.sum(u >= total, axis=1), last)
