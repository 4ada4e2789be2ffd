"""A run's folder: policy.npz, run.json, trace.csv, checkpoint.npz and core.npz. None is ever half written."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..base import (
    FeatureError,
    FileError,
    FloatArray,
    FolderLock,
    InputError,
    SimulatorError,
    checks,
    digest,
    files,
    restore,
    shown,
    state_of,
)
from ..core import CORE_FILE, CoreSet
from ..planners import PLANNERS, Planner, make_planner
from ..policy import POLICY_FILE, SoftmaxPolicy
from ..problem import Problem
from ..simulate import First, Kept
from .restored import check_counters, check_first, check_kept, check_visited, restored, sums_of
from .stepping import Run
from .trace import Trace

VERSION = 2
KIND = "coreplan checkpoint"
CHECKPOINT_FILE, RUN_FILE, TRACE_FILE = "checkpoint.npz", "run.json", "trace.csv"
EVALUATION_FILE, CERTIFICATE_FILE, REALITY_FILE = "evaluation.json", "certificate.json", "reality.json"
CHECK_FILE, SAMPLE_FILE, REPORT_FILE = "check.json", "sample.json", "report.html"  # for and by a report
_JUDGED = (EVALUATION_FILE, CERTIFICATE_FILE, REALITY_FILE, CHECK_FILE, SAMPLE_FILE, REPORT_FILE)
_LEFT_OUT = (None, "auto")  # values of settings that a planner fills in by itself


class Started(NamedTuple):
    """What the run in a folder was started with."""

    planner: str
    settings: dict[str, Any]  # as JSON types; arrays are replaced by a digest
    budget: int | None  # with what was reserved for rollouts of the policy
    reality: float  # the share that was reserved
    reality_queries: int  # spent on such rollouts so far

    def make(self) -> Planner:
        """The planner of that run; raises FileError if it is not built in."""
        if self.planner not in PLANNERS:
            raise FileError(
                f"The run was made by the planner '{self.planner}', which is not built in. Give it again: "
                "plan(..., planner=..., resume=True)."
            )
        known = PLANNERS[self.planner].options()
        with _damaged_settings():
            return make_planner(self.planner, {k: v for k, v in self.settings.items() if k in known})

    def fill_in(self, planner: Planner) -> Planner:
        """The planner with settings that were left out taken from that run, so that its budget may be raised."""
        given = planner.settings() if planner.name == self.planner else {}
        can = set(given) & set(planner.options())
        known = {k: v for k, v in self.settings.items() if k in can and not isinstance(v, dict)}  # no digests
        missing = {k: v for k, v in known.items() if given[k] in _LEFT_OUT}
        with _damaged_settings():
            return dataclasses.replace(planner, **missing)  # type: ignore[type-var]


@contextmanager
def _damaged_settings() -> Iterator[None]:
    """Settings of a checkpoint that no planner takes are damage, not a mistake of the caller's."""
    try:
        yield
    except (InputError, TypeError, OverflowError) as error:
        raise FileError(f"The checkpoint is damaged: its settings are those of no run ({error}).") from None


class Reserve(Protocol):
    """A part of the budget that is reserved for rollouts of the policy."""

    share: float
    budget: int  # the whole
    queries: int  # spent


