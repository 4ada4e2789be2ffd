"""The numbers of a trace over queries: of one run, and of several in common charts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..run import Trace
from .charts import COLOURS, Level, Line, line_chart
from .facts import Facts
from .markup import Html, absent, element, folded, section, table
from .words import best_known, is_vacuous

_PANELS = 8  # charts, at most
_FEWEST = 3  # rows of a trace that are drawn: a line through two points tells nothing
_ROUNDING = 1e-9  # a column that moves by less is rounding
_WORDS = {  # columns that are no words
    "value": "normalised value",
    "outside": "distance outside the core's hull",
    "theta_norm": "length of theta",
    "Theta_norm": "length of Theta",
    "lambda_entropy": "entropy of lambda",
    "error": "estimated loss of sampling",
    "samples": "samples of each core pair, at least",
    "nodes": "nodes of the features",
    "cells": "cells of the features",
}
_COUNTERS = ("queries", "seconds")


def convergence(facts: Facts) -> Html:
    """The columns of a run's trace, each over queries."""
    name, title = "convergence", "How the run converged"
    trace = facts.trace
    if trace is None or not len(trace):
        return section(name, title, absent("There is no trace of the run (trace.csv)."))
    panels = [
        line_chart(said(c), "queries", [_line(c, trace)], _levels(facts) if c == "value" else [])
        for c in _columns([trace])
        if len(trace) >= _FEWEST and moves(trace[c].tolist())
    ]
    numbers = _numbers(trace, "trace")
    if not panels:
        few = "A run that samples once and then solves has no curve. These are the moments that it recorded."
        return section(name, title, element("p", few, class_="reading"), numbers)
    data = folded(f"The numbers: {len(trace)} rows of trace.csv", numbers)
    return section(name, title, element("div", *panels[:_PANELS], class_="panels"), data)


def together(runs: Sequence[Facts], names: Sequence[str]) -> Html:
    """The traces of several runs in common charts, for the columns that two or more of them have."""
    name, title = "convergence", "Convergence"
    traces = [
        (name, facts.trace, k)
        for k, (name, facts) in enumerate(zip(names, runs, strict=True))
        if facts.trace is not None and len(facts.trace)
    ]
    if not traces:
        return section(name, title, element("p", "There are no traces."))
    panels = []
    for column in _columns([trace for _, trace, _ in traces]):
        lines = [
            _line(name, trace, column, k % COLOURS)
            if len(trace) >= _FEWEST
            else _last(name, trace, column, k % COLOURS)
            for name, trace, k in traces
            if column in trace.columns and np.isfinite(trace[column]).any()
        ]
        drawn = [line for line in lines if moves(line.y)]
        if drawn and (len(lines) > 1 or column == "value"):
            panels.append(line_chart(said(column), "queries", lines))
    numbers = [
        folded(f"The numbers of {name}", _numbers(trace, f"trace of {name}")) for name, trace, _ in traces
    ]
    if not panels:
        few = all(len(trace) < _FEWEST for _, trace, _ in traces)
        why = (
            "Runs that sample once and then solve have no curves."
            if few
            else "No two runs recorded the same numbers."
        )
        return section(name, title, element("p", why), *numbers)
    return section(name, title, element("div", *panels[:_PANELS], class_="panels"), *numbers)


def said(column: str) -> str:
    """A column of a trace in words."""
    return _WORDS.get(column, column.replace("_", " "))


def moves(values: Sequence[float]) -> bool:
    """Whether there is anything to draw."""
    known = [v for v in values if math.isfinite(v)]
    return len(known) > 1 and max(known) - min(known) > _ROUNDING


def _columns(traces: Sequence[Trace]) -> list[str]:
    """The columns that may be drawn, values first."""
    every = dict.fromkeys(c for trace in traces for c in trace.columns if c not in _COUNTERS)
    return sorted(every, key=lambda c: c != "value")


def _line(name: str, trace: Trace, column: str = "", colour: int = 0) -> Line:
    return Line(name, trace["queries"].tolist(), trace[column or name].tolist(), colour)


def _last(name: str, trace: Trace, column: str, colour: int) -> Line:
    """Where a run that sampled once came to; a line to there would look like progress."""
    return Line(name, trace["queries"].tolist()[-1:], trace[column].tolist()[-1:], colour)


def _numbers(trace: Trace, caption: str) -> Html:
    """The rows of a trace as a table, without columns of which nothing is known."""
    known = [c for c in trace.columns if not all(math.isnan(v) for v in trace[c].tolist())]
    rows = zip(*(map(_whole, trace[c].tolist()) for c in known), strict=True)
    return table([said(c) for c in known], rows, caption=caption)


def _whole(value: float) -> object:
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _levels(facts: Facts) -> list[Level]:
    """What values are compared with. A bound that says nothing would only stretch the axis."""
    levels = []
    c, exact = facts.certificate, best_known(facts)[0]
    if exact is not None and exact.optimum is not None:
        levels.append(Level("optimum", exact.optimum, "optimum"))
    if c is not None and c.gap is not None and c.upper is not None and not is_vacuous(c):
        levels.append(Level("upper bound", c.upper, "upper"))
    if c is not None:
        levels.append(Level("lower bound", c.lower, "lower"))
    if exact is not None and exact.uniform is not None:
        levels.append(Level("uniform policy", exact.uniform, "uniform"))
    return levels
