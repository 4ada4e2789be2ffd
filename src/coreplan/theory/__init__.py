"""The paper's mathematics in executable form: operators, LPs, definitions, Theorem 1, and `verify`."""

from ..sampled import FORMS, SolverError, UnboundedError
from .advice import Advice, advise
from .bellman import inherent_bellman_error
from .claims import verify
from .definitions import best_fit, core_errors, linear_fit, q_approximation_error
from .given_policy import compact
from .lp import PAIRS, Solution, solve
from .operators import (
    conditional_entropy,
    gradients,
    lagrangian,
    occupancy,
    optimal,
    policy_values,
    state_occupancy,
    value,
)
from .recorded import GapSeries, duality_gap, duality_gaps, record
from .rows import Row
from .saddle import Saddle, saddle_point
from .tables import Enumerated
from .theorem import Bound, Tuned, bound, default_D, queries_needed, tuned

__all__ = [
    "FORMS",
    "PAIRS",
    "Advice",
    "Bound",
    "Enumerated",
    "GapSeries",
    "Row",
    "Saddle",
    "Solution",
    "SolverError",
    "Tuned",
    "UnboundedError",
    "advise",
    "best_fit",
    "bound",
    "compact",
    "conditional_entropy",
    "core_errors",
    "default_D",
    "duality_gap",
    "duality_gaps",
    "gradients",
    "inherent_bellman_error",
    "lagrangian",
    "linear_fit",
    "occupancy",
    "optimal",
    "policy_values",
    "q_approximation_error",
    "queries_needed",
    "record",
    "saddle_point",
    "solve",
    "state_occupancy",
    "tuned",
    "value",
    "verify",
]
