"""Several runs on one page: a row for each, what differs between their settings, and their convergence in one chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .charts import Span, span_picture
from .convergence import together
from .facts import Facts
from .markup import Html, element, joined, json_block, section, table
from .page import document
from .ticks import amount, plain, said
from .words import best_known, light_of, state_of

_APART = frozenset(  # what a run was told or found, and not how it was set
    ("status", "queries", "reality_queries", "lost_queries", "rechecked_queries", "logged_queries", "initial_draws",
     "seconds", "warmup_seconds", "picked", "reason", "helps", "next", "no_verdict", "core_file", "names")
)  # fmt: skip


def comparison_page(runs: Sequence[Facts]) -> str:
    """The page that compares runs."""
    names = labels(runs)
    problems = list(dict.fromkeys(facts.title for facts in runs))
    title = f"{len(runs)} runs of {', '.join(problems[:3])}" + (" and others" if len(problems) > 3 else "")
    lead = element("header", element("h1", title), element("p", _verdict(runs, names), class_="verdict"))
    lost = [f"{name}: {text}" for name, facts in zip(names, runs, strict=True) for text in facts.missing]
    notice = element("section", element("h2", "What is missing"), element("ul", *(element("li", t) for t in lost)),
                     class_="notice", id="missing")  # fmt: skip
    parts = [
        lead,
        *([notice] if lost else []),
        _rows(runs, names, problems),
        _differences(runs, names),
        together(runs, names),
        json_block("runs", _numbers(runs, names)),
    ]
    return document(title, joined(parts))


def labels(runs: Sequence[Facts]) -> list[str]:
    """A name for each run: its folder's, with the way to it where two folders have the same."""
    names = [facts.name for facts in runs]
    return [facts.path if names.count(name) > 1 else name for name, facts in zip(names, runs, strict=True)]


def differences(runs: Sequence[Facts]) -> dict[str, list[Any]]:
    """The settings that are not the same in all runs, each with its value in every run."""
    flat = [dict(_flat(facts.record)) for facts in runs]
    keys = list(dict.fromkeys(key for record in flat for key in record))
    table = {key: [record.get(key) for record in flat] for key in keys}
    return {key: values for key, values in table.items() if any(v != values[0] for v in values)}


def _flat(record: dict[str, Any], prefix: str = "") -> Any:
    for key, value in record.items():
        if prefix == "" and key in _APART:
            continue
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}: ")
        else:
            yield f"{prefix}{key}", value


def _verdict(runs: Sequence[Facts], names: Sequence[str]) -> str:
    """Which run has the best policy, as far as the intervals tell."""
    if len({facts.title for facts in runs}) > 1:
        return "The runs are of different problems: their values cannot be compared."
    known = [
        (found, name) for facts, name in zip(runs, names, strict=True) if (found := best_known(facts)[0])
    ]
    if len(known) < 2:
        return "Fewer than two of the runs say what their policies are worth."
    (best, name), *others = sorted(known, key=lambda one: -one[0].value)
    apart = all(best.low > other.high for other, _ in others)
    exact = all(found.exact for found, _ in known)
    said_so = (
        ("and all values are exact" if exact else "and its interval lies above all others")
        if apart
        else "but intervals overlap, or values are the same"
    )
    hardly = ", by less than 0.0001" if said(best.value) == said(others[0][0].value) else ""
    return f"{name} has the highest value, {said(best.value)}{hardly}, {said_so}."


def _rows(runs: Sequence[Facts], names: Sequence[str], problems: Sequence[str]) -> Html:
    """One row for each run."""
    spans = []
    for name, facts in zip(names, runs, strict=True):
        found, _ = best_known(facts)
        by = f"{facts.planner or 'unknown planner'}, {state_of(facts)}"
        about = f"{by}; {facts.title}" if len(problems) > 1 else by
        cells = (
            said(found.value if found else None),
            "\u2013" if found is None else amount(found.returns.value),
        )
        low, high = (None, None) if found is None else (found.low, found.high)
        worth = None if found is None else found.value
        spans.append(
            Span(name=name, value=worth, low=low, high=high, style="policy", cells=cells, note=about)
        )
    units = runs[0].reward_name if len({facts.reward_name for facts in runs}) == 1 else "own rewards"
    picture = span_picture(
        spans, ("run", "normalised value, with its interval", "value", f"in {units}"), None
    )
    heads = ("run", "status", "certified at least", "optimum at most", "queries", "seconds")
    rows = [_figures(name, facts) for name, facts in zip(names, runs, strict=True)]
    reasons = [
        element("li", element("b", name), ": ", facts.text("reason"))
        for name, facts in zip(names, runs, strict=True)
        if facts.text("reason")
    ]
    said_so = [element("ul", *reasons, class_="reading")] if reasons else []
    return section("rows", "The runs", picture, table(heads, rows, caption="the runs in numbers"), *said_so)


def _figures(name: str, facts: Facts) -> list[object]:
    """The row of one run in the table of numbers."""
    c, seconds = facts.certificate, facts.number("seconds")
    return [
        name,
        element("span", state_of(facts), class_=f"light {light_of(facts)}"),
        None if c is None else float(said(c.lower)),
        None if c is None or c.upper is None or c.gap is None else float(said(c.upper)),
        facts.queries,
        None if seconds is None else float(f"{seconds:.3g}"),
    ]


def _differences(runs: Sequence[Facts], names: Sequence[str]) -> Html:
    """A table of what differs."""
    found = differences(runs)
    if not found:
        return section(
            "differences", "Settings that differ", element("p", "None: the runs have the same settings.")
        )
    rows = [[key, *("\u2013" if v is None else plain(v) for v in values)] for key, values in found.items()]
    return section(
        "differences",
        "Settings that differ",
        table(["setting", *names], rows, caption="settings that differ"),
    )


def _numbers(runs: Sequence[Facts], names: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "record": facts.record,
            "evaluation": None if facts.evaluation is None else facts.evaluation.as_dict(),
            "trace": None
            if facts.trace is None
            else {c: facts.trace[c].tolist() for c in facts.trace.columns},
        }
        for name, facts in zip(names, runs, strict=True)
    ]
