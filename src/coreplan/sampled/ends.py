"""Ends of episodes, noticed from samples alone.

An *end* is a state that no action leaves. Every sample taken there led back to it and paid the same reward r, whatever the
action. Its value r / (1 - gamma) is then known exactly, and a fit need not estimate it.

States are told apart by the features of all their actions, as hashes of 64 bits; coordinates with weight 0 do not count. A
sample *stays* where the features of its pair are again those of that action at the next state. For features that are equal
for all actions, as those of an end often are, that is enough, so that episodes may end in different states. Other features
may be too coarse to show a move; there the next state must be the state itself, to the last bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..base import FloatArray, IntArray, States
from ..features import UNAVAILABLE, Sparse

LEAST = 30  # samples at an end before it counts as one: a state that is left one time in ten passes 4% of the time
COPIED = 1024  # states whose features are copied at a time
MOST = 64  # ends; of more, those that were sampled most often

Hashes = NDArray[np.uint64]


class Ends(NamedTuple):
    """The ends that were noticed, by their features and rewards."""

    index: IntArray  # type: ignore[assignment]  # [e, A, K]; hides tuple.index on purpose
    weight: FloatArray  # [e, A, K]
    rewards: FloatArray  # [e]


class Exits(NamedTuple):
    """What the ends make of N samples."""

    inside: Any  # bool [N]: taken at an end
    ended: Any  # bool [N]: the next state is an end
    rewards: FloatArray  # [N]: the reward at that end; 0 if the next state is none


@njit(cache=True, nogil=True)
def _mixed(h, x):
    """The hash h with one more number x (the finaliser of splitmix64)."""
    z = (h ^ x) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True, nogil=True)
def _hash_rows(index, weight, bits, out):
    """Hashes of the sparse rows `[n, A, K]`; `bits` are those of their weights. 0 where an action is unavailable."""
    for n in range(out.shape[0]):
        for a in range(out.shape[1]):
            h = np.uint64(1)
            for k in range(index.shape[2]):
                if weight[n, a, k] != 0.0:
                    h = _mixed(_mixed(h, np.uint64(index[n, a, k])), bits[n, a, k])
            out[n, a] = np.uint64(0) if weight[n, a, 0] == UNAVAILABLE else h


@njit(cache=True, nogil=True)
def _hash_states(rows, out):
    for n in range(out.shape[0]):
        out[n] = np.uint64(2)
        for a in range(rows.shape[1]):
            out[n] = _mixed(out[n], rows[n, a])


def _rows(phi: Sparse) -> Hashes:
    """Hashes `[n, A]` of the features of every action, `[n, A, K]`."""
    weight = np.ascontiguousarray(phi.weight, dtype=np.float64)
    out = np.empty(weight.shape[:2], dtype=np.uint64)
    _hash_rows(phi.index, weight, weight.view(np.uint64), out)
    return out


def _rows_at(phi: Sparse, which: IntArray) -> Hashes:
    """Hashes `[n, A]` of the features of the states `which [n]`; few states are copied at a time."""
    out = np.empty((len(which), phi.weight.shape[1]), dtype=np.uint64)
    for start in range(0, len(which), COPIED):
        part = which[start : start + COPIED]
        out[start : start + COPIED] = _rows(Sparse(phi.index[part], phi.weight[part]))
    return out


def _pairs(phi: Sparse, actions: IntArray | None = None) -> Hashes:
    """Hashes `[n]` of the features of pairs, `[n, K]`; or of these actions `[n]` at states, `[n, A, K]`."""
    out = np.empty(len(phi.weight), dtype=np.uint64)
    for start in range(0, len(out), COPIED):
        rows: Any = np.arange(start, min(start + COPIED, len(out)))
        at = rows if actions is None else (rows, actions[rows])
        out[rows] = _rows(Sparse(phi.index[at][:, None], phi.weight[at][:, None]))[:, 0]
    return out


def _states(rows: Hashes) -> Hashes:
    out = np.empty(len(rows), dtype=np.uint64)
    _hash_states(rows, out)
    return out


def unmoved(states: States, next_states: States) -> Any:
    """Which next states are the states themselves, to the last bit: bool `[N]`."""
    return (states == next_states).reshape(len(states), -1).all(axis=1)


def noticed(pair: Sparse, actions: IntArray, next_phi: Sparse, rewards: FloatArray, same: Any) -> Ends:
    """The ends among N samples: features `[N, K]` of the pairs, `[N, A, K]` of the next states, and rewards `[N]`.

    `same [N]` says whether the next state is the state itself (see `unmoved`).
    """
    at = _pairs(pair)  # [N]
    rows = np.flatnonzero(_pairs(next_phi, actions) == at)
    to = _rows_at(next_phi, rows)  # [n, A], of those that may stay
    shared = ((to == at[rows, None]) | (to == 0)).all(axis=1)
    stays = shared | same[rows]
    rows, to = rows[stays], to[stays]
    _, first, count = np.unique(_states(to), return_index=True, return_counts=True)
    first, count = first[count >= LEAST], count[count >= LEAST]
    there = np.isin(at, to[first])  # samples at what may be ends
    gone = there.copy()
    gone[rows] = False
    left = np.concatenate([at[gone], _several(at[there], rewards[there])])
    kept = ~np.isin(to[first], left).any(axis=1)
    first = rows[first[kept][np.argsort(-count[kept], kind="stable")][:MOST]]
    return Ends(next_phi.index[first], next_phi.weight[first], rewards[first])


def _several(at: Hashes, rewards: FloatArray) -> Hashes:
    """The pairs that did not always pay the same."""
    pairs, number = np.unique(at, return_inverse=True)
    least, largest = np.full(len(pairs), np.inf), np.full(len(pairs), -np.inf)
    np.minimum.at(least, number, rewards)
    np.maximum.at(largest, number, rewards)
    return np.asarray(pairs[least < largest])


def which_end(phi: Sparse, ends: Ends) -> IntArray:
    """The number of the end that each state is, `[n]`; -1 for a state that is none. Features `[n, A, K]`."""
    out = np.full(len(phi.weight), -1, dtype=np.int64)
    if len(ends.rewards):
        known = _rows(Sparse(ends.index, ends.weight))
        first = _pairs(Sparse(phi.index[:, 0], phi.weight[:, 0]))
        rows = np.flatnonzero(np.isin(first, known[:, 0]))  # only these can be ends
        found = _states(_rows_at(phi, rows))[:, None] == _states(known)
        some = found.any(axis=1)
        out[rows[some]] = found[some].argmax(axis=1)
    return out


def exits(pair: Sparse, next_phi: Sparse, ends: Ends) -> Exits:
    """Which samples were taken at an end, and which lead to one. If all were taken at ends, none count as such."""
    n = len(pair.weight)
    inside, to = np.zeros(n, dtype=np.bool_), np.full(n, -1, dtype=np.int64)
    if len(ends.rewards):
        rows = _rows(Sparse(ends.index, ends.weight))
        inside = np.isin(_pairs(pair), rows[rows != 0])
        to = which_end(next_phi, ends)
    if inside.all():
        inside, to = np.zeros_like(inside), np.full_like(to, -1)
    rewards = np.zeros(n)
    rewards[to >= 0] = ends.rewards[to[to >= 0]]
    return Exits(inside, to >= 0, rewards)


def completed(theta: FloatArray, ends: Ends, free: Any, discount: float) -> None:
    """Give `theta [d + 1]` the known values of the ends, in place, as far as the coordinates that no fit uses allow it.

    `free [d + 1]` says which coordinates these are: an end that has a feature of its own leaves it to no other state.
    """
    for indices, weights, reward in zip(*ends, strict=True):
        for index, weight in zip(indices, weights, strict=True):
            own = free[index] & (weight != 0.0)
            if own.any() and float(weight[0]) != UNAVAILABLE:
                lack = reward / (1.0 - discount) - weight @ theta[index]
                theta[index[own]] += lack * weight[own] / (weight[own] @ weight[own])
