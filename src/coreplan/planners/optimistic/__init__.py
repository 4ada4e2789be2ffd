"""`OptimisticPrimalDual`: Algorithm 1's game, played by optimistic steps."""

from .planner import OptimisticPrimalDual

__all__ = ["OptimisticPrimalDual"]
