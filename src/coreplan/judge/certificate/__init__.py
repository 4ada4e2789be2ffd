"""The certificate: a lower bound on the value, an upper bound on the optimum, and what they assume."""

from .certificate import Certificate, certify, least_queries

__all__ = ["Certificate", "certify", "least_queries"]
