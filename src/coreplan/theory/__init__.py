"""The paper's mathematics, executable: operators, definitions, Theorem 1, and `verify`."""

from ..planners.rates import default_D
from .definitions import (
    best_fit,
    core_errors,
    inherent_bellman_error,
    linear_fit,
    q_approximation_error,
)
from .operators import gradients, lagrangian, occupancy, optimal, policy_values, state_occupancy, value
from .record import duality_gap, record
from .theorem import Bound, Tuned, bound, queries_needed, tuned

__all__ = [
    "Bound",
    "Tuned",
    "best_fit",
    "bound",
    "core_errors",
    "default_D",
    "duality_gap",
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
    "state_occupancy",
    "tuned",
    "value",
]
