"""Exact tables of enumerable problems, for judges and theory (no planner sees one), and simulators made from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from ..base import FloatArray, InputError, States, as_array, as_kind, plain, shown
from .model import CompiledModel


@dataclass(frozen=True)
class Tabular:
    """An MDP written out: states, rewards in [0, 1], transitions and the initial distribution.

    `P` is `[X * A, X]` with rows `x * A + a`, dense or scipy.sparse. Instead it may be given as `factors` (Phi, W)
    with P = Phi W (`def:linMDP`), Phi `[X * A, d]`, W `[d, X]`, which turns exact evaluation into a d x d solve.
    """

    states: States  # [X, ...] in the model's own representation
    r: FloatArray  # [X, A]
    nu0: FloatArray  # [X]
    P: Any = None  # [X * A, X]
    factors: tuple[Any, FloatArray] | None = None
    available: NDArray[np.bool_] | None = None  # [X, A]; rows of P and r at unavailable pairs are ignored

    def __post_init__(self) -> None:
        if (self.P is None) == (self.factors is None):
            raise InputError("`Tabular` takes either P or factors (Phi, W) with P = Phi W, and not both.")
        for name, form, ndim in (("r", "rewards [X, A]", 2), ("nu0", "a distribution [X]", 1)):
            given = as_array("Tabular", form, ndim, finite=False, **{name: getattr(self, name)})
            object.__setattr__(self, name, np.asarray(given, dtype=np.float64))
        if self.r.size == 0:
            raise InputError(f"`Tabular(r=...)` must be rewards [X, A], got shape {self.r.shape}.")
        X, A = self.r.shape
        if self.factors is not None and (
            not isinstance(self.factors, (tuple, list)) or len(self.factors) != 2
        ):
            raise InputError(f"`Tabular(factors=...)` must be (Phi, W), got {shown(self.factors)}.")
        for name, matrix in self._matrices().items():
            if not sparse.issparse(matrix):
                form = "a matrix of numbers, dense or scipy.sparse"
                as_array(
                    "Tabular",
                    form,
                    2,
                    finite=False,
                    **{name: as_kind("Tabular", np.ndarray, form, **{name: matrix})},
                )
        if self.available is not None:
            self._drop_unavailable(plain("`Tabular(available=...)`", self.available, InputError))
        if not np.isfinite(self.r).all() or self.r.min() < -1e-9 or self.r.max() > 1 + 1e-9:
            x, a = divmod(int(np.argmax(~((self.r >= -1e-9) & (self.r <= 1 + 1e-9)))), A)
            raise InputError(f"r(x={x}, a={a}) is {self.r[x, a]}; a table's rewards are in [0, 1].")
        if self.nu0.shape != (X,) or not self.nu0.min() >= 0 or not abs(self.nu0.sum() - 1) <= 1e-8:
            raise InputError(
                f"nu0 must be a distribution over the {X} states; it has shape {self.nu0.shape} and sum {self.nu0.sum()}."
            )
        for name, matrix in self._matrices().items():
            self._check_matrix(name, matrix)
        rows = self.expect(np.ones(self.n_states))
        needed = True if self.available is None else self.available.ravel()
        wrong = np.flatnonzero(~(np.abs(rows - 1.0) <= 1e-8) & needed)
        if len(wrong):
            x, a = divmod(int(wrong[0]), self.n_actions)
            raise InputError(f"P(.|x={x}, a={a}) sums to {rows[wrong[0]]:.9g}; every row must sum to 1.")

    def _matrices(self) -> dict[str, Any]:
        """P, or its factors, by name."""
        return {"P": self.P} if self.factors is None else dict(zip(("Phi", "W"), self.factors, strict=True))

    def _drop_unavailable(self, available: NDArray[np.bool_]) -> None:
        """Set r and the rows of P to zero at unavailable pairs, so that NaN there cannot spread."""
        if available.dtype != bool or available.shape != self.r.shape:
            raise InputError(
                f"`Tabular(available=...)` must be bool of shape {self.r.shape}, got {available.dtype} {available.shape}."
            )
        if not available.any(axis=1).all():
            x = int(np.argmin(available.any(axis=1)))
            raise InputError(
                f"No action of state {shown(np.asarray(self.states[x]))} is available; each state needs one."
            )
        rows = available.ravel()
        object.__setattr__(self, "available", available)
        object.__setattr__(self, "r", np.where(available, self.r, 0.0))
        if self.factors is None:
            object.__setattr__(self, "P", _keep_rows(self.P, rows))
        else:
            object.__setattr__(self, "factors", (_keep_rows(self.factors[0], rows), self.factors[1]))

    def _check_matrix(self, name: str, matrix: Any) -> None:
        X, A = self.r.shape
        d = matrix.shape[0] if name == "W" else matrix.shape[1]
        want = {"P": (X * A, X), "Phi": (X * A, d), "W": (d, X)}[name]
        if matrix.shape != want:
            raise InputError(f"{name} must have shape {want}, got {matrix.shape}.")
        entries = matrix.data if sparse.issparse(matrix) else matrix
        if not np.isfinite(entries).all():
            where = "P(.|x={}, a={})".format(*divmod(_first_bad(matrix), A)) if name == "P" else name
            raise InputError(f"{where} has entries that are not finite.")
        if name == "P" and entries.min(initial=0.0) < 0:
            row = int((matrix.tocsr() if sparse.issparse(matrix) else matrix).min(axis=1).argmin())
            raise InputError(f"P(.|x={row // A}, a={row % A}) has a negative probability.")

    @property
    def n_states(self) -> int:
        return self.r.shape[0]

    @property
    def n_actions(self) -> int:
        return self.r.shape[1]

    def expect(self, V: FloatArray) -> FloatArray:
        """P V, `[X * A]`, for V `[X]`."""
        if self.factors is not None:
            Phi, W = self.factors
            return Phi @ (W @ V)
        return self.P @ V


def _first_bad(matrix: Any) -> int:
    """The first row with an entry that is not finite."""
    rows = matrix.tocsr() if sparse.issparse(matrix) else matrix
    return next(i for i in range(rows.shape[0]) if not np.isfinite(rows[i].sum()))


def _keep_rows(matrix: Any, rows: NDArray[np.bool_]) -> Any:
    """The matrix with zeros in all rows but `rows`; assigned, not multiplied, since 0 * NaN is NaN."""
    if matrix.shape[:1] != rows.shape:
        return matrix  # the wrong shape; `_check_matrix` will report it
    if not sparse.issparse(matrix):
        return np.where(rows[:, None], matrix, 0.0)
    matrix = sparse.csr_matrix(matrix, copy=True)
    matrix.data[~np.repeat(rows, np.diff(matrix.indptr))] = 0.0
    return matrix


@njit(cache=True, nogil=True)
def first_above(cumulative, start, stop, u):
    """The first position in [start, stop) whose cumulative value exceeds u; the last position if none does."""
    low, high = start, stop - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True)
def draw_initial(rng, data, states):
    """Fill `states [n]` with draws from the cumulative distribution in `data[0]`, one uniform per state."""
    cumulative = data[0]
    for n in range(states.shape[0]):
        states[n] = first_above(cumulative, 0, cumulative.shape[0], rng.random())


@njit(cache=True, nogil=True)
def _transition(data, states, actions, n, u, rewards, next_states):
    """Answer query n of the batch by one uniform u."""
    _, r, start, cumulative, successor = data
    z = states[n] * r.shape[1] + actions[n]
    rewards[n] = r[states[n], actions[n]]
    next_states[n] = successor[first_above(cumulative, start[z], start[z + 1], u)]


@njit(cache=True, nogil=True)
def _step(rng, data, states, actions, rewards, next_states):
    for n in range(states.shape[0]):
        _transition(data, states, actions, n, rng.random(), rewards, next_states)


@njit(cache=True, nogil=True)
def _step_with(data, states, actions, noise, rewards, next_states):
    for n in range(states.shape[0]):
        _transition(data, states, actions, n, noise[n, 0], rewards, next_states)


@njit(cache=True, nogil=True)
def _step_alone(data, states, actions, noise, rewards, next_states):
    """The step of a table in which every pair has one successor; `noise [n, 0]` is empty."""
    for n in range(states.shape[0]):
        _transition(data, states, actions, n, 0.0, rewards, next_states)


def tabular_model(tabular: Tabular, rewards: FloatArray | None = None) -> CompiledModel:
    """A simulator of the table whose states are the numbers 0..X-1. It uses one uniform per query; sparse P stays sparse.

    If every pair has a single successor, the model declares that it needs no noise.
    `rewards [X, A]` replace the table's rewards, if the simulator is to pay in the user's own units. An unavailable pair
    stays where it is and pays NaN, which every caller reports as an error that names the pair.
    """
    as_kind("tabular_model", Tabular, "a Tabular", tabular=tabular)
    if rewards is not None:
        rewards = as_array("tabular_model", "rewards [X, A]", 2, finite=False, rewards=rewards)
        if rewards.shape != tabular.r.shape:
            raise InputError(
                f"`tabular_model(rewards=...)` must have the table's shape {tabular.r.shape}, got {rewards.shape}."
            )
    P, r = sparse.csr_matrix(tabular.P), np.array(tabular.r if rewards is None else rewards, dtype=float)
    if tabular.available is not None:
        closed = np.flatnonzero(~tabular.available.ravel())
        stay = (np.ones(len(closed)), (closed, closed // tabular.n_actions))
        P = P + sparse.csr_matrix(stay, shape=P.shape)
        r[~tabular.available] = np.nan
    P.eliminate_zeros()
    cumulative = np.cumsum(P.data)
    before = np.concatenate([[0.0], cumulative])[P.indptr[:-1]]  # [X * A] mass of the earlier rows
    cumulative = np.clip(cumulative - np.repeat(before, np.diff(P.indptr)), 0.0, 1.0)
    data = (
        cumulate(tabular.nu0),
        r,
        P.indptr.astype(np.int64),
        cumulative,
        P.indices.astype(np.int64),
    )
    alone = bool((np.diff(P.indptr) == 1).all())
    return CompiledModel(
        tabular.n_actions, draw_initial, _step, data, noise_kernel=_step_alone if alone else _step_with,
        noise_dimension=0 if alone else 1,
    )  # fmt: skip


def cumulate(p: FloatArray) -> FloatArray:
    """Cumulative sums along the last axis, scaled to end in exactly 1."""
    c = np.cumsum(p, axis=-1)
    return c / c[..., -1:]


def check_policy(pi: FloatArray, X: int, A: int, available: NDArray[np.bool_] | None = None) -> None:
    """Raise InputError unless every row of pi `[X, A]` is a distribution over available actions; names the first bad row."""
    if np.shape(pi) != (X, A):
        raise InputError(f"A policy over {X} states and {A} actions has shape {(X, A)}, got {np.shape(pi)}.")
    wrong = np.flatnonzero(~((pi >= 0).all(axis=1) & (np.abs(pi.sum(axis=1) - 1.0) <= 1e-8)))
    if len(wrong):
        x = int(wrong[0])
        raise InputError(f"pi(.|x={x}) is not a distribution: {shown(pi[x])} sums to {pi[x].sum():.9g}.")
    if available is not None and (pi[~available] != 0).any():
        x, a = divmod(int(np.argmax((pi != 0) & ~available)), A)
        raise InputError(f"pi(a={a}|x={x}) is {pi[x, a]:.9g}, but action {a} is unavailable at state {x}.")
