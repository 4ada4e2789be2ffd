"""`policy_spec`: a whole policy, features included, as plain data, from which each of the exports is made."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from .._version import __version__
from ..base import InputError, as_flag, as_kind, shown
from ..features import (
    CompiledFeatures,
    Coordinates,
    Features,
    MaskedFeatures,
    TerminalFeatures,
    TimeFeatures,
    formula_of,
)
from ..policy import policy_of
from ..problem import Problem
from .formulas import KINDS

FORMAT, VERSION = "coreplan policy description", 1
MOST = 2**24  # numbers in a description: more would be gigabytes of text
_TABLED = 10**6  # states whose masks are listed, at most


def policy_spec(policy: Any, problem: Problem | None = None, *, from_phi: bool = False) -> dict[str, Any]:
    """The policy as a dict of JSON types: theta, scale, and the feature map as a small tree of maps.

    Parameters
    ----------
    policy: a `SoftmaxPolicy` with its features, or a `Plan`.
    problem: gives names to states and actions, where it has them.
    from_phi: leave the feature map out; what is exported then takes phi `[n, A, d]`, which your own code computes.

    Every built-in map can be described, except those of `tetris` and of `random-linear` with `lazy=true` or
    `compiled=false`. A function of your own cannot: this is an InputError that names it. A mask is a function too: over
    numbered states it is listed state by state, otherwise the exported policy takes the mask `[n, A]` as a second input
    (`mask` is true). With an adapter's `observe`, states are what it returns. `input` says what a state is: "number",
    "columns" or "phi"; `columns` names its numbers. Where the last one says whether an episode has ended, it may be left
    out (`terminal` is "optional").
    """
    policy = policy_of("policy_spec", policy)
    from_phi = as_flag("policy_spec", from_phi=from_phi)
    as_kind("policy_spec", Problem, "a Problem", optional=True, problem=problem)
    if policy.features is None:
        raise InputError(
            "This policy was loaded without its features, so it cannot be exported. Load it with "
            "load_policy(path, problem=...), giving the problem it was planned for."
        )
    features = policy.features
    tree: dict[str, Any] = {"kind": "given", "dimension": features.dimension}
    columns, kind, terminal = list[str](), "phi", ""
    if not from_phi:
        tree = _described(features)
        columns, kind, terminal = _inputs(features, _names(problem, "state_names"))
    spec = {
        "format": FORMAT,
        "version": VERSION,
        "coreplan": __version__,
        "problem": policy.problem_name,
        "input": kind,
        "columns": columns,
        "terminal": terminal,
        "mask": _has(tree, "masked_by_input"),
        "n_actions": int(features.n_actions),
        "actions": _names(problem, "action_names"),
        "dimension": int(features.dimension),
        "scale": "infinity" if policy.scale == np.inf else policy.scale,
        "theta": policy.theta.tolist(),
        "features": _plain(tree),
    }
    _require_size(spec)
    return spec


def _names(problem: Problem | None, field: str) -> list[str] | None:
    names = getattr(problem, field, None)
    return None if names is None else [str(name) for name in names]


def _described(features: Features) -> dict[str, Any]:
    """The tree of a feature map; an InputError that names the first map of which no description is known."""
    if isinstance(features, CompiledFeatures):
        formula = formula_of(features)
        if formula is None:
            raise _unknown(features)
        return formula
    if isinstance(features, Coordinates):
        return _coordinates(features)
    if isinstance(features, TerminalFeatures):
        base = _on_columns(features.base)
        return {"kind": "terminal", "coordinate": int(features.base.dimension), "base": base}
    if isinstance(features, TimeFeatures):
        base = _living(_on_columns(features.base)) if features.rows.terminal else _on_columns(features.base)
        return {"kind": "time", "nodes": features.nodes, "width": int(features.block), "base": base}
    if isinstance(features, MaskedFeatures):
        return _masked(features)
    raise _unknown(features)


def _unknown(features: Features) -> InputError:
    name = getattr(features, "name", type(features).__name__)
    return InputError(
        f"The features {shown(name)} cannot be exported: they are code for which no formula is known. Export from phi on, "
        "with from_phi=True or --from-phi: what is exported then takes the features [n, A, d] of a batch of states, which "
        "your own code computes. Or use built-in features, such as interpolation; for a compiled map of your own, "
        "features.describes registers its formula."
    )


def _on_columns(features: Features) -> dict[str, Any]:
    """A map's tree, for states that are written as rows of numbers, whatever they were."""
    tree = _described(features)
    return {"kind": "number", "base": tree} if _numbered(features) else tree


