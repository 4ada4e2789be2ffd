"""The same as `coreplan.theory`'s `Enumerated`: the place where it stood in earlier versions."""

from .theory import Enumerated

__all__ = ["Enumerated"]
