"""Feature maps: phi(x, a) in R^d for all actions of a batch of states at once.

A batch of features is dense, `[n, A, d]`, or `Sparse(index, weight)` with both arrays `[n, A, k]`: interpolation
and tile features have a handful of nonzeros, and dense d-vectors would waste orders of magnitude of memory and time.
Within a sparse feature vector the indices of nonzero weights are distinct; vectors are padded with weight 0.

Masks travel with the features: a feature vector whose first entry (first weight, if sparse) is `UNAVAILABLE` means
that the action cannot be taken at that state, and every policy gives it probability zero.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numba.extending import is_jitted

from ..base import (
    CoreplanError,
    FeatureError,
    InputError,
    IntArray,
    States,
    as_array,
    as_count,
    as_dtype,
    as_flag,
    as_function,
    as_name,
    as_positive,
    as_shape,
    as_states,
    changed_input,
    digest,
    overrun,
    plain,
    read_only,
    settle,
    shown,
    text_of,
)
from .batch import Phi, Sparse, arrays, as_sparse, available, empty, entries, is_sparse
from .given import known_shape, known_width, unknown_shape
from .kernels import first_fault, first_repeat

Box: TypeAlias = tuple[Any, Any]  # low [D], high [D]


@runtime_checkable
class Features(Protocol):
    """A feature map: called with a batch of states `[n, ...]`, it returns phi(x, a) for all of them and all actions."""

    @property
    def n_actions(self) -> int:
        """A, the number of actions."""

    @property
    def dimension(self) -> int:
        """d, the length of a feature vector."""

    @property
    def radius(self) -> float:
        """R, an upper bound on the Euclidean norm of every feature vector."""

    @property
    def nonzeros(self) -> int | None:
        """k, the number of entries of a sparse feature vector; None if features are dense."""

    def __call__(self, states: States) -> Phi:
        """phi(x, a) for every state of the batch and every action: `[n, A, d]`, or Sparse `[n, A, k]`."""

    @property
    def description(self) -> Mapping[str, Any]:
        """What identifies the feature map, as JSON types: maps with equal descriptions count as the same.

        Its hash is stored with a policy.
        """


@dataclass(frozen=True)
class FunctionFeatures:
    """Features from a NumPy function: `function(states)` returns `[n, A, d]`, or `(index, weight)`, both `[n, A, k]`.

    Two different functions of the same name and sizes have the same fingerprint: put a version into `name`
    where that matters. `box=(low [D], high [D])` says which states the map was made for, and `clips` whether it
    clips the others to the edge of the box; a run warns about states outside.
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
        settle(self, as_function, "function", form="function(states) -> features [n, A, d]")
        if not self.name:
            name = getattr(self.function, "__qualname__", type(self.function).__name__)
            object.__setattr__(self, "name", name)

    def __call__(self, states: States) -> Phi:
        return self.function(states)

    def given(self, states: States) -> tuple[States, bool]:
        """States as a batch, and whether ONE was given: see `as_batch`. A box says how many numbers a state has."""
        if self.box is None:
            return unknown_shape(states)
        return known_width(states, len(self.box[0]), f"The features '{self.name}'")

    @property
    def description(self) -> Mapping[str, Any]:
        return _describe(self, name=self.name)


