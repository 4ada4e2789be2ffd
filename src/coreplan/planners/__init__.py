"""The planners. All have the same interface, ask and tell (`protocol.py`); one file or folder per algorithm."""

from .alp import ALP, LRALP
from .bilinear import Bilinear
from .confident_lspi import ConfidentLSPI
from .constrained_smd import ConstrainedSMD
from .core_mirror.planner import CoreMirror
from .core_stomp import CoreStoMP
from .design_lspi import DesignLSPI
from .doubts import CORE, DOUBTS, FEATURES, MORE, Doubt, Status, Verdict, near_uniform
from .fitted_q import FittedQ
from .grow.planner import Grow
from .lspi import LSPI
from .optimistic.planner import OptimisticPrimalDual
from .plug_in import PlugIn
from .politex import Politex
from .ppq import PPQ
from .primal_dual.planner import PrimalDual, best_K, best_rates, constants
from .protocol import (
    CoreSetup,
    Earlier,
    Kernels,
    Planner,
    ReadOut,
    Setup,
    Sum,
    broken,
    following_ask,
    require_ask,
    require_planner,
    require_policy,
    require_state,
)
from .q_learning import QLearning
from .q_reps import QREPS
from .refine.planner import Refine
from .registry import PLANNERS, make_planner, options
from .rlp import RLP
from .saddle import Saddle
from .sampled_lp import SampledLP
from .search.planner import LARGEST as LARGEST_SEARCH
from .search.planner import Search
from .tabular_smd import TabularSMD
from .verdicts import against_policy, scale_of, set_aside, unresolved, with_reality, with_watch
from .vwls_mdvi import VWLSMDVI

__all__ = [
    "ALP",
    "CORE",
    "DOUBTS",
    "FEATURES",
    "LARGEST_SEARCH",
    "LRALP",
    "LSPI",
    "MORE",
    "PLANNERS",
    "PPQ",
    "QREPS",
    "RLP",
    "VWLSMDVI",
    "Bilinear",
    "ConfidentLSPI",
    "ConstrainedSMD",
    "CoreMirror",
    "CoreSetup",
    "CoreStoMP",
    "DesignLSPI",
    "Doubt",
    "Earlier",
    "FittedQ",
    "Grow",
    "Kernels",
    "OptimisticPrimalDual",
    "Planner",
    "PlugIn",
    "Politex",
    "PrimalDual",
    "QLearning",
    "ReadOut",
    "Refine",
    "Saddle",
    "SampledLP",
    "Search",
    "Setup",
    "Status",
    "Sum",
    "TabularSMD",
    "Verdict",
    "against_policy",
    "best_K",
    "best_rates",
    "broken",
    "constants",
    "following_ask",
    "make_planner",
    "near_uniform",
    "options",
    "require_ask",
    "require_planner",
    "require_policy",
    "require_state",
    "scale_of",
    "set_aside",
    "unresolved",
    "with_reality",
    "with_watch",
]
