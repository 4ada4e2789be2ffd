"""What the commands share: arguments with the same meaning everywhere, and the one JSON object on stdout."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import typer

from .output import write

ProblemName = Annotated[
    str, typer.Argument(help="A built-in name, path/to/file.py:name or package.module:name.")
]


def count(text: str | int) -> int:
    """A whole number as people write it: 100000, 100_000 or 1e5."""
    try:
        number = Decimal(str(text))
        if (
            number == number.to_integral_value() and abs(number) < 10**100
        ):  # larger ones would take for ever to write out
            return int(number)
    except (InvalidOperation, ArithmeticError):
        pass
    raise typer.BadParameter(f"{text!r} is not a whole number, such as 100000, 100_000 or 1e5.")


def Count(help: str) -> Any:
    """An option for a count: how many queries, rollouts and the like."""
    return typer.Option(parser=count, metavar="COUNT", help=help)


Queries = Annotated[int, Count("The number of simulator queries.")]
Horizon = Annotated[int | None, Count("End the problem after this many steps.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same bits.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")]


Executor = Annotated[
    str | None,
    typer.Option(help="Who simulates: serial (this process), processes, or ray. The answer is the same."),
]
Workers = Annotated[int | None, typer.Option(help="How many workers simulate; by default one per processor.")]
Timeout = Annotated[float | None, typer.Option(help="Seconds per query after which a worker is replaced.")]
Retries = Annotated[
    int | None, typer.Option(help="How often pairs are simulated again after a worker's fault; by default 3.")
]
Log = Annotated[
    str | None,
    typer.Option(
        help="A file that keeps every paid answer: what is in it is not asked again (docs/scale.md)."
    ),
]


def reserved_stdout(as_json: bool) -> AbstractContextManager[Any]:
    """A context in which a user's own code prints to stderr, if stdout is reserved for the one JSON object."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()


def print_json(value: Any) -> None:
    """Print the one JSON value on stdout; raises on NaN and infinity, which are not JSON."""
    write(json.dumps(value, allow_nan=False))
