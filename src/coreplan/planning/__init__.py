"""From a problem to a plan: the defaults, `plan()`, and runs that were saved."""

from .choose import default_planner, documented_settings
from .plans import Plan, plan

__all__ = [
    "Plan",
    "default_planner",
    "documented_settings",
    "plan",
]
