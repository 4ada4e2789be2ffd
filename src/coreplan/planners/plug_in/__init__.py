"""`PlugIn`: sample once, then solve."""

from .planner import PlugIn

__all__ = ["PlugIn"]
