"""The certificate: a lower bound on a policy's value, an upper bound on the optimum, and what they assume."""

from .certificate import Certificate
from .certify import certify
from .limits import least_queries

__all__ = ["Certificate", "certify", "least_queries"]
