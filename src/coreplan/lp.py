"""The paper's LPs under their import path of earlier versions; they now live in `coreplan.theory`."""

from .theory import FORMS, PAIRS, Solution, SolverError, UnboundedError, solve

__all__ = ["FORMS", "PAIRS", "Solution", "SolverError", "UnboundedError", "solve"]
