"""Bounds that were not given, found by rollouts with random actions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ...base import CoverageWarning, FloatArray, IntArray
from ...features import Box
from ...simulate import Answers
from .state import SCOUT, State, joined, kept_chains

CHAINS = 16  # scouts at most
LONG = 50  # steps that each should make
HOLD = (
    0.9  # the probability that a scout of the second half keeps its action; those of the first half never do
)
TAIL = 0.01  # of the states beyond each bound, before it is widened
EVEN = 0.25  # of the range: bounds that are this near to even are made even, so that 0 is the middle
WIDER = 0.25  # of the range that was seen, on each side
PILED = 5  # different states with the same largest (or smallest) value, from which on this may be where states are clipped


def provisional(box: Box) -> Box:
    """The box with any bounds where they are infinite: for what is read or counted before scouts have found them."""
    low, high = box.low.copy(), box.high.copy()
    for i in np.flatnonzero(~box.finite):
        low[i] = min(0.0, high[i] - 99.0) if np.isinf(low[i]) else low[i]
        high[i] = low[i] + 99.0 if np.isinf(high[i]) else high[i]
    return Box(low, high, box.periodic, box.whole)


def first_scouts(state: State, queries: int) -> State:
    """Scouts at initial states."""
    c = int(np.clip(queries // LONG, 2, min(CHAINS, len(state.pool_x))))
    none = np.zeros(c, dtype=np.int64)
    return state._replace(
        phase=SCOUT, quota=max(queries, 1), pool_used=c, chain_states=state.pool_states[:c].copy(),
        chain_x=state.pool_x[:c].copy(), chain_t=none, chain_sum=np.zeros(c), chain_kind=none.copy(),
        chain_start=none.copy(), chain_stay=none.copy(), step_y=state.pool_x.copy(),
    )  # fmt: skip


def scouting_actions(state: State, size: int, A: int, rng: np.random.Generator) -> IntArray:
    """Random actions; the second half of the scouts keep theirs for ten steps on average."""
    u, other = rng.random(size), rng.integers(0, A, size)
    keeps = (np.arange(size) >= len(state.chain_t) // 2) & (u < HOLD) & (state.chain_t[:size] > 0)
    return np.where(keeps, state.chain_kind[:size], other)


def scouted(state: State, answers: Answers, y: FloatArray, end: Any) -> State:
    """One step of the scouts; those that have ended begin again."""
    size = len(y)
    assert answers.ask.actions is not None
    state = joined(state, "step_", y=y[~end])
    state.chain_states[:size], state.chain_x[:size] = answers.next_states, y
    state.chain_t[:size] += 1
    state.chain_kind[:size] = answers.ask.actions
    for i in np.flatnonzero(end):
        j = state.pool_used % len(state.pool_x)
        state.chain_states[i], state.chain_x[i], state.chain_t[i] = state.pool_states[j], state.pool_x[j], 0
        state = state._replace(pool_used=state.pool_used + 1)
    return state


def clipped_at(rows: FloatArray, i: int, sign: float) -> float | None:
    """The largest (sign 1) or smallest (sign -1) value of coordinate i if states `[n, D]` pile up there; else None.

    A simulator that clips a coordinate shows its bound: many different states have exactly this value, and more than twice
    as many as have the value next to it.
    """
    values, at = np.unique(sign * rows[:, i], return_inverse=True)
    if len(values) < 2:
        return None
    last, next_to = (len(np.unique(rows[at == k], axis=0)) for k in (len(values) - 1, len(values) - 2))
    return sign * float(values[-1]) if last >= PILED and last > 2 * next_to else None


def found_bounds(state: State, given: Box) -> State:
    """The state with finite bounds, and a warning that says them; the chains are forgotten."""
    low, high = given.low.copy(), given.high.copy()
    steps = state.step_y[len(state.pool_x) :]
    for i in np.flatnonzero(~given.finite).tolist():
        least, most = clipped_at(steps, i, -1.0), clipped_at(steps, i, 1.0)
        low[i] = least if np.isinf(low[i]) and least is not None else low[i]
        high[i] = most if np.isinf(high[i]) and most is not None else high[i]
        a, b = (float(q) for q in np.quantile(state.step_y[:, i], [TAIL, 1.0 - TAIL]))
        wider = WIDER * (b - a) if b > a else 0.5 * max(abs(a), 1.0)
        if not np.isfinite(low[i]):
            low[i] = min(a - wider, high[i] - wider)
        if not np.isfinite(high[i]):
            high[i] = max(b + wider, low[i] + wider)
        free = least is None and most is None and np.isinf(given.low[i]) and np.isinf(given.high[i])
        if free and abs(a + b) < EVEN * (b - a):
            low[i], high[i] = -max(-low[i], high[i]), max(-low[i], high[i])
        if given.whole[i]:
            low[i], high[i] = np.floor(low[i]), np.ceil(high[i])
    named = ", ".join(f"{i} from {low[i]:.3g} to {high[i]:.3g}" for i in np.flatnonzero(~given.finite))
    warnings.warn(
        f"Bounds that were not given were found by {state.told:,} steps with random actions: coordinate {named}. States "
        "beyond are treated like the edge. Give a box if others matter.",
        CoverageWarning,
        stacklevel=2,
    )
    return kept_chains(state, slice(0))._replace(low=low, high=high, step_y=state.step_y[:0])
