"""`coreplan problems` and `coreplan planners`: lists of the built-in problems and planners."""

from __future__ import annotations

import inspect
from typing import Any


def problems() -> None:
    """List the built-in problems and their parameters."""
    from ..problem import ZOO
    from . import show

    rows = []
    for name, factory in ZOO.items():
        parameters = inspect.signature(factory).parameters.values()
        rows.append((name, ", ".join(f"{p.name}={p.default}" for p in parameters), _first_line(factory)))
    show.listing("problem", "parameters (defaults)", rows)


def planners() -> None:
    """List the planners and their settings."""
    from ..planners import PLANNERS, options
    from . import show

    rows = [(name, ", ".join(options(name)), _first_line(planner)) for name, planner in PLANNERS.items()]
    show.listing("planner", "settings (--set name=value)", rows)


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").splitlines()[0]