class RunFolder:
    """The folder in which a run keeps its files. A checkpoint can be resumed only if `config` agrees."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock: FolderLock | None = None
        self.taken = False  # whether another run has its files here by now
        self.config: dict[str, Any] = {}
        self.facing: Reserve | None = None  # what is reserved for rollouts of the policy
        self.core_file: str | None = None  # the digest of the pairs in core.npz

    def started(self) -> Started | None:
        """What the run in this folder was started with; None if there is no checkpoint yet."""
        path = self.path / CHECKPOINT_FILE
        if not path.exists():
            return None
        _, meta = files.read_npz(path, KIND, VERSION)
        try:
            config, known = meta["config"], {"budget": None, "reality": 0.0, "reality_queries": 0} | meta
            budget = None if known["budget"] is None else checks.whole(known, "budget", 1)
            return Started(
                planner=checks.text(config, "planner"), settings=dict(config["settings"]), budget=budget,
                reality=checks.number(known, "reality", 0.0, 1.0),
                reality_queries=checks.whole(known, "reality_queries", 0, budget or checks.MOST),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(
                f"{path} is damaged: it does not say what it is a checkpoint of ({error})."
            ) from None

    @property
    def used(self) -> bool:
        """Whether a run has written here before."""
        return any(os.path.lexists(self.path / name) for name in (CHECKPOINT_FILE, RUN_FILE, POLICY_FILE))

    def require_own(self) -> None:
        """Raise FileError if there is a file with the name of a result in a folder where no run has written."""
        for name in () if self.used else (TRACE_FILE, CORE_FILE, *_JUDGED):
            if os.path.lexists(self.path / name):
                raise FileError(
                    f"{self.path / name} is no file of a run in this folder, and a run would overwrite it. Move it away, "
                    "or give another folder."
                )

    @property
    def blank(self) -> bool:
        """Whether the run that wrote here ended before its first answer: it holds nothing that anybody could lose."""
        if not self.used or (self.path / POLICY_FILE).exists():
            return False
        try:
            record = read_record(self.path / RUN_FILE)
            if record.get("status") not in (None, "running", "failed") or record.get("queries"):
                return False
            _, meta = files.read_npz(self.path / CHECKPOINT_FILE, KIND, VERSION)
            mark = meta["simulator"]
            return bool(mark["queries"] == 0 == mark["initial_draws"] and meta.get("kept") is None)
        except (FileError, KeyError, TypeError):  # what cannot be read is left to whoever wants to resume it
            return False

    def clear(self) -> None:
        """Take away what a run left here, so that another may begin."""
        for name in (CHECKPOINT_FILE, RUN_FILE, TRACE_FILE, CORE_FILE, *_JUDGED):
            (self.path / name).unlink(missing_ok=True)

    def regained(self) -> bool:
        """Whether the folder had to be made again, since somebody deleted it; FileError if it is not ours any more."""
        regained = self.lock is not None and self.lock.regained()
        if regained and (self.path / CHECKPOINT_FILE).exists():
            _, meta = files.read_npz(self.path / CHECKPOINT_FILE, KIND, VERSION)
            self.taken = any(_differences(meta["config"], self.config))
        if self.taken:
            raise FileError(f"{self.path} was deleted, and another run has been made there since.")
        return regained

    def save_checkpoint(self, run: Run) -> None:
        """Write everything that a resume needs into one file, atomically."""
        meta = {
            "format": KIND,
            "version": VERSION,
            "config": self.config,
            "planner_stream": state_of(run.rng),
            "simulator": run.simulator.mark(),
            "trace_columns": list(run.trace.columns),
            "sums": run.sums,
            "seconds": run.seconds,
            "budget": run.budget,
        }
        if self.facing is not None:
            share, spent = self.facing.share, self.facing.queries
            meta |= {"budget": self.facing.budget, "reality": share, "reality_queries": spent}
        state = run.planner.saved(run.loop.state)
        arrays = {f"state.{name}": np.asarray(value) for name, value in state._asdict().items()}
        for name, part in (("kept", run.simulator.kept), ("first", run.simulator.first)):
            if part is not None:
                arrays |= part.arrays
                meta[name] = part.meta
        files.write_npz(self.path / CHECKPOINT_FILE, {**arrays, "trace": run.trace.rows}, meta)

    def load_checkpoint(self, run: Run) -> None:
        """Restore a run from its checkpoint: state, trace, streams and counters."""
        path = self.path / CHECKPOINT_FILE
        arrays, meta = files.read_npz(path, KIND, VERSION)
        widened = self._compare(meta.get("config"))
        try:
            rows = arrays.pop("trace")
            kept, first = Kept.read(arrays, meta.get("kept")), First.read(arrays, meta.get("first"))
            trace, seconds = Trace.of(meta["trace_columns"], rows), checks.number(meta, "seconds", 0.0)
            state = restored(run.planner, run.loop.state, arrays)
            run.planner.check(state)
            check_visited(run, state)
            run.simulator.return_to(meta["simulator"])
            check_counters(run, state, trace, meta.get("budget"))
            check_kept(run, kept)
            check_first(run, first)
            if widened is not None:
                state = self._remapped(run.planner, state, *widened)
                _remap_values(meta["trace_columns"], rows, *widened)
                kept, first = kept and kept.rescaled(*widened), first and first.rescaled(*widened)
                trace = Trace.of(meta["trace_columns"], rows)
            restore(run.rng, meta["planner_stream"])
            run.sums = sums_of(meta["sums"], run.planner.numbers(state))
            run.trace, run.seconds, run.loop.state, run.simulator.kept = trace, seconds, state, kept
            if first is not None:
                run.simulator.remember(first)
        except FileError:
            raise
        # No reason to delete anything: the features may be at fault.
        except (FeatureError, SimulatorError) as error:
            raise FileError(
                f"{path} is damaged, or features and simulator have changed: it holds states that they refuse. {error}"
            ) from None
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise FileError(
                f"{path} is damaged: {error}. Delete the folder's files and start again."
            ) from None

    def _compare(self, saved: Any) -> tuple[float, float] | None:
        """Raise FileError unless the checkpoint is of this run; if only the reward range is wider now, how r maps to it."""
        if not isinstance(saved, dict):
            raise FileError(f"{self.path / CHECKPOINT_FILE} does not say what it is a checkpoint of.")
        widened = None
        for key, old, new in _differences(saved, self.config):
            if key == "reward_range":
                widened = _widening(old, new)
            if key != "reward_range" or widened is None:
                contains = (
                    "It may be resumed with a range that contains the old one. "
                    if key == "reward_range"
                    else ""
                )
                raise FileError(
                    f"{self.path} holds another run: its {key} is {shown(old)}, and now it is {shown(new)}. {contains}"
                    "Resume with the settings it was started with, or give another folder."
                )
        return widened

    def _remapped(self, planner: Planner, state: Any, scale: float, shift: float) -> Any:
        """The state in the wider reward range; FileError for a planner that does not store its rewards."""
        state = planner.rescaled(state, scale, shift)
        if state is None:
            raise FileError(
                f"The run in {self.path} was made in a narrower reward range, and what the planner '{planner.name}' has "
                "learnt cannot be mapped to the wider one; only planners that store their rewards can go on (plug-in, "
                "sampled-lp). Give another folder."
            )
        return state

    def write_results(self, policy: SoftmaxPolicy, trace: Trace, record: dict[str, Any]) -> None:
        """Write the results: the policy, the trace, and run.json last, since it says how the run ended."""
        self.forget_judged(policy)
        policy.save(self.path / POLICY_FILE)
        files.write_atomic(self.path / TRACE_FILE, trace.csv().encode())
        self.write_record(record)

    def write_record(self, record: dict[str, Any]) -> None:
        files.write_json(self.path / RUN_FILE, {**self.config, "core_file": self.core_file, **record})

    def forget_judged(self, policy: SoftmaxPolicy) -> None:
        """Take away what was found about the policy in the folder, if `policy` is another one that can take its place."""
        if (self.path / POLICY_FILE).is_dir():
            return
        try:
            old = SoftmaxPolicy.load(self.path / POLICY_FILE)
            same = old.theta.tobytes() == policy.theta.tobytes() and old.scale == policy.scale
        except FileError:
            same = False
        if not same:
            for name in _JUDGED:
                self.write_judged(name, None)

    def write_judged(self, name: str, record: dict[str, Any] | None) -> None:
        """Write an evaluation or a certificate of the policy as JSON; None deletes that of an earlier policy."""
        if record is None:
            (self.path / name).unlink(missing_ok=True)
        else:
            files.write_json(self.path / name, record)

    def read_judged(self, name: str) -> dict[str, Any] | None:
        """What `write_judged` wrote; None if there is nothing that can be read."""
        try:
            record = files.read_json(self.path / name)
        except FileError:
            return None
        return record if isinstance(record, dict) else None

    def weights(self) -> FloatArray | None:
        """How the planner of the last checkpoint weighs the core pairs, `[m]`; None if it does not, or is not built in."""
        started = self.started()
        if started is None or started.planner not in PLANNERS:
            return None
        path = self.path / CHECKPOINT_FILE
        arrays, _ = files.read_npz(path, KIND, VERSION)
        state = SimpleNamespace(**{k.removeprefix("state."): v for k, v in arrays.items()})
        try:
            weights = PLANNERS[started.planner].weights(state)
            if weights is not None:
                checks.require_distribution(SimpleNamespace(weights=weights), "weights")
        except (AttributeError, TypeError, ValueError) as error:
            raise FileError(f"{path} is damaged: it has no weights of core pairs ({error}).") from None
        return weights

    def stored_trace(self) -> Trace:
        """The trace up to the last checkpoint; KeyError or ValueError if it is none."""
        arrays, meta = files.read_npz(self.path / CHECKPOINT_FILE, KIND, VERSION)
        return Trace.of(meta["trace_columns"], arrays["trace"])

    def write_core(self, core: CoreSet, problem: Problem) -> None:
        """Save core pairs that are not the problem's own, for `coreplan certify` and `coreplan check`."""
        numbers = core.states.dtype.kind in "fiub"  # files hold numbers only
        if numbers and digest_of(core) != own_digest(problem):
            core.save(self.path / CORE_FILE)
            self.core_file = digest_of(core)


