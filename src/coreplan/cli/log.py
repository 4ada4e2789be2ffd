"""`coreplan log`: what a query log holds."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import AsJson, print_json
from .examples import Group, LogCommand

app = typer.Typer(
    cls=Group, no_args_is_help=True, help="Query logs (plan --log FILE): inspect, verify, export."
)
File = Annotated[str, typer.Argument(help="The log.")]


@app.command(cls=LogCommand)
def inspect(file: File, as_json: AsJson = False) -> None:
    """Whose answers a log holds, how many, and what is damaged."""
    _told(file, as_json)


@app.command(cls=LogCommand)
def verify(file: File, as_json: AsJson = False) -> None:
    """Check every record: exit code 0 if every byte belongs to an answer that is there once, else 1."""
    if not _told(file, as_json):
        raise typer.Exit(1)


@app.command(cls=LogCommand)
def export(
    file: File,
    out: Annotated[str, typer.Argument(help="A new CSV file, one row per answer.")],
    as_json: AsJson = False,
) -> None:
    """Write every answer of a log as a row of a CSV file, rewards in the simulator's own units."""
    from ..base import as_path
    from ..simulate import export_log
    from .output import write

    log, table = as_path("log", file=file), as_path("log", out=out)
    assert log is not None and table is not None
    count = export_log(log, table)
    if as_json:
        print_json({"queries": count, "file": out})
    else:
        write(f"{count:,} answers in {out}")


def _told(file: str, as_json: bool) -> bool:
    """Print what a log holds; whether all of it is good."""
    from ..base import as_path
    from ..simulate import read_log
    from . import show

    path = as_path("log", file=file)
    assert path is not None
    report = read_log(path)
    if as_json:
        print_json(report.as_dict())
    else:
        show.log(report)
    return report.good
