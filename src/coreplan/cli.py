"""The command line: thin, public API only."""

from __future__ import annotations

import inspect
import json
import math
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from . import __version__
from .base import CoreplanError, FileError, InputError, check_seed, require_count
from .bench import throughput
from .core import CORE_FILE, CoreSet
from .judge import Certificate, Evaluation
from .judge import certify as run_certify
from .judge import check as check_assumptions
from .planners import PLANNERS, Status, options
from .planning import Plan, default_planner, planner_by_name
from .planning import plan as run_plan
from .policy import POLICY_FILE, load_policy
from .problem import ZOO, Problem, locate, parse_value
from .run import RunFolder, core_of
from .theory import advise
from .theory import verify as verify_claims

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)
bench = typer.Typer(no_args_is_help=True, help="Benchmarks: ratios within one run.")
app.add_typer(bench, name="bench")
console = Console()


@app.callback(invoke_without_command=True)
def _top(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Plan in large Markov decision processes: a simulator and features in, one compact policy out."""
    if version:
        print(__version__)
        raise typer.Exit


@app.command()
def problems() -> None:
    """The built-in problems and their parameters."""
    table = Table("problem", "parameters (defaults)", "what it is")
    for name, factory in ZOO.items():
        options = inspect.signature(factory).parameters.values()
        table.add_row(name, ", ".join(f"{p.name}={p.default}" for p in options), _first_line(factory))
    console.print(table)


@app.command()
def planners() -> None:
    """The planners and their settings."""
    table = Table("planner", "settings (--set name=value)", "what it is")
    for name, planner in PLANNERS.items():
        table.add_row(name, ", ".join(options(name)), _first_line(planner))
    console.print(table)


@app.command()
def plan(
    problem: Annotated[
        str, typer.Argument(help="A built-in name, path/to/file.py:name or package.module:name.")
    ],
    planner: Annotated[
        str | None,
        typer.Option(help="See `coreplan planners`; by default plug-in, or grow where there is no core set."),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            help="Simulator queries to spend at most; by default a million (grow: 100,000, sampled-lp: 10,000), with "
            "--epsilon ten million."
        ),
    ] = None,
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="Or the accuracy to stop at: 0.01, or 1% of what the optimum is above uniform; by default 1% with plug-in."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same bits.")] = 0,
    out: Annotated[
        str | None, typer.Option(help="A folder for the policy, the trace and checkpoints.")
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A planner's setting, name=value.")] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on from the folder's checkpoint; what is not given is as it was."),
    ] = False,
    rollouts: Annotated[
        int | None, typer.Option(help="Rollouts to estimate the value where it is not exact; 0: none.")
    ] = None,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify",
            help="Certify the policy, with 50,000 queries more or as many as needed.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")] = False,
) -> None:
    """Plan a problem: print the policy's value, gap and queries, and save the policy with --out."""
    if resume and out is None:
        raise InputError("`--resume` needs `--out DIR`, the folder of the run to go on with.")
    require_count("plan", least=2 if rollouts else 0, rollouts=rollouts)
    # What a user's own code prints must not mix with the one JSON object.
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        where = locate(problem)
        started = RunFolder(Path(out)).started() if resume and out else None
        name = planner or (started.planner if started else default_planner(where).name)
        chosen = planner_by_name(name, where, _settings(set_ or []), started)
        result = run_plan(
            where, planner=chosen, budget=budget, epsilon=epsilon, seed=seed, out=out, resume=resume,
            progress=False if as_json else None, evaluate=True if rollouts is None else rollouts, certify=certify,
        )  # fmt: skip
    certificate, refused, planner = result.certificate, result.refused, chosen.name
    judged = result.evaluation
    record = _record(where, planner, seed, out, result, judged)
    if certificate:
        record["certificate"] = certificate.as_dict()
    if refused:
        print(f"No certificate: {refused}", file=sys.stderr)
    if as_json:
        print(json.dumps(record, allow_nan=False))
    else:
        _show(where, record, result)
        if certificate:
            _show_certificate(certificate)
    if result.status is Status.INTERRUPTED:
        raise typer.Exit(130)


@app.command()
def tune(
    problem: Annotated[
        str, typer.Argument(help="A built-in name, path/to/file.py:name or package.module:name.")
    ],
    epsilon: Annotated[float | None, typer.Option(help="Accuracy that Theorem 1 shall guarantee.")] = None,
    budget: Annotated[int | None, typer.Option(help="Or the queries to spend.")] = None,
    D: Annotated[float | None, typer.Option("--D", help="Radius of theta's ball.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")] = False,
) -> None:
    """Theorem 1's hyperparameters for an accuracy or a budget, term by term, with the bill."""
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        advice = advise(locate(problem), epsilon=epsilon, budget=budget, D=D)
    if as_json:
        print(json.dumps(advice.as_dict(), allow_nan=False))
        return
    table = Table("", "best split", "the paper's split", title=f"Theorem 1 on {problem}")
    for name, best, paper in advice.rows():
        table.add_row(name, best, paper)
    console.print(table)
    console.print(advice.sentence)


@app.command()
def check(
    problem: Annotated[
        str, typer.Argument(help="A built-in name, path/to/file.py:name or package.module:name.")
    ],
    core: Annotated[str | None, typer.Option(help="A core set: a file core.npz, or a run's folder.")] = None,
    queries: Annotated[int, typer.Option(help="Simulator queries to spend.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Same seed, same bits.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")] = False,
) -> None:
    """What holds of the paper's assumptions, measured: a light, a number and advice a row."""
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        pairs = CoreSet.load(Path(core) / CORE_FILE if Path(core).is_dir() else core) if core else None
        report = check_assumptions(locate(problem), pairs, queries=queries, seed=seed)
    if as_json:
        print(json.dumps(report.as_dict(), allow_nan=False))
        return
    table = Table("", "what", "value", "verdict", title=f"{problem}: {report.queries:,} queries")
    for row in report.rows:
        colour = {"amber": "yellow", "grey": "bright_black"}.get(row.light, row.light)
        table.add_row(f"[{colour}]{row.light}[/]", row.name, _number(row.value), escape(row.verdict))
    console.print(table)


@app.command()
def certify(
    run: Annotated[str, typer.Argument(help="The folder of a run (plan --out), or a policy's file.")],
    problem: Annotated[
        str | None, typer.Option(help="The problem, where it is not built in: path/to/file.py:name.")
    ] = None,
    queries: Annotated[int, typer.Option(help="Simulator queries to spend.")] = 50_000,
    confidence: Annotated[float, typer.Option(help="That both bounds hold.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Same seed, same bits.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")] = False,
) -> None:
    """How far a run's policy can be from the optimum: an interval from fresh queries, and what it assumes."""
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        where = locate(problem) if problem else None
        policy = load_policy(run, where)
        if where is None and policy.features is None:
            raise InputError(
                f"{run} does not name a built-in problem. Give `--problem path/to/file.py:name`, the one it was planned for."
            )
        where = where or locate(policy.problem_name)
        certificate = run_certify(
            where,
            core_of(Path(run), where),
            policy,
            queries=queries,
            confidence=confidence,
            seed=check_seed(seed),
        )
    if as_json:
        print(json.dumps({"problem": where.name} | certificate.as_dict(), allow_nan=False))
    else:
        _show_certificate(certificate)
    if not certificate.holds:
        raise typer.Exit(1)


@app.command()
def verify(
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list on stdout, nothing else.")] = False,
) -> None:
    """Every claim of the paper on small instances: bound, measured, holds or not."""
    rows = []
    table = Table("claim", "label in the paper", "", "bound", "measured", "holds")
    for row in verify_claims():
        rows.append(row)
        mark = "[green]yes[/]" if row.holds else "[red]NO[/]"
        table.add_row(row.claim, row.label, row.relation, f"{row.bound:.6g}", f"{row.measured:.6g}", mark)
    if as_json:
        print(json.dumps([row.as_dict() for row in rows], allow_nan=False))
    else:
        console.print(table)
        console.print(f"{sum(r.holds for r in rows)} of {len(rows)} claims hold.")
    if not all(row.holds for row in rows):
        raise typer.Exit(1)


@bench.command("throughput")
def bench_throughput(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the queries: a smoke test.")] = False,
) -> None:
    """Queries a second: the planner against a bare loop, compiled against NumPy, small against huge."""
    rows = throughput(quick)
    if as_json:
        print(json.dumps(rows))
        return
    table = Table("figure", "value", title="throughput")
    for name, value in rows.items():
        table.add_row(name, f"{value:,.4g}")
    console.print(table)


def _settings(items: list[str]) -> dict[str, Any]:
    settings = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals or not name:
            raise InputError(f"`--set {item}` is not of the form name=value, for example --set K=20.")
        settings[name] = parse_value(text)
    return settings


def _record(
    problem: Problem, planner: str, seed: int, out: str | None, result: Plan, judged: Evaluation | None
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "problem": problem.name,
        "planner": planner,
        "seed": seed,
        "queries": result.queries,
        "seconds": result.seconds,
        "warmup_seconds": result.warmup_seconds,
        "value": judged.value if judged else None,
        "optimum": judged.optimum if judged else None,
        "uniform": judged.uniform if judged else None,
        "gap": judged.gap if judged else None,
        "sub": judged.sub if judged else None,
        "status": result.status.value,
        "reason": result.reason,
        "policy": f"{out}/{POLICY_FILE}" if out else None,
        "initial_draws": result.initial_draws,
        "evaluation_queries": judged.queries if judged else 0,
    }
    if judged and not judged.exact:
        record |= {"value_low": judged.low, "value_high": judged.high}
    return record


def _show(problem: Problem, record: dict[str, Any], result: Plan) -> None:
    table = Table(
        title=f"{record['problem']} by {record['planner']}, seed {record['seed']}", show_header=False
    )
    value = _number(record["value"])
    if "value_low" in record:
        value += (
            f"  (95% interval {_number(record['value_low'])} to {_number(record['value_high'])}, by rollouts)"
        )
    table.add_row("value", value)
    if problem.reward_range != (0.0, 1.0) and record["value"] is not None:
        units = problem.to_reward_units(record["value"])
        table.add_row(
            "in your rewards", f"{units:.6g} a step, {units / (1 - problem.discount):.6g} discounted in all"
        )
    for name in ("optimum", "uniform", "gap", "sub"):
        table.add_row(name, _number(record[name]))
    table.add_row("queries", f"{record['queries']:,} (and {record['initial_draws']:,} initial states)")
    speed = f", {record['queries'] / record['seconds']:,.0f} queries/s" if record["seconds"] else ""
    table.add_row(
        "time", f"{record['seconds']:.2f} s planning{speed}; {record['warmup_seconds']:.1f} s compiling"
    )
    table.add_row(
        "policy",
        f"{len(result.policy.theta)} numbers" + (f" in {record['policy']}" if record["policy"] else ""),
    )
    console.print(table)
    console.print(result.sentence, markup=False)


def _show_certificate(c: Certificate) -> None:
    table = Table(title=f"certificate, {c.queries:,} queries, confidence {c.confidence:g}", show_header=False)
    table.add_row("lower <= value", _number(c.lower))
    table.add_row(
        "optimum <= upper", _number(c.upper) if c.holds else f"{_number(c.upper)} [red]not proved[/]"
    )
    table.add_row("gap at most", "[red]not known[/]" if c.gap is None else _number(c.gap))
    if c.exact is not None:
        table.add_row("exact value, optimum", f"{_number(c.exact.value)}, {_number(c.exact.optimum)}")
        table.add_row("exact gap", _number(c.exact.gap))
    for text in c.assumes:
        table.add_row("assumes", escape(text))
    console.print(table)
    console.print(c.sentence, markup=False)


def _number(value: float | None) -> str:
    return "not known" if value is None or math.isnan(value) else f"{value:.6f}"


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").splitlines()[0]


def main() -> None:
    """Entry point: an error on purpose is a paragraph on stderr, never a traceback."""
    try:
        app()
    except CoreplanError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, (InputError, FileError)) else 1)
    except MemoryError as error:
        print(f"error: Not enough memory: {error}. Lower K or the problem's size.", file=sys.stderr)
        sys.exit(2)
