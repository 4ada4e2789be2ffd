"""`Enumerated` under its import path of earlier versions; it now lives in `coreplan.theory`."""

from .theory import Enumerated

__all__ = ["Enumerated"]
