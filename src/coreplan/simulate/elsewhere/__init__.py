"""Simulating elsewhere: calls of the simulator, answered by the workers of any `concurrent.futures.Executor`."""

from .engine import Engine, by_executor, engine_of, using
from .kinds import given, named, processes, serial
from .on_ray import ray

__all__ = ["Engine", "by_executor", "engine_of", "given", "named", "processes", "ray", "serial", "using"]
