"""`check`: which assumptions hold for a problem, its features and a core set; one row, one light per assumption."""

from .checking import check
from .report import AMBER, GREEN, GREY, RED, Measurement, Report

__all__ = ["AMBER", "GREEN", "GREY", "RED", "Measurement", "Report", "check"]
