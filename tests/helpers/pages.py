"""Pages and notebooks as somebody types them, from top to bottom into an empty folder, and what they say that comes out.

    cd tests && python -m helpers.pages ../docs/tutorial.md

puts what comes out today into the page.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import coreplan
from helpers.places import ROOT

ADAPTERS = {
    "from_gymnasium": "gymnasium", "from_gymnax": "gymnax", "from_jax": "jax", "sklearn_features": "sklearn",
    "to_gymnasium": "gymnasium",
}  # fmt: skip
EXTRAS = {*ADAPTERS.values(), "matplotlib", "onnxruntime", "quantecon"}
FENCE = re.compile(r"^```(\{?[\w-]*\}?)[^\n]*\n(.*?)^```$", flags=re.S | re.M)
_LANGUAGES = {"{code-cell}": "python", "bash": "sh"}
_CELL_OPTION = re.compile(r"\A(?::[\w-]+:[^\n]*\n)+\n?")
_FILE = re.compile(r"\A# ([\w-]+\.py)\n")
_CLOCK = re.compile(r"^│ time .*\n(?:│ {2,}│.*\n)*", flags=re.M)  # the row of a table that no two runs share


class Block(NamedTuple):
    """What stands between two fences; `shows` is the block of text right behind it: what comes out."""

    language: str
    text: str
    shows: Block | None = None
    span: tuple[int, int] = (0, 0)

    @property
    def file(self) -> str | None:
        """A Python block that begins with `# name.py` is a file to be saved."""
        found = _FILE.match(self.text) if self.language == "python" else None
        return found[1] if found else None


def blocks(text: str) -> list[Block]:
    """The blocks of a page in order."""
    found = []
    for match in FENCE.finditer(text):
        language = _LANGUAGES.get(match[1], match[1])
        body = _CELL_OPTION.sub("", match[2]) if match[1] == "{code-cell}" else match[2]
        found.append(Block(language, body, span=match.span(2)))
    pairs = pairwise([*found, Block("", "")])
    return [block._replace(shows=after if after.language == "text" else None) for block, after in pairs]


def examples(text: str) -> list[tuple[str, str | None]]:
    """The Python blocks of a page, each with what it prints; None where the page does not say."""
    return [(b.text, b.shows.text if b.shows else None) for b in blocks(text) if b.language == "python"]


def is_typed(text: str) -> bool:
    """Whether the page has the reader save a file; its commands are then run, too."""
    return any(block.file for block in blocks(text))


def needs(code: str) -> set[str]:
    """The extras that a block needs: those that it imports, and those behind the adapters that it names."""
    words = {word for word in re.findall(r"\w+", code) if word in ADAPTERS}
    modules = {ADAPTERS[word] for word in words}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module.split(".")[0])
    return modules & EXTRAS


def typed_in(folder: Path, lines: str) -> str:
    """What a terminal of 80 columns shows for these lines; the `coreplan` there is this one."""
    places = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(Path(coreplan.__file__).parents[1]),
        "COLUMNS": "80",
    }
    done = subprocess.run(
        ["bash", "-e", "-c", lines], cwd=folder, env={**os.environ, **places}, timeout=240, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, f"{lines}{done.stdout}"
    return done.stdout


def outputs(text: str, name: str, folder: Path, available=lambda module: True):
    """(block, what comes out) of every block that is run, in one namespace; until one needs an extra that is missing."""
    names, typed = {"__name__": "page"}, is_typed(text)
    for block in blocks(text):
        if block.file:
            (folder / block.file).write_text(block.text)
        elif block.language == "python":
            if not all(available(module) for module in needs(block.text)):
                return
            printed = io.StringIO()
            with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
                exec(compile(block.text, name, "exec", dont_inherit=True), names)
            yield block, printed.getvalue()
        elif typed and block.language == "sh":
            yield block, typed_in(folder, block.text)


def same(printed: str, shown: str) -> bool:
    """Whether a page shows what is printed; how long it took, and blanks before the end of a line, do not count."""
    return tidy(_CLOCK.sub("", printed)) == tidy(_CLOCK.sub("", shown))


def tidy(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def regenerated(text: str, name: str) -> str:
    """The page with what comes out today."""
    with tempfile.TemporaryDirectory() as folder:
        found = [(block.shows, out) for block, out in outputs(text, name, Path(folder)) if block.shows]
    for shown, out in reversed(found):
        if not same(out, shown.text):
            text = text[: shown.span[0]] + tidy(out) + text[shown.span[1] :]
    return text


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "agg"
    for argument in sys.argv[1:]:
        page = Path(argument).resolve()
        page.write_text(regenerated(page.read_text(), page.relative_to(ROOT).as_posix()))
