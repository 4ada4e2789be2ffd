"""Planners, all behind ask and tell: one file or folder per algorithm."""

from .core_mirror.planner import CoreMirror
from .doubts import Status, Verdict, with_watch
from .grow.planner import Grow
from .optimistic.planner import OptimisticPrimalDual
from .plug_in import PlugIn
from .primal_dual.planner import PrimalDual
from .primal_dual.rates import best_K, best_rates, constants, default_D
from .protocol import Kernels, Planner, ReadOut, Setup
from .registry import PLANNERS, make_planner, options, to_accuracy
from .sampled_lp import SampledLP

__all__ = [
    "PLANNERS",
    "CoreMirror",
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
    "Verdict",
    "best_K",
    "best_rates",
    "constants",
    "default_D",
    "make_planner",
    "options",
    "to_accuracy",
    "with_watch",
]
