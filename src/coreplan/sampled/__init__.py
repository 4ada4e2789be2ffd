"""Mathematics on samples that several planners and judges share."""

from .intervals import curvature, lower_mean
from .loss import NOTHING, Accuracy, before, losses
from .lstd import Equations, Samples, gram, greedy, kept_gain
from .policy_iteration import LARGE, Sampled, Solution, Through
from .ridge import choose_ridge
from .sobol import MOST_COORDINATES, sobol
from .stored import Stored
from .verified import FORMS, Pair, Points, SolverError, UnboundedError, solve_pair

__all__ = [
    "FORMS",
    "LARGE",
    "MOST_COORDINATES",
    "NOTHING",
    "Accuracy",
    "Equations",
    "Pair",
    "Points",
    "Sampled",
    "Samples",
    "Solution",
    "SolverError",
    "Stored",
    "Through",
    "UnboundedError",
    "before",
    "choose_ridge",
    "curvature",
    "gram",
    "greedy",
    "kept_gain",
    "losses",
    "lower_mean",
    "sobol",
    "solve_pair",
]
