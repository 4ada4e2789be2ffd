"""What several commands share: arguments that mean the same everywhere, and the one JSON object on stdout."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from typing import Annotated, Any

import typer

ProblemName = Annotated[
    str, typer.Argument(help="A built-in name, path/to/file.py:name or package.module:name.")
]
Queries = Annotated[int, typer.Option(help="Simulator queries to spend.")]
Seed = Annotated[int, typer.Option(help="Same seed, same bits.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")]


def reserved_stdout(as_json: bool) -> AbstractContextManager[Any]:
    """Within this, what a user's own code prints goes to stderr if stdout is for the one JSON object."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()


def print_json(value: Any) -> None:
    """The one JSON value on stdout; NaN and infinity are not JSON."""
    print(json.dumps(value, allow_nan=False))
