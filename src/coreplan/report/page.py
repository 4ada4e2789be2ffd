"""One self-contained page: its style, its scripts and its data in one file, which asks the network for nothing.

The page's own policy allows exactly the style and the scripts that are in it, each by its hash; no text in it can add one.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from .._version import __version__
from ..export import EVALUATOR
from . import sections
from .convergence import convergence
from .explorer import explorer, heaviest
from .facts import Facts
from .lights import checks
from .markup import Html, absent, element, folded, joined, json_block, section, table, void

_WEB = Path(__file__).parent / "web"
_SCRIPTS = ("drawing.js", "scores.js", "explorer.js", "core.js", "start.js")
_EMPTY = Html("")
_LISTED = 200  # core pairs in the table


def run_page(facts: Facts) -> str:
    """The page of one run."""
    return document(f"{facts.title}: {facts.planner or 'a run'}", run_body(facts))


def run_body(facts: Facts, *, maps: bool = True) -> Html:
    """What stands in the page of one run; without `maps`, which take longest, not what the policy does."""
    data, why = (
        explorer(facts) if maps else (None, "The maps of the policy come when there is time for them.")
    )
    parts = [
        sections.certificate(facts),
        convergence(facts),
        checks(facts),
        _policy(facts, data, why),
        _core(facts, data),
        sections.trajectories(facts),
        sections.settings(facts),
    ]
    if facts.running:  # what only an ended run has
        parts = [parts[1], parts[3], parts[4], parts[6]]
    lead = [sections.head(facts), sections.missing(facts)]
    lead += [] if facts.running else [sections.figures(facts)]
    blocks = [json_block("run", _numbers(facts))]
    blocks += [] if data is None else [json_block("explorer", data)]
    return joined([*lead, _contents(), *parts, *blocks])


def document(title: str, body: Html = _EMPTY, *, live: bool = False) -> str:
    """A whole page with this body; a live one asks for its content."""
    style, theme = _read("page.css"), _read("theme.js")
    scripts = [Path(EVALUATOR).read_text(), "\n".join(map(_read, _SCRIPTS))]
    scripts += [_read("live.js")] if live else []
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, [theme, *scripts]))}",
            f"style-src {_hash(style)}",
            f"connect-src {repr('self') if live else repr('none')}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    metas = [
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=policy),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("meta", name="referrer", content="no-referrer"),
        void("meta", name="generator", content=f"coreplan {__version__}"),
    ]
    top = element(
        "div",
        element("span", f"coreplan {__version__}"),
        Html('<button type="button" id="theme" hidden>Dark</button>'),
        class_="top",
    )
    content = [
        top,
        element("main", body, id="main"),
        element("footer", "Everything on this page is in this one file. It asks the network for nothing."),
    ]
    return (
        "<!doctype html>\n"
        + element(
            "html",
            element("head", *metas, element("title", title), Html(f"<style>{style}</style>"), _script(theme)),
            element("body", element("div", *content, class_="page"), *map(_script, scripts)),
            lang="en",
        )
        + "\n"
    )


def _policy(facts: Facts, data: Any, why: str) -> Html:
    """The place of the maps, which the page's script fills."""
    name, title = "policy", "What the policy does"
    if data is None or "score" not in data:
        return section(name, title, absent(why))
    intro = "At every state the policy ranks the actions by their score, phi(x, a) . theta. " + (
        "It is the estimated Q-value, in sums of normalised rewards and up to a constant. "
        if data["score"] == "Q-value"
        else "With this planner it need not be a value: what counts is which action has the higher one. "
    )
    how = (
        "It takes the best."
        if data["scale"] == float("inf")
        else "It draws one from a softmax of the scores."
    )
    parts: list[object] = [element("p", intro + how, class_="reading")]
    if why:
        parts.append(element("p", why, class_="absent"))
    parts.append(
        element(
            "noscript",
            element("p", "The maps are drawn by the page's own script, which is switched off here."),
        )
    )
    parts.append(element("div", "", id="explorer-view"))
    return section(name, title, *parts)


def _core(facts: Facts, data: Any) -> Html:
    """The core pairs, and how the planner weighs them."""
    name, title = "core", "Where the core pairs lie"
    core, weights = facts.core, facts.weights
    if core is None:
        return section(
            name,
            title,
            absent("No core pairs are known: the run used none, or they could not be read."),
        )
    text = f"{len(core):,} core pairs. "
    text += (
        "The area of a point is the weight that the planner gives to the pairs there (the paper's lambda; all add up to 1)."
        if weights is not None
        else "The planner weighs them all equally: it has no weights of its own."
    )
    which = heaviest(core, weights, _LISTED)
    actions = facts.names("action", int(core.actions.max()) + 1)
    rows = [
        [
            int(k),
            *core.states[k].ravel().astype(float).tolist(),
            actions[core.actions[k]],
            *([] if weights is None else [float(weights[k])]),
        ]
        for k in which
    ]
    names = facts.names("state", core.states[0].size)
    heads: Sequence[str] = ["pair", *names, "action", *([] if weights is None else ["weight"])]
    what = "all" if len(which) == len(core) else f"{len(which)} of {len(core):,}"
    numbers = folded(f"The numbers: {what} pairs", table(heads, rows, caption="core pairs"))
    view = [element("div", "", id="core-view")] if data is not None else []
    return section(name, title, element("p", text, class_="reading"), *view, numbers)


def _contents() -> Html:
    """Links to the sections."""
    names = {"certificate": "value", "convergence": "convergence", "checks": "assumptions", "policy": "policy",
             "core": "core pairs", "trajectories": "trajectories", "settings": "settings"}  # fmt: skip
    links = [element("li", element("a", text, href=f"#{name}")) for name, text in names.items()]
    return element("nav", element("ul", *links), aria_label="Sections")


def _numbers(facts: Facts) -> dict[str, Any]:
    """The numbers that the page shows, as they are in the run's files."""
    trace = facts.trace
    return {
        "record": facts.record,
        "evaluation": None if facts.evaluation is None else facts.evaluation.as_dict(),
        "certificate": None if facts.certificate is None else facts.certificate.as_dict(),
        "reality": None if facts.reality is None else facts.reality.as_dict(),
        "check": None if facts.check is None else facts.check.as_dict(),
        "trace": None if trace is None else {c: trace[c].tolist() for c in trace.columns},
        "missing": facts.missing,
    }


@cache
def _read(name: str) -> str:
    return (_WEB / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _script(text: str) -> Html:
    """A script of ours; none of them may hold what ends a script."""
    assert "</script" not in text.lower() and "<!--" not in text
    return Html(f"<script>{text}</script>")
