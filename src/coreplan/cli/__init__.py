"""The command line: a thin layer over the public API. One file per command; `show` prints the results.

Nothing heavy is imported here or at the top of a command's file, so that `--help` and `--version` are quick.
"""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress
from shutil import get_terminal_size
from typing import Annotated, Any

import typer

from .. import __version__
from . import (
    act,
    bench,
    certify,
    check,
    compare,
    examples,
    export,
    listing,
    log,
    new,
    output,
    plan,
    report,
    tune,
    verify,
)

__all__ = ["app", "main"]


class _Commands(examples.Group):
    """All commands. Ctrl-C is one line and exit code 130 wherever a command does not handle it itself."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # handled here, since versions of typer differ in what they do about it
            with suppress(
                OSError, ValueError
            ):  # printed plainly: `say` imports NumPy, which may be what was interrupted
                print("Interrupted.", file=sys.stderr)
            raise typer.Exit(130) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # Here, since older versions of click take a word like `*` for an option and print the help.
        if self.get_command(ctx, args[0]) is None:
            ctx.fail(f"No such command {args[0]!r}.")
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=_Commands, pretty_exceptions_enable=False)
for command in (
    new.new,
    listing.problems,
    listing.planners,
    plan.plan,
    compare.compare,
    tune.tune,
    check.check,
    certify.certify,
    act.act,
    export.export,
    report.report,
    verify.verify,
):
    app.command(cls=examples.Command)(command)
app.add_typer(log.app, name="log")
app.add_typer(bench.app, name="bench")


@app.callback(invoke_without_command=True)
def _top(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Plan in large Markov decision processes: a simulator and features in, one compact policy out."""
    if version:
        output.write(__version__)
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        output.write(examples.start(get_terminal_size().columns))


def main() -> None:
    """The entry point: whatever goes wrong is one line on stderr and an exit code, without a traceback."""
    output.prepare()
    warnings.showwarning = _shown(warnings.showwarning)
    try:
        code = _run()
    except output.OutputError as error:
        code = output.give_up(error)
    except Exception as error:
        if output.debugging():
            raise
        code = _told(error)
    sys.exit(code)


def _run() -> int:
    """Run the command; its exit code."""
    try:
        code = app(standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()  # what --help printed; a command's own output is written at once
    except SystemExit as error:  # so Rich and click end where the reader of their help has left
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        raise output.OutputError("its reader has left") from error.__context__
    except OSError as error:
        if type(error) not in (OSError, BrokenPipeError):  # ours, or about a file of the user's
            raise
        raise output.OutputError(error.strerror or str(error)) from error
    return code if isinstance(code, int) else 0


def _told(error: Exception) -> int:
    """The exit code for an error, which is told in one line."""
    usage = getattr(
        error, "format_message", None
    )  # an error of Typer's, whatever its version calls the class
    if usage is not None and hasattr(error, "exit_code"):
        if type(error).__name__ != "NoArgsIsHelpError":  # the help has been printed
            output.say(f"error: {usage().strip().removesuffix('.')}. See `{_path_of(error)} --help`.")
        return int(getattr(error, "exit_code", 2))
    if isinstance(error, typer.Abort):
        return 1
    if isinstance(error, MemoryError):
        output.say(f"error: Not enough memory: {error}. Lower K or the problem's size.")
        return 2
    from ..base import CoreplanError, FileError, InputError  # not at the top, since it imports NumPy

    if not isinstance(error, CoreplanError):
        return output.bug(error)
    output.say(f"error: {error}")
    return 2 if isinstance(error, (InputError, FileError)) else 1


def _path_of(error: Exception) -> str:
    """The command that was typed wrongly, as the words that call it."""
    context = getattr(error, "ctx", None)
    return str(getattr(context, "command_path", "coreplan"))


def _shown(usual: Any) -> Any:
    """A `warnings.showwarning` that prints each of coreplan's own warnings once, as one line, and others as usual."""
    said: set[str] = set()

    def show(message: Any, category: Any, *where: Any, **more: Any) -> None:
        from ..base import CoreplanWarning, printable

        if not issubclass(category, CoreplanWarning):
            with suppress(OSError, ValueError):
                usual(printable(str(message)), category, *where, **more)
        elif str(message) not in said:  # a run and the rollouts after it may both warn
            said.add(str(message))
            output.say(f"warning: {message}")

    return show
