"""Feature maps: phi(x, a) in R^d for all actions of a batch of states at once.

A batch of features is dense, `[n, A, d]`, or `Sparse(index, weight)`, both `[n, A, k]`: interpolation
and tile features have a handful of nonzeros, and a dense d-vector for each wastes orders of magnitude.
Within a sparse row the indices of nonzero weights are distinct; rows are padded with weight 0.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numba import njit, types
from numba.extending import is_jitted, overload

from ..errors import FeatureError, InputError, require_count, require_positive
from .model import FloatArray, IntArray, States

_SLACK = 1.0 + 1e-9  # a norm may exceed the radius by rounding only


class Sparse(NamedTuple):
    """Sparse rows of length k: `sum_l weight[..., l] e_{index[..., l]}`."""

    index: IntArray  # type: ignore[assignment]  # [..., k]; hides tuple.index on purpose
    weight: FloatArray  # [..., k]


Phi: TypeAlias = FloatArray | Sparse


@runtime_checkable
class Features(Protocol):
    """A feature map."""

    @property
    def n_actions(self) -> int:
        """A, the number of actions."""

    @property
    def dimension(self) -> int:
        """d, the length of a feature vector."""

    @property
    def radius(self) -> float:
        """R: no feature vector is longer."""

    @property
    def nonzeros(self) -> int | None:
        """k of the sparse form, None where features are dense."""

    def __call__(self, states: States) -> Phi:
        """phi(x, a) for every state of the batch and every action."""

    @property
    def description(self) -> Mapping[str, Any]:
        """What makes two feature maps the same, as JSON types; its hash is stored with a policy."""


@dataclass(frozen=True)
class FunctionFeatures:
    """Features from a NumPy function: `function(states)` returns `[n, A, d]`, or `(index, weight)`.

    What it returns is checked on every call. Two different functions of the same name and sizes have
    the same fingerprint: give `name` a version where that matters.
    """

    function: Callable[[States], Any]
    n_actions: int
    dimension: int
    radius: float
    nonzeros: int | None = None
    name: str = ""

    def __post_init__(self) -> None:
        _check_declaration(self)
        if not self.name:
            object.__setattr__(
                self, "name", getattr(self.function, "__qualname__", type(self.function).__name__)
            )

    def __call__(self, states: States) -> Phi:
        try:
            values = self.function(states)
        except Exception as error:
            raise FeatureError(
                f"The feature function '{self.name}' raised {type(error).__name__}: {error} "
                f"(on a batch of {len(states)} states). Call it on such a batch yourself to find the line."
            ) from error
        return _as_phi(values, len(states), self)

    @property
    def description(self) -> Mapping[str, Any]:
        return _describe(self, name=self.name)


@dataclass(frozen=True)
class CompiledFeatures:
    """Features from a Numba function `kernel(data, states, out)`, so that a whole run can be compiled.

    `out` is `[n, A, d]` or `Sparse` with `[n, A, k]`, to be filled completely. A kernel answers a state
    it does not know with NaN, which the caller reports.
    """

    kernel: Callable[..., None]
    n_actions: int
    dimension: int
    radius: float
    nonzeros: int | None = None
    data: tuple[Any, ...] = field(repr=False, default=())
    name: str = ""
    state_dtype: Any = None

    def __post_init__(self) -> None:
        _check_declaration(self)
        if not is_jitted(self.kernel):
            raise InputError(
                f"`CompiledFeatures(kernel=...)` must be a Numba function, got {self.kernel!r}. "
                "Decorate it with @numba.njit(cache=True), or use FunctionFeatures."
            )
        if not self.name:
            object.__setattr__(self, "name", self.kernel.py_func.__name__)

    def empty(self, n: int) -> Phi:
        """An uninitialised batch of features for `n` states."""
        if self.nonzeros is None:
            return np.empty((n, self.n_actions, self.dimension))
        shape = (n, self.n_actions, self.nonzeros)
        return Sparse(np.empty(shape, dtype=np.int64), np.empty(shape))

    def __call__(self, states: States) -> Phi:
        out = self.empty(len(states))
        self.kernel(self.data, np.ascontiguousarray(states, dtype=self.state_dtype), out)
        return out

    @property
    def description(self) -> Mapping[str, Any]:
        return _describe(self, name=self.name, data=digest(*self.data))


def fingerprint(features: Features) -> str:
    """A short hash of the features' description; stored with a policy and compared when it is loaded."""
    text = json.dumps(dict(features.description), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digest(*arrays: Any) -> str:
    """A short hash of arrays and numbers, by value."""
    h = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        h.update(f"{array.dtype}{array.shape}".encode())
        h.update(array.tobytes())
    return h.hexdigest()[:16]


# Checks. One pair of kernels serves the compiled loop and the NumPy loop.


def first_fault(phi: Phi, dimension: int, radius: float) -> int:
    """The flat index `n * A + a` of the first feature that is not finite, too long, or out of place; else -1.

    Called from compiled code it is resolved by type; here it serves Python.
    """
    return int(
        _fault_sparse(phi, dimension, radius)
        if isinstance(phi, Sparse)
        else _fault_dense(phi, dimension, radius)
    )


@njit(cache=True, nogil=True)
def _fault_dense(phi, dimension, radius):
    limit = (radius * _SLACK) ** 2
    for n in range(phi.shape[0]):
        for a in range(phi.shape[1]):
            norm2 = 0.0
            for i in range(phi.shape[2]):
                norm2 += phi[n, a, i] * phi[n, a, i]
            if not norm2 <= limit:  # also true of NaN
                return n * phi.shape[1] + a
    return -1


@njit(cache=True, nogil=True)
def _fault_sparse(phi, dimension, radius):
    limit = (radius * _SLACK) ** 2
    index, weight = phi
    for n in range(weight.shape[0]):
        for a in range(weight.shape[1]):
            norm2 = 0.0
            inside = True
            for i in range(weight.shape[2]):
                norm2 += weight[n, a, i] * weight[n, a, i]
                inside &= 0 <= index[n, a, i] < dimension
            if not (inside and norm2 <= limit):
                return n * weight.shape[1] + a
    return -1


@overload(first_fault)
def _first_fault(phi, dimension, radius):
    if isinstance(phi, types.Array):
        return lambda phi, dimension, radius: _fault_dense(phi, dimension, radius)
    return lambda phi, dimension, radius: _fault_sparse(phi, dimension, radius)


def raise_fault(features: Features, states: States, phi: Phi, fault: int) -> None:
    """Raise the error for what `first_fault` found: it names the state, the action and the value."""
    n, a = divmod(fault, features.n_actions)
    where = f"of state {np.asarray(states[n]).tolist()} and action {a}"
    if isinstance(phi, Sparse):
        index, weight = phi.index[n, a], phi.weight[n, a]
        if ((index < 0) | (index >= features.dimension)).any():
            raise FeatureError(
                f"The sparse features {where} have indices {index.tolist()}: each must be from 0 to "
                f"dimension - 1 = {features.dimension - 1}."
            )
        values = weight
    else:
        values = phi[n, a]
    if not np.isfinite(values).all():
        raise FeatureError(
            f"The features {where} are not finite: {values[:8].tolist()}. "
            "Either the state is outside what the feature map knows, or the map divides by zero there."
        )
    raise FeatureError(
        f"The features {where} have norm {np.linalg.norm(values):.6g}, above the declared radius "
        f"R = {features.radius:g}. Declare a larger radius, or scale the features down."
    )


def checked(features: Features, states: States) -> Phi:
    """`features(states)`, or an error that names the state whose features break the declaration."""
    phi = features(states)
    fault = first_fault(phi, features.dimension, features.radius)
    if fault >= 0:
        raise_fault(features, states, phi, fault)
    return phi


def _as_phi(values: Any, n: int, features: Features) -> Phi:
    if features.nonzeros is None:
        dense = np.ascontiguousarray(values, dtype=np.float64)
        _check_shape("features", dense.shape, (n, features.n_actions, features.dimension), features)
        return dense
    try:
        index, weight = values
    except (TypeError, ValueError):
        raise FeatureError(
            f"Sparse features must return a pair (index, weight), got {type(values).__name__}. "
            "Leave `nonzeros` out where the function returns dense features."
        ) from None
    index, weight = (
        np.ascontiguousarray(index, dtype=np.int64),
        np.ascontiguousarray(weight, dtype=np.float64),
    )
    for name, array in (("index", index), ("weight", weight)):
        _check_shape(
            f"the features' {name}", array.shape, (n, features.n_actions, features.nonzeros), features
        )
    return Sparse(index, weight)


def _check_shape(what: str, got: tuple[int, ...], want: tuple[int, ...], features: Features) -> None:
    if got != want:
        raise FeatureError(
            f"For a batch of {want[0]} states {what} must have shape {want} (states, actions, "
            f"{'dimension' if features.nonzeros is None else 'nonzeros'}), got {got}."
        )


def _check_declaration(features: Any) -> None:
    owner = type(features).__name__
    require_count(
        owner, n_actions=features.n_actions, dimension=features.dimension, nonzeros=features.nonzeros
    )
    require_positive(owner, radius=features.radius)


def _describe(features: Features, **more: Any) -> dict[str, Any]:
    return {
        "kind": type(features).__name__,
        "n_actions": int(features.n_actions),
        "dimension": int(features.dimension),
        "radius": float(features.radius),
        "nonzeros": None if features.nonzeros is None else int(features.nonzeros),
        **more,
    }
