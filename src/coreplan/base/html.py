"""HTML for notebooks and pages: what a user's name, path or simulator says is text in it, and nothing else.

`element` and `table` escape everything that is not `Html` already, so a page is built of them and no text is ever pasted
into markup. Styles stand on the elements themselves and name no background and no colour of text: a fragment reads well in
a light notebook and in a dark one, and changes nothing around it.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from .errors import printable

LIGHTS = {
    "green": "#1b9e5a",
    "amber": "#c77700",
    "red": "#d6402b",
    "grey": "#858585",
}  # on white and on black
_TABLE = "border-collapse: collapse; max-width: 60em; margin: .3em 0; color: inherit; font-size: inherit"
_CELL = "text-align: left; vertical-align: top; padding: .15em .8em .15em 0; white-space: pre-wrap"
_LABEL = "text-align: left; vertical-align: top; padding: .15em .8em .15em 0; white-space: nowrap; font-weight: normal"
_DIM = f"{_LABEL}; opacity: .7"


class Html(str):
    """A text that is HTML already."""

    __slots__ = ()


def escaped(text: object) -> Html:
    """The text as HTML shows it word for word; what is `Html` already stays as it is."""
    return text if isinstance(text, Html) else Html(html.escape(printable(str(text))))


def element(tag: str, *inside: object, **attributes: object) -> Html:
    """One element, its content and the values of its attributes escaped; `class_` is the attribute class."""
    said = "".join(
        f' {name.strip("_").replace("_", "-")}="{escaped(value)}"' for name, value in attributes.items()
    )
    return Html(f"<{tag}{said}>{''.join(map(escaped, inside))}</{tag}>")


def table(rows: Iterable[Sequence[object]], head: Sequence[object] = (), title: object = "") -> Html:
    """A table whose rows each begin with their label; `head` names the columns."""
    top = (
        [element("caption", title, style="text-align: left; font-weight: bold; padding: .3em 0")]
        if title
        else []
    )
    if head:
        cells = (element("th", name, scope="col", style=_DIM) for name in head)
        top.append(element("thead", element("tr", *cells)))
    body = element("tbody", *map(_row, rows))
    return element("table", *top, body, style=_TABLE)


def light(name: str) -> Html:
    """A traffic light: its colour as a dot, and as a word for who cannot tell the colours apart."""
    dot = element("span", "\u25cf", style=f"color: {LIGHTS[name]}", aria_hidden="true")
    return element("span", dot, f" {name}", style="white-space: nowrap")


def block(*parts: object) -> Html:
    """Parts below each other; a plain text becomes a paragraph."""
    return element(
        "div",
        *(
            part if isinstance(part, Html) else element("p", part, style="max-width: 60em; margin: .3em 0")
            for part in parts
            if part
        ),
    )


def _row(cells: Sequence[object]) -> Html:
    label, *others = cells
    return element(
        "tr",
        element("th", label, scope="row", style=_LABEL if isinstance(label, Html) else _DIM),
        *(element("td", cell, style=_CELL) for cell in others),
    )
