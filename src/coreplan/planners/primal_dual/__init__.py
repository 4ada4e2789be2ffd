"""`PrimalDual`: Algorithm 1 as printed."""

from .planner import PrimalDual

__all__ = ["PrimalDual"]
