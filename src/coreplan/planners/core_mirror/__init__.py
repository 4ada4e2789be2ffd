"""`CoreMirror`: value iteration through the core set on a stream of samples."""

from .planner import CoreMirror

__all__ = ["CoreMirror"]
