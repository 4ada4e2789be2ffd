"""The same as the LPs of `coreplan.theory`: the place where they stood in earlier versions."""

from .theory import FORMS, PAIRS, Solution, SolverError, UnboundedError, solve

__all__ = ["FORMS", "PAIRS", "Solution", "SolverError", "UnboundedError", "solve"]
