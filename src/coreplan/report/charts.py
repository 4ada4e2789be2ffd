"""Charts as SVG that needs no script: they are there in print, in a mail's preview and where scripts are off.

Positions are percentages of the plot, and lines lie in an inner drawing that is stretched to it without changing their
width. So one drawing fits a wide screen and a telephone, and text keeps its size. Colours are classes, which follow the
page's light and dark. The numbers of a chart stand in a table below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .markup import Html, element, void
from .ticks import labels, padded, ticks

COLOURS = 8  # of series; the classes s0 to s7
_INNER = 1000.0  # width and height of the inner drawing
_NARROWEST = 0.002  # of normalised values that a picture spans: less would make much of nothing
_FEW = 40  # points that are drawn as dots, too


class Line(NamedTuple):
    """A series of a line chart. NaN leaves a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int = 0
    faint: bool = False  # behind another line that is to be followed


class Level(NamedTuple):
    """A horizontal line for comparison, such as the optimum."""

    name: str
    y: float
    style: str  # a class: optimum, upper, lower, uniform


class Span(NamedTuple):
    """One row of a picture of values: a point, an interval, or both."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    style: str  # a class
    cells: tuple[str, ...] = ()  # what stands beside the picture
    note: str = ""
    outside: bool = False  # whether its value is only to be pointed at, so that it does not stretch the axis


def line_chart(
    title: str, x_name: str, lines: Sequence[Line], levels: Sequence[Level] = (), *, legend: bool = True
) -> Html:
    """A chart of lines over one horizontal axis."""
    x_low, x_high = _range([v for line in lines for v in line.x])
    y_low, y_high = padded([v for line in lines for v in line.y] + [level.y for level in levels])
    inner = [
        _level(level, 1.0 - (level.y - y_low) / (y_high - y_low))
        for level in levels
        if math.isfinite(level.y)
    ]
    for line in sorted(lines, key=lambda line: not line.faint):  # what stands out is drawn last
        inner.append(_path(line, (x_low, x_high), (y_low, y_high)))
    drawing = element(
        "svg", *inner, class_="inner", width="100%", height="100%", viewBox=f"0 0 {_INNER:g} {_INNER:g}",
        preserveAspectRatio="none",
    )  # fmt: skip
    frame = _grid(y_low, y_high) + _x_ticks(x_low, x_high)
    label = f"{title}, over {x_name}: {', '.join(line.name for line in lines[:6])}"
    svg = element("svg", *frame, drawing, width="100%", height="100%", role="img", aria_label=label)
    keys = [_key(f"s{line.colour % COLOURS}", line.name) for line in lines if len(lines) > 1]
    keys += [_key(level.style, f"{level.name} {level.y:.4f}") for level in levels]
    parts = [element("h3", title, class_="chart-title"), element("div", svg, class_="plot")]
    parts.append(element("p", x_name, class_="axis-name"))
    if legend and keys:
        parts.append(element("ul", *keys, class_="legend"))
    return element("div", *parts, class_="chart")


def span_picture(rows: Sequence[Span], heads: Sequence[str], band: tuple[float, float] | None) -> Html:
    """A table whose rows have points and intervals on one common axis; `band` is shaded behind all of them."""
    ends = [v for row in rows if not row.outside for v in (row.value, row.low, row.high) if v is not None]
    low, high = padded(ends)
    more = max(_NARROWEST - (high - low), 0.0) / 2.0
    low, high = max(low - more, 0.0), min(high + more, 1.0)
    place = _Scale(low, high if high > low else low + 1e-9)
    head = [element("th", heads[0], scope="col"), element("th", heads[1], scope="col", class_="track-head")]
    head += [element("th", name, scope="col", class_="number") for name in heads[2:]]
    body = [
        element(
            "tr",
            element("th", row.name, *([element("small", row.note)] if row.note else []), scope="row"),
            element("td", _track(row, place, band), class_="track"),
            *(element("td", cell, class_="number") for cell in row.cells),
        )
        for row in rows
    ]
    marks = ticks(low, high, 4)
    axis = [
        _text(name, place(t), "50%", dy=4, anchor=_anchor(place(t)))
        for t, name in zip(marks, labels(marks), strict=True)
    ]  # under the tracks
    foot = element(
        "tr",
        element("td", ""),
        element(
            "td",
            element("svg", *axis, width="100%", height="20", aria_hidden="true"),
            class_="track axis",
        ),
        *(element("td", "") for _ in heads[2:]),
    )
    return element(
        "table",
        element("caption", heads[1]),
        element("thead", element("tr", *head)),
        element("tbody", *body),
        element("tfoot", foot),
        class_="spans",
    )


class _Scale:
    """A value's place on the axis, as a percentage."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.width = low, high - low

    def at(self, value: float) -> float:
        return min(max(100.0 * (value - self.low) / self.width, 0.0), 100.0)

    def __call__(self, value: float) -> str:
        return f"{self.at(value):.3f}%"


