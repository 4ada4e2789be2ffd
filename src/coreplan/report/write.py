"""`write_report`: from runs to one page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..base import InputError, as_kind, as_path, as_text, files
from ..problem import Problem
from .comparison import comparison_page
from .facts import facts_of
from .page import run_page


def write_report(runs: Any, path: str | Path, problem: Problem | None = None, *, given: str = "") -> Path:
    """Write a page about a run, or one that compares several, as one self-contained HTML file; returns its path.

    The page reads the folders and makes no query. A run that is unfinished, damaged or old gives a page of what is there,
    and says what is missing.

    Parameters
    ----------
    runs: the folder of a run (`plan(..., out=folder)`), or a list of several.
    path: the file to write, which is replaced if it is there.
    problem: the problem, where it is not built in; without it the page shows no policy. `given` is how the command line
        names it, for the commands that the page quotes.
    """
    as_kind("write_report", Problem, "a Problem", optional=True, problem=problem)
    as_text("write_report", given=given)
    folders = list(runs) if isinstance(runs, (list, tuple)) else [runs]
    if not folders:
        raise InputError("`write_report(runs=...)` needs the folder of at least one run.")
    target: Path = as_path("write_report", path=path)
    every = [facts_of(folder, problem, given=given) for folder in folders]
    text = run_page(every[0]) if len(every) == 1 else comparison_page(every)
    files.write_atomic(target, text.encode())
    return target
