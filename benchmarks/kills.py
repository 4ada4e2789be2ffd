"""Runs that are killed and signalled at random moments, then resumed: benchmarks/results/kills.md.

    nice python benchmarks/kills.py [--kills 100] [--signals 20] [--minutes 45]

Every planner runs in the compiled loop where it has one and in the Python loop, with rollouts of its policy, an
evaluation and a certificate. Each run is a process of its own that gets kill -9, or SIGTERM, SIGHUP or SIGINT, once
or twice: at a moment of its planning, or of its finishing (from the last query on: files, rollouts, evaluation,
certificate). It is then resumed to its end. Every bit must be that of the uninterrupted run: theta, the planner's
state, both random streams, the counters, and the trace but for its seconds. In the Python loop the simulator counts
what it answers, in memory that outlives the process: what was answered and is neither in the checkpoint nor counted
as lost has vanished.

Processes are forked from one that has compiled everything, so that a moment costs about as long as its run.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import mmap
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import coreplan

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "kills.md"
CHECKPOINT_SECONDS = 0.1
PATIENCE = 120.0  # seconds that a process may take
TRIES = 20  # moments that may come after the end of a run before one is given up

RATES = {"K": 5, "eta": 2e-4, "beta": 0.02, "alpha": 0.006, "D": 28.0}
SIGNALS = {"SIGTERM": signal.SIGTERM, "SIGHUP": signal.SIGHUP, "SIGINT": signal.SIGINT}


class Case(NamedTuple):
    planner: str
    compiled: bool
    spec: str
    budget: int
    settings: dict[str, Any] = {}  # noqa: RUF012 (never changed)

    @property
    def name(self) -> str:
        more = ", epsilon" if "epsilon" in self.settings else ""
        return f"{self.planner}{more}, {'compiled' if self.compiled else 'Python'}"


CASES = [
    Case("primal-dual", True, "random-linear", 600_000, RATES),
    Case("primal-dual", False, "random-linear:compiled=false", 10_000, RATES),
    Case("core-mirror", True, "random-linear", 1_000_000),
    Case("core-mirror", False, "random-linear:compiled=false", 30_000),
    Case("plug-in", False, "random-linear:compiled=false", 100_000),
    Case("plug-in", False, "random-linear:compiled=false", 100_000, {"epsilon": 1e-9}),
    Case("optimistic", False, "random-linear:compiled=false", 15_000),
    Case("sampled-lp", False, "mountain-car:grid=11", 10_000),
    Case("grow", False, "river-linear", 15_000),
]


class Paid:
    """How many queries were answered, in memory that outlives a killed process."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 8)

    @property
    def queries(self) -> int:
        return int(struct.unpack("q", self._shared)[0])

    def add(self, n: int) -> None:
        self._shared[:] = struct.pack("q", self.queries + n)

    def clear(self) -> None:
        self._shared[:] = struct.pack("q", 0)


def problem_of(case: Case, paid: Paid) -> coreplan.Problem:
    """The problem; in the Python loop with a simulator that counts its answers."""
    problem = coreplan.make(case.spec)
    if case.compiled:
        return problem
    model = problem.model

    def step(rng: Any, states: Any, actions: Any) -> Any:
        answer = model.step(rng, states, actions)
        paid.add(len(actions))
        return answer

    counted = coreplan.FunctionModel(problem.n_actions, model.initial, step)
    return dataclasses.replace(problem, model=counted, tabular=None)


def work(case: Case, paid: Paid, folder: Path) -> coreplan.Plan:
    """The run, from its checkpoint if there is one."""
    planner = coreplan.planners.make_planner(case.planner, case.settings)
    return coreplan.plan(
        problem_of(case, paid), planner=planner, budget=case.budget, seed=7, out=folder, resume=True,
        checkpoint_seconds=CHECKPOINT_SECONDS, evaluate=40, certify=20_000,
    )  # fmt: skip


