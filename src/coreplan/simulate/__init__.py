"""The only way to call a simulator: checks, streams of noise, and the counter of queries."""

from .ask import Answers, Ask
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
    "First",
    "Guard",
    "Kept",
    "Simulator",
    "first_bad_reward",
    "first_not_finite",
    "recheck",
    "to_unit",
]
