"""Core sets (Assumption 1): the m pairs that a planner queries, and how to choose them from a pool."""

from .coordinates import Coordinates, into
from .coreset import CORE_FILE, CoreSet, pair_features
from .coverage import Cover
from .frame import LARGEST, hull_distances, on_axes, unit_vectors
from .growing import GrowingHull, Points
from .hull import convex_coefficients
from .pools import Pool, rollout_pool, uniform_pool
from .selection import Selection, select

__all__ = [
    "CORE_FILE",
    "LARGEST",
    "Coordinates",
    "CoreSet",
    "Cover",
    "GrowingHull",
    "Points",
    "Pool",
    "Selection",
    "convex_coefficients",
    "hull_distances",
    "into",
    "on_axes",
    "pair_features",
    "rollout_pool",
    "select",
    "uniform_pool",
    "unit_vectors",
]
