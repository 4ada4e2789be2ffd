"""The built-in planners by name, and their settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base import InputError, as_kind, as_text, nearest
from .alp import ALP, LRALP
from .bilinear import Bilinear
from .confident_lspi import ConfidentLSPI
from .constrained_smd import ConstrainedSMD
from .core_mirror.planner import CoreMirror
from .core_stomp import CoreStoMP
from .design_lspi import DesignLSPI
from .fitted_q import FittedQ
from .grow.planner import Grow
from .lspi import LSPI
from .optimistic.planner import OptimisticPrimalDual
from .plug_in import PlugIn
from .politex import Politex
from .ppq import PPQ
from .primal_dual.planner import PrimalDual
from .protocol import Planner
from .q_learning import QLearning
from .q_reps import QREPS
from .refine.planner import Refine
from .rlp import RLP
from .saddle import Saddle
from .sampled_lp import SampledLP
from .search.planner import Search
from .tabular_smd import TabularSMD
from .vwls_mdvi import VWLSMDVI

OURS = (PlugIn, Grow, Refine, Search, CoreMirror, OptimisticPrimalDual, SampledLP, PrimalDual)
LOCAL = (CoreStoMP, ConfidentLSPI)  # for one state; for a simulator that is put back to states it was in
ON_THE_LP = (ALP, RLP, LRALP, TabularSMD, ConstrainedSMD)
# Of the paper, for comparison: docs/relatives.md.
ON_SAMPLES = (LSPI, Politex, QREPS, FittedQ, PPQ, QLearning, DesignLSPI, VWLSMDVI, Saddle, Bilinear)
RELATIVES = (*ON_SAMPLES, *ON_THE_LP, *LOCAL)
PLANNERS: dict[str, type[Planner]] = {p.name: p for p in (*OURS, *RELATIVES)}


def options(name: str) -> list[str]:
    """The names of a planner's settings that can be given as name=value."""
    name = as_text("options", name=name)
    if name not in PLANNERS:
        raise InputError(f"There is no planner '{name}'.{nearest(name, PLANNERS)}")
    return PLANNERS[name].options()


def make_planner(name: str, settings: Mapping[str, Any]) -> Planner:
    """The planner with this command-line name and these settings."""
    known = options(as_text("make_planner", name=name))
    as_kind("make_planner", Mapping, "a mapping of names to values", settings=settings)
    for key in settings:
        if key not in known:
            raise InputError(f"The planner '{name}' has no setting '{key}'.{nearest(str(key), known)}")
    return PLANNERS[name](**settings)
