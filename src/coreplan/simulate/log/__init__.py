"""The query log: what a simulator was paid for, kept in a file, so that it is not paid for again."""

from .answers import AGAIN, Asked, asked, asked_with
from .opening import by_log, identity, log_of, logging_to
from .querylog import QueryLog
from .reading import LogReport, export_log, read_log
from .recorded import Recorded

__all__ = [
    "AGAIN",
    "Asked",
    "LogReport",
    "QueryLog",
    "Recorded",
    "asked",
    "asked_with",
    "by_log",
    "export_log",
    "identity",
    "log_of",
    "logging_to",
    "read_log",
]
