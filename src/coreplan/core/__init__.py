"""Core sets (Assumption 1): the m pairs that a planner queries, and how to choose them from a pool."""

from .coreset import CoreSet
from .pools import Pool, rollout_pool, uniform_pool
from .select import Selection, select

__all__ = ["CoreSet", "Pool", "Selection", "rollout_pool", "select", "uniform_pool"]
