"""`Facts`: all that a page says of one run, from its folder, and what is missing there.

A run may be unfinished, damaged or old. Each file is read by itself; one that cannot be read is named in `missing`, and the
page shows the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ..base import CoreplanError, FileError, FloatArray, as_path, checks, files
from ..core import CoreSet
from ..judge import Certificate, Evaluation, Reality, Report
from ..policy import POLICY_FILE, SoftmaxPolicy, load_policy, with_own_features
from ..problem import ZOO, Problem, make
from ..run import (
    CERTIFICATE_FILE,
    CHECK_FILE,
    CHECKPOINT_FILE,
    EVALUATION_FILE,
    REALITY_FILE,
    RUN_FILE,
    SAMPLE_FILE,
    TRACE_FILE,
    RunFolder,
    Trace,
    core_of,
    read_record,
)
from .sample import Sample

T = TypeVar("T")


@dataclass
class Facts:
    """What is known of a run; None or empty where it is not. `missing` says why, one sentence each."""

    name: str  # of the run: its folder's
    path: str = "RUN"  # of its folder, as a command names it
    record: dict[str, Any] = field(default_factory=dict)  # run.json
    given: str = ""  # how the problem was named on the command line, where it is not built in
    policy: SoftmaxPolicy | None = None
    problem: Problem | None = None  # with the features of its policy
    trace: Trace | None = None
    core: CoreSet | None = None
    weights: FloatArray | None = None  # [m], of the core pairs; None: the planner has none
    evaluation: Evaluation | None = None
    baseline: Evaluation | None = None
    certificate: Certificate | None = None
    reality: Reality | None = None
    check: Report | None = None
    sample: Sample | None = None
    missing: list[str] = field(default_factory=list)
    running: bool = False  # whether this is a view of a run that goes on

    def text(self, name: str) -> str:
        """A text of the record; empty if there is none."""
        value = self.record.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> float | None:
        """A number of the record; None if there is none."""
        try:
            return checks.number(self.record, name)
        except (KeyError, ValueError):
            return None

    def whole(self, name: str) -> int | None:
        """A whole number of the record that is not negative; None if there is none."""
        try:
            return checks.whole(self.record, name)
        except (KeyError, ValueError):
            return None

    @property
    def queries(self) -> int | None:
        """The queries of the run; of one that did not come to its end, those up to the last row of its trace."""
        told = self.whole("queries")
        return (
            int(self.trace["queries"][-1])
            if not told and self.trace is not None and len(self.trace)
            else told
        )

    @property
    def stopped(self) -> bool:
        """Whether the run did not come to its end."""
        return not self.running and self.text("status") in ("running", "failed")

    def unread(self, file: str) -> bool:
        """Whether there is such a file in the folder, which cannot be read."""
        return (self.folder / file).exists() and any(file in text for text in self.missing)

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(self.path)

    @property
    def planner(self) -> str:
        """The name of the planner."""
        return self.text("planner")

    @property
    def title(self) -> str:
        """The name of the problem."""
        return self.text("problem") or "a run"

    @property
    def settings(self) -> dict[str, Any]:
        """The planner's settings."""
        value = self.record.get("settings")
        return value if isinstance(value, dict) else {}

    @property
    def units(self) -> tuple[float, float] | None:
        """The user's own returns for the normalised values 0 and 1."""
        for found in (self.evaluation, None if self.reality is None else self.reality.earned):
            if found is not None:
                return found.units
        try:
            (low, high), gamma = self.record["reward_range"], checks.number(self.record, "discount", 0.0, 1.0)
            return float(low) / (1.0 - gamma), float(high) / (1.0 - gamma)
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            return None

    @property
    def reward_name(self) -> str:
        """What a return is counted in."""
        name = self._named("reward")
        return name if isinstance(name, str) and name else "your rewards"

    def _named(self, kind: str) -> Any:
        """The names of one kind, from the record, or from the problem where the record is older than they are."""
        names = self.record.get("names")
        if not isinstance(names, dict) and self.problem is not None:
            names = self.problem.names.as_dict()
        return names.get(kind) if isinstance(names, dict) else None

    def names(self, kind: str, count: int) -> list[str]:
        """A name for each of `count` actions (kind "action") or coordinates of a state ("state")."""
        told = self._named(kind)
        told = [n for n in told if isinstance(n, str)][:count] if isinstance(told, list) else []
        form = "action {}" if kind == "action" else "x{}"
        if kind == "state" and count == 1 and not told:
            return ["state"]
        return [*told, *(form.format(i) for i in range(len(told), count))]


