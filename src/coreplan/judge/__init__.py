"""How good a policy is: its value, exact or by rollouts; a certificate of its gap to the optimum; which assumptions hold."""

from .assumptions import Report, check
from .certificate import Certificate, certify, least_queries
from .exact import cheap_value, is_cheap, optimal_values, policy_value, value_function
from .minari import to_minari
from .reality import ENOUGH, LEAST, Faced, Reality, face_reality, price
from .rollouts import Rule
from .trajectories import Trajectories, rollout
from .value import Comparison, Evaluation, compare_policies, evaluate

__all__ = [
    "ENOUGH",
    "LEAST",
    "Certificate",
    "Comparison",
    "Evaluation",
    "Faced",
    "Reality",
    "Report",
    "Rule",
    "Trajectories",
    "certify",
    "cheap_value",
    "check",
    "compare_policies",
    "evaluate",
    "face_reality",
    "is_cheap",
    "least_queries",
    "optimal_values",
    "policy_value",
    "price",
    "rollout",
    "to_minari",
    "value_function",
]
