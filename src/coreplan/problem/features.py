"""Feature maps: phi(x, a) in R^d for all actions of a batch of states at once.

A batch of features is dense, `[n, A, d]`, or `Sparse(index, weight)`, both `[n, A, k]`: interpolation
and tile features have a handful of nonzeros, and a dense d-vector for each wastes orders of magnitude.
Within a sparse row the indices of nonzero weights are distinct; rows are padded with weight 0.

Masks travel with the features: a row whose first entry (of a sparse row, first weight) is `UNAVAILABLE` says that the
action cannot be taken at that state, and every policy gives it probability zero.
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
from numpy.typing import NDArray

from ..errors import CoreplanError, FeatureError, InputError, require_count, require_positive
from .model import FloatArray, IntArray, States, as_states

UNAVAILABLE = -float(
    np.finfo(np.float64).max
)  # finite, so that it survives files and checks; no feature is so long
_SLACK = 1.0 + 1e-9  # a norm may exceed the radius by rounding only


class Sparse(NamedTuple):
    """Sparse rows of length k: `sum_l weight[..., l] e_{index[..., l]}`."""

    index: IntArray  # type: ignore[assignment]  # [..., k]; hides tuple.index on purpose
    weight: FloatArray  # [..., k]


Phi: TypeAlias = FloatArray | Sparse
Box: TypeAlias = tuple[Any, Any]  # low [D], high [D]


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

    Two different functions of the same name and sizes have the same fingerprint: give `name` a version
    where that matters. `box=(low [D], high [D])` says which states the map was made for: a run warns of others.
    """

    function: Callable[[States], Any]
    n_actions: int
    dimension: int
    radius: float
    nonzeros: int | None = None
    name: str = ""
    box: Box | None = field(default=None, repr=False, compare=False)
    clips: bool = False

    def __post_init__(self) -> None:
        _check_declaration(self)
        if not self.name:
            name = getattr(self.function, "__qualname__", type(self.function).__name__)
            object.__setattr__(self, "name", name)

    def __call__(self, states: States) -> Phi:
        return self.function(states)

    @property
    def description(self) -> Mapping[str, Any]:
        return _describe(self, name=self.name)


@dataclass(frozen=True)
class CompiledFeatures:
    """Features from a Numba function `kernel(data, states, out)`, so that a whole run can be compiled.

    `out` is `[n, A, d]` or `Sparse` with `[n, A, k]`, to be filled completely. A kernel answers a state
    it does not know with NaN, which the caller reports. `core()` gives the pairs of an exact core set, where the
    features carry one by construction. `box=(low [D], high [D])` says which states they were made for and
    `clips` whether beyond an edge they stay at the edge's value: a run warns of states outside.
    """

    kernel: Callable[..., None]
    n_actions: int
    dimension: int
    radius: float
    nonzeros: int | None = None
    data: tuple[Any, ...] = field(repr=False, default=())
    name: str = ""
    state_shape: tuple[int, ...] = ()
    state_dtype: Any = np.int64
    core: Callable[[], tuple[States, IntArray]] | None = field(default=None, repr=False, compare=False)
    box: Box | None = field(default=None, repr=False, compare=False)
    clips: bool = False

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
        """A batch of features for `n` states, to be filled."""
        if self.nonzeros is None:
            return np.zeros((n, self.n_actions, self.dimension))
        shape = (n, self.n_actions, self.nonzeros)
        return Sparse(np.zeros(shape, dtype=np.int64), np.zeros(shape))

    def __call__(self, states: States) -> Phi:
        states = as_states(states, self.state_shape, self.state_dtype, f"The features '{self.name}'")
        out = self.empty(len(states))
        self.kernel(self.data, states, out)
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
        if isinstance(array, tuple):
            h.update(digest(*array).encode())
            continue
        array = np.ascontiguousarray(array)
        h.update(f"{array.dtype}{array.shape}".encode())
        h.update(array.tobytes())
    return h.hexdigest()[:16]


def available(phi: Phi) -> NDArray[np.bool_]:
    """Which actions can be taken, `[n, A]`, read off the features `[n, A, ...]`."""
    return (phi.weight if isinstance(phi, Sparse) else phi)[..., 0] != UNAVAILABLE


def row_count(phi: Phi) -> int:
    """n of features `[n, ...]`, dense or Sparse."""
    return len(phi.weight if isinstance(phi, Sparse) else phi)


def dense_rows(rows: Phi, dimension: int) -> FloatArray:
    """Rows of features, dense or Sparse `[n, k]`, as a matrix `[n, d]`."""
    if not isinstance(rows, Sparse):
        return rows
    out = np.zeros((len(rows.weight), dimension))
    np.add.at(out, (np.arange(len(out))[:, None], rows.index), rows.weight)
    return out


# Checks. One pair of kernels serves the compiled loop and the NumPy loop. A masked row is too long, so that maps
# without masks pay nothing for the question.


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
        masked = 0
        for a in range(phi.shape[1]):
            norm2 = 0.0
            for i in range(phi.shape[2]):
                norm2 += phi[n, a, i] * phi[n, a, i]
            if not norm2 <= limit:  # also true of NaN
                masked += 1
                if phi[n, a, 0] != UNAVAILABLE or masked == phi.shape[1]:
                    return n * phi.shape[1] + a
    return -1


