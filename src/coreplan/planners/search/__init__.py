"""Direct search over theta: the cross-entropy method on rollouts."""

from .planner import Search

__all__ = ["Search"]
