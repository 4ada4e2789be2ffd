"""Loading a saved run: everything in its folder, as one value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ..base import FileError, as_path, checks, files
from ..core import CoreSet
from ..judge import Certificate, Evaluation, Reality
from ..planners import PLANNERS, Status, make_planner
from ..policy import POLICY_FILE, load_policy
from ..problem import Problem, make
from ..run import (
    CERTIFICATE_FILE,
    EVALUATION_FILE,
    REALITY_FILE,
    RUN_FILE,
    TRACE_FILE,
    Trace,
    core_of,
    read_record,
)
from .result import Plan

T = TypeVar("T")


def load_run(folder: str | Path, problem: Problem | None = None) -> Plan:
    """The result of `plan(..., out=folder)`, read from its folder: policy, trace, settings, evaluation, certificate, core.

    The features of a built-in problem are found by its name; for a problem of your own pass `problem`, otherwise the policy
    cannot act. Loading executes no code. Stored samples are not included: resume the run to get them.
    """
    given: Path = as_path("load_run", folder=folder)
    folder = given.parent if given.name == POLICY_FILE else given
    record = read_record(folder / RUN_FILE)
    if not record:
        raise FileError(f"{folder} does not hold a run: there is no run.json in it.")
    if record.get("status") in ("running", "failed"):
        raise FileError(
            f"The run in {folder} is not finished (status: {record['status']}). Resume it: plan(..., resume=True), --resume."
        )
    policy = load_policy(folder, problem)
    try:
        planner, settings = checks.text(record, "planner"), dict(record["settings"])
        later = {
            "reason": "",
            "no_verdict": "",
            "problem": "",
            "baseline": "",
            "picked": "",
            "helps": "",
            "next": "",
            "reality_queries": 0,
            "lost_queries": 0,
            "rechecked_queries": 0,
            "logged_queries": 0,
        } | record  # not in every version
        known = PLANNERS[planner].options() if planner in PLANNERS else []
        made = make_planner(planner, {k: settings[k] for k in known if k in settings}) if known else None
        return Plan(
            policy=policy, queries=checks.whole(record, "queries"), status=Status(record["status"]),
            trace=Trace.from_csv(files.read_text(folder / TRACE_FILE)),
            initial_draws=checks.whole(record, "initial_draws"), seconds=checks.number(record, "seconds", 0.0),
            warmup_seconds=checks.number(record, "warmup_seconds", 0.0), planner=made, settings=settings,
            reason=checks.text(later, "reason"), core=_core(folder, policy.problem_name, problem),
            evaluation=_read(folder / EVALUATION_FILE, Evaluation.from_dict),
            compared=_read(folder / EVALUATION_FILE, _compared), baseline_name=checks.text(later, "baseline"),
            picked=checks.text(later, "picked"), helps=checks.text(later, "helps"), next=checks.text(later, "next"),
            certificate=_read(folder / CERTIFICATE_FILE, Certificate.from_dict),
            reality=_read(folder / REALITY_FILE, Reality.from_dict),
            reality_queries=checks.whole(later, "reality_queries", 0, checks.whole(record, "queries")),
            no_verdict=checks.text(later, "no_verdict"), problem_name=checks.text(later, "problem"),
            lost_queries=checks.whole(later, "lost_queries", 0),
            rechecked_queries=checks.whole(later, "rechecked_queries", 0),
            logged_queries=checks.whole(later, "logged_queries", 0),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, OverflowError, OSError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            f"The run in {folder} cannot be read: {type(error).__name__}: {error}. Plan again."
        ) from None


def _compared(record: dict[str, Any]) -> Evaluation | None:
    """What was found about the problem's own baseline beside an evaluation."""
    found = record.get("baseline")
    return None if found is None else Evaluation.from_dict(found)


def _core(folder: Path, name: str, problem: Problem | None) -> CoreSet | None:
    """The core pairs that the run used or chose; the problem's own if the folder has no others."""
    if problem is None and name:
        problem = make(name)
    if problem is None:
        return None
    core = core_of(folder, problem)
    return core if core is not None or problem.core_pairs is None else CoreSet.of(problem)


def _read(path: Path, make: Callable[[dict[str, Any]], T]) -> T | None:
    if not path.exists():
        return None
    try:
        return make(files.read_json(path))
    except (ValueError, TypeError, KeyError, OverflowError, FileError) as error:
        raise FileError(f"{path} cannot be read ({error}). Delete it, or plan again.") from None
