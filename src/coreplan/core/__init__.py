"""Core sets (Assumption 1): the m pairs that a planner queries, and how to choose them from a pool."""

from .coreset import CORE_FILE, CoreSet
from .pools import Pool, rollout_pool, uniform_pool
from .select import Selection, select

__all__ = ["CORE_FILE", "CoreSet", "Pool", "Selection", "rollout_pool", "select", "uniform_pool"]