def _numbered(features: Features) -> bool:
    """Whether a map's states are whole numbers, not rows."""
    if isinstance(features, MaskedFeatures):
        return _numbered(features.features)
    return isinstance(features, CompiledFeatures) and features.state_shape == ()


def _living(tree: dict[str, Any]) -> dict[str, Any]:
    """The tree without its terminal column, for states that live."""
    return tree["base"] if tree["kind"] == "terminal" else tree | {"base": _living(tree["base"])}


def _masked(features: MaskedFeatures) -> dict[str, Any]:
    base = _described(features.features)
    count = _states_of(base) if _numbered(features.features) else 0
    if 0 < count <= _TABLED:
        return {"kind": "masked", "allowed": features.allowed(np.arange(count)), "base": base}
    return {"kind": "masked_by_input", "base": base}


def _states_of(tree: dict[str, Any]) -> int:
    """How many numbered states a map knows; 0 if it does not say."""
    sizes = {"one_hot": "count", "aggregation": "groups", "table": "table", "sparse_table": "weight"}
    if tree["kind"] in sizes:
        size = tree[sizes[tree["kind"]]]
        return int(size) if tree["kind"] == "one_hot" else len(size)
    return _states_of(tree["base"]) if "base" in tree else 0


def _coordinates(features: Coordinates) -> dict[str, Any]:
    box = features.bounds
    low, high = box.edges
    slack = 1e-6 * np.where(box.finite, box.width, 0.0)
    largest = np.finfo(np.float64).max  # in place of infinity, which is no JSON
    return {
        "kind": "coordinates", "low": np.where(box.finite, box.low, 0.0), "width": np.where(box.finite, box.width, 1.0),
        "finite": box.finite, "periodic": box.periodic, "integer": box.whole, "least": np.maximum(low - slack, -largest),
        "most": np.minimum(high + slack, largest), "n_actions": features.n_actions,
    }  # fmt: skip


def _inputs(features: Features, names: list[str] | None) -> tuple[list[str], str, str]:
    """What an exported policy is given: the names of a state's numbers, their form, and whether the last may be missing."""
    if isinstance(features, MaskedFeatures):
        return _inputs(features.features, names)
    if isinstance(features, TerminalFeatures):
        columns, _, _ = _inputs(features.base, names if features.observe is None else None)
        return [*columns, "ended"], "columns", "" if isinstance(features.base, TimeFeatures) else "optional"
    if isinstance(features, TimeFeatures):
        columns, _, _ = _inputs(features.base, names)
        return [*(columns[:-1] if features.rows.terminal else columns), "step"], "columns", ""
    if isinstance(features, Coordinates):
        return _columns(features.bounds.dimension, names), "columns", ""
    assert isinstance(features, CompiledFeatures)
    if features.state_shape == ():
        return _columns(1, names), "number", ""
    columns = _columns(int(np.prod(features.state_shape)), names)
    return columns, "columns", "optional" if features.ends else ""


def _columns(D: int, names: list[str] | None) -> list[str]:
    if names is not None and len(names) >= D:
        return names[:D]
    return ["state"] if D == 1 else [f"x[{i}]" for i in range(D)]


def _has(tree: dict[str, Any], kind: str) -> bool:
    return tree["kind"] == kind or ("base" in tree and _has(tree["base"], kind))


def _plain(tree: dict[str, Any]) -> dict[str, Any]:
    """A tree in JSON types, checked: every kind is one of `formulas.py`, with the fields that it takes."""
    kind = str(tree["kind"])
    fields = {name: value for name, value in tree.items() if name != "kind"}
    function = KINDS.get(kind)
    known = set(inspect.signature(function).parameters) if function is not None else set()
    if function is None or known - {"states", "phi", "mask"} != set(fields):
        raise InputError(
            f"`describes`: {shown(kind)} with {shown(sorted(fields))} is no kind of feature map."
        )
    plain = {
        name: _plain(value) if isinstance(value, dict) else _listed(value) for name, value in fields.items()
    }
    return {"kind": kind, **plain}


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def _require_size(spec: dict[str, Any]) -> None:
    def count(value: Any) -> int:
        if isinstance(value, dict):
            return sum(map(count, value.values()))
        if isinstance(value, list):
            return sum(map(count, value)) if value and isinstance(value[0], list) else len(value)
        return 1

    numbers = count(spec)
    if numbers > MOST:
        raise InputError(
            f"The policy and its features are {numbers:,} numbers, more than {MOST:,}: too many to be written as text. "
            "Plan with coarser features, or keep policy.npz."
        )
