"""The only way to call a simulator: checks, streams of noise, and the counter of queries."""

from .ask import Answers, Ask
from .guard import REPEATED, Guard, first_bad_reward, first_not_finite, to_unit
from .kept import Kept
from .simulator import BLOCK, Simulator

__all__ = [
    "BLOCK",
    "REPEATED",
    "Answers",
    "Ask",
    "Guard",
    "Kept",
    "Simulator",
    "first_bad_reward",
    "first_not_finite",
    "to_unit",
]
