"""`coreplan compare`: planners side by side on problems, as one table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import AsJson, Count, Executor, count, print_json, reserved_stdout
from .output import say

if TYPE_CHECKING:
    from ..bench import Results


def compare(
    problems: Annotated[
        list[str], typer.Argument(help="Built-in names, path/to/file.py:name or package.module:name.")
    ],
    budgets: Annotated[
        str,
        typer.Option(help="Simulator queries, separated by commas: 1e3,1e4,1e5. Each is a run of its own."),
    ],
    planners: Annotated[
        str | None,
        typer.Option(
            help="Names separated by commas, with settings as in plug-in,primal-dual:K=5,eta=1e-4; by default all. "
            "default: the planner that `coreplan plan` picks."
        ),
    ] = None,
    seeds: Annotated[int, Count("How many seeds: 0, 1, 2, ...")] = 5,
    seconds: Annotated[float | None, typer.Option(help="The limit per run, without compiling.")] = None,
    clock: Annotated[
        str,
        typer.Option(
            help="What the limit counts: wall, or processor: processor time, fair on a busy machine."
        ),
    ] = "wall",
    tune: Annotated[
        int,
        Count(
            "Besides the defaults, the best of so many random configurations, chosen on seeds that are not scored."
        ),
    ] = 0,
    rollouts: Annotated[int, Count("Rollouts that judge a policy where states cannot be enumerated.")] = 1000,
    jobs: Annotated[
        int | None,
        typer.Option(help="How many runs at a time, by default one per processor; 1: this process."),
    ] = None,
    executor: Executor = None,
    out: Annotated[
        str | None,
        typer.Option(help="A folder for the table and pictures; given again, the comparison goes on."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare planners: every one on every problem, with every budget and seed; the table goes on where it stopped."""
    from ..bench import compare as run_comparison
    from ..bench import planners_of
    from . import show

    amounts = [count(text.strip()) for text in budgets.split(",")]
    names = None if planners is None else planners_of(planners)
    with reserved_stdout(as_json):
        found = run_comparison(
            problems, names, budgets=amounts, seeds=seeds, seconds=seconds, clock=clock, tune=tune, rollouts=rollouts,
            jobs=jobs, executor=executor, out=out, progress=False if as_json else None,
        )  # fmt: skip
        pictures = [] if out is None else _drawn(found, Path(out))
    if as_json:
        print_json({"rows": [vars(row) for row in found], "out": out, "pictures": pictures})
    else:
        show.compared(found)


def _drawn(found: Results, folder: Path) -> list[str]:
    """Draw the pictures into the folder; one line where that is not possible."""
    from ..base import CoreplanError, InputError, files
    from ..bench import PICTURES

    drawn: list[str] = []
    for what in PICTURES:
        path = folder / f"{what}.svg"
        try:
            figure: Any = found.plot(what)
            with files.replacing(path) as file:
                figure.savefig(file, format="svg", metadata={"Date": None})
            drawn.append(str(path))
        except InputError as error:  # Matplotlib is missing, or there is nothing of this kind to draw
            if "pip install" in str(error):
                say(f"No pictures: {error}")
                return drawn
        except CoreplanError as error:
            say(f"No picture {path.name}: {error}")
    return drawn
