"""The directive `{api} coreplan.core`: the public names of a part, each with its docstring.

Names may follow in the directive's body; without any, all of the part's `__all__` are shown. A name that has its home
elsewhere (`coreplan.judge.Certificate` is `coreplan.Certificate`) gets a line that leads there.
"""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.parsing import nested_parse_to_nodes

_UNDERLINED = re.compile(r"^(\w[\w ]*)\n-{3,}$", flags=re.M)
_CODE = re.compile(r"(`[^`\n]+`)")


def public(part: str) -> list[str]:
    """A part's `__all__`; of a module without one, what it defines under a name without underscore."""
    module = importlib.import_module(part)
    here = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == part and n[0] != "_"]
    return list(getattr(module, "__all__", here))


def home(part: str, name: str) -> str:
    """Where a name is documented: at the top, else in the part that it comes from, if that exports it, else here."""
    if part == "coreplan" or name in public("coreplan"):
        return "coreplan"
    module = getattr(getattr(importlib.import_module(part), name), "__module__", None) or part
    origin = ".".join(module.split(".")[:2])
    return origin if origin.startswith("coreplan.") and name in public(origin) else part


def directive_of(part: str, name: str) -> list[str]:
    """reStructuredText for one name."""
    value: Any = getattr(importlib.import_module(part), name)
    at, full = home(part, name), f"{part}.{name}"
    compiled = hasattr(value, "py_func")
    role = (
        "class" if inspect.isclass(value) else "function" if inspect.isroutine(value) or compiled else "data"
    )
    if at != part:
        return [f".. py:{role}:: {full}", "   :no-typesetting:", "", f"``{name}``: :py:obj:`{at}.{name}`", ""]
    if inspect.ismodule(value):
        return [f".. py:data:: {full}", "", f"   {(value.__doc__ or '').splitlines()[0]}", ""]
    if inspect.isclass(value):
        return [f".. autoclass:: {full}", "   :members:", ""]
    if role == "function":
        return [f".. autofunction:: {full}", ""]
    return [f".. py:data:: {full}", "", f"   {escaped(cut(meaning(value)))}", ""]


def meaning(value: Any) -> str:
    """What a constant is: a type alias or a number as it is written, anything else by its kind and length."""
    if isinstance(value, dict | list | tuple | set | frozenset):
        return f"A {type(value).__name__} of {len(value)}."
    return " ".join(repr(value).split())


def cut(text: str, longest: int = 120) -> str:
    return text if len(text) <= longest else f"{text[:longest]}..."


class Api(SphinxDirective):
    has_content = True
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        part = self.arguments[0]
        names = [word for line in self.content for word in line.split()]
        names = names or sorted(public(part), key=str.lower)
        lines = [line for name in names for line in directive_of(part, name)]
        # The page around is Markdown, and autodoc writes reStructuredText.
        return nested_parse_to_nodes(self.state, "\n".join(["````{eval-rst}", *lines, "````"]), source=part)


def escaped(text: str) -> str:
    """Plain text as reStructuredText: nothing is markup but code between backquotes, which letters may touch."""
    pieces = _CODE.split(text)  # code at odd places
    for k in range(1, len(pieces), 2):
        before, after = ("\\ " * near.isalnum() for near in (pieces[k - 1][-1:], pieces[k + 1][:1]))
        pieces[k] = f"{before}``{pieces[k][1:-1]}``{after}"
    pieces[::2] = [re.sub(r"([\\*`|_])", r"\\\1", piece) for piece in pieces[::2]]
    return "".join(pieces)


def rewritten(lines: list[str]) -> list[str]:
    """A docstring of ours as reStructuredText: paragraphs, headings, lists of `name: meaning`, indented formulas."""
    text = _UNDERLINED.sub(r"@@\1", "\n".join(lines))
    found: list[str] = []
    listing = False
    for line in text.splitlines():
        if line.startswith("@@"):
            found += ["", f"**{line[2:]}**", ""]
            listing = True
        elif listing and (entry := re.match(r"([\w*][\w ,*()]*): (.*)", line)):
            found += [f"``{entry[1]}``", f"    {escaped(entry[2])}"]
        else:
            outdented = line and not line.startswith(" ") and found and found[-1].startswith(" ")
            if outdented or (listing and line and not line.startswith(" ")):
                listing = False
                found.append("")
            found.append(escaped(line))
    return found


def on_docstring(_app: Sphinx, _what: str, _name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = [*rewritten(lines), ""]


def skipped(_app: Sphinx, _what: str, name: str, value: Any, _skip: bool, _options: Any) -> bool | None:
    """Fields of named tuples have no docstring of their own."""
    return True if type(value).__name__ == "_tuplegetter" or name.startswith("_") else None


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("api", Api)
    app.connect("autodoc-process-docstring", on_docstring)
    app.connect("autodoc-skip-member", skipped)
    return {"parallel_read_safe": True}
