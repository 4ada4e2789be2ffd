"""A run's folder: policy.npz, run.json, trace.csv, checkpoint.npz and core.npz, each whole at any moment."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import files
from ..core import CORE_FILE, CoreSet
from ..errors import FileError
from ..planners import Planner
from ..policy import POLICY_FILE, SoftmaxPolicy
from ..problem import Problem
from ..problem.features import digest
from ..seeds import restore, state_of
from .simulator import Simulator
from .trace import Trace

VERSION = 1
KIND = "coreplan checkpoint"
CHECKPOINT_FILE, RUN_FILE, TRACE_FILE = "checkpoint.npz", "run.json", "trace.csv"


class RunFolder:
    """Where a run keeps its files. `config` is what must agree for a checkpoint to be resumed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config: dict[str, Any] = {}
        self.core_file: str | None = None  # the digest of what core.npz holds

    def filled_in(self, planner: Planner) -> Planner:
        """The planner with what was left out taken from the run that is resumed, so that its budget may be raised."""
        if not (self.path / CHECKPOINT_FILE).exists():
            return planner
        _, meta = files.read_npz(self.path / CHECKPOINT_FILE, KIND, VERSION)
        saved = meta.get("config", {}).get("settings", {})
        given = planner.settings()
        missing = {
            k: v for k, v in saved.items() if isinstance(v, (int, float)) and k in given and given[k] is None
        }
        return dataclasses.replace(planner, **missing)  # type: ignore[type-var]

    @property
    def used(self) -> bool:
        """Whether a run has written here before."""
        return any((self.path / name).exists() for name in (CHECKPOINT_FILE, RUN_FILE, POLICY_FILE))

    def save_checkpoint(
        self, state: Any, rng: np.random.Generator, simulator: Simulator, trace: Trace, seconds: float
    ) -> None:
        """Everything that a resume needs, in one file, written atomically."""
        meta = {
            "format": KIND,
            "version": VERSION,
            "config": self.config,
            "planner_stream": state_of(rng),
            "simulator": simulator.mark(),
            "trace_columns": list(trace.columns),
            "seconds": seconds,
        }
        arrays = {f"state.{name}": np.asarray(array) for name, array in state._asdict().items()}
        files.write_npz(self.path / CHECKPOINT_FILE, {**arrays, "trace": trace.rows}, meta)

    def load_checkpoint(
        self, planner: Planner, state: Any, rng: np.random.Generator, simulator: Simulator
    ) -> tuple[Any, Trace, float]:
        """The state, trace and seconds of the checkpoint; puts both streams and the counters back."""
        path = self.path / CHECKPOINT_FILE
        arrays, meta = files.read_npz(path, KIND, VERSION)
        self._compare(meta.get("config"))
        try:
            rows = arrays.pop("trace")
            saved = type(state)(**{name.removeprefix("state."): a for name, a in arrays.items()})
            for name, old, new in zip(state._fields, state, saved, strict=True):
                if name not in planner.growing and (old.dtype != new.dtype or old.shape != new.shape):
                    raise ValueError(f"'{name}' has dtype {new.dtype} and shape {new.shape}")
            planner.check(saved)
            restore(rng, meta["planner_stream"])
            simulator.return_to(meta["simulator"])
            return saved, Trace.of(meta["trace_columns"], rows), float(meta["seconds"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FileError(
                f"{path} is damaged: {error}. Delete the folder's files and start again."
            ) from None

    def _compare(self, saved: Any) -> None:
        if not isinstance(saved, dict):
            raise FileError(f"{self.path / CHECKPOINT_FILE} does not say what it is a checkpoint of.")
        for key, old, new in _differences(saved, self.config):
            raise FileError(
                f"{self.path} holds another run: its {key} is {old!r}, and now it is {new!r}. "
                "Resume with the settings it was started with, or give another folder."
            )

    def write_results(self, policy: SoftmaxPolicy, trace: Trace, record: dict[str, Any]) -> None:
        """The files for people: the policy, the trace, and run.json last, since it says how the run ended."""
        policy.save(self.path / POLICY_FILE)
        files.write_atomic(self.path / TRACE_FILE, trace.csv().encode())
        self.write_record(record)

    def write_record(self, record: dict[str, Any]) -> None:
        files.write_json(self.path / RUN_FILE, {**self.config, "core_file": self.core_file, **record})

    def write_core(self, core: CoreSet, problem: Problem) -> None:
        """Keep core pairs that are not the problem's own, for `coreplan certify` and `coreplan check`."""
        if core.states.dtype.kind in "fiub" and digest_of(core) != own_digest(
            problem
        ):  # files hold numbers only
            core.save(self.path / CORE_FILE)
            self.core_file = digest_of(core)


def digest_of(core: CoreSet) -> str:
    """A short hash of the pairs."""
    return digest(core.states, core.actions)


def own_digest(problem: Problem) -> str | None:
    """That of the core set which the problem brings."""
    return None if problem.core_pairs is None else digest_of(CoreSet.of(problem))


def core_of(path: Path, problem: Problem) -> CoreSet | None:
    """The pairs that the run at `path`, a folder or its policy.npz, used or chose; None: the problem's own."""
    folder = path.parent if path.name == POLICY_FILE else path
    file, record = folder / CORE_FILE, _read_record(folder / RUN_FILE)
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


def _read_record(path: Path) -> dict[str, Any]:
    """What run.json says; nothing where there is none."""
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
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
        elif old != new:
            yield prefix + key, old, new
