"""`queue-network` and `queue-network-cut`: de Farias & Van Roy's four queues on two servers, large and small buffers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from ...base import InputError, IntArray, States, as_choice
from ...features import CompiledFeatures, Formula, copied, describes, rectilinear
from ..model import CompiledModel
from ..problem import Problem
from ..tables import Tabular, cumulate, first_above

_ARRIVAL = 0.08  # at queues 1 and 3
_SERVICE = np.array([0.12, 0.12, 0.28, 0.28])  # as published
_SERVICE_CUT = np.array([0.12, 0.28, 0.12, 0.28])  # a variant
# [A, 2]: the queues served, from 0; server 1 serves queue 1 or 4, server 2 queue 2 or 3.
_SERVED = np.array(list(itertools.product((0, 3), (1, 2))))
_NAMES: dict[str, Any] = {
    "state_names": [f"queue {i + 1}" for i in range(4)],
    "action_names": [f"serve queues {i + 1} and {j + 1}" for i, j in _SERVED],
}
_CUT = 9  # jobs per queue in queue-network-cut


@njit(cache=True, nogil=True)
def _initial(rng, data, states):
    _, _, buffer, start = data
    for n in range(states.shape[0]):
        x = first_above(start, 0, start.shape[0], rng.random())
        for i in range(3, -1, -1):
            states[n, i] = x % (buffer + 1)
            x //= buffer + 1


@njit(cache=True, nogil=True)
def _empty(rng, data, states):
    states[:] = 0.0


@njit(cache=True, nogil=True)
def _event(data, x, a, u, y):
    """The event at u in [0, 1): an arrival, a completion at a served queue, or nothing. The next state in y; the reward.

    Jobs that meet a full buffer are lost.
    """
    service, served, buffer = data[0], data[1], data[2]
    total = 0.0
    for i in range(4):
        total += x[i]
        y[i] = x[i]
    if u < 2 * _ARRIVAL:
        i = 0 if u < _ARRIVAL else 2
        y[i] = min(x[i] + 1, buffer)
        return 1.0 - total / (4 * buffer)
    u -= 2 * _ARRIVAL
    for server in range(2):
        i = served[a, server]
        if u < service[i]:
            if x[i] > 0:
                y[i] = x[i] - 1
                if i == 0 or i == 2:
                    y[i + 1] = min(x[i + 1] + 1, buffer)
            break
        u -= service[i]
    return 1.0 - total / (4 * buffer)


@njit(cache=True, nogil=True)
def _step(rng, data, states, actions, rewards, next_states):
    for n in range(states.shape[0]):
        rewards[n] = _event(data, states[n], actions[n], rng.random(), next_states[n])


@njit(cache=True, nogil=True)
def _step_with(data, states, actions, noise, rewards, next_states):
    for n in range(states.shape[0]):
        rewards[n] = _event(data, states[n], actions[n], noise[n, 0], next_states[n])


@njit(cache=True, nogil=True)
def _polynomial(data, states, out):
    """1, x_i / 9, x_i x_j / 81 for i <= j, and the indicators x_i = 0: 19 features per action."""
    index, weight = out
    A = index.shape[1]
    for n in range(states.shape[0]):
        weight[n, 0, 0] = 1.0
        k = 5
        for i in range(4):
            z = states[n, i] / _CUT
            weight[n, 0, 1 + i] = z
            weight[n, 0, 15 + i] = 1.0 if states[n, i] == 0 else 0.0
            for j in range(i, 4):
                weight[n, 0, k] = z * states[n, j] / _CUT
                k += 1
        for a in range(A):
            for i in range(19):
                index[n, a, i] = i * A + a
                weight[n, a, i] = weight[n, 0, i]


@njit(cache=True, nogil=True)
def _politex(data, states, out):
    """1, x_i / buffer, and indicators that all queues of a pair (6) or triplet (4) hold jobs: 15 features per action."""
    groups, buffer = data  # groups [10, 4]: members of a pair or triplet
    index, weight = out
    A = index.shape[1]
    for n in range(states.shape[0]):
        weight[n, 0, 0] = 1.0
        for i in range(4):
            weight[n, 0, 1 + i] = states[n, i] / buffer
        for g in range(groups.shape[0]):
            held = True
            for i in range(4):
                held &= states[n, i] > 0 or not groups[g, i]
            weight[n, 0, 5 + g] = 1.0 if held else 0.0
        for a in range(A):
            for i in range(15):
                index[n, a, i] = i * A + a
                weight[n, a, i] = weight[n, 0, i]


def serve_the_longest(states: States) -> IntArray:
    """Each server serves the longer of its two queues; ties go to queues 4 and 3."""
    x = np.asarray(states)
    return np.asarray(2 * (x[:, 3] >= x[:, 0]) + (x[:, 2] >= x[:, 1]), dtype=np.int64)


@describes(_polynomial)
def _polynomial_formula(data: Any, A: int) -> Formula:
    return copied({"kind": "queue_polynomial", "largest": float(_CUT)}, A)


@describes(_politex)
def _politex_formula(data: Any, A: int) -> Formula:
    groups, buffer = data
    return copied({"kind": "queue_politex", "groups": groups, "buffer": float(buffer)}, A)


_LONGEST = ("serve the longest", serve_the_longest)


def queue_network(features: str = "politex", buffer: int = 200, discount: float = 0.99) -> Problem:
    """Four queues on two servers, routes 1 -> 2 -> out and 3 -> 4 -> out: 1.6 x 10^9 states, 4 actions.

    Server 1 serves queue 1 or 4, server 2 queue 2 or 3. One event per step: arrivals with probability 0.08 at queues 1
    and 3 each, completions with 0.12, 0.12, 0.28, 0.28 at the served queues. The published problem has no limit on the
    queues; here each holds 200 jobs, which a random policy reaches in one step of a million, and jobs that meet a full
    queue are lost. The reward is 1 - (total length)/(4 buffer); the start is empty.

    Published AVERAGE total lengths: serving the longest queue 45.0 (45.7 here with ties to queues 4 and 3, 46.6 with
    ties to 1 and 2), first in first out 45.7, approximate LP 33.4, POLITEX and LSPI about 31. Serving a random
    non-empty queue gives 34.6, so beating "longest" proves nothing. Averages take tens of thousands of steps to
    settle: a discount of 0.99 measures the first few hundred steps, 0.9999 comes close to the average. Serving the longest
    queue is the baseline; its value is 0.9936, that of the uniform policy 0.9917.

    `features=politex`: 1, x_i, and indicators that all queues of a pair or triplet hold jobs (d = 60),
    without a core set; `features=hat`: hat functions on nodes (0, 1, 4, 20, buffer) in each queue (d = m = 2,500, exact
    core set).
    """
    as_choice("queue-network", ("politex", "hat"), features=features)
    if not 21 <= buffer <= 10**6:
        raise InputError(f"`queue-network:buffer=...` must be from 21 to 10^6 jobs, got {buffer}.")
    if features == "hat":
        phi = rectilinear([[0, 1, 4, 20, buffer]] * 4, 4)
    else:
        groups = np.array([g for g in itertools.product((0, 1), repeat=4) if sum(g) in (2, 3)])  # [10, 4]
        phi = CompiledFeatures(
            _politex, 4, 60, float(np.sqrt(15)), nonzeros=15, data=(groups, buffer), name="queue politex",
            state_shape=(4,), state_dtype=np.float64,
        )  # fmt: skip
    data = (_SERVICE, _SERVED, buffer)
    return Problem(
        model=CompiledModel(
            4,
            _empty,
            _step,
            data,
            state_shape=(4,),
            state_dtype=np.float64,
            noise_kernel=_step_with,
            noise_dimension=1,
        ),
        features=phi,
        discount=discount,
        baseline=_LONGEST,
        **_NAMES,
    )


def queue_network_cut(features: str = "hat", discount: float = 0.98) -> Problem:
    """Four queues, routes 1 -> 2 -> out and 3 -> 4 -> out, buffers of 9: 10,000 states, 4 actions.

    Server 1 serves queue 1 or 4, server 2 queue 2 or 3. One event per step: arrivals with probability 0.08 at queues 1
    and 3 each, completions with 0.12, 0.28, 0.12, 0.28 at the served queues; jobs that meet a full buffer are lost. The
    reward is 1 - (total length)/36; the start is proportional to exp(-0.9 total length). `features=hat`: hat functions on
    nodes (0, 1, 3, 9) in each queue (d = m = 1,024, exact core set); `features=polynomial`: 1, x_i, x_i x_j and the
    indicators of empty queues (d = 76), without a core set. With the latter, the policy that is greedy with respect to the
    projection of Q* loses 0.063 of the difference between the uniform and the optimal value. The optimum is 0.8867, the
    uniform policy has value 0.8420, and serving the longest queue, the baseline, 0.8639.
    """
    as_choice("queue-network-cut", ("hat", "polynomial"), features=features)
    states = np.array(list(itertools.product(range(_CUT + 1), repeat=4)))  # [X, 4]
    nu0 = np.exp(-0.9 * states.sum(axis=1))
    nu0 /= nu0.sum()
    if features == "hat":
        phi = rectilinear([[0, 1, 3, _CUT]] * 4, 4)
    else:
        phi = CompiledFeatures(
            _polynomial, 4, 76, float(np.sqrt(19)), nonzeros=19, name="queue polynomial", state_shape=(4,),
            state_dtype=np.float64,
        )  # fmt: skip
    data = (_SERVICE_CUT, _SERVED, _CUT, cumulate(nu0))
    return Problem(
        model=CompiledModel(4, _initial, _step, data, state_shape=(4,), state_dtype=np.float64),
        features=phi,
        discount=discount,
        tabular=lambda: _tabular(states, nu0),
        baseline=_LONGEST,
        **_NAMES,
    )


def _tabular(states: np.ndarray, nu0: np.ndarray) -> Tabular:
    X, strides = len(states), (_CUT + 1) ** np.arange(3, -1, -1)
    rows, columns, weights = [], [], []
    for a, served in enumerate(_SERVED):
        stay = np.ones(X)
        events = [(_ARRIVAL, i, None) for i in (0, 2)] + [(_SERVICE_CUT[i], None, i) for i in served]
        for p, arrives, leaves in events:
            y = states.copy()
            moves = np.ones(X, dtype=bool)
            if leaves is not None:
                moves = states[:, leaves] > 0
                y[:, leaves] -= 1
                arrives = leaves + 1 if leaves in (0, 2) else None
            if arrives is not None:
                y[:, arrives] = np.minimum(y[:, arrives] + 1, _CUT)
            rows.append(np.flatnonzero(moves) * 4 + a)
            columns.append(y[moves] @ strides)
            weights.append(np.full(moves.sum(), p))
            stay[moves] -= p
        rows.append(np.arange(X) * 4 + a)
        columns.append(np.arange(X))
        weights.append(stay)
    entries = (np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns)))
    r = np.repeat(1.0 - states.sum(axis=1, keepdims=True) / (4 * _CUT), 4, axis=1)
    return Tabular(states.astype(float), r, nu0, P=sparse.csr_matrix(entries, shape=(4 * X, X)))
