"""Problems from explicit matrices: pymdptoolbox's format, QuantEcon's pairs, coreplan's own layout, and linear MDPs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..base import (
    FloatArray,
    InputError,
    IntArray,
    as_array,
    one_thread,
    shown,
    text_of,
)
from ..features import UNAVAILABLE, CompiledFeatures, Features, Sparse, all_pairs, one_hot, table_features
from .given import as_range
from .linear import linear_model, linear_tabular, spelled_out
from .problem import Problem
from .tables import Tabular, tabular_model

_LARGEST = 100_000_000  # the most pairs S * A that a table may have


@one_thread
def from_matrices(
    P: Any, R: Any, discount: float, *, nu0: Any = None, terminal: Sequence[int] | None = None,
    features: Features | None = None, reward_range: tuple[float, float] | None = None,
    core_pairs: tuple[Any, Any] | None = None, name: str = "matrices",
) -> Problem:  # fmt: skip
    """A problem with states 0..S-1 from transition matrices P and rewards R.

    Parameters
    ----------
    P: `[A, S, S]`, or A matrices `[S, S]`, dense or scipy.sparse, as in pymdptoolbox; or one matrix `[S * A, S]`
        whose row s * A + a is P(.|s, a), dense or sparse.
    R: `[S]` or `[S, A]`; or, if P is A matrices, `[A, S, S]` or A matrices `[S, S]`: the reward of the transition s -> s'.
        The simulator then pays the expectation sum_s' P R, which gives the same values with less noise.
    nu0: the initial distribution `[S]`; uniform by default.
    terminal: states where the process has ended: it stays there and earns 0 for ever.
    features: a map of the states' numbers; one-hot by default, with one coordinate and one core pair per pair.
    reward_range: (lowest, highest), by default those of R; a wider one makes values of several problems comparable.
    core_pairs: (states `[m]`, actions `[m]`), by default those that the features carry.

    The problem has a table for exact evaluation.
    """
    matrix, S, A = _stack(P)
    return _problem(
        matrix, _expected(R, matrix, S, A), None, discount, nu0=nu0, terminal=terminal, features=features,
        reward_range=reward_range, core_pairs=core_pairs, name=name,
    )  # fmt: skip


@one_thread
def from_pairs(
    R: Any, Q: Any, discount: float, s_indices: Any, a_indices: Any, *, nu0: Any = None,
    terminal: Sequence[int] | None = None, features: Features | None = None,
    reward_range: tuple[float, float] | None = None, core_pairs: tuple[Any, Any] | None = None, name: str = "pairs",
) -> Problem:  # fmt: skip
    """A problem from L state-action pairs, QuantEcon's format: rewards R `[L]`, transitions Q `[L, S]`, dense or sparse.

    Pair l is state `s_indices[l]` with action `a_indices[l]`. Absent pairs are unavailable actions, which no policy takes.
    Every state needs at least one pair, unless it is terminal. The other parameters are those of `from_matrices`; the
    default one-hot features have one coordinate per available pair.
    """
    matrix = sparse.csr_matrix(Q) if sparse.issparse(Q) else _numbers("Q", Q)
    L, S = matrix.shape if matrix.ndim == 2 else (0, 0)
    s, a, r = _indices("s_indices", s_indices, L), _indices("a_indices", a_indices, L), _numbers("R", R)
    if L == 0 or r.shape != (L,):
        raise InputError(f"Pairs need R [L] and Q [L, S], got R of shape {r.shape} and Q of {matrix.shape}.")
    if s.max() >= S:
        raise InputError(
            f"`from_pairs(s_indices=...)` names state {s.max()}; Q has {S} columns, states 0 to {S - 1}."
        )
    A = int(a.max()) + 1
    if S * A > _LARGEST:
        raise InputError(
            f"`from_pairs(a_indices=...)` names action {A - 1}: {S} states x {A} actions are too many to be written out. "
            "Number the actions 0, 1, 2, ... without gaps."
        )
    rows = s * A + a
    order, counts = np.unique(rows, return_counts=True)
    if counts.max() > 1:
        x, action = divmod(int(order[counts.argmax()]), A)
        raise InputError(
            f"The pair of state {x} and action {action} is given {counts.max()} times; give it once."
        )
    rewards, available = np.zeros(S * A), np.zeros(S * A, dtype=bool)
    rewards[rows], available[rows] = r, True
    place = sparse.csr_matrix((np.ones(L), (rows, np.arange(L))), shape=(S * A, L))
    return _problem(
        place @ matrix, rewards.reshape(S, A), available.reshape(S, A), discount, nu0=nu0, terminal=terminal,
        features=features, reward_range=reward_range, core_pairs=core_pairs, name=name,
    )  # fmt: skip


@one_thread
def from_linear(
    Phi: Any, W: Any, vartheta: Any, nu0: Any = None, discount: float = 0.9, *,
    reward_range: tuple[float, float] | None = None, core_pairs: tuple[Any, Any] | None = None, name: str = "linear",
) -> Problem:  # fmt: skip
    """A linear MDP (the paper's `def:linMDP`) with states 0..X-1: P = Phi W and r = Phi vartheta.

    Parameters
    ----------
    Phi: the features, `[X, A, d]`.
    W: `[d, X]`; every product phi(x, a) W must be a distribution over the X states.
    vartheta: `[d]`, so that the reward of a pair is phi(x, a) . vartheta.
    nu0: the initial distribution `[X]`; uniform by default.
    reward_range: (lowest, highest), by default those of Phi vartheta.
    core_pairs: (states `[m]`, actions `[m]`). By default, if all phi(x, a) are distributions over the d coordinates and each
        unit vector is among them, the first pair with each of these: an exact core set, m = d. Otherwise there is none.

    Where Phi and W are both stochastic, a query draws a coordinate and then a next state, and nothing of size X^2 is made.
    The problem has a table for exact evaluation.
    """
    phi, rows, weights = _numbers("Phi", Phi), _numbers("W", W), _numbers("vartheta", vartheta)
    d = phi.shape[2] if phi.ndim == 3 else 0
    if phi.size == 0 or d == 0 or rows.shape != (d, len(phi)) or weights.shape != (d,):
        raise InputError(
            f"A linear MDP takes Phi [X, A, d], W [d, X] and vartheta [d]; got shapes {phi.shape}, {rows.shape} and "
            f"{weights.shape}."
        )
    for what, array in (("Phi", phi), ("W", rows), ("vartheta", weights)):
        if not np.isfinite(array).all():
            raise InputError(f"`from_linear`: {what} has entries that are not finite.")
    X, A = phi.shape[:2]
    R = phi @ weights
    low, high = _range("from_linear", R, None, reward_range, with_zero=False)
    start = np.full(X, 1.0 / X) if nu0 is None else _numbers("nu0", nu0)
    unit, mixes = (R - low) / (high - low), _stochastic(phi) and _stochastic(rows)
    if mixes:
        table = linear_tabular(phi, rows, unit, start)
        model = linear_model(spelled_out(phi), rows, R, start)
    else:
        table = Tabular(np.arange(X), unit, start, P=_products(phi, rows))
        model = tabular_model(table, R)
    pairs = _unit_pairs(phi) if core_pairs is None and mixes else _core_pairs(core_pairs, X, A)
    radius = float(np.linalg.norm(phi, axis=2).max()) or 1.0
    return Problem(
        model, table_features(phi, d, radius), discount, (low, high), core_pairs=pairs, name=name, tabular=lambda: table,
    )  # fmt: skip


def _stochastic(rows: FloatArray) -> bool:
    """Whether each row (the last axis) is a distribution."""
    return bool((rows >= 0).all() and (np.abs(rows.sum(axis=-1) - 1.0) <= 1e-9).all())


def _products(phi: FloatArray, W: FloatArray) -> FloatArray:
    """P = Phi W, `[X A, X]`, where the factors are not distributions themselves; negative rounding becomes 0."""
    X, A, d = phi.shape
    if X * X * A > _LARGEST:
        raise InputError(
            f"`from_linear`: P = Phi W would have {X * A:,} x {X:,} entries, too many to be written out. It is not where "
            "Phi and W are both stochastic."
        )
    P = phi.reshape(-1, d) @ W
    least = np.unravel_index(P.argmin(), P.shape)
    if P[least] < -1e-9:
        x, a = divmod(int(least[0]), A)
        raise InputError(
            f"`from_linear`: P(y={least[1]}|x={x}, a={a}) = phi(x, a) W is {P[least]:.6g}; probabilities are not negative."
        )
    return np.maximum(P, 0.0)


def _unit_pairs(phi: FloatArray) -> tuple[IntArray, IntArray] | None:
    """The first pair whose features are each of the d unit vectors; None if one is missing."""
    A, d = phi.shape[1:]
    flat = phi.reshape(-1, d)
    known = np.flatnonzero((flat.max(axis=1) == 1.0) & ((flat != 0).sum(axis=1) == 1))
    coordinates, first = np.unique(flat[known].argmax(axis=1), return_index=True)
    pairs = known[first]
    return (pairs // A, pairs % A) if len(coordinates) == d else None


def _core_pairs(pairs: Any, S: int, A: int) -> tuple[IntArray, IntArray] | None:
    """Core pairs `(states [m], actions [m])` of whole numbers within range, or an InputError."""
    if pairs is None:
        return None
    if not isinstance(pairs, (tuple, list)) or len(pairs) != 2:
        raise InputError(f"`core_pairs` must be (states [m], actions [m]), got {shown(pairs)}.")
    states = _indices("core_pairs: states", pairs[0])
    actions = _indices("core_pairs: actions", pairs[1], len(states))
    for what, numbers, most in (("state", states, S), ("action", actions, A)):
        if len(numbers) and numbers.max() >= most:
            raise InputError(f"`core_pairs` names {what} {numbers.max()}; they run from 0 to {most - 1}.")
    return states, actions


def _range(
    owner: str, R: FloatArray, available: NDArray[np.bool_] | None, given: Any, with_zero: bool
) -> tuple[float, float]:
    """The reward range: that of the rewards of available pairs, or the given one, which must hold them all."""
    used = R if available is None else R[available]
    low, high = float(used.min()), float(used.max())
    if given is not None:
        lowest, highest = as_range(owner, given)
        if low < lowest or high > highest:
            raise InputError(
                f"`{owner}(reward_range={shown(given)})` does not hold all rewards: they lie in "
                f"[{low:.6g}, {high:.6g}]. Widen it, or leave it out."
            )
        low, high = lowest, highest
    if with_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    return (
        (low, high) if low < high else (low, low + 1.0)
    )  # all policies have the same value, so any range will do


def _problem(
    P: Any, R: FloatArray, available: NDArray[np.bool_] | None, discount: float, *, nu0: Any,
    terminal: Sequence[int] | None, features: Features | None, reward_range: Any, core_pairs: Any, name: str,
) -> Problem:  # fmt: skip
    S, A = R.shape
    if terminal is not None:
        P, R, available = _end(P, R, available, terminal)
    used = R if available is None else R[available]
    if not np.isfinite(used).all():
        x, a = divmod(int(np.argmax(~np.isfinite(R) & (True if available is None else available))), A)
        raise InputError(
            f"The reward of state {x} and action {a} is {R[x, a]}; rewards must be finite. An action that cannot be taken "
            "is left out: use from_pairs."
        )
    low, high = _range("from_matrices", R, available, reward_range, with_zero=terminal is not None)
    start = np.full(S, 1.0 / S) if nu0 is None else _numbers("nu0", nu0)
    table = Tabular(np.arange(S), (R - low) / (high - low), start, P=P, available=available)
    own = features is None
    if features is None:
        features = one_hot(S, A) if available is None else _one_hot_pairs(available)
    return Problem(
        tabular_model(table, R), features, discount, (low, high), core_pairs=_core_pairs(core_pairs, S, A), name=name,
        tabular=lambda: table,
        mask=None if own or available is None else lambda states: available[states],
    )  # fmt: skip


def _one_hot_pairs(available: NDArray[np.bool_]) -> CompiledFeatures:
    """One-hot features with one coordinate per available pair, d = L.

    Other pairs are marked as unavailable in the table itself, not by a mask function, so that runs stay compiled.
    """
    S, A = available.shape
    index = np.where(available.ravel(), np.cumsum(available) - 1, 0).reshape(S, A, 1)
    weight = np.where(available, 1.0, UNAVAILABLE)[:, :, None]
    states, actions = all_pairs(S, A)
    keep = available.ravel()
    table = table_features(Sparse(index, weight), int(keep.sum()), 1.0, name="one-hot of available pairs")
    return replace(table, core=lambda: (states[keep], actions[keep]))


def _end(P: Any, R: FloatArray, available: Any, terminal: Sequence[int]) -> tuple[Any, FloatArray, Any]:
    """P, R and `available`, changed so that the process stays at terminal states and earns 0, whatever the action."""
    S, A = R.shape
    states = np.unique(_indices("terminal", terminal))
    if len(states) and states.max() >= S:
        raise InputError(f"`terminal` names state {states.max()}; states run from 0 to {S - 1}.")
    R = R.copy()
    R[states] = 0.0
    rows = (states[:, None] * A + np.arange(A)).ravel()
    P = P.tolil() if sparse.issparse(P) else P.copy()
    P[rows] = 0.0
    P[rows, rows // A] = 1.0
    if available is not None:
        available = available.copy()
        available[states] = True
    return (P.tocsr() if sparse.issparse(P) else P), R, available


def _stack(P: Any) -> tuple[Any, int, int]:
    """P as one matrix `[S * A, S]` with rows s * A + a; and S and A."""
    if sparse.issparse(P) or (not _is_list(P) and _ndim(P) == 2):
        matrix = sparse.csr_matrix(P) if sparse.issparse(P) else _numbers("P", P)
        rows, S = matrix.shape
        if S == 0 or rows % S or rows == 0:
            raise InputError(f"One matrix P must have shape (S * A, S), got {matrix.shape}.")
        return matrix, S, rows // S
    parts = _matrices("P", P)
    A, S = len(parts), parts[0].shape[0]
    if any(part.shape != (S, S) for part in parts):
        raise InputError(
            f"P must be A matrices of shape (S, S), got {[part.shape for part in parts[:4]]}. "
            "An array [S, A, S] is turned by P.transpose(1, 0, 2)."
        )
    if any(map(sparse.issparse, parts)):
        by_action = sparse.vstack([sparse.csr_matrix(part) for part in parts], format="csr")  # row a * S + s
        return by_action[np.arange(S * A).reshape(A, S).T.ravel()], S, A
    return np.stack(parts, axis=1).reshape(S * A, S), S, A


def _expected(R: Any, P: Any, S: int, A: int) -> FloatArray:
    """Expected rewards `[S, A]`, from any of the accepted forms of R."""
    if sparse.issparse(R):
        R = R.toarray()
    if not _is_list(R) and _ndim(R) < 3:
        r = _numbers("R", R)
        if r.shape not in ((S,), (S, A)):
            raise InputError(
                f"R must have shape {(S,)}, {(S, A)} or {(A, S, S)} for {S} states and {A} actions, got {r.shape}."
            )
        return np.array(np.broadcast_to(r[:, None], (S, A)) if r.ndim == 1 else r)
    paid, states, actions = _stack(R)
    if (states, actions) != (S, A):
        raise InputError(f"R pays for {states} states and {actions} actions; P has {S} and {A}.")
    # Sparse P, so that a transition of probability 0 contributes nothing, even if its reward is NaN.
    product = sparse.csr_matrix(P).multiply(paid)
    return np.asarray(product.sum(axis=1)).reshape(S, A)


def _is_list(value: Any) -> bool:
    """Whether a value is a collection of A matrices: a list of them, an object array, or `[A, S, S]`."""
    if isinstance(value, np.ndarray):
        return value.dtype == object or value.ndim == 3
    if not isinstance(value, (list, tuple)) or len(value) == 0:
        return False
    return any(map(sparse.issparse, value)) or _ndim(value[0]) == 2


def _ndim(value: Any) -> int:
    try:
        return np.ndim(value)
    except Exception:  # rows of different lengths; an object that refuses to become an array
        return -1


def _matrices(what: str, value: Any) -> list[Any]:
    if not _is_list(value):
        raise InputError(
            f"{what} must be [A, S, S], A matrices [S, S], or one matrix [S * A, S]; got {type(value).__name__}"
            f"{f' of shape {value.shape}' if isinstance(value, np.ndarray) else ''}."
        )
    return [part if sparse.issparse(part) else _numbers(what, part) for part in value]


def _numbers(what: str, value: Any) -> FloatArray:
    try:
        return np.asarray(value, dtype=np.float64)
    except Exception as error:  # whatever NumPy, or an object of the user's, raises
        raise InputError(f"{what} cannot be read as numbers: {text_of(error)}.") from None


def _indices(what: str, value: Any, length: int | None = None) -> NDArray[np.int64]:
    array = as_array("matrices", "whole numbers from 0", kinds="fiub", finite=False, **{what: value})
    if array.size == 0 and length is None:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (length is not None and len(array) != length):
        count = "" if length is None else f"{length} "
        raise InputError(
            f"`{what}` must be {count}whole numbers from 0, got {array.dtype} of shape {array.shape}."
        )
    if len(array) and array.min() < 0:
        raise InputError(f"`{what}` must be whole numbers from 0, got {array.min()}.")
    return array.astype(np.int64)
