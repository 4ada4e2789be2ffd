"""Planners, one file an algorithm, all behind ask and tell."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..errors import InputError, nearest
from .base import Answers, Ask, Kernels, Planner, ReadOut, Setup, Stored, Verdict
from .documented import documented_settings
from .grow import Grow
from .optimistic import OptimisticPrimalDual
from .primal_dual import PrimalDual
from .sampled_lp import SampledLP

PLANNERS: dict[str, type[Planner]] = {
    planner.name: planner for planner in (PrimalDual, Grow, OptimisticPrimalDual, SampledLP)
}
_ARRAYS = ("theta0", "lambda1", "setup")  # not for a command line


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


__all__ = [
    "PLANNERS",
    "Answers",
    "Ask",
    "Grow",
    "Kernels",
    "OptimisticPrimalDual",
    "Planner",
    "PrimalDual",
    "ReadOut",
    "SampledLP",
    "Setup",
    "Stored",
    "Verdict",
    "documented_settings",
    "make_planner",
    "options",
]
