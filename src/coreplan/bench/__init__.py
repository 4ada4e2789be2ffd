"""Benchmarks as programs: ratios within one run, never timed tests."""
