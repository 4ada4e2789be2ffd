"""Figures for papers, by Matplotlib (the extra `plot`), which is imported when the first one is drawn."""

from .canvas import words
from .compared import draw_estimates, draw_panels, draw_profiles
from .curves import Level, draw_bounds, draw_convergence
from .policies import draw_policy, names_of

__all__ = [
    "Level",
    "draw_bounds",
    "draw_convergence",
    "draw_estimates",
    "draw_panels",
    "draw_policy",
    "draw_profiles",
    "names_of",
    "words",
]
