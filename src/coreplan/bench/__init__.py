"""Benchmarks as programs: ratios within one run, never timed tests."""

from .speed import throughput

__all__ = [
    "throughput",
]
