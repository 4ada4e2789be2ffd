"""From a problem to a plan: the defaults, `plan()`, and loading saved runs."""

from .defaults import choose, default_planner, documented_settings, planner_by_name
from .judged import certified, evaluated
from .limit import TimeLimit
from .load import load_run
from .local import LocalPolicy
from .plans import plan
from .reality import SHARE
from .result import Plan

__all__ = [
    "SHARE",
    "LocalPolicy",
    "Plan",
    "TimeLimit",
    "certified",
    "choose",
    "default_planner",
    "documented_settings",
    "evaluated",
    "load_run",
    "plan",
    "planner_by_name",
]
