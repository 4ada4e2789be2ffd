"""The state of `Search`: the distribution of candidates, and the rollouts that are under way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...base import FloatArray, IntArray, States
from ...features import Phi, available, dense, take

PROBE, SEARCH, PILOT, COMPARE, DONE = range(5)  # stages: what the rollouts are for


class State(NamedTuple):
    """All rollouts of a stage go on side by side, at the same step t. Scores are in units of rewards in [0, 1]."""

    stage: int
    rolling: bool  # whether chains are under way; else initial states are drawn next
    told: int  # queries answered
    generations: int  # that have changed the distribution
    skipped: int  # generations whose scores were all the same
    # The distribution, and the policy.
    theta: FloatArray  # [d], of the policy; zero (uniform) before the first generation
    spread: FloatArray  # [d, d], K
    center: FloatArray  # [d]
    var: FloatArray  # [d]
    steps: float  # the horizon of the scores, in steps: 1 / (1 - gamma_h)
    length: float  # steps per rollout in the last generation
    elite_score: float  # mean score of the last elite, times 1 - gamma_h
    # The candidates of this generation, and their rollouts.
    thetas: FloatArray  # [N, d]
    scales: FloatArray  # [N], infinity: greedy
    score: FloatArray  # [N, k], sum_t gamma_h^t r_t so far, from each of the k initial states
    true_score: FloatArray  # [N, k], the same with the true discount
    life: IntArray  # [N, k], steps so far
    open: NDArray[np.bool_]  # [N, k]: not yet at an end
    t: int
    chain: IntArray  # [c], number candidate * k + start of each rollout that is under way
    chain_states: States  # [c, ...]
    chain_action: IntArray  # [c], the next action
    new_spread: FloatArray  # [d, d], of this generation, a sum
    new_states: int  # over so many states
    # The comparison with the start.
    gains: FloatArray  # [n], found minus start, from common initial states
    true_gains: FloatArray  # [n], with the true discount
    wanted: int  # pairs of rollouts for the comparison, found out by the pilot; -1 before it
    chosen: int  # -1 undecided, 0 the start stays, 1 what was found takes its place


GROWING = frozenset(
    {
        "thetas", "scales", "score", "true_score", "life", "open", "chain", "chain_states", "chain_action", "gains",
        "true_gains",
    }
)  # fmt: skip


def fresh_state(d: int, steps: float) -> State:
    """The state before the first query."""
    none, whole, table = np.zeros(0), np.zeros(0, dtype=np.int64), np.zeros((0, 0))
    return State(
        stage=PROBE, rolling=False, told=0, generations=0, skipped=0, theta=np.zeros(d), spread=np.zeros((d, d)),
        center=np.zeros(d), var=np.ones(d), steps=steps, length=0.0, elite_score=0.0, thetas=np.zeros((0, d)), scales=none,
        score=table, true_score=table, life=table.astype(np.int64), open=table.astype(np.bool_), t=0, chain=whole,
        chain_states=none, chain_action=whole, new_spread=np.zeros((d, d)), new_states=0, gains=none, true_gains=none,
        wanted=-1, chosen=-1,
    )  # fmt: skip


def at_end(before: States, after: States, phi: Phi, d: int) -> NDArray[np.bool_]:
    """Which chains are at an end `[c]`: the state is the same bit for bit, and its features are equal for all actions.

    A state whose actions cannot be told apart, and which was not left, is taken for one that nothing leaves.
    """
    n = len(after)
    same = (before.reshape(n, -1) == after.reshape(n, -1)).all(axis=1)
    for j in np.flatnonzero(same):
        one = take(phi, slice(j, j + 1))
        rows = dense(one, d)[0][available(one)[0]]
        same[j] = bool((rows == rows[:1]).all())
    return same


def bounds(state: State, gamma: float, cut: bool) -> tuple[FloatArray, FloatArray]:
    """Bounds on the mean score of each candidate `[N]`, rewards being in [0, 1]; equal where no rollout goes on."""
    rest = 0.0 if cut else gamma**state.t / (1.0 - gamma)
    low = state.score.mean(axis=1)
    return low, low + rest * state.open.mean(axis=1)
