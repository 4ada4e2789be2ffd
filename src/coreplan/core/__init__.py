"""Core sets (Assumption 1): the m pairs that a planner queries, their factorised features, and how to choose them."""

from .coreset import CORE_FILE, CoreSet, CoreStates, pair_features
from .coverage import HullWatch
from .design import Design, optimal_design, weighted_fit
from .frame import Frame, Lift, into
from .hull import column_sizes, convex_coefficients, hull_distances, hull_errors, is_inside, measurable
from .pools import Pool, all_actions, rollout_pool, uniform_pool
from .selection import Selection, select

__all__ = [
    "CORE_FILE",
    "CoreSet",
    "CoreStates",
    "Design",
    "Frame",
    "HullWatch",
    "Lift",
    "Pool",
    "Selection",
    "all_actions",
    "column_sizes",
    "convex_coefficients",
    "hull_distances",
    "hull_errors",
    "into",
    "is_inside",
    "measurable",
    "optimal_design",
    "pair_features",
    "rollout_pool",
    "select",
    "uniform_pool",
    "weighted_fit",
]
