"""The planners by name, with their settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..base import InputError, nearest
from .core_mirror.planner import CoreMirror
from .grow.planner import Grow
from .optimistic.planner import OptimisticPrimalDual
from .plug_in import PlugIn
from .primal_dual.planner import PrimalDual
from .protocol import Planner
from .sampled_lp import SampledLP

PLANNERS: dict[str, type[Planner]] = {
    p.name: p for p in (PlugIn, Grow, CoreMirror, OptimisticPrimalDual, SampledLP, PrimalDual)
}
_ARRAYS = ("theta0", "lambda1", "setup", "most")  # not for a command line


def options(name: str) -> list[str]:
    """The settings of a planner that can be given by name=value."""
    if name not in PLANNERS:
        raise InputError(f"There is no planner '{name}'.{nearest(name, PLANNERS)}")
    return [f.name for f in dataclasses.fields(PLANNERS[name]) if f.name not in _ARRAYS]  # type: ignore[arg-type]


def make_planner(name: str, settings: Mapping[str, Any]) -> Planner:
    """A planner by its command-line name, with settings by their names."""
    known = options(name)
    for key in settings:
        if key not in known:
            raise InputError(f"The planner '{name}' has no setting '{key}'.{nearest(key, known)}")
    return PLANNERS[name](**settings)


def to_accuracy(planner: Planner, epsilon: float | str) -> Planner:
    """The planner, told to stop at an accuracy; an InputError for one that cannot."""
    if "epsilon" not in {f.name for f in dataclasses.fields(planner)}:  # type: ignore[arg-type]
        raise InputError(
            f"The planner '{planner.name}' cannot tell how accurate it is, so it takes a budget and no epsilon."
        )
    return dataclasses.replace(planner, epsilon=epsilon)  # type: ignore[type-var]
