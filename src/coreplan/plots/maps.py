"""What a policy does over a slice of the states: a map of actions or of values, or a curve where one coordinate varies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import FloatArray, InputError, as_name, shown
from .canvas import BLUE, CLOSED, COLOURS, canvas, words
from .slices import Slice

_TILES = 4_096  # cells that are drawn one by one; more become an image
_BORDERS = 400  # cells that are told apart by a line
_WRITTEN = 144  # cells with a text in them
_LISTED = 12  # actions that have a place in the legend
_FEW = 60  # dots that may be large
_HELD = 4  # coordinates whose values stand in the title
_LETTERS = 6  # of a name that fits into a cell


def draw_map(
    who: str, slice_: Slice, numbers: FloatArray, *, actions: Sequence[str] | None, label: str, ax: Any = None
) -> Any:
    """Numbers for the states of a slice, NaN where there are none: greedy actions, if these have names, else values.

    Returns the figure.
    """
    picture = numbers.reshape(slice_.shape)
    with canvas(who, ax) as ax:
        if slice_.y is None:
            _curve(ax, slice_, picture, actions, label)
        else:
            _map(ax, slice_, picture, actions, label)
            ax.set_ylabel(words(slice_.y.name))
        ax.set_xlabel(words(slice_.x.name))
        if slice_.held:
            some = [f"{words(name)} = {value:g}" for name, value in slice_.held[:_HELD]]
            ax.set_title(", ".join([*some, "..."] if len(slice_.held) > _HELD else some), loc="left")
    return ax.figure


def names_of_actions(who: str, names: Any, n_actions: int) -> tuple[str, ...]:
    """A name for every action: those given, or numbers."""
    if names is None:
        return tuple(map(str, range(n_actions)))
    form = f"{n_actions} names, one per action"
    if isinstance(names, str) or not isinstance(names, (tuple, list)) or len(names) != n_actions:
        raise InputError(f"`{who}(action_names=...)` must be {form}; got {shown(names)}.")
    return tuple(as_name(who, action_names=name) for name in names)


def _curve(ax: Any, slice_: Slice, numbers: FloatArray, actions: Sequence[str] | None, label: str) -> None:
    apart = slice_.x.whole or actions is not None  # no line: between the dots there is nothing
    size = 4 if len(numbers) <= _FEW else 2
    ax.plot(
        slice_.x.values,
        numbers,
        color=BLUE,
        **({"linestyle": "none", "marker": "o", "markersize": size} if apart else {}),
    )
    if actions is not None:
        ax.set_yticks(range(len(actions)), [words(name) for name in actions])
    ax.set_ylabel(label)


def _map(ax: Any, slice_: Slice, picture: FloatArray, actions: Sequence[str] | None, label: str) -> None:
    from matplotlib.colors import BoundaryNorm, ListedColormap

    if actions is None:
        colours, norm = _viridis().with_extremes(bad=CLOSED), None
    else:
        palette = _palette(len(actions))
        colours = ListedColormap(palette).with_extremes(bad=CLOSED)
        norm = BoundaryNorm(np.arange(len(actions) + 1) - 0.5, len(actions))
    drawn = _cells(ax, slice_, np.ma.masked_invalid(picture), cmap=colours, norm=norm)
    if slice_.downwards:
        ax.invert_yaxis()
    if picture.size <= _WRITTEN:
        _write(ax, slice_, picture, actions, drawn)
    if actions is None:
        bar = ax.figure.colorbar(drawn, ax=ax, pad=0.02)
        bar.set_label(label)
        bar.ax.tick_params(labelsize=7, width=0.6, length=3)
        bar.outline.set_linewidth(0.6)
    else:
        _legend(ax, picture, actions, drawn, label)


def _cells(ax: Any, slice_: Slice, picture: Any, **colours: Any) -> Any:
    """The map itself: few cells as tiles, which stay sharp at any size, many as an image."""
    assert slice_.y is not None
    x, y = slice_.x, slice_.y
    if picture.size > _TILES:
        drawn = ax.imshow(
            picture, extent=(x.low, x.high, y.low, y.high), origin="lower", aspect="auto", interpolation="nearest",
            **colours,
        )  # fmt: skip
    else:
        line = (
            {"edgecolors": "white", "linewidth": 0.5} if picture.size <= _BORDERS else {"edgecolors": "face"}
        )
        drawn = ax.pcolormesh(x.edges, y.edges, picture, **line, **colours)
    for side in ("top", "right"):
        ax.spines[side].set_visible(True)
    return drawn


def _write(ax: Any, slice_: Slice, picture: FloatArray, actions: Sequence[str] | None, drawn: Any) -> None:
    """What each of few cells says, in it."""
    assert slice_.y is not None
    if actions is not None and max(len(name) for name in actions) > _LETTERS:
        return
    size = 7 if picture.size <= 36 else 5
    for i, j in np.argwhere(np.isfinite(picture)):
        value = picture[i, j]
        text = f"{value:.2g}" if actions is None else words(actions[int(value)])
        bright = np.dot(drawn.to_rgba(value)[:3], (0.299, 0.587, 0.114)) > 0.55
        place = (slice_.x.values[j], slice_.y.values[i])
        ax.text(*place, text, ha="center", va="center", fontsize=size, color="black" if bright else "white")


def _legend(ax: Any, picture: FloatArray, actions: Sequence[str], drawn: Any, label: str) -> None:
    """The colours of the actions that are taken; of many, a bar."""
    from matplotlib.patches import Patch

    taken = [int(a) for a in np.unique(picture[np.isfinite(picture)])]
    if len(taken) > _LISTED:
        bar = ax.figure.colorbar(drawn, ax=ax, pad=0.02)
        ticks = np.unique(np.linspace(0, len(actions) - 1, _LISTED).round().astype(int))
        bar.set_ticks(ticks, labels=[words(actions[a]) for a in ticks])
        bar.set_label(label)
        return
    patches = [Patch(facecolor=drawn.to_rgba(a), edgecolor="none") for a in taken]
    ax.legend(
        patches, [words(actions[a]) for a in taken], title=label, loc="upper left", bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0.0, handlelength=1.0, handleheight=1.0, alignment="left",
    )  # fmt: skip


def _palette(n: int) -> list[Any]:
    """n colours: those of Okabe and Ito while there are enough of them, else steps of viridis."""
    return list(COLOURS[:n]) if n <= len(COLOURS) else [*_viridis()(np.linspace(0.0, 1.0, n))]


def _viridis() -> Any:
    import matplotlib

    return matplotlib.colormaps["viridis"]
