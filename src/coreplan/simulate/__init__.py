"""The only way to call a simulator: checks, streams of noise, and the counter of queries."""

from .ask import Answers, Ask
from .elsewhere import (
    Engine,
    as_engine,
    by_executor,
    engine_of,
    given,
    limited,
    named,
    processes,
    ray,
    serial,
    using,
)
from .first import First, recheck
from .guard import REPEATED, Guard, first_bad_reward, first_not_finite, to_unit
from .kept import Kept
from .noise import BLOCK
from .simulator import Simulator

__all__ = [
    "BLOCK",
    "REPEATED",
    "Answers",
    "Ask",
    "Engine",
    "First",
    "Guard",
    "Kept",
    "Simulator",
    "as_engine",
    "by_executor",
    "engine_of",
    "first_bad_reward",
    "first_not_finite",
    "given",
    "limited",
    "named",
    "processes",
    "ray",
    "recheck",
    "serial",
    "to_unit",
    "using",
]
