"""Computations on samples that planners and judges share: stored samples, policy iteration, losses, LPs, intervals."""

from .beliefs import Beliefs
from .ends import Ends, completed, exits, noticed, unmoved, which_end
from .grouping import quadratics, supports
from .intervals import curvature, lower_mean
from .loss import NOTHING, Accuracy, before, estimated_loss, losses, next_size
from .lp import Found, solve_sampled
from .lstd import Equations, WeightedSamples, differ, greedy, kept_gain
from .noise import MOST_COORDINATES, balanced, sobol, sobol_points
from .policy_iteration import LARGE, FixedPoint, SampledModel
from .repeats import Trial, check_solved, repeated_pairs, share_below
from .ridge import choose_ridge
from .room import Room, require_fit
from .samples import (
    GROWING,
    Stored,
    Transitions,
    all_same,
    append,
    check_rows,
    draw,
    grown,
    initial_features,
    next_features,
    next_packed,
    next_rows,
    no_rows,
    rescale,
    stored,
    without_room,
)
from .systems import BASIS, gram, is_large
from .thinning import Thinning
from .verified import FORMS, Pair, SolverError, UnboundedError, VerifiedOptimum, solve_pair

__all__ = [
    "BASIS",
    "FORMS",
    "GROWING",
    "LARGE",
    "MOST_COORDINATES",
    "NOTHING",
    "Accuracy",
    "Beliefs",
    "Ends",
    "Equations",
    "FixedPoint",
    "Found",
    "Pair",
    "Room",
    "SampledModel",
    "SolverError",
    "Stored",
    "Thinning",
    "Transitions",
    "Trial",
    "UnboundedError",
    "VerifiedOptimum",
    "WeightedSamples",
    "all_same",
    "append",
    "balanced",
    "before",
    "check_rows",
    "check_solved",
    "choose_ridge",
    "completed",
    "curvature",
    "differ",
    "draw",
    "estimated_loss",
    "exits",
    "gram",
    "greedy",
    "grown",
    "initial_features",
    "is_large",
    "kept_gain",
    "losses",
    "lower_mean",
    "next_features",
    "next_packed",
    "next_rows",
    "next_size",
    "no_rows",
    "noticed",
    "quadratics",
    "repeated_pairs",
    "require_fit",
    "rescale",
    "share_below",
    "sobol",
    "sobol_points",
    "solve_pair",
    "solve_sampled",
    "stored",
    "supports",
    "unmoved",
    "which_end",
    "without_room",
]
