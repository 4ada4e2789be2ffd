"""How a run converged, and what a certificate says: values as lines, bounds as bands."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..base import FloatArray
from .canvas import BLUE, GREEN, GREY, ORANGE, RED, canvas, legend_above

_FEW = 12  # points of a curve that are marked
_FAR = 1.5  # heights of everything else
_LOOKS: dict[str, dict[str, Any]] = {
    "optimum": {"color": "black", "linestyle": "-", "linewidth": 0.8},
    "uniform policy": {"color": GREY, "linestyle": (0, (1, 1.5))},
    "lower bound": {"color": ORANGE, "linestyle": "--"},
    "upper bound": {"color": GREEN, "linestyle": "--"},
    "upper bound, not proved": {"color": GREEN, "linestyle": (0, (1, 1.5))},
}


class Level(NamedTuple):
    """A value with its interval, if it is an estimate."""

    value: float
    low: float | None = None
    high: float | None = None


def draw_convergence(
    who: str,
    queries: FloatArray,
    values: FloatArray,
    levels: dict[str, float],
    *,
    earned: Level | None = None,
    label: str,
    logarithmic: bool = False,
    ax: Any = None,
) -> Any:
    """A curve over queries `[rows]`, levels as horizontal lines, and what rollouts of the last policy earned; the figure."""
    known = np.isfinite(values) & ((values > 0) & (queries > 0) if logarithmic else True)
    x, y = queries[known], values[known]
    with canvas(who, ax) as ax:
        if len(x):
            few: Any = {
                "marker": "o",
                "drawstyle": "steps-post",
            }  # the policy stays until the next one is solved for
            ax.plot(x, y, color=BLUE, label="policy", zorder=3, **(few if len(x) <= _FEW else {}))
        low, top = _frame([*y, *((earned.value, earned.high) if earned else ())], levels)
        for name, level in levels.items():
            above = f" {level:.3g} (above)" if level > top else ""
            ax.axhline(level, label=name + above, zorder=2, **_LOOKS[name])
        if earned is not None:
            _estimate(ax, queries[-1], earned)
        if np.isfinite(top):
            ax.set_ylim(low, top)
        if logarithmic:
            ax.set(xscale="log", yscale="log")
        else:
            ax.set_xlim(0.0, 1.03 * max(queries[-1], 1.0))
        ax.set(xlabel="simulator queries", ylabel=label)
        if len(ax.get_legend_handles_labels()[0]) > 1:
            legend_above(ax, 3 if top == np.inf else 2)
    return ax.figure


def _frame(values: list[Any], levels: dict[str, float]) -> tuple[float, float]:
    """Where the axis of values begins and ends if a bound is so far above that the curve would be flat; else no end."""
    bounds = [level for name, level in levels.items() if name.startswith("upper")]
    seen = [v for v in (*values, *(v for v in levels.values() if v not in bounds)) if v is not None]
    if not bounds or not seen or max(bounds) <= max(seen) + _FAR * (max(seen) - min(seen)):
        return -np.inf, np.inf
    room = 0.06 * (max(seen) - min(seen))
    return float(min(seen) - room), float(max(seen) + room)


def _estimate(ax: Any, x: float, found: Level) -> None:
    low, high = (found.value if edge is None else edge for edge in (found.low, found.high))
    ax.errorbar(
        [x], [found.value], yerr=[[found.value - low], [high - found.value]], color=RED, marker="s", capsize=2,
        linestyle="none", clip_on=False, label="rollouts", zorder=4,
    )  # fmt: skip


def draw_bounds(
    who: str,
    lower: float,
    upper: float | None,
    proved: bool,
    points: dict[str, float],
    label: str,
    *,
    ax: Any = None,
) -> Any:
    """Bounds on one axis of values, with the points that are known exactly; the figure."""
    end = max([v for v in (upper, lower, *points.values()) if v is not None])
    with canvas(who, ax, height=1.1) as ax:
        ax.axvline(lower, label="lower bound", **_LOOKS["lower bound"])
        if upper is not None:
            name = "upper bound" if proved else "upper bound, not proved"
            ax.axvline(upper, label=name, **_LOOKS[name])
        if proved:
            ax.axvspan(lower, end if upper is None else upper, color=GREY, alpha=0.15, linewidth=0)
        for (name, value), marker, colour, y in zip(
            points.items(), "oD", (BLUE, "black"), (0.3, 0.7), strict=False
        ):
            ax.plot([value], [y], marker=marker, color=colour, linestyle="none", label=name, zorder=3)
        ax.set(ylim=(0, 1), yticks=[], xlabel=label)
        ax.margins(x=0.15)
        ax.spines["left"].set_visible(False)
        legend_above(ax, 2)
    return ax.figure
