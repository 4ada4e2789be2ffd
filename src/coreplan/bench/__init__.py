"""Benchmarks as programs. They report ratios within one run; no test depends on timing."""

from .speed import throughput

__all__ = [
    "throughput",
]
