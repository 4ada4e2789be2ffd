"""`PrimalDual`: Algorithm 1 as printed."""

from .planner import PrimalDual, best_K, best_rates, constants

__all__ = ["PrimalDual", "best_K", "best_rates", "constants"]
