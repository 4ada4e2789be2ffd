"""`coreplan verify`: the paper's claims, measured."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import print_json


def verify(
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list on stdout, nothing else.")] = False,
) -> None:
    """Every claim of the paper on small instances: bound, measured, holds or not."""
    from ..theory import verify as verify_claims
    from . import show

    rows = list(verify_claims())
    if as_json:
        print_json([row.as_dict() for row in rows])
    else:
        show.claims(rows)
    if not all(row.holds for row in rows):
        raise typer.Exit(1)
