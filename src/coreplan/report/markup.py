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
    """A table; cells that are no text in words stand in columns of numbers."""
    head = [element("th", name, scope="col") for name in heads]
    body = [element("tr", *(_cell(cell, numbers) for cell in row)) for row in rows]
    parts = [element("caption", caption)] if caption else []
    return element(
        "div",
        element("table", *parts, element("thead", element("tr", *head)), element("tbody", *body)),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=caption or "table",
    )


def folded(summary: str, *content: object) -> html.Html:
    """Content that is shown on request."""
    return element("details", element("summary", summary), *content)


def _cell(cell: object, numbers: bool) -> html.Html:
    number = numbers and isinstance(cell, (int, float)) and not isinstance(cell, bool)
    if number:
        return element("td", _written(cell), class_="number")
    return element("td", cell)


def _written(cell: Any) -> str:
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
