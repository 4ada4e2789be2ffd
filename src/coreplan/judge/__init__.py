"""How good a policy is: its value, exact or by rollouts, and a certificate of its gap to the optimum."""

from .certify import Certificate, certify
from .value import Evaluation, evaluate

__all__ = ["Certificate", "Evaluation", "certify", "evaluate"]
