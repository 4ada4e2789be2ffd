"""The same as the LPs of `coreplan.theory`: the place where they stood in earlier versions."""

from .sampled import FORMS, SolverError, UnboundedError
from .theory import PAIRS, Solution, solve

__all__ = ["FORMS", "PAIRS", "Solution", "SolverError", "UnboundedError", "solve"]
