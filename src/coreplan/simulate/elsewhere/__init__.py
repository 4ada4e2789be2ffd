"""Simulating elsewhere: calls of the simulator, answered by the workers of any `concurrent.futures.Executor`."""

from .engine import Engine, by_executor, engine_of, using
from .kinds import as_engine, given, named, processes, serial
from .on_ray import ray
from .task import limited

__all__ = [
    "Engine",
    "as_engine",
    "by_executor",
    "engine_of",
    "given",
    "limited",
    "named",
    "processes",
    "ray",
    "serial",
    "using",
]
