"""Planners compared: losses against queries, profiles, and estimates with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..base import FloatArray
from .canvas import COLOURS, GREY, canvas, canvases, words

_MARKS = "osD^vPX*"
_LINES = ("-", "--", ":")


def _looks(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A colour, a mark and a kind of line for each name, none of them twice together."""
    n = len(COLOURS)
    return {
        name: {"color": COLOURS[k % n], "marker": _MARKS[k % n], "linestyle": _LINES[k // n % len(_LINES)]}
        for k, name in enumerate(names)
    }


def draw_panels(
    who: str,
    panels: Mapping[str, tuple[str, Mapping[str, FloatArray]]],
    names: Sequence[str],
    floor: float,
    ax: Any = None,
) -> Any:
    """One panel per problem: what ("sub" or "value") against queries, medians with quartiles as bands; the figure.

    Lines are `[budgets, 4]`: queries, median, lower and upper quartile. sub has logarithmic axes, and ends at `floor`.
    """
    looks = _looks(names)
    with canvases(who, len(panels), ax if len(panels) == 1 else None) as axes:
        for own, (problem, (what, lines)) in zip(axes, panels.items(), strict=True):
            for name, rows in lines.items():
                x, y = rows[:, 0], rows[:, 1:] if what == "value" else np.maximum(rows[:, 1:], floor)
                own.plot(x, y[:, 0], label=words(name), **looks[name])
                own.fill_between(x, y[:, 1], y[:, 2], color=looks[name]["color"], alpha=0.15, linewidth=0)
            own.set(
                xscale="log",
                yscale="linear" if what == "value" else "log",
                xlabel="simulator queries",
                ylabel=what,
            )
            own.set_title(words(problem), loc="left")
        _legend(axes)
    return axes[0].figure


def _legend(axes: Sequence[Any]) -> None:
    """One legend for all panels, above them."""
    found: dict[str, Any] = {}
    for ax in axes:
        found |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    axes[0].figure.legend(
        found.values(), found.keys(), loc="outside upper left", ncols=2 * min(len(axes), 2), handlelength=2.2,
        columnspacing=1.2, fontsize=7,
    )  # fmt: skip


def draw_profiles(who: str, levels: FloatArray, lines: Mapping[str, FloatArray], ax: Any = None) -> Any:
    """The share of runs whose sub is at most each level `[levels]`, one line per planner; the figure."""
    looks = _looks(list(lines))
    with canvases(who, 1, ax, height=2.3) as (own,):
        for name, share in lines.items():
            own.plot(levels, share, label=words(name), **looks[name], markevery=20)
        own.set(xscale="log", ylim=(-0.02, 1.02), xlabel="sub", ylabel="share of runs at most there")
        _legend([own])
    return own.figure


def draw_estimates(
    who: str,
    found: Mapping[str, tuple[float, float, float]],
    label: str,
    middle: float | None,
    ax: Any = None,
) -> Any:
    """Estimates with intervals (value, low, high), one line per name; `middle`: where neither side is better; the figure."""
    with canvas(who, ax, height=0.6 + 0.18 * len(found)) as own:
        for y, estimate in enumerate(found.values()):
            value, low, high = estimate
            own.plot([low, high], [y, y], color=COLOURS[0], linewidth=4, alpha=0.35, solid_capstyle="butt")
            own.plot([value], [y], color=COLOURS[0], marker="|", markersize=8)
        if middle is not None:
            own.axvline(middle, color=GREY, linewidth=0.8, zorder=0)
        own.set_yticks(range(len(found)), [words(name) for name in found])
        own.set(ylim=(len(found) - 0.4, -0.6), xlabel=words(label))
    return own.figure
