"""`coreplan bench`: benchmarks as programs."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import AsJson, print_json
from .examples import Command, Group

app = typer.Typer(cls=Group, no_args_is_help=True, help="Benchmarks, as ratios within one run.")


@app.command(cls=Command)
def throughput(
    as_json: AsJson = False,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the queries: a smoke test.")] = False,
) -> None:
    """Queries per second: the planner against a bare loop, compiled against NumPy, small problems against huge ones."""
    from ..bench import throughput as measure
    from . import show

    figures = measure(quick)
    if as_json:
        print_json(figures)
    else:
        show.throughput(figures)
