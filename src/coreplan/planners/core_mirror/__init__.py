"""`CoreMirror`: streaming value iteration through the core set."""

from .planner import CoreMirror

__all__ = ["CoreMirror"]
