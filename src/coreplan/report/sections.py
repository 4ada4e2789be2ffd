"""The sections of one run's page, in the order of a reader's questions: is it good, did it settle, what does it do?"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from ..judge import Evaluation
from ..run import CERTIFICATE_FILE
from .charts import Line, Span, line_chart, span_picture
from .convergence import moves
from .facts import Facts
from .markup import Html, absent, element, folded, joined, section, table
from .ticks import amount, brief, plain, said
from .words import (
    best_known,
    command_for,
    command_of,
    ending,
    is_vacuous,
    light_of,
    problem_word,
    resuming,
    state_of,
    verdict,
)

_COLUMNS = 6  # coordinates of trajectories that are drawn
_CELLS = 12_000  # of a table of a sample
_SHORTEST = 40  # steps of a trajectory that are drawn, at least
_LITTLE = 0.05  # discounted weight of the steps that are not drawn, at most
_WIDTH = 72  # of a line of a command
_TOLD = {  # what stands in run.json, in the words of the page
    "problem": "problem",
    "planner": "planner",
    "picked": "picked",
    "seed": "seed",
    "budget": "queries, at most",
    "reality": "share kept for rollouts",
    "discount": "discount",
    "reward_range": "reward range",
    "block": "queries per block of noise",
    "status": "how it ended",
    "queries": "queries",
    "reality_queries": "of these for rollouts",
    "lost_queries": "queries lost by errors",
    "rechecked_queries": "queries to check a resumed run",
    "logged_queries": "queries answered by a log",
    "initial_draws": "initial states drawn",
    "seconds": "seconds of planning",
    "warmup_seconds": "seconds of compiling",
    "baseline": "baseline",
    "features": "features (digest)",
    "core": "core set (digest)",
}
_SELDOM = {"lost_queries", "rechecked_queries", "logged_queries"}  # told where there are any


def head(facts: Facts) -> Html:
    """The title and the verdict."""
    badge = element("span", state_of(facts), class_=f"badge {light_of(facts)}")
    by = f"planned by {facts.planner}" if facts.planner else "planner unknown"
    title = element("h1", facts.title)
    about = element("p", f"{by}, seed {brief(facts.whole('seed'))} ", badge, class_="about")
    parts = [title, about, element("p", verdict(facts), class_="verdict")]
    if ending(facts):
        parts.append(element("p", ending(facts), class_="ending"))
    if resuming(facts):
        command = element("pre", element("code", broken(resuming(facts))), tabindex="0")
        parts += [element("p", "This command goes on with it:", class_="ending"), command]
    return element("header", *parts, id="verdict")


def missing(facts: Facts) -> Html:
    """What could not be read, one line each; nothing if all could."""
    if not facts.missing:
        return Html("")
    lines = [element("li", text) for text in dict.fromkeys(facts.missing)]
    return element(
        "section",
        element("h2", "What is missing"),
        element("ul", *lines),
        id="missing",
        class_="notice",
        aria_label="What is missing",
    )


def figures(facts: Facts) -> Html:
    """The four numbers that people look for."""
    found, how = best_known(facts)
    c = facts.certificate
    gap = c.gap if c is not None else None
    exact = found.gap if found is not None else None
    items = [
        ("value", said(found.value if found else None), how or "not known"),
        (
            "in " + facts.reward_name,
            amount(found.returns.value if found else None),
            "expected discounted sum",
        ),
        (
            "gap to the optimum",
            said(exact if exact is not None else gap),
            "exact" if exact is not None else "at most, certified" if gap is not None else "not known",
        ),
        ("queries", _count(facts.whole("queries")), f"{_seconds(facts.number('seconds'))} of planning"),
    ]
    cells = [
        joined([element("dt", name), element("dd", element("b", number), element("small", note))])
        for name, number, note in items
    ]
    return element("dl", *(element("div", cell) for cell in cells), class_="figures")


def certificate(facts: Facts) -> Html:
    """The bounds, the policy and what it is compared with, on one axis."""
    rows = spans(facts)
    c = facts.certificate
    parts: list[object] = []
    if rows:
        proved = c is not None and c.upper is not None and c.holds is not False and not is_vacuous(c)
        band = (c.lower, c.upper) if proved and c is not None and c.upper is not None else None
        heads = ("", "normalised value", "value", f"in {facts.reward_name}")
        parts.append(span_picture(rows, heads, band))
        parts.append(element("p", _reading(facts), class_="reading"))
    else:
        parts.append(absent("Nothing in this folder says what the policy is worth."))
    if c is None:
        lost = (
            "The certificate cannot be read."
            if facts.unread(CERTIFICATE_FILE)
            else "There is no certificate."
        )
        parts.append(absent(lost, "Make one", command_for("certify", facts)))
    else:
        parts.append(element("p", c.sentence))
        assumed = element("ul", *(element("li", text) for text in c.assumes))
        parts.append(folded("What the certificate assumes", assumed, unfolded=True))
    return section("certificate", "How good the policy is", *parts)


def spans(facts: Facts) -> list[Span]:
    """The rows of the picture, those that are known."""
    c, e, r = facts.certificate, facts.evaluation, facts.reality
    exact = e if e is not None and e.exact else c.exact if c is not None else None
    units = facts.units

    def row(name: str, value: float | None, style: str, low: float | None = None, high: float | None = None,
            note: str = "") -> Span:  # fmt: skip
        own = "\u2013" if units is None or value is None else amount(units[0] + (units[1] - units[0]) * value)
        return Span(
            name=name, value=value, low=low, high=high, style=style, cells=(said(value), own), note=note
        )

    def found(name: str, what: Evaluation | None, style: str) -> list[Span]:
        if what is None:
            return []
        note = "exact" if what.exact else f"{what.rollouts:,} rollouts, {what.confidence:.0%} interval"
        return [row(name, what.value, style, None if what.exact else what.low, what.high, note)]

    rows = []
    if c is not None and c.upper is not None:
        note = "no policy is worth more" if c.holds else "not proved: an assumption was found false"
        note = "says nothing: it is the highest reward at every step" if is_vacuous(c) else note
        rows.append(row("upper bound", c.upper, "upper", note=note)._replace(outside=is_vacuous(c)))
    if exact is not None and exact.optimum is not None:
        rows.append(row("optimum", exact.optimum, "optimum", note="exact"))
    rows += found("the policy", e if e is not None else exact, "policy")
    if r is not None:
        rows += found("the policy, as it was rolled out", r.earned, "policy")
        if r.believed is not None:
            rows.append(row("what the planner believes", r.believed, "believed"))
    if c is not None:
        rows.append(row("lower bound", c.lower, "lower", note="the policy is worth at least this"))
    base = facts.baseline or (r.baseline if r is not None else None)
    rows += found(f"baseline: {facts.text('baseline')}".removesuffix(": "), base, "baseline")
    if exact is not None and exact.uniform is not None:
        rows.append(row("uniform policy", exact.uniform, "uniform", note="exact"))
    elif r is not None:
        rows += found("uniform policy", r.uniform, "uniform")
    return rows


def trajectories(facts: Facts) -> Html:
    """The sample of trajectories: each coordinate and the rewards over steps."""
    name, title = "trajectories", "Trajectories under the policy"
    sample = facts.sample
    if sample is None or not sample.trajectories:
        lost = "No trajectories were drawn."
        command = command_for("report", facts, "--queries 1000")
        return section(name, title, absent(lost, "Draw some", command))
    rows = sample.trajectories
    D = len(rows[0].states[0])
    names = facts.names("state", D)
    until = _drawn(facts)
    panels = []
    for i, coordinate in enumerate(names[:_COLUMNS]):
        lines = [_walk(k, [s[i] for s in t.living[: until + 1]]) for k, t in enumerate(rows)]
        if moves([v for line in lines for v in line.y]):
            panels.append(line_chart(coordinate, "step", lines, legend=False))
    rewards = [_walk(k, _sums(t.rewards[:until])) for k, t in enumerate(rows)]
    panels.append(line_chart(f"sum of {facts.reward_name} so far", "step", rewards))
    ended, steps = sum(t.ended for t in rows), max(len(t.actions) for t in rows)
    end = "all of them came to an end" if ended == len(rows) else f"{ended or 'none'} of them came to an end"
    intro = (
        f"{len(rows)} trajectories from drawn initial states, {sample.queries:,} queries in all; {end} within "
        f"{steps:,} steps. Rewards are added up without discount."
    )
    if steps > until:
        intro += f" The first {until:,} steps are drawn: by the discount, all later ones weigh less than {_LITTLE:.0%}."
    actions = facts.names("action", 1 + max((a for t in rows for a in t.actions), default=0))
    cells = [
        [k, step, *t.states[step], actions[t.actions[step]], t.rewards[step]]
        for k, t in enumerate(rows)
        for step in range(min(len(t.actions), until))
    ]
    heads = ["trajectory", "step", *names, "action", "reward"]
    fit = cells[: _CELLS // len(heads)]
    what = (
        f"the {len(cells):,} steps" if fit == cells else f"the first {len(fit):,} of the {len(cells):,} steps"
    )
    data = folded(f"The numbers: {what} that are drawn", table(heads, fit, caption="trajectories"))
    return section(
        name, title, element("p", intro, class_="reading"), element("div", *panels, class_="panels"), data
    )


def settings(facts: Facts) -> Html:
    """Settings, versions and the command that makes the run again."""
    record, name, title = facts.record, "settings", "Settings, and how to repeat the run"
    if not record:
        return section(name, title, absent("run.json is missing, and with it the settings."))
    rows = [
        (word, plain(record[key]))
        for key, word in _TOLD.items()
        if record.get(key) not in (None, "") and (record[key] != 0 or key not in _SELDOM)
    ]
    own = [(key, plain(value)) for key, value in facts.settings.items()]
    machine = record.get("machine")
    made = [("coreplan", plain(record.get("coreplan")))]
    made += [(k, plain(v)) for k, v in machine.items()] if isinstance(machine, dict) else []
    command = [element("pre", element("code", broken(command_of(facts))), tabindex="0")]
    if problem_word(facts) == "FILE.py:NAME":
        command.append(
            element(
                "p",
                "Put the file and the name of your problem for FILE.py:NAME. "
                "The run does not know where it was read from.",
                class_="reading",
            )
        )
    return section(
        name,
        title,
        *command,
        element(
            "div",
            _pairs("The run", rows),
            _pairs(f"Settings of {facts.planner or 'the planner'}", own),
            _pairs("Versions", made),
            class_="columns",
        ),
    )


def _pairs(title: str, rows: Sequence[tuple[str, str]]) -> Html:
    if not rows:
        return Html("")
    body = [element("tr", element("th", k, scope="row"), element("td", v)) for k, v in rows]
    return element("div", element("h3", title), element("table", element("tbody", *body), class_="pairs"))


def _reading(facts: Facts) -> str:
    text = "Values are normalised: 1 is the highest reward at every step, 0 the lowest."
    c = facts.certificate
    if c is not None and c.gap is not None:
        text += (
            " The shaded band is certified: the policy is worth no less than its left edge, and no policy more than its "
            "right, as far as the features describe the process exactly."
            if not is_vacuous(c)
            else " The upper bound is outside of the picture."
        )
    return text


def _drawn(facts: Facts) -> int:
    """How many steps of a trajectory are worth drawing: by the discount, what comes later hardly counts."""
    discount = facts.number("discount") or 0.0
    return (
        max(_SHORTEST, math.ceil(math.log(_LITTLE) / math.log(discount))) if 0.0 < discount < 1.0 else 10**9
    )


def _walk(k: int, values: Sequence[float]) -> Line:
    """A trajectory over steps. The first stands out, so that one can be followed."""
    return Line(f"trajectory {k}", list(range(len(values))), values, k, faint=k > 0)


def broken(command: str) -> str:
    """A long command on several lines of a shell, an option together with its value."""
    pieces: list[str] = []
    for word in shlex.split(command):
        if word.startswith("--") or not pieces:
            pieces.append(shlex.quote(word))
        else:
            pieces[-1] += " " + shlex.quote(word)
    lines = pieces[:1]
    for piece in pieces[1:]:
        if len(lines[-1]) + len(piece) < _WIDTH:
            lines[-1] += " " + piece
        else:
            lines.append(piece)
    return " \\\n    ".join(lines)


def _sums(rewards: Sequence[float]) -> list[float]:
    total, sums = 0.0, [0.0]
    for reward in rewards:
        total += reward
        sums.append(total)
    return sums


def _count(value: int | None) -> str:
    return "\u2013" if value is None else f"{value:,}"


def _seconds(value: float | None) -> str:
    return "unknown time" if value is None else f"{value:.3g} s"
