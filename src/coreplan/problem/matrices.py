"""Problems from explicit matrices: pymdptoolbox's format, QuantEcon's state-action pairs, and coreplan's own layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..base import FloatArray, InputError
from ..features import UNAVAILABLE, CompiledFeatures, Features, Sparse, all_pairs, one_hot, table_features
from .problem import Problem
from .tables import Tabular, tabular_model

_LARGEST = 100_000_000  # the most pairs S * A that a table may have


def from_matrices(
    P: Any, R: Any, discount: float, *, nu0: Any = None, terminal: Sequence[int] | None = None,
    features: Features | None = None, name: str = "matrices",
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

    The reward range is taken from R. The problem has a table for exact evaluation.
    """
    matrix, S, A = _stack(P)
    return _problem(matrix, _expected(R, matrix, S, A), None, discount, nu0, terminal, features, name)


def from_pairs(
    R: Any, Q: Any, discount: float, s_indices: Any, a_indices: Any, *, nu0: Any = None,
    terminal: Sequence[int] | None = None, features: Features | None = None, name: str = "pairs",
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
        place @ matrix, rewards.reshape(S, A), available.reshape(S, A), discount, nu0, terminal, features, name
    )  # fmt: skip


def _problem(
    P: Any, R: FloatArray, available: NDArray[np.bool_] | None, discount: float, nu0: Any,
    terminal: Sequence[int] | None, features: Features | None, name: str,
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
    low, high = float(used.min()), float(used.max())
    if terminal is not None:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        high = low + 1.0  # all policies have the same value, so any range will do
    start = np.full(S, 1.0 / S) if nu0 is None else _numbers("nu0", nu0)
    table = Tabular(np.arange(S), (R - low) / (high - low), start, P=P, available=available)
    own = features is None
    if features is None:
        features = one_hot(S, A) if available is None else _one_hot_pairs(available)
    return Problem(
        tabular_model(table, R), features, discount, (low, high), name=name, tabular=lambda: table,
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
    except ValueError:  # rows of different lengths
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
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} cannot be read as numbers: {error}.") from None


def _indices(what: str, value: Any, length: int | None = None) -> NDArray[np.int64]:
    array = np.asarray(value)
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
