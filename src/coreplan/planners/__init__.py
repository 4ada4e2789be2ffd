"""The planners. All have the same interface, ask and tell (`protocol.py`); one file or folder per algorithm."""

from .core_mirror.planner import CoreMirror
from .doubts import DOUBTS, Doubt, Status, Verdict, near_uniform, unresolved, with_reality, with_watch
from .grow.planner import Grow
from .optimistic.planner import OptimisticPrimalDual
from .plug_in import PlugIn
from .primal_dual.planner import PrimalDual, best_K, best_rates, constants
from .protocol import (
    CoreSetup,
    Kernels,
    Planner,
    ReadOut,
    Setup,
    Sum,
    broken,
    require_ask,
    require_planner,
    require_policy,
    require_state,
)
from .registry import PLANNERS, make_planner, options
from .sampled_lp import SampledLP

__all__ = [
    "DOUBTS",
    "PLANNERS",
    "CoreMirror",
    "CoreSetup",
    "Doubt",
    "Grow",
    "Kernels",
    "OptimisticPrimalDual",
    "Planner",
    "PlugIn",
    "PrimalDual",
    "ReadOut",
    "SampledLP",
    "Setup",
    "Status",
    "Sum",
    "Verdict",
    "best_K",
    "best_rates",
    "broken",
    "constants",
    "make_planner",
    "near_uniform",
    "options",
    "require_ask",
    "require_planner",
    "require_policy",
    "require_state",
    "unresolved",
    "with_reality",
    "with_watch",
]
