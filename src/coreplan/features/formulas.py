"""What a compiled map computes, as a description: so that an exported policy can compute it without Numba and coreplan.

A kernel that has a closed form registers a function that describes it. A description is a small tree of dicts, each with a
`kind`, numbers and arrays, and perhaps the description of the map below as `base`. `coreplan.export` lists the kinds and
says what each computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from .protocol import CompiledFeatures

Formula: TypeAlias = dict[str, Any]
Describe: TypeAlias = Callable[..., Formula]  # (data, A) -> the description of a kernel with these data

_DESCRIBED: dict[Any, Describe] = {}


def describes(kernel: Any) -> Callable[[Describe], Describe]:
    """Decorate `describe(data, n_actions)` with this, to register it as the description of what `kernel` computes."""

    def register(describe: Describe) -> Describe:
        _DESCRIBED[kernel] = describe
        return describe

    return register


def formula_of(features: CompiledFeatures) -> Formula | None:
    """The description of a compiled map; None if nobody has registered one for its kernel."""
    known = features.kernel in _DESCRIBED
    return formula_by(features.kernel, features.data, features.n_actions) if known else None


def formula_by(kernel: Any, data: Any, A: int) -> Formula:
    """The description of what a kernel that has one computes from these data, for kernels that call it."""
    return _DESCRIBED[kernel](data, A)


def copied(base: Formula, A: int) -> Formula:
    """One copy per action of base functions of the state: coordinate i A + a is base function i for action a."""
    return {"kind": "copied", "n_actions": A, "base": base}
