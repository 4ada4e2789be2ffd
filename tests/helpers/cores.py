"""Core sets with gaps."""

from __future__ import annotations

import numpy as np

import coreplan


def without(problem, *dropped):
    """The problem's core set with some pairs left out."""
    core = coreplan.CoreSet.of(problem)
    keep = np.setdiff1d(np.arange(len(core)), dropped)
    return coreplan.CoreSet(core.states[keep], core.actions[keep])