@njit(cache=True, nogil=True)
def _fault_sparse(phi, dimension, radius):
    limit = (radius * _SLACK) ** 2
    index, weight = phi
    size = np.uint64(dimension)
    for n in range(weight.shape[0]):
        masked = 0
        for a in range(weight.shape[1]):
            norm2 = 0.0
            outside = 0
            for i in range(weight.shape[2]):
                norm2 += weight[n, a, i] * weight[n, a, i]
                if np.uint64(index[n, a, i]) >= size:  # a negative index becomes a huge one
                    outside += 1
            if outside > 0 or not norm2 <= limit:
                masked += 1
                if outside > 0 or weight[n, a, 0] != UNAVAILABLE or masked == weight.shape[1]:
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
    if not available(phi)[n].any():
        raise FeatureError(
            f"The mask forbids every action of state {np.asarray(states[n]).tolist()}; each state needs at least one. "
            "Where the process has ended, allow any action and let it stay."
        )
    where = f"of state {np.asarray(states[n]).tolist()} and action {a}"
    if isinstance(phi, Sparse):
        index, weight = phi.index[n, a], phi.weight[n, a]
        if ((index < 0) | (index >= features.dimension)).any():
            raise FeatureError(
                f"The sparse features {where} have indices {index.tolist()}: each must be from 0 to "
                f"dimension - 1 = {features.dimension - 1}."
            )
        if first_fault(phi, features.dimension, features.radius) < 0:
            raise FeatureError(
                f"The sparse features {where} name a coordinate twice: indices {index.tolist()}. "
                "Add the weights up, and pad with weight 0."
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
    try:
        values = features(states)
    except CoreplanError:
        raise
    except (Exception, SystemExit) as error:
        text = str(error).strip().splitlines()
        name = getattr(features, "name", type(features).__name__)
        raise FeatureError(
            f"The features '{name}' raised {type(error).__name__}: {text[-1].strip() if text else ''} "
            f"(on a batch of {len(states)} states). Call them on such a batch yourself to find the line."
        ) from error
    phi = values if isinstance(features, CompiledFeatures) else as_phi(values, len(states), features)
    fault = first_fault(phi, features.dimension, features.radius)
    if fault < 0 and isinstance(phi, Sparse):
        fault = _first_repeat(phi)
    if fault >= 0:
        raise_fault(features, states, phi, fault)
    return phi


@njit(cache=True, nogil=True)
def _first_repeat(phi):
    """The flat index of the first sparse feature that names a coordinate twice with nonzero weights; else -1."""
    index, weight = phi
    for n in range(weight.shape[0]):
        for a in range(weight.shape[1]):
            for i in range(weight.shape[2]):
                for l in range(i):
                    if index[n, a, i] == index[n, a, l] and weight[n, a, i] != 0.0 and weight[n, a, l] != 0.0:
                        return n * weight.shape[1] + a
    return -1


def as_phi(values: Any, n: int, features: Features) -> Phi:
    """What a user's feature map returned as our own copy, since a map may reuse its output."""
    if features.nonzeros is None:
        return _numbers("features", values, "fiub", np.float64, (n, features.n_actions, features.dimension))
    if not isinstance(values, (tuple, list)) or len(values) != 2:
        raise FeatureError(
            f"Sparse features must return a pair (index, weight), got {type(values).__name__}. "
            "Leave `nonzeros` out where the function returns dense features."
        )
    shape = (n, features.n_actions, features.nonzeros)
    index = _numbers("the features' index", values[0], "iu", np.int64, shape)
    return Sparse(index, _numbers("the features' weight", values[1], "fiub", np.float64, shape))


def _numbers(what: str, values: Any, kinds: str, dtype: Any, shape: tuple[int, ...]) -> Any:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise FeatureError(f"{what} cannot be read as one array: {error}.") from None
    if array.dtype.kind not in kinds:
        kind = "whole numbers" if "f" not in kinds else "real numbers"
        raise FeatureError(f"{what} must be {kind}, got dtype {array.dtype}.")
    if array.shape != shape:
        raise FeatureError(
            f"For a batch of {shape[0]} states {what} must have shape {shape} (states, actions, "
            f"{'dimension' if what == 'features' else 'nonzeros'}), got {array.shape}."
        )
    return np.array(array, dtype=dtype, order="C")


def _check_declaration(features: Any) -> None:
    owner = type(features).__name__
    require_count(
        owner, n_actions=features.n_actions, dimension=features.dimension, nonzeros=features.nonzeros
    )
    require_positive(owner, radius=features.radius)
    if features.box is not None:
        edges = np.asarray(features.box, dtype=float)  # [2, D]
        if edges.ndim != 2 or len(edges) != 2 or not (edges[0] < edges[1]).all():
            raise InputError(
                f"`{owner}(box=...)` must be (low [D], high [D]) with low < high, got {features.box!r}."
            )


def _describe(features: Features, **more: Any) -> dict[str, Any]:
    return {
        "kind": type(features).__name__,
        "n_actions": int(features.n_actions),
        "dimension": int(features.dimension),
        "radius": float(features.radius),
        "nonzeros": None if features.nonzeros is None else int(features.nonzeros),
        **more,
    }
