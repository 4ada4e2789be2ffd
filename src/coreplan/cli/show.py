"""Everything that is printed as a table. A command imports it only when it has something to show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from ..base import known
from .output import text_of, write

if TYPE_CHECKING:
    from ..bench import Cell, Results
    from ..judge import Certificate, Report
    from ..planning import Plan
    from ..problem import Problem
    from ..simulate import LogReport
    from ..theory import Advice, Row


def _print(*things: Any) -> None:
    """Print tables and texts on stdout. They are rendered first, so that one place writes them, and knows if it cannot."""
    console = Console(markup=False, emoji=False, highlight=False)  # brackets in a name are not markup
    with console.capture() as rendered:
        for thing in things:
            tight = isinstance(thing, _Words) and thing.show_header and thing.breaks_words(console)
            console.print(thing.stacked() if tight else text_of(thing))
    write(rendered.get().removesuffix("\n"))


class _Words(Table):
    """A table whose texts are printed word for word."""

    def add_row(self, *cells: Any, **style: Any) -> None:
        super().add_row(*map(text_of, cells), **style)
        for column in self.columns:  # those of a table without headers are new
            column.overflow = "fold"  # no word is ever cut off

    def breaks_words(self, console: Console) -> bool:
        """Whether the terminal is so narrow that words of this table would be broken."""
        return Measurement.get(console, console.options.update_width(10_000), self).minimum > console.width

    def stacked(self) -> Text:
        """The same for such a terminal: the cells of a row below each other, each behind its header."""
        heads = [str(column.header) for column in self.columns]
        lines = [] if self.title is None else [Text(str(self.title), "italic"), Text()]
        for cells in zip(*(column.cells for column in self.columns), strict=True):
            for k, (head, cell) in enumerate(zip(heads, cells, strict=True)):
                text = cell if isinstance(cell, Text) else Text(str(cell))
                if text:
                    lines.append(text if not head or k == 0 else Text.assemble(f"{head}: ", text))
            lines.append(Text())
        return Text("\n").join(lines[:-1])


def _table(*headers: str, title: str | None = None, show_header: bool = True) -> _Words:
    columns = [Column(text_of(header)) for header in headers]
    return _Words(*columns, title=text_of(title), show_header=show_header)


def listing(kind: str, settings: str, rows: Iterable[tuple[str, str, str]]) -> None:
    """A list of problems or planners: name, settings, and what it is."""
    table = _table(kind, settings, "what it is")
    table.columns[0].no_wrap = True  # names are there to be copied
    for row in rows:
        table.add_row(*row)
    _print(table)


def plan(problem: Problem, record: Mapping[str, Any], result: Plan) -> None:
    """A finished plan: value, gap, queries, time, and how it ended."""
    table = _table(
        title=f"{record['problem']} by {record['planner']}, seed {record['seed']}", show_header=False
    )
    if result.picked:
        table.add_row("picked", result.picked)
    value = known(record["value"])
    if "value_low" in record:
        value += (
            f"  (95% interval {known(record['value_low'])} to {known(record['value_high'])}, by rollouts)"
        )
    table.add_row("value", value)
    if problem.reward_range != (0.0, 1.0) and record["value"] is not None:
        units = problem.to_reward_units(record["value"])
        table.add_row(
            f"in {problem.reward_name or 'your rewards'}",
            f"{units:.6g} per step, {problem.to_return_units(record['value']):.6g} discounted in total",
        )
    for name in ("optimum", "uniform", "gap", "sub"):
        if record[name] is not None:
            table.add_row(name, known(record[name]))
    for name, found in (
        ("earned", result.earned),
        ("uniform earned", result.uniform),
        ("baseline earned", result.baseline),
    ):
        if found is not None:
            rule = f"{result.baseline_name}: " if name == "baseline earned" and result.baseline_name else ""
            range_ = f"{known(found.low)} to {known(found.high)}, {found.rollouts} rollouts"
            table.add_row(name, f"{rule}{known(found.value)}  ({'exact' if found.exact else range_})")
    if result.believed is not None:
        table.add_row("believed", known(result.believed))
    spent = f", {result.reality_queries:,} of them for rollouts" if result.reality_queries else ""
    spent += f"; {result.lost_queries:,} more were paid and lost" if result.lost_queries else ""
    if result.rechecked_queries:
        spent += f"; {result.rechecked_queries:,} more compared the simulator with that of the start"
    if result.logged_queries:
        spent += f"; {result.logged_queries:,} were answered from the log"
    table.add_row("queries", f"{record['queries']:,}{spent} (and {record['initial_draws']:,} initial states)")
    planning = record["queries"] - result.reality_queries
    speed = f", {planning / record['seconds']:,.0f} queries/s" if record["seconds"] else ""
    table.add_row(
        "time", f"{record['seconds']:.2f} s planning{speed}; {record['warmup_seconds']:.1f} s compiling"
    )
    table.add_row(
        "policy",
        f"{len(result.policy.theta)} numbers" + (f" in {record['policy']}" if record["policy"] else ""),
    )
    if record.get("report"):
        spent = f", with {record['report_queries']:,} more queries" if record["report_queries"] else ""
        table.add_row("report", f"{record['report']}{spent}")
    _print(table)
    _print(result.sentence)
    if result.no_verdict:
        _print(f"What the policy earns: {result.no_verdict}")


def log(report: LogReport) -> None:
    """What a query log holds, and what in it is no answer."""
    table = _table(title=report.path, show_header=False)
    table.add_row("problem", f"{report.problem}, seed {report.seed}")
    table.add_row("format", f"version {report.version}")
    lanes = ", ".join(f"{count:,} {name}" for name, count in sorted(report.lanes.items()))
    table.add_row(
        "answers", f"{report.queries:,} in {report.records:,} records" + (f" ({lanes})" if lanes else "")
    )
    table.add_row("bytes", f"{report.bytes:,}")
    if report.damage:
        table.add_row(
            "damaged",
            f"{report.damage:,} bytes, the first at byte {report.damaged_at:,}; they are left as they are",
        )
    if report.torn:
        table.add_row("torn", f"{report.torn:,} bytes: half a record at the end, which the next run drops")
    if report.twice:
        table.add_row("twice", f"{report.twice:,} answers are there more than once")
    _print(table)


def action(record: Mapping[str, Any], state: str) -> None:
    """What a policy does in one state: the probability and the score of every action."""
    names, likely = record["names"]["action"], max(record["probabilities"])
    table = _table(
        "action", *["name"] * bool(names), "probability", "Q", title=f"{record['problem']}, state {state}"
    )
    for a, (p, q) in enumerate(zip(record["probabilities"], record["q_values"], strict=True)):
        known = [names[a] if a < len(names) else ""] if names else []
        score = "forbidden" if q is None else f"{q:.6g}"
        table.add_row(str(a), *known, f"{p:.4g}", score, style="bold" if p == likely else None)
    _print(table)


def certificate(c: Certificate) -> None:
    """Both bounds, the gap, and what they assume."""
    table = _table(title=c.title, show_header=False)
    for name, text in c.rows:
        alarming = name == "gap at most" and c.gap is None
        table.add_row(name, Text(text, "red") if alarming else text)
    _print(table)
    _print(c.sentence)


def report(problem: str, found: Report) -> None:
    """The assumptions: a light, a number and advice per row."""
    table = _table("", "what", "value", "verdict", title=f"{problem}: {found.queries:,} queries")
    for row in found.rows:
        colour = {"amber": "yellow", "grey": "bright_black"}.get(row.light, row.light)
        table.add_row(Text(row.light, colour), row.name, known(row.value), row.verdict)
    _print(table)


def advice(problem: str, found: Advice) -> None:
    """Theorem 1, term by term."""
    table = _table("", "best split", "the paper's split", title=f"Theorem 1 on {problem}")
    for name, best, paper in found.rows():
        table.add_row(name, best, paper)
    _print(table)
    _print(found.sentence)


def claims(rows: Sequence[Row]) -> None:
    """The paper's claims, then ours, and how many hold."""
    for part, title in (("paper", "The paper's claims"), ("ours", "Claims of our own")):
        table = _table("claim", "label", "", "bound", "measured", "holds", title=title)
        for row in rows:
            if row.part == part:
                mark = Text("yes", "green") if row.holds else Text("NO", "red")
                numbers = (f"{row.bound:.6g}", f"{row.measured:.6g}")
                table.add_row(row.claim, row.label, row.relation, *numbers, mark)
        if table.row_count:
            _print(table)
    _print(f"{sum(r.holds for r in rows)} of {len(rows)} claims hold.")


