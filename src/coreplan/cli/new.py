"""`coreplan new`: a first problem of one's own, to be changed."""

from __future__ import annotations

import re
import shlex
from typing import Annotated

import typer

from .output import write

_NAME = "my_problem.py"  # what the template calls itself


def new(
    file: Annotated[str, typer.Argument(help=f"The file to write, such as {_NAME}. It must not exist yet.")],
) -> None:
    """Write a small problem into a file: commented, with tests, ready to be planned and to be changed into yours."""
    from importlib.resources import files as package

    from ..base import InputError, as_path, files, printable

    path = as_path("new", file=file)
    if path.suffix != ".py":
        raise InputError(
            f"A problem is a Python file, so its name must end with .py, such as {_NAME}; got '{file}'."
        )
    text = (package(__package__ or "") / "template.py").read_text(encoding="utf-8")
    if re.fullmatch(r"[\w.-]+", path.name):  # others would have to be quoted, each in its own way
        text = text.replace(_NAME, path.name)
    files.write_new(path, text.encode())
    typed = printable(shlex.quote(f"{path}:problem"))
    write(
        f"Wrote {printable(str(path))}.\n"
        f"Plan it:     coreplan plan {typed}\n"
        f"Certify it:  coreplan plan {typed} --certify\n"
        f"Test it:     python -m pytest {printable(shlex.quote(str(path)))}"
    )
