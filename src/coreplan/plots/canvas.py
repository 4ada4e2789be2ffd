"""Where a figure is drawn and how it looks.

Figures are made without pyplot: nothing global changes, no window opens and no display is needed. Sizes are those of one
column of a two-column paper; the font is Matplotlib's own or the one that the user has set. Colours are those of Okabe and
Ito, which people with any colour vision can tell apart, and viridis.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..base import InputError, cut, need, printable, shown

EXTRA = "plot"
WIDTH = 3.4  # inches
BLUE, ORANGE, GREEN, PURPLE, YELLOW, RED, SKY, GREY = COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00", "#56B4E9", "#999999",
)  # fmt: skip
CLOSED = "#dddddd"  # where nothing is known
_LONGEST = 40  # characters of a name on an axis
_STYLE: Any = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 7,
    "legend.fontsize": 7,
    "legend.title_fontsize": 7,
    "legend.frameon": False,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
}
_TICKS: Any = {
    "labelsize": 7,
    "width": 0.6,
    "length": 3,
}  # read when a figure is drawn, and so set on the axes


@contextmanager
def canvas(who: str, ax: Any = None, height: float = 2.3) -> Iterator[Any]:
    """The axes to draw on: those that were given, or the only ones of a new figure, in the style of this module."""
    matplotlib = need("matplotlib", EXTRA)
    need("matplotlib.axes", EXTRA)
    if ax is not None:
        if not isinstance(ax, matplotlib.axes.Axes):
            raise InputError(
                f"`{who}(ax=...)` must be axes of Matplotlib, as figure.add_subplot() gives, or left out; got {shown(ax)}."
            )
        yield ax
        return
    from .picture import Picture

    with matplotlib.rc_context(_STYLE):
        own = Picture(figsize=(WIDTH, height), layout="constrained").add_subplot()
        own.tick_params(**_TICKS)
        yield own


@contextmanager
def canvases(who: str, n: int, ax: Any = None, height: float = 1.9) -> Iterator[list[Any]]:
    """n axes in rows of two, on a new figure as wide as a page, or one column wide if there is one only; or those given."""
    if ax is not None:
        with canvas(who, ax) as own:
            yield [own]
        return
    matplotlib = need("matplotlib", EXTRA)
    from .picture import Picture

    columns = min(n, 2)
    rows = -(-n // columns)
    with matplotlib.rc_context(_STYLE):
        figure = Picture(figsize=(columns * WIDTH, rows * height + 0.6), layout="constrained")
        axes = [figure.add_subplot(rows, columns, k + 1) for k in range(n)]
        for own in axes:
            own.tick_params(**_TICKS)
        yield axes


def legend_above(ax: Any, columns: int) -> None:
    """A legend above the axes, where it hides nothing."""
    ax.legend(
        loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=columns, borderaxespad=0.2, handlelength=1.6,
        columnspacing=1.2,
    )  # fmt: skip


def words(name: str) -> str:
    """A user's name as Matplotlib prints it word for word: no mathematics, nothing that a legend omits, not too long."""
    text = cut(printable(name), _LONGEST).replace("\n", " ").replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text