def compared(found: Results) -> None:
    """For each problem a row per planner and a column per budget: medians and quartiles over seeds, or why there is none."""
    cells, budgets = found.cells(), [f"{budget:,}" for budget in found.budgets]
    for problem in found.problems:
        here = {(c.planner, f"{c.budget:,}"): c for c in cells if c.problem == problem}
        what = "sub" if any(c.what == "sub" for c in here.values()) else "value"
        table = _table(
            "planner", *budgets, "seconds", "MB", title=f"{problem}: {what}, median (quartiles) over seeds"
        )
        for name in found.planners:
            row = [here.get((name, budget)) for budget in budgets]
            said = [_cell(cell, row[k - 1] if k else None) for k, cell in enumerate(row)]
            last = next((cell for cell in reversed(row) if cell is not None and cell.what), None)
            table.add_row(
                name, *said, *(("", "") if last is None else (f"{last.seconds:.2g}", f"{last.memory:.0f}"))
            )
        _print(table)
    means = _table(
        "planner", "tasks", "interquartile mean of sub (95% interval)", title="All problems and budgets"
    )
    for one in found.overall() if any(c.what == "sub" for c in cells) else ():
        means.add_row(one.planner, str(one.tasks), "" if one.mean is None else str(one.mean))
    if means.row_count:
        _print(means)


def _cell(cell: Cell | None, before: Cell | None) -> str:
    """The words of a cell; the same sentence is not said twice in a row."""
    if cell is None:
        return ""
    if not cell.what and before is not None and before.sentence == cell.sentence:
        return "the same"
    return str(cell) if cell.what else f"{cell.statuses[0]}: {cell.sentence}"


def throughput(figures: Mapping[str, float]) -> None:
    """The figures of a benchmark, by name."""
    table = _table("figure", "value", title="throughput")
    for name, value in figures.items():
        table.add_row(name, f"{value:,.4g}")
    _print(table)
