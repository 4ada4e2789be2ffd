"""`random-linear`: random exact linear MDPs with an exact core set, stored in tables or computed lazily by hashing."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from scipy import sparse

from ...base import InputError, as_count, several
from ...features import CompiledFeatures, FunctionFeatures, table_features
from ..linear import linear_model, linear_tabular, spelled_out
from ..model import CompiledModel
from ..problem import Problem
from ..tables import Tabular, cumulate, first_above

_CONCENTRATION = 0.3  # of the Dirichlet distribution of phi(x, a)
_SUPPORT = 1024  # number of states on which a row of W lives in the lazy version
_ENUMERABLE = 20_000  # up to this many states the lazy version has an exact table too


def random_linear(
    states: int = 200,
    actions: int = 4,
    d: int = 8,
    discount: float = 0.9,
    instance: int = 0,
    lazy: bool = False,
    compiled: bool = True,
) -> Problem:
    """Random linear MDP: phi ~ Dirichlet(0.3), rows of W ~ Dirichlet(0.05), vartheta ~ U[0, 1]^d.

    d random pairs have the unit vectors as features and are the core set, so Assumption 1 holds with zero error,
    m = d and R = 1. `lazy=true` stores nothing of the size of the state space (up to 2^62 states): phi of a pair is a
    Dirichlet draw seeded by a hash, each row of W lives on 1,024 random states, nu0 is uniform.
    `compiled=false` gives the same simulator as NumPy functions.
    """
    actions, d = several(as_count, "random-linear", actions=actions, d=d)
    if not 1 <= states <= 2**62:
        raise InputError(f"`random-linear:states=...` must be from 1 to 2^62, got {states}.")
    if states * actions < d:
        raise InputError(
            f"`random-linear` needs at least d = {d} pairs, got {states} states x {actions} actions."
        )
    if lazy:
        if not compiled:
            raise InputError("`random-linear:lazy=true` has no uncompiled version; leave out compiled=false.")
        return _lazy(states, actions, d, discount, instance)
    if states > 10**6:
        raise InputError(
            f"{states} states are too many for tables; use `random-linear:states={states},lazy=true`."
        )
    rng = np.random.default_rng([0x6C696E, instance])
    phi = rng.dirichlet(np.full(d, _CONCENTRATION), size=(states, actions))  # [X, A, d]
    pairs = rng.choice(states * actions, size=d, replace=False)
    phi.reshape(-1, d)[pairs] = np.eye(d)
    W = rng.dirichlet(np.full(states, 0.05), size=d)  # [d, X]
    vartheta = rng.random(d)
    r = phi @ vartheta
    nu0 = rng.dirichlet(np.ones(states))
    features: CompiledFeatures | FunctionFeatures = table_features(phi, d, 1.0)
    if not compiled:
        features = FunctionFeatures(lambda x: phi[x], actions, d, 1.0, name="table")
    return Problem(
        model=linear_model(spelled_out(phi), W, r, nu0, compiled),
        features=features,
        discount=discount,
        core_pairs=(pairs // actions, pairs % actions),
        tabular=lambda: linear_tabular(phi, W, r, nu0),
    )


# The lazy version. splitmix64 is the hash; all arithmetic is modulo 2^64.

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_U27, _U30, _U31, _U11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)


@njit(cache=True, nogil=True, inline="always")
def _hash(z):
    z = (z ^ (z >> _U30)) * _MIX1
    z = (z ^ (z >> _U27)) * _MIX2
    return z ^ (z >> _U31)


@njit(cache=True, nogil=True)
def _dirichlet(seed, out):
    """Fill `out [d]` with a Dirichlet draw that is a function of `seed`.

    It divides gamma variates of shape a < 1, drawn by rejection (Ahrens & Dieter 1974, algorithm GS), by their
    sum. With shape 0.3 the sum does not underflow in practice for any d >= 1; should it happen, the first
    coordinate takes all.
    """
    a = _CONCENTRATION
    b = 1.0 + a / math.e
    total = 0.0
    z = seed
    for i in range(out.shape[0]):
        while True:
            z += _GOLDEN
            p = b * ((_hash(z) >> _U11) * 2.0**-53)
            z += _GOLDEN
            u = (_hash(z) >> _U11) * 2.0**-53
            if p <= 1.0:
                g = p ** (1.0 / a)
                if u <= math.exp(-g):
                    break
            else:
                g = -math.log((b - p) / a)
                if u <= g ** (a - 1.0):
                    break
        out[i] = g
        total += g
    if total > 0.0:
        for i in range(out.shape[0]):
            out[i] /= total
    else:
        out[0] = 1.0


@njit(cache=True, nogil=True)
def _lazy_phi(key, core_states, core_actions, x, a, out):
    """Write phi(x, a) into `out [d]`: a unit vector at a core pair, otherwise a draw seeded by the pair."""
    for j in range(core_states.shape[0]):
        if core_states[j] == x and core_actions[j] == a:
            out[:] = 0.0
            out[j] = 1.0
            return
    _dirichlet(_hash(_hash(key + np.uint64(x)) + np.uint64(a)), out)


@njit(cache=True, nogil=True)
def _lazy_features(data, states, out):
    key, n_states, core_states, core_actions = data
    for n in range(states.shape[0]):
        for a in range(out.shape[1]):
            if 0 <= states[n] < n_states:
                _lazy_phi(key, core_states, core_actions, states[n], a, out[n, a])
            else:
                out[n, a] = np.nan


@njit(cache=True, nogil=True)
def _lazy_initial(rng, data, states):
    n_states = data[1]
    for n in range(states.shape[0]):
        states[n] = rng.integers(0, n_states)


@njit(cache=True, nogil=True)
def _lazy_transition(data, states, actions, n, u, v, phi, rewards, next_states):
    """Answer query n of the batch by two uniforms; `phi [d]` is scratch space."""
    key, _, core_states, core_actions, support, rows, vartheta = data
    d = vartheta.shape[0]
    _lazy_phi(key, core_states, core_actions, states[n], actions[n], phi)
    reward, c, i = 0.0, 0.0, d - 1
    for l in range(d):
        reward += phi[l] * vartheta[l]
        c += phi[l]
        if c > u and i == d - 1:
            i = l
    rewards[n] = min(reward, 1.0)
    next_states[n] = support[i, first_above(rows[i], 0, rows.shape[1], v)]


@njit(cache=True, nogil=True)
def _lazy_step(rng, data, states, actions, rewards, next_states):
    phi = np.empty(data[6].shape[0])
    for n in range(states.shape[0]):
        u, v = rng.random(), rng.random()
        _lazy_transition(data, states, actions, n, u, v, phi, rewards, next_states)


@njit(cache=True, nogil=True)
def _lazy_step_with(data, states, actions, noise, rewards, next_states):
    phi = np.empty(data[6].shape[0])
    for n in range(states.shape[0]):
        _lazy_transition(data, states, actions, n, noise[n, 0], noise[n, 1], phi, rewards, next_states)


def _lazy(n_states: int, n_actions: int, d: int, discount: float, instance: int) -> Problem:
    rng = np.random.default_rng([0x6C617A79, instance])
    key = rng.integers(0, 2**63, dtype=np.uint64)
    core = _distinct_pairs(rng, n_states, n_actions, d)
    support = rng.integers(0, n_states, size=(d, _SUPPORT))  # [d, 1024] states
    W = rng.dirichlet(np.full(_SUPPORT, 0.05), size=d)  # [d, 1024]
    vartheta = rng.random(d)
    where = (key, n_states, *core)
    features = CompiledFeatures(_lazy_features, n_actions, d, 1.0, data=where, name="hashed Dirichlet")
    data = (*where, support, cumulate(W), vartheta)

    def tabular() -> Tabular:
        states = np.arange(n_states)
        Phi = features(states).reshape(-1, d)  # type: ignore[union-attr]
        rows = np.repeat(np.arange(d), _SUPPORT)
        W_full = sparse.coo_matrix((W.ravel(), (rows, support.ravel())), shape=(d, n_states)).toarray()
        r = np.minimum(Phi @ vartheta, 1.0).reshape(n_states, n_actions)
        return Tabular(states, r, np.full(n_states, 1.0 / n_states), factors=(Phi, W_full))

    return Problem(
        model=CompiledModel(
            n_actions, _lazy_initial, _lazy_step, data, noise_kernel=_lazy_step_with, noise_dimension=2
        ),
        features=features,
        discount=discount,
        core_pairs=core,
        tabular=tabular if n_states <= _ENUMERABLE else None,
    )


def _distinct_pairs(rng: np.random.Generator, X: int, A: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    pairs: dict[tuple[int, int], None] = {}
    while len(pairs) < n:
        pairs[int(rng.integers(0, X)), int(rng.integers(0, A))] = None
    states, actions = np.array(list(pairs), dtype=np.int64).T
    return np.ascontiguousarray(states), np.ascontiguousarray(actions)
