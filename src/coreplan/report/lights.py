"""The section about the assumptions: each with its light, what it means, and what to do."""

from __future__ import annotations

from typing import Any

from .facts import Facts
from .markup import Html, absent, element, section
from .ticks import brief
from .words import command_for

_LIGHTS = {
    "red": "does not hold",
    "amber": "take care",
    "grey": "not resolved",
    "green": "holds",
}  # worst first
MEANING = {  # of a row of `check`, in plain words
    "R": "Features are as long as declared",
    "coverage": "The states that were met lie in the features' box",
    "core set": "The problem has a core set",
    "rank": "The core pairs determine theta",
    "condition": "The core features are far from dependent",
    "hull error": "The features that were met are averages of the core's",
    "next states": "The features of next states are averages of the core's",
    "reach": "The features that were met lie in the core's span",
    "D": "It is known how large theta has to be",
    "Bellman residual": "The features can express the values",
    "reality": "The policy earns what its values say",
    "repeatable": "Given the same noise, the simulator repeats itself",
}


def checks(facts: Facts) -> Html:
    """The assumptions, those that may be wrong first."""
    name, title = "checks", "Whether the assumptions hold"
    found = facts.check
    if found is None:
        command = command_for("report", facts, "--queries 20000")
        return section(name, title, absent("The assumptions were not checked.", "Check them", command))
    intro = (
        f"Measured with {found.queries:,} queries of their own, at pairs that the uniform policy and a fitted one reach. "
        "A light is green only if the measurement could have found what it rules out."
    )
    order = list(_LIGHTS)
    rows = sorted(found.rows, key=lambda row: order.index(row.light))
    counts = [(light, sum(row.light == light for row in rows)) for light in order]
    tally = [element("li", f"{_LIGHTS[light]}: {n}", class_=f"light {light}") for light, n in counts if n]
    return section(
        name, title, element("p", intro, class_="reading"), element("ul", *tally, class_="tally"),
        element("ul", *map(_row, rows), class_="lights"),
    )  # fmt: skip


def _row(row: Any) -> Html:
    light = element("span", _LIGHTS[row.light], class_=f"light {row.light}")
    number = element("small", f"{row.name}: {brief(row.value)}")
    about = element("b", MEANING.get(row.name, row.name))
    return element("li", light, element("div", about, " ", number, element("p", row.verdict)))
