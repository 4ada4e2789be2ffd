"""`Grow`: planning without a core set."""

from .planner import Grow

__all__ = ["Grow"]
