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
from .log import AGAIN, LogReport, QueryLog, by_log, export_log, log_of, logging_to, read_log
from .noise import BLOCK
from .simulator import Simulator

__all__ = [
    "AGAIN",
    "BLOCK",
    "REPEATED",
    "Answers",
    "Ask",
    "Engine",
    "First",
    "Guard",
    "Kept",
    "LogReport",
    "QueryLog",
    "Simulator",
    "as_engine",
    "by_executor",
    "by_log",
    "engine_of",
    "export_log",
    "first_bad_reward",
    "first_not_finite",
    "given",
    "limited",
    "log_of",
    "logging_to",
    "named",
    "processes",
    "ray",
    "read_log",
    "recheck",
    "serial",
    "to_unit",
    "using",
]