@dataclass(frozen=True)
class CompiledFeatures:
    """Features from a Numba function `kernel(data, states, out)`, so that a whole run can be compiled.

    The kernel must fill `out` completely; it is `[n, A, d]`, or `Sparse` with both arrays `[n, A, k]`. For a state
    it does not know it writes NaN, which the caller reports. `core()` returns the pairs of an exact core set, if the
    features carry one by construction. `box=(low [D], high [D])` says which states they were made for, and `clips`
    whether they clip the others to the edge of the box; a run warns about states outside. `ends`: the last number of a
    state is 1 once the process has ended; a policy takes states that lack it as living ones.
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
    ends: bool = False

    def __post_init__(self) -> None:
        _check_declaration(self)
        settle(self, as_shape, "state_shape")
        settle(self, as_dtype, "state_dtype")
        if not is_jitted(self.kernel):
            raise InputError(
                f"`CompiledFeatures(kernel=...)` must be a Numba function, got {shown(self.kernel)}. "
                "Decorate it with @numba.njit(cache=True), or use FunctionFeatures."
            )
        if not self.name:
            object.__setattr__(self, "name", self.kernel.py_func.__name__)

    def empty(self, n: int) -> Phi:
        """A batch of zeros for `n` states, for the kernel to fill."""
        return empty(n, self.n_actions, self.dimension, self.nonzeros)

    def __call__(self, states: States) -> Phi:
        states = as_states(states, self.state_shape, self.state_dtype, f"The features '{self.name}'")
        out = self.empty(len(states))
        self.kernel(self.data, states, out)
        self.require_inside(out)
        return out

    def require_inside(self, out: Phi) -> None:
        """Raise FeatureError if the kernel wrote beyond a batch from `empty`."""
        if overrun(*arrays(out)):
            raise FeatureError(
                f"The kernel of the features '{self.name}' writes beyond the arrays that it is given, where n_actions is "
                f"{self.n_actions}, dimension {self.dimension} and nonzeros {self.nonzeros}. Declare what it writes. Memory "
                "beyond was changed: start Python anew."
            )

    def given(self, states: States) -> tuple[States, bool]:
        """States as a batch, and whether ONE was given: see `as_batch`."""
        if self.ends and states.ndim in (1, 2) and states.shape[-1] == self.state_shape[0] - 1:
            states = np.concatenate([states, np.zeros_like(states[..., :1])], axis=-1)
        return known_shape(states, self.state_shape, f"The features '{self.name}'")

    @property
    def description(self) -> Mapping[str, Any]:
        return _describe(self, name=self.name, data=digest(*self.data))


def fingerprint(features: Features) -> str:
    """A short hash of the features' description; stored with a policy and compared when it is loaded."""
    text = json.dumps(dict(features.description), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# Checks. The compiled loop and the NumPy loop use the same two kernels. A masked row is recognised by its norm, which
# exceeds every radius, so that maps without masks pay nothing for masks.


def raise_fault(features: Features, states: States, phi: Phi, fault: int) -> None:
    """Raise the error for the flat index `fault` that `first_fault` found; it names the state, the action and the value."""
    n, a = divmod(fault, features.n_actions)
    if not available(phi)[n].any():
        raise every_action_forbidden(states[n])
    where = f"of state {shown(np.asarray(states[n]))} and action {a}"
    values = entries(phi)[n, a]
    if is_sparse(phi):
        index = as_sparse(phi).index[n, a]
        if ((index < 0) | (index >= features.dimension)).any():
            raise FeatureError(
                f"The sparse features {where} have indices {shown(index)}: each must be from 0 to "
                f"dimension - 1 = {features.dimension - 1}."
            )
        if first_fault(phi, features.dimension, features.radius) < 0:
            raise FeatureError(
                f"The sparse features {where} name a coordinate twice: indices {shown(index)}. "
                "Add the weights up, and pad with weight 0."
            )
    if not np.isfinite(values).all():
        raise FeatureError(
            f"The features {where} are not finite: {shown(values)}. "
            "Either the state is outside what the feature map knows, or the map divides by zero there."
        )
    raise FeatureError(
        f"The features {where} have norm {np.linalg.norm(values):.6g}, above the declared radius "
        f"R = {features.radius:g}. Declare a larger radius, or scale the features down."
    )


def every_action_forbidden(state: Any) -> FeatureError:
    """The error for a state at which no action can be taken."""
    return FeatureError(
        f"The mask forbids every action of state {shown(np.asarray(state))}; each state needs at least one. "
        "Where the process has ended, allow any action and let it stay. A mask is True where an action CAN be taken."
    )


def checked(features: Features, states: States) -> Phi:
    """`features(states)`, checked; raises an error that names the first state whose features break the declaration."""
    try:
        values = features(states if isinstance(features, CompiledFeatures) else read_only(states))
    except CoreplanError:
        raise
    except (Exception, SystemExit) as error:
        text = text_of(error).splitlines()
        name = getattr(features, "name", type(features).__name__)
        in_place = changed_input(f"The feature map '{name}'", error)
        if in_place:
            raise FeatureError(in_place) from error
        raise FeatureError(
            f"The features '{name}' raised {type(error).__name__}: {text[-1].strip() if text else ''} "
            f"(on a batch of {len(states)} states). Call them on such a batch yourself to find the line."
        ) from error
    phi = values if isinstance(features, CompiledFeatures) else as_phi(values, len(states), features)
    fault = first_fault(phi, features.dimension, features.radius)
    if fault < 0 and is_sparse(phi):
        fault = first_repeat(phi)
    if fault >= 0:
        raise_fault(features, states, phi, fault)
    return phi


def as_phi(values: Any, n: int, features: Features) -> Phi:
    """A copy, with shape and dtype checked, of what a user's feature map returned (it may reuse its output array)."""
    if features.nonzeros is None:
        return _numbers("features", values, "fiub", np.float64, (n, features.n_actions, features.dimension))
    if not isinstance(values, (tuple, list)) or len(values) != 2:
        raise FeatureError(
            f"Sparse features must return a pair (index, weight), got {type(values).__name__}. "
            "Leave `nonzeros` out if the function returns dense features."
        )
    shape = (n, features.n_actions, features.nonzeros)
    index = _numbers("the features' index", values[0], "iu", np.int64, shape)
    return Sparse(index, _numbers("the features' weight", values[1], "fiub", np.float64, shape))


def _numbers(what: str, values: Any, kinds: str, dtype: Any, shape: tuple[int, ...]) -> Any:
    array = plain(what, values, FeatureError)
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
    settle(features, as_count, "n_actions", "dimension", "nonzeros")
    settle(features, as_positive, "radius")
    settle(features, as_name, "name")
    settle(features, as_flag, "clips")
    if features.box is not None:
        form = "(low [D], high [D]) with low < high"
        edges = as_array(owner, form, 2, finite=False, box=features.box)  # [2, D]
        if len(edges) != 2 or not (edges[0] < edges[1]).all():
            raise InputError(f"`{owner}(box=...)` must be {form}, got {shown(features.box)}.")


def _describe(features: Features, **more: Any) -> dict[str, Any]:
    return {
        "kind": type(features).__name__,
        "n_actions": int(features.n_actions),
        "dimension": int(features.dimension),
        "radius": float(features.radius),
        "nonzeros": None if features.nonzeros is None else int(features.nonzeros),
        **more,
    }
