"""The command line: a thin layer over the public API. One file per command; `show` prints the results.

Nothing heavy is imported here or at the top of a command's file, so that `--help` and `--version` are quick.
"""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .. import __version__
from . import bench, certify, check, listing, plan, tune, verify

__all__ = ["app", "main"]


class _Commands(TyperGroup):
    """All commands. Ctrl-C is one line and exit code 130 wherever a command does not handle it itself."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # handled here, since versions of typer differ in what they do about it
            print("Interrupted.", file=sys.stderr)
            raise typer.Exit(130) from None


app = typer.Typer(cls=_Commands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
for command in (
    listing.problems,
    listing.planners,
    plan.plan,
    tune.tune,
    check.check,
    certify.certify,
    verify.verify,
):
    app.command()(command)
app.add_typer(bench.app, name="bench")


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Plan in large Markov decision processes: a simulator and features in, one compact policy out."""
    if version:
        print(__version__)
        raise typer.Exit


def main() -> None:
    """The entry point: an error that coreplan raises on purpose is printed as a paragraph on stderr, without a traceback."""
    warnings.showwarning = _shown(warnings.showwarning)
    try:
        app()
    except MemoryError as error:
        print(f"error: Not enough memory: {error}. Lower K or the problem's size.", file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        from ..base import CoreplanError, FileError, InputError  # not at the top, since it imports NumPy

        if not isinstance(error, CoreplanError):
            raise
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, (InputError, FileError)) else 1)


def _shown(usual: Any) -> Any:
    """A `warnings.showwarning` that prints each of coreplan's own warnings once, as one line, and others as usual."""
    said: set[str] = set()

    def show(message: Any, category: Any, *where: Any, **more: Any) -> None:
        from ..base import CoreplanWarning

        if not issubclass(category, CoreplanWarning):
            usual(message, category, *where, **more)
        elif str(message) not in said:  # a run and the rollouts after it may both warn
            said.add(str(message))
            with suppress(OSError):  # the terminal may be gone, and the run goes on
                print(f"warning: {message}", file=sys.stderr)

    return show