def _widening(old: Any, new: Any) -> tuple[float, float] | None:
    """(scale, shift) of the map from rewards in [0, 1] of the range `old` to those of `new`, if this contains `old`."""
    try:
        (low, high), (lowest, highest) = ((float(a), float(b)) for a, b in (old, new))
    except (TypeError, ValueError):
        return None
    width = highest - lowest
    return ((high - low) / width, (low - lowest) / width) if lowest <= low < high <= highest else None


def _remap_values(columns: list[str], rows: Any, scale: float, shift: float) -> None:
    """Map the values in the rows of a trace, in place; the planner's own columns stay as they were recorded."""
    if rows.size:
        value = columns.index("value")
        rows.T[value] = scale * rows.T[value] + shift


def digest_of(core: CoreSet) -> str:
    """A short hash of the core pairs."""
    return digest(core.states, core.actions)


def own_digest(problem: Problem) -> str | None:
    """The hash of the core set that comes with the problem, if any."""
    return None if problem.core_pairs is None else digest_of(CoreSet.of(problem))


def core_of(path: Path, problem: Problem) -> CoreSet | None:
    """The core pairs that the run at `path` (a folder, or its policy.npz) used or chose; None: the problem's own."""
    folder = path.parent if path.name == POLICY_FILE else path
    file, record = folder / CORE_FILE, read_record(folder / RUN_FILE)
    if not file.exists():
        used = record.get("core_file") or record.get("core")
        if used is not None and used != own_digest(problem):
            raise FileError(
                f"The run in {folder} used core pairs that are not those of '{problem.name}', and they are not in {file}. "
                "Put the file back, plan again, or call certify(problem, core, policy) in Python with the pairs."
            )
        return None
    core = CoreSet.load(file)
    if record.get("core_file") not in (None, digest_of(core)):
        raise FileError(
            f"{file} holds {len(core)} core pairs that are not those of the run in {folder}. Put the run's own file "
            "back, or plan again."
        )
    return core


def read_record(path: Path) -> dict[str, Any]:
    """The content of run.json; {} if there is none."""
    if not path.exists():
        return {}
    try:
        record = files.read_json(path)
    except FileError as error:
        raise FileError(f"{path} cannot be read as the record of a run ({error}). Plan again.") from None
    if not isinstance(record, dict):
        raise FileError(f"{path} is not the record of a run. Plan again.")
    return record


def _differences(
    saved: dict[str, Any], here: dict[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    for key, new in here.items():
        old = saved.get(key)
        if isinstance(new, dict) and isinstance(old, dict):
            yield from _differences(old, new, f"{key}: ")
        elif old != new and not (old != old and new != new):  # NaN is NaN
            yield prefix + key, old, new
