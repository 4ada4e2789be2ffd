"""Building blocks of a page: elements whose content is escaped, and JSON that no text can break out of."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from ..base import html

Html: TypeAlias = html.Html
element, escaped = html.element, html.escaped


def void(tag: str, **attributes: object) -> html.Html:
    """An element without content, such as a line of an SVG."""
    opening = element(tag, **attributes)
    return Html(f"{opening.removesuffix(f'></{tag}>')}/>")


def joined(parts: Iterable[object]) -> html.Html:
    """Parts one after the other, texts escaped."""
    return Html("".join(map(escaped, parts)))


def json_block(name: str, value: Any) -> html.Html:
    """Data for the page's scripts; numbers that are not finite become null.

    No text in it can end the block or begin a comment: `<`, `>` and `&` are written as escapes.
    """
    text = json.dumps(_finite(value), allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Html(f'<script type="application/json" id="{escaped(name)}">{text}</script>')


def table(
    heads: Sequence[object], rows: Iterable[Sequence[object]], *, numbers: bool = True, caption: str = ""
) -> html.Html:
    """A table; a column with a number is one of numbers, and None in it a dash."""
    listed = [list(row) for row in rows]
    right = [numbers and any(_is_number(row[k]) for row in listed) for k in range(len(heads))]
    head = [
        element("th", name, scope="col", **({"class_": "number"} if at else {}))
        for name, at in zip(heads, right, strict=True)
    ]
    body = [element("tr", *map(_cell, row, right)) for row in listed]
    parts = [element("caption", caption)] if caption else []
    return element(
        "div",
        element("table", *parts, element("thead", element("tr", *head)), element("tbody", *body)),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=caption or "table",
    )


def folded(summary: str, *content: object, unfolded: bool = False) -> html.Html:
    """Content that is shown on request, or until somebody folds it."""
    return element("details", element("summary", summary), *content, **({"open": ""} if unfolded else {}))


def section(name: str, title: str, *content: object) -> Html:
    """A section with its heading."""
    return element("section", element("h2", title), *content, id=name, aria_label=title)


def absent(what: str, remedy: str = "", command: str = "") -> Html:
    """What is not there, and with which command to get it."""
    parts: list[object] = [what]
    if command:
        parts += [f" {remedy} with ", element("code", command), "."]
    return element("p", *parts, class_="absent")


def _cell(cell: object, right: bool) -> html.Html:
    if right and (cell is None or _is_number(cell)):
        return element("td", _written(cell), class_="number")
    return element("td", _written(cell) if cell is None else cell)


def _is_number(cell: object) -> bool:
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def _written(cell: Any) -> str:
    if cell is None:
        return "\u2013"
    if isinstance(cell, int):
        return f"{cell:,}"
    return "" if math.isnan(cell) else f"{cell:.6g}"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
