"""Planners, one file an algorithm, all behind ask and tell."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..errors import InputError, nearest
from .base import Answers, Ask, Kernels, Planner, ReadOut, Setup
from .documented import documented_settings
from .primal_dual import PrimalDual

PLANNERS: dict[str, type[PrimalDual]] = {PrimalDual.name: PrimalDual}


def make_planner(name: str, settings: Mapping[str, Any]) -> PrimalDual:
    """A planner by its command-line name, with settings by their names."""
    if name not in PLANNERS:
        raise InputError(f"There is no planner '{name}'.{nearest(name, PLANNERS)}")
    planner = PLANNERS[name]
    options = [f.name for f in dataclasses.fields(planner) if f.name not in ("theta0", "lambda1", "setup")]
    for key in settings:
        if key not in options:
            raise InputError(f"The planner '{name}' has no setting '{key}'.{nearest(key, options)}")
    return planner(**settings)


__all__ = [
    "PLANNERS",
    "Answers",
    "Ask",
    "Kernels",
    "Planner",
    "PrimalDual",
    "ReadOut",
    "Setup",
    "documented_settings",
    "make_planner",
]
