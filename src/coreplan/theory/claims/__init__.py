"""`verify`: the claims of the paper and of our own proofs, tested on small instances; a row is a number against a bound.

`PAPER` has the paper's claims in its order, `OURS` those of CoreMirror (docs/core-mirror.md) and of the certificate.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from ...base import InputError
from ..mirror import core_mirror
from ..rows import Group, Row
from .algorithm import computation, initial_policy, naive_loop, policy_read_out
from .certificate import certificate
from .duality import duality_to_suboptimality
from .gradients import estimators
from .last_policy import last_policy
from .main_theorem import theorem
from .programs import footnote, lp_pairs, saddle
from .realizability import bellman_errors, q_errors
from .regrets import gradient_descent, mirror_ascent, policy_regret

__all__ = ["CLAIMS", "OURS", "PAPER", "verify"]

PAPER: dict[str, Group] = {
    g.name: g
    for g in (
        lp_pairs, footnote, bellman_errors, q_errors, saddle, naive_loop, initial_policy, policy_read_out, computation,
        estimators, mirror_ascent, policy_regret, gradient_descent, duality_to_suboptimality, theorem,
    )
}  # fmt: skip
OURS: dict[str, Group] = {g.name: g for g in (core_mirror, last_policy, certificate)}
CLAIMS: dict[str, Group] = {**PAPER, **OURS}
PARTS = {"paper": PAPER, "ours": OURS}


def verify(*prefixes: str) -> Iterator[Row]:
    """Yields rows as they are computed: all, or those whose group, label or claim starts with one of the prefixes.

    The prefixes "paper" and "ours" stand for the paper's claims and for those of our own proofs.
    """
    for prefix in prefixes:
        if prefix not in PARTS and not any(g.may_have(prefix) for g in CLAIMS.values()):
            raise _unknown(prefix)
    return _rows(prefixes or tuple(PARTS))


def _rows(prefixes: tuple[str, ...]) -> Iterator[Row]:
    unmet = set(prefixes)
    for g in CLAIMS.values():
        parts = {p for p in prefixes if p in PARTS and g.name in PARTS[p]}
        if not parts and not any(g.may_have(p) for p in prefixes):
            continue
        for row in g.rows():
            met = parts | {p for p in prefixes if g.name.startswith(p) or row.starts_with(p)}
            unmet -= met
            if met:
                yield row._replace(part="ours" if g.name in OURS else "paper")
    if unmet:
        raise _unknown(min(unmet))


def _unknown(prefix: str) -> InputError:
    known = [*CLAIMS, *PARTS]
    begins = {text for g in CLAIMS.values() for text in g.begins}
    close = difflib.get_close_matches(prefix, [*known, *begins], n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return InputError(
        f"`verify` has no claim, no label and no group that starts with '{prefix[:100]}'.{hint} "
        f"There are: {', '.join(sorted(known))}."
    )