def start(case: Case, paid: Paid, folder: Path) -> int:
    """The run in a process of its own; the plan's counters are left beside the folder when it ends by itself."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        warnings.simplefilter("ignore")
        result = work(case, paid, folder)
        said = {"queries": result.queries, "lost": result.lost_queries, "not_saved": result.not_saved}
        folder.with_suffix(".json").write_text(json.dumps(said))
        code = 128 + result.stopped_by if result.stopped_by else 0
    except BaseException:
        folder.with_suffix(".error").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def wait(child: int, until: float) -> int | None:
    """The exit code of a process, negative for a signal that ended it; None if it is still running then."""
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            return None
        time.sleep(0.001)


def finished(child: int) -> int:
    """The exit code of a process that ends by itself."""
    code = wait(child, time.monotonic() + PATIENCE)
    if code is None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise SystemExit(f"A process did not end within {PATIENCE:.0f} s.")
    return code


class Contents(NamedTuple):
    """Everything that must be the same, so without clocks."""

    theta: bytes
    state: dict[str, bytes]
    streams: Any
    counters: Any
    trace: list[list[str]]


def contents(folder: Path) -> Contents:
    with np.load(folder / "policy.npz") as p:
        theta = p["theta"].tobytes()
    with np.load(folder / "checkpoint.npz") as c:
        state = {name: c[name].tobytes() for name in c.files if name.startswith("state.")}
        meta = json.loads(c["meta"].tobytes())
    lines = (folder / "trace.csv").read_text().splitlines()
    clock = lines[0].split(",").index("seconds")
    trace = [[v for i, v in enumerate(line.split(",")) if i != clock] for line in lines]
    # Not of what was lost and of what a resume asks again to recognise its simulator: those are counted apart.
    counters = {name: value for name, value in meta["simulator"].items() if name not in ("lost", "rechecked")}
    return Contents(theta, state, meta["planner_stream"], counters, trace)


class Found(NamedTuple):
    """What one moment showed."""

    finishing: bool  # whether it met the run after its last query
    same: bool  # whether the resumed run has the bits of the uninterrupted one
    vanished: int  # queries that were answered and are neither kept nor counted as lost
    lost: int  # queries that the run counts as lost
    code: int  # how the process ended
    age: float  # seconds since the last checkpoint, for kill -9


class Study:
    """One case: the uninterrupted run, and moments at which it is broken off."""

    def __init__(self, case: Case, folder: Path, seed: int = 20231) -> None:
        self.case, self.folder, self.paid, self.rng = (
            case,
            folder,
            Paid(),
            random.Random(f"{seed} {case.name}"),
        )
        self.rounds = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            work(case, self.paid, folder / "compile")  # here, so that every process has it
        begin = time.monotonic()
        child = start(case, self.paid, folder / "whole")
        self.finish = 0.0  # seconds after the first file at which the run finishes
        while wait(child, 0.0) is None:
            now = time.monotonic() - begin
            begin = begin if (folder / "whole" / "run.json").exists() else time.monotonic()
            self.finish = self.finish or (now if (folder / "whole" / "policy.npz").exists() else 0.0)
            time.sleep(0.001)
            if now > PATIENCE:
                os.kill(child, signal.SIGKILL)
        self.end = time.monotonic() - begin
        self.want = contents(folder / "whole")
        if contents(folder / "compile") != self.want:
            raise SystemExit(f"{case.name}: two uninterrupted runs differ.")

    def moment(self, send: Callable[[int], None], finishing: bool, missed: int = 0) -> Found | None:
        """Break a run off and resume it; None if it ended before. After moments that came too late they come earlier."""
        self.rounds += 1
        folder = self.folder / f"run{self.rounds}"
        self.paid.clear()
        low, high = (self.finish, self.end) if finishing else (0.0, self.finish)
        child = start(self.case, self.paid, folder)
        while not (
            folder / "run.json"
        ).exists():  # before, there is nothing to lose, and signals do what they always do
            if wait(child, 0.0) is not None:
                return None
            time.sleep(0.001)
        if (
            wait(child, time.monotonic() + self.rng.uniform(low, low + (high - low) * 0.8**missed))
            is not None
        ):
            return None
        met = (folder / "policy.npz").exists()
        send(child)
        code, paid = finished(child), self.paid.queries
        vanished, lost, age = 0, 0, 0.0
        if code == -signal.SIGKILL and (folder / "checkpoint.npz").exists():
            age = max(time.time() - (folder / "checkpoint.npz").stat().st_mtime, 0.0)
        if code == 1:
            raise SystemExit(f"{self.case.name}: {folder.with_suffix('.error').read_text()}")
        if code >= 0:  # below: killed, or signalled when `plan` had returned
            said = json.loads(folder.with_suffix(".json").read_text())
            record = json.loads((folder / "run.json").read_text())
            lost = said["lost"]
            vanished = abs(said["queries"] - record["queries"]) + abs(lost - record["lost_queries"])
        if not self.case.compiled:
            vanished = self._vanished(folder, code, paid, lost)
        if finished(start(self.case, self.paid, folder)) != 0:
            raise SystemExit(f"{self.case.name}: {folder.with_suffix('.error').read_text()}")
        same = contents(folder) == self.want and not list(folder.glob("*.partial"))
        shutil.rmtree(folder)
        return Found(met, same, vanished, lost, code, age)

    def _vanished(self, folder: Path, code: int, paid: int, lost: int) -> int:
        """Answers that are neither in the folder nor counted as lost; of a finished run, judges have simulated besides."""
        if code == -signal.SIGKILL:
            try:
                with np.load(folder / "checkpoint.npz") as c:
                    meta = json.loads(c["meta"].tobytes())
            except FileNotFoundError:
                return paid
            return paid - meta["simulator"]["queries"] - meta["reality_queries"]
        record = json.loads((folder / "run.json").read_text())
        left = paid - record["queries"] - lost
        return left if record["status"] == "interrupted" or left < 0 else 0


def kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)


def sender(number: int, times: int, rng: random.Random) -> Callable[[int], None]:
    def send(child: int) -> None:
        for i in range(times):
            if i:
                time.sleep(rng.uniform(0.0, 0.05))
            try:
                os.kill(child, number)
            except ProcessLookupError:
                return

    return send


def study(cases: list[Case], kills: int, signals: int, until: float) -> dict[str, list[tuple[Case, Found]]]:
    """All moments by what was sent, spread evenly over cases; fewer if the time is up."""
    plan = {"kill -9": (kills, kill)}
    rng = random.Random(5)
    for name, number in SIGNALS.items():
        for times, said in ((1, "once"), (2, "twice")):
            plan[f"{name}, {said}"] = (signals, sender(number, times, rng))
    found: dict[str, list[tuple[Case, Found]]] = {name: [] for name in plan}
    with tempfile.TemporaryDirectory() as place:
        for i, case in enumerate(cases):
            here = Path(place) / str(i)
            here.mkdir()
            this = Study(case, here)
            print(
                f"{case.name}: {this.finish:.2f} s of planning, {this.end - this.finish:.2f} s of finishing"
            )
            for name, (number, send) in plan.items():
                share = number * (i + 1) // len(cases) - number * i // len(cases)
                for n in range(share):
                    for missed in range(TRIES):
                        if time.monotonic() > until:
                            return found
                        one = this.moment(send, finishing=(n + i) % 2 == 1, missed=missed)
                        if one is not None:
                            found[name].append((case, one))
                            break
                print(f"  {name}: {share}", flush=True)
            shutil.rmtree(here)
    return found


def table(found: dict[str, list[tuple[Case, Found]]]) -> str:
    rows = [
        "| sent | moments | in finishing | same bits after the resume | queries vanished, most | counted as lost, most |",
        "|---|---|---|---|---|---|",
    ]
    for name, all_ in found.items():
        ones = [one for _, one in all_]
        known = [one.vanished for one in ones]
        rows.append(
            f"| {name} | {len(ones)} | {sum(o.finishing for o in ones)} | {sum(o.same for o in ones)} | "
            f"{max(known, default=0):,} | {max((o.lost for o in ones), default=0):,} |"
        )
    return "\n".join(rows)


def wrong(found: dict[str, list[tuple[Case, Found]]]) -> list[str]:
    """What breaks a promise."""
    said = []
    for name, all_ in found.items():
        for case, one in all_:
            if not one.same or (name != "kill -9" and one.vanished != 0):
                said.append(f"{name} at {case.name}: {one}")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--signals", type=int, default=20, help="moments for each signal, once and twice")
    parser.add_argument("--minutes", type=float, default=45.0)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    given = parser.parse_args()
    found = study(CASES, given.kills, given.signals, time.monotonic() + 60 * given.minutes)
    print(table(found))
    age = max((one.age for _, one in found["kill -9"] if not one.finishing), default=0.0)
    print(f"Oldest checkpoint at a kill while planning: {age:.2f} s; interval {CHECKPOINT_SECONDS} s.")
    bad = wrong(found)
    print(*bad, sep="\n")
    if given.write:
        RESULTS.write_text(page(found, age, bad))
    sys.exit(bool(bad))


def page(found: dict[str, list[tuple[Case, Found]]], age: float, bad: list[str]) -> str:
    cases = "\n".join(f"| {case.name} | `{case.spec}` | {case.budget:,} |" for case in CASES)
    return f"""# Runs that were killed and signalled

`nice python benchmarks/kills.py --write`. What is sent, how moments are drawn and what is compared stands at the top of that
program.

{table(found)}

- **kill -9** loses what was answered since the last checkpoint, and nothing else. The interval here was
  {CHECKPOINT_SECONDS} s (30 s by default); the oldest checkpoint that a kill met during planning was {age:.2f} s old,
  since an ask is not interrupted for one. After the last query, rollouts of the policy, the evaluation and the certificate
  are made again; their answers are in the column too.
- **Signals, once:** the run stops after its batch, or ends its rollouts and judges, and writes all files. **Twice:** the
  call in hand is broken off, and what was answered before it is kept.
- Broken promises: {len(bad)}.

Queries vanished are answered by the simulator and neither in the checkpoint nor counted as lost. They are counted in the
Python loop; in the compiled one, for signals, what the process says is compared with its folder.

| case | problem | budget |
|---|---|---|
{cases}
"""


if __name__ == "__main__":
    main()
