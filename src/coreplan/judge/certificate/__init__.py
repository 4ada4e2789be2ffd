"""The certificate: a lower bound on a policy's value, an upper bound on the optimum, and what they assume."""

from .certificate import Certificate
from .limits import least_queries
from .rounds import certify

__all__ = ["Certificate", "certify", "least_queries"]
