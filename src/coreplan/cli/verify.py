"""`coreplan verify`: tests the paper's claims, and ours, by measurement."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import print_json


def verify(
    prefixes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PREFIX",
            help="Only rows whose claim, label or group starts with this, such as thm:main; or paper, or ours.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list on stdout, nothing else.")] = False,
) -> None:
    """Test the claims of the paper and of our own proofs on small instances: bound, measured value, whether it holds."""
    from ..theory import verify as verify_claims
    from . import show

    rows = list(verify_claims(*prefixes or ()))
    if as_json:
        print_json([row.as_dict() for row in rows])
    else:
        show.claims(rows)
    if not all(row.holds for row in rows):
        raise typer.Exit(1)