def _track(row: Span, place: _Scale, band: tuple[float, float] | None) -> Html:
    """One row's picture."""
    parts = []
    if band is not None:
        a, b = place.at(band[0]), place.at(band[1])
        parts.append(void("rect", x=f"{a:.3f}%", y="0", width=f"{b - a:.3f}%", height="100%", class_="band"))
    parts.append(void("line", x1="0", x2="100%", y1="50%", y2="50%", class_="grid"))
    if row.low is not None and row.high is not None and row.low < row.high:
        ends = {"x1": place(row.low), "x2": place(row.high)}
        parts.append(void("line", **ends, y1="50%", y2="50%", class_=f"interval {row.style}"))
    if row.value is not None:
        x = place(row.value)
        if row.outside:
            parts.append(element("text", "\u2192", x="100%", y="50%", dy=5, text_anchor="end", class_="away"))
        elif row.style in ("lower", "upper"):
            parts.append(void("line", x1=x, x2=x, y1="8%", y2="92%", class_=f"bound {row.style}"))
        else:
            parts.append(void("circle", cx=x, cy="50%", r="5.5", class_=f"point {row.style}"))
    return element("svg", *parts, width="100%", height="26", aria_hidden="true")


def _range(values: Iterable[float]) -> tuple[float, float]:
    finite = [v for v in values if math.isfinite(v)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    return low, high if high > low else low + 1.0


def _path(line: Line, x_range: tuple[float, float], y_range: tuple[float, float]) -> Html:
    """A line in the inner drawing, and dots where there are few points."""
    (x0, x1), (y0, y1) = x_range, y_range
    path, dots, pen_down = [], [], False
    points = [
        (_INNER * (x - x0) / (x1 - x0), _INNER * (1.0 - (y - y0) / (y1 - y0)))
        if math.isfinite(x) and math.isfinite(y)
        else None
        for x, y in zip(line.x, line.y, strict=True)
    ]
    known = sum(point is not None for point in points)
    for point in points:
        if point is not None:
            path.append(f"{'L' if pen_down else 'M'}{point[0]:.1f} {point[1]:.1f}")
            dots.append(f"M{point[0]:.1f} {point[1]:.1f}h0")
        pen_down = point is not None
    style = f"s{line.colour % COLOURS}" + (" faint" if line.faint else "")
    shapes = [void("path", d="".join(path), class_=f"line {style}")]
    if known <= _FEW:
        shapes.append(void("path", d="".join(dots), class_=f"dots {style}"))
    return element("g", element("title", line.name), *shapes)


def _level(level: Level, share: float) -> Html:
    y = f"{_INNER * share:.1f}"
    return void("path", d=f"M0 {y}H{_INNER:g}", class_=f"level {level.style}")


def _grid(low: float, high: float) -> list[Html]:
    found: list[Html] = []
    marks = ticks(low, high)
    for tick, name in zip(marks, labels(marks), strict=True):
        y = f"{100.0 * (1.0 - (tick - low) / (high - low)):.3f}%"
        found.append(void("line", x1="0", x2="100%", y1=y, y2=y, class_="grid"))
        found.append(_text(name, "0", y, dx=-8, dy=4, anchor="end"))
    return found


def _x_ticks(low: float, high: float) -> list[Html]:
    marks = ticks(low, high, 4)
    places = [f"{100.0 * (tick - low) / (high - low):.3f}%" for tick in marks]
    return [
        _text(name, x, "100%", dy=17, anchor=_anchor(x))
        for name, x in zip(labels(marks), places, strict=True)
    ]


def _anchor(place: str) -> str:
    """Which part of a label stands at its place, so that the labels of both ends stay inside."""
    at = float(place.rstrip("%"))
    return "start" if at < 4 else "end" if at > 96 else "middle"


def _text(text: str, x: str, y: str, *, dx: int = 0, dy: int = 0, anchor: str = "middle") -> Html:
    return element("text", text, x=x, y=y, dx=dx, dy=dy, text_anchor=anchor)


def _key(style: str, name: str) -> Html:
    line = void("line", x1="0", x2="100%", y1="50%", y2="50%", class_=f"line {style}")
    return element("li", element("svg", line, width="22", height="12", aria_hidden="true"), " ", name)