def facts_of(folder: str | Path, problem: Problem | None = None, *, given: str = "") -> Facts:
    """What is known of the run in a folder; FileError if there is no run at all."""
    path: Path = as_path("write_report", folder=folder)
    path = path.parent if path.name in (POLICY_FILE, RUN_FILE) else path
    if not RunFolder(path).used:
        raise FileError(
            f"{path} does not hold a run: there is no {RUN_FILE} in it. Give the folder of `coreplan plan --out`."
        )
    given = "" if given.partition(":")[0] in ZOO else given
    facts = Facts(path.name or str(path), str(path), given=given)
    read = Reader(path, facts.missing)
    facts.record = read(RUN_FILE, read_record) or {}
    if not facts.record:
        facts.missing.append(f"{RUN_FILE} says nothing about the run: its settings are not known.")
    facts.problem = problem if problem is not None else _built_in(facts)
    facts.policy = _policy(path, facts)
    facts.trace = read(TRACE_FILE, lambda file: Trace.from_csv(files.read_text(file)))
    if facts.trace is None and facts.policy is None:
        facts.trace = read(CHECKPOINT_FILE, lambda file: RunFolder(file.parent).stored_trace())
    facts.evaluation = read(EVALUATION_FILE, lambda file: Evaluation.from_dict(files.read_json(file)))
    facts.baseline = read(EVALUATION_FILE, _baseline, tell=False)
    facts.certificate = read(CERTIFICATE_FILE, lambda file: Certificate.from_dict(files.read_json(file)))
    facts.reality = read(REALITY_FILE, lambda file: Reality.from_dict(files.read_json(file)))
    facts.check = read(CHECK_FILE, lambda file: Report.from_dict(files.read_json(file)))
    facts.sample = read(SAMPLE_FILE, lambda file: Sample.from_dict(files.read_json(file)))
    if facts.sample is not None and facts.policy is not None and not facts.sample.of(facts.policy):
        facts.missing.append(f"{SAMPLE_FILE} is of an earlier policy of this folder, and is not shown.")
        facts.sample = None
    _take_core(path, facts)
    if facts.problem is not None and facts.policy is not None and facts.policy.features is not None:
        facts.problem = with_own_features(facts.problem, facts.policy)
    return facts


class Reader:
    """Reads files of a folder; what cannot be read is told in `missing`, and what is not there is not."""

    def __init__(self, path: Path, missing: list[str]) -> None:
        self.path, self.missing = path, missing

    def __call__(self, name: str, read: Callable[[Path], T], tell: bool = True) -> T | None:
        if not (self.path / name).exists():
            return None
        try:
            return read(self.path / name)
        except (CoreplanError, KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            if tell:
                why = error if isinstance(error, CoreplanError) else f"{name} is damaged: {error}."
                self.missing.append(str(why))
            return None


def _built_in(facts: Facts) -> Problem | None:
    name = facts.text("problem")
    if name.partition(":")[0] not in ZOO:
        return None
    try:
        return make(name)
    except CoreplanError as error:
        facts.missing.append(f"The problem cannot be built: {error}")
        return None


def _policy(path: Path, facts: Facts) -> SoftmaxPolicy | None:
    """The policy, with its features where they are known."""
    if not (path / POLICY_FILE).exists():
        facts.missing.append(f"There is no {POLICY_FILE}: the run has not come to an end.")
        return None
    try:
        return load_policy(path, facts.problem)
    except CoreplanError as error:
        facts.missing.append(str(error))
    try:
        return SoftmaxPolicy.load(path / POLICY_FILE)  # its numbers are known nevertheless
    except CoreplanError:
        return None


def _baseline(file: Path) -> Evaluation | None:
    found = files.read_json(file).get("baseline")
    return None if found is None else Evaluation.from_dict(found)


def _take_core(path: Path, facts: Facts) -> None:
    """The core pairs that the run used or chose, and how its planner weighs them."""
    if facts.problem is None:
        return
    try:
        core = core_of(path, facts.problem)
        if core is None and facts.problem.core_pairs is not None and facts.record.get("core") is not None:
            core = CoreSet.of(facts.problem)
        facts.core = core
        weights = RunFolder(path).weights()
    except CoreplanError as error:
        facts.missing.append(str(error))
        return
    if core is not None and weights is not None and len(weights) == len(core):
        facts.weights = weights
