"""`Refine`: features and core set grown together on a box."""

from .planner import Refine

__all__ = ["Refine"]
