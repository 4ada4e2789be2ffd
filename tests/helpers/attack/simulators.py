"""Faulty simulators and features, for every planner and both loops; then the run is resumed with healthy ones.

Right is: an error of ours where the answer cannot be used; else the bits of the healthy run where the answer is the same
in an unusual form, and a valid plan where it is another one. With a folder, every pair that was answered is recorded or
counted as lost, and the resumed run has the bits of the run that nothing happened to.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

import coreplan
from coreplan import CoreplanError, Plan, Problem
from coreplan.planners import PLANNERS, make_planner

from . import faults
from .problems import KINDS, Fault, problem_of
from .rule import Input, Refused, Wrong, answer

BUDGET, SEED = 240, 3
SETTINGS: dict[str, dict[str, Any]] = {  # small enough for a few milliseconds, and no fresh search for rates
    "plug-in": {}, "grow": {"rounds": 3}, "refine": {"rounds": 3}, "search": {},
    "core-mirror": {}, "optimistic": {"steps": 5, "n_initial": 4},
    "sampled-lp": {"n_initial": 10}, "primal-dual": {"K": 7, "eta": 3e-3, "beta": 0.02, "alpha": 0.3, "D": 12.0},
    "lspi": {}, "politex": {"phases": 3}, "fitted-q": {"iterations": 5},
    "ppq": {}, "q-learning": {},
    "alp": {"n_initial": 10}, "rlp": {"constraints": 20}, "lralp": {"groups": 3}, "tabular-smd": {"batch": 8},
    "constrained-smd": {"steps": 2_000},
    "core-stomp": {"n_initial": 5},
    "confident-lspi": {"iterations": 2, "length": 1.0},
    "saddle": {"steps": 50}, "bilinear": {"batch": 8}, "q-reps": {"phases": 3}, "design-lspi": {}, "vwls-mdvi": {},
}  # fmt: skip

# Those that can work on the tiny problem, whose states are no finite number and whose features are no table.
ATTACKED = tuple(n for n, planner in PLANNERS.items() if planner.core_of != "all" and not planner.needs_table)
WITH_FEATURES = tuple(name for name in ATTACKED if not PLANNERS[name].needs_box)


class Bar:
    """A progress bar with a fault."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault

    def update(self, queries: int) -> Any:
        return self.fault("progress", lambda: None, (queries,))

    def close(self) -> Any:
        return self.fault("progress", lambda: None, (0,))


class Case:
    """A planner and a problem's form, drawn at random, and how it is run."""

    def __init__(self, given: Input, planners: tuple[str, ...], model: str, features: str) -> None:
        self.model, self.features = model, features
        self.planner = given.one(planners)
        self.block = given.one((1, 7, 64)) if model == "function" else 64
        self.reality = given.one((0.0, 0.1))
        self.out: Path | None = given.folder / "run" if given.chance(0.7) else None
        self.every = given.one((30.0, 1e-9))  # seconds between checkpoints
        self.masked = model != "compiled" and given.chance(0.1)
        if PLANNERS[self.planner].needs_box:
            self.features, self.masked = "box", False
        self.extra = given.one(("", "", "", "", "progress", "baseline", "ends"))  # what else the user brings
        if self.extra in ("baseline", "ends"):
            self.reality = 0.1

    def __str__(self) -> str:
        besides = ", masked" * self.masked + (f", with {self.extra}" if self.extra else "")
        return (
            f"{self.planner} on a {self.model} model (block {self.block}) with {self.features} features{besides}, "
            f"reality={self.reality}, out={self.out is not None}"
        )

    def problem(self, fault: Fault) -> Problem:
        """The problem with a fault in it."""
        more: dict[str, Any] = {}
        if self.masked:
            more["mask"] = lambda x: fault("mask", lambda: np.ones((len(x), 2), dtype=bool), (x,))
        if self.extra == "ends":
            more["ends"] = lambda x: fault("ends", lambda: np.zeros(len(x), dtype=bool), (x,))
        return problem_of(self.model, self.features, fault, self.block, **more)

    def plan(self, fault: Fault, resume: bool = False, **more: Any) -> Plan:
        """One run of it."""
        given: dict[str, Any] = {
            "planner": make_planner(self.planner, SETTINGS.get(self.planner, {})), "budget": BUDGET, "seed": SEED,
            "reality": self.reality, "out": self.out, "checkpoint_seconds": self.every,
        }  # fmt: skip
        if self.extra == "progress":
            given["progress"] = Bar(fault)
        elif self.extra == "baseline":
            given["baseline"] = lambda x: fault("baseline", lambda: np.ones(len(x), dtype=np.int64), (x,))
        return coreplan.plan(self.problem(fault), **{**given, **more}, resume=resume)

    def healthy(self) -> Plan:
        """The run that nothing happens to, without a folder; computed once per worker."""
        key = (self.planner, self.model, self.features, self.block, self.reality, self.masked)
        return _healthy(self, key)


_KNOWN: dict[Any, Plan] = {}


def _healthy(case: Case, key: Any) -> Plan:
    if key not in _KNOWN:
        _KNOWN[key] = case.plan(Fault(), out=None)
    return _KNOWN[key]


class Simulators:
    """Faults of simulators and features that are Python functions."""

    name, share = "simulators", 3.0

    def __init__(self, planners: tuple[str, ...] = ATTACKED) -> None:
        self.planners = planners

    def warm_up(self) -> None:
        for planner in self.planners:
            for model, features in (("function", "dense"), ("noise", "sparse"), ("scalar", "dense")):
                problem = problem_of(model, "box" if PLANNERS[planner].needs_box else features, Fault())
                chosen = make_planner(planner, SETTINGS.get(planner, {}))
                coreplan.plan(problem, planner=chosen, budget=BUDGET, seed=SEED)

    @staticmethod
    @functools.cache
    def acts(part: str, sparse: bool) -> list[faults.Act]:
        """All faults of a part."""
        if part == "features":
            return faults.feature_faults(sparse)
        return {
            "step": faults.step_faults, "initial": faults.initial_faults, "mask": faults.mask_faults,
            "ends": faults.mask_faults, "baseline": faults.initial_faults, "progress": faults.progress_faults,
        }[part]()  # fmt: skip

    def attack(self, given: Input) -> str:
        case = Case(
            given, self.planners, given.one(("function", "scalar", "noise")), given.one(("dense", "sparse"))
        )
        parts = (
            "step",
            "step",
            "initial",
            "features",
            *(("mask",) * 3 * case.masked),
            *((case.extra,) * 4 * bool(case.extra)),
        )
        part = given.one(parts)
        act = given.one(self.acts(part, case.features == "sparse"))
        fault = Fault(part, act.do, at=int(given.rng.integers(0, 20)), again=given.chance(0.5))
        if act.name.endswith("a reused buffer"):
            fault.at, fault.again = 0, True
        if part != "initial" and case.model != "scalar" and given.chance(0.1):
            fault.where = _far
        given.note(str(case))
        given.note(
            f"{part} at call {'where far' if fault.where else fault.at}{' and later' * fault.again}: {act.name}"
        )
        besides = part in (
            "ends",
            "baseline",
            "progress",
        )  # whose answers are not part of the plan, but of what it earned
        return struck(case, fault, faults.VALID if besides and act.allows == faults.REFUSE else act.allows)


class CompiledSimulators:
    """Faults of compiled simulators and features, in the compiled loop and in rollouts."""

    name, share = "compiled", 1.0

    def __init__(self, planners: tuple[str, ...] = ATTACKED) -> None:
        self.planners = planners

    def warm_up(self) -> None:
        for planner in self.planners:
            chosen = make_planner(planner, SETTINGS.get(planner, {}))
            coreplan.plan(
                problem_of("compiled", "box" if PLANNERS[planner].needs_box else "compiled", Fault()),
                planner=chosen,
                budget=BUDGET,
                seed=SEED,
            )

    def attack(self, given: Input) -> str:
        case = Case(given, self.planners, "compiled", given.one(("compiled", "compiled", "dense")))
        kinds = [k for k in KINDS if k and (case.features == "compiled" or not k.startswith("features"))]
        fault = Fault(given.one(kinds), at=int(given.rng.integers(0, 400)))
        given.note(str(case))
        given.note(f"compiled fault '{fault.part}' after {fault.at} pairs")
        return struck(case, fault, faults.VALID)


class Changes:
    """A model or features that are others when the run is resumed."""

    name, share = "changes", 0.5

    def __init__(self, planners: tuple[str, ...] = WITH_FEATURES) -> None:
        self.planners = planners

    def warm_up(self) -> None:
        Simulators(self.planners).warm_up()

    def attack(self, given: Input) -> str:
        case = Case(
            given, self.planners, given.one(("function", "noise", "scalar")), given.one(("dense", "sparse"))
        )
        case.out, case.reality = given.folder / "run", 0.0
        case.plan(Fault())
        what = given.one(("rewards", "states", "features"))
        part = "features" if what == "features" else "step"
        change = Fault(part, _CHANGES[what, case.features == "sparse"], again=True)
        given.note(str(case))
        given.note(f"resumed with a raised budget and other {what}")
        found = answer(lambda: case.plan(change, resume=True, budget=2 * BUDGET))
        if isinstance(found, Refused):
            return "refused"
        raise Wrong("unnoticed", f"a run was resumed with other {what} than it began with")


def _far(arguments: tuple[Any, ...]) -> bool:
    """Where a state of the batch is far to the right."""
    return bool((np.asarray(arguments[0])[..., 0] > 0.4).any())


def _less_reward(value: Any, arguments: tuple[Any, ...]) -> Any:
    return 0.5 * value[0] + 0.25, value[1]


def _other_states(value: Any, arguments: tuple[Any, ...]) -> Any:
    return value[0], np.clip(1.0 - value[1], 0.0, 1.0)


def _other_features(value: Any, arguments: tuple[Any, ...]) -> Any:
    return value[:, ::-1].copy()


def _other_weights(value: Any, arguments: tuple[Any, ...]) -> Any:
    return value[0], value[1][:, :, ::-1].copy()


_CHANGES = {
    ("rewards", False): _less_reward, ("rewards", True): _less_reward, ("states", False): _other_states,
    ("states", True): _other_states, ("features", False): _other_features, ("features", True): _other_weights,
}  # fmt: skip


def struck(case: Case, fault: Fault, allows: str) -> str:
    """Run a case with a fault, judge the answer, and what a resume with healthy parts makes of it."""
    theirs: BaseException | None = None
    try:
        found = answer(lambda: case.plan(fault))
    except CoreplanError:
        raise
    except BaseException as error:
        if isinstance(error, (Exception, Wrong)) or not fault.struck:
            raise
        theirs, found = error, None  # not an Exception: whoever raised it is waiting for it
    if theirs is not None:
        label = "theirs"
    elif isinstance(found, Refused):
        label = "refused"
        if not (fault.struck or case.model == "compiled"):
            raise Wrong("refused without a fault", str(found.error))
    else:
        label = _judged(case, fault, allows, found)
    if case.out is not None:
        _nothing_lost(case, fault)
        if label in ("refused", "theirs") or fault.struck == 0:
            _resumes(case, same=allows != faults.VALID or not fault.struck)
    return label


def _judged(case: Case, fault: Fault, allows: str, found: Any) -> str:
    """The label of a plan that was returned although there was a fault."""
    valid(case.problem(Fault()), found)
    if case.model == "compiled":  # whether the fault struck is not known
        return "right"
    if found.status.value == "interrupted":  # a KeyboardInterrupt of the simulator is the user's
        return "interrupted"
    same = found.policy.theta.tobytes() == case.healthy().policy.theta.tobytes()
    during = fault.struck and not (
        case.reality and found.no_verdict
    )  # an error in rollouts costs the verdict only
    if allows == faults.SAME and during and not same:
        raise Wrong(
            "silent change", f"value of theta {found.policy.theta} against {case.healthy().policy.theta}"
        )
    if allows == faults.REFUSE and during and not same:
        raise Wrong("accepted", f"{found.status}: an answer that cannot be used went unnoticed")
    if not fault.struck and not same:
        raise Wrong("other bits", "the fault did not strike, and the policy differs from the healthy one")
    return "right"


def valid(problem: Problem, found: Plan) -> None:
    """Raise `Wrong` unless a plan keeps what every plan promises."""
    theta, features = found.policy.theta, found.policy.features
    own = features if problem.bounds is not None else problem.features  # Refine makes its own
    if (features is not None and theta.shape != (own.dimension,)) or not np.isfinite(theta).all():
        raise Wrong("invalid plan", f"theta is {theta}")
    if not 0 <= found.queries <= 2 * BUDGET:
        raise Wrong("invalid plan", f"{found.queries} queries")
    for seen in (found.earned, found.uniform, found.evaluation):
        if seen is not None and not -1e-9 <= seen.low <= seen.value <= seen.high <= 1 + 1e-9:
            raise Wrong("invalid plan", f"evaluation {seen}")
    if not str(found).strip():
        raise Wrong("invalid plan", "it prints nothing")


def recorded(folder: Path) -> int:
    """The queries that a run's record owns up to: those that it kept, and those that it says are lost."""
    try:
        record = json.loads((folder / "run.json").read_text())
    except FileNotFoundError:
        return 0
    lost = sum(v for k, v in record.items() if "lost" in k and isinstance(v, int))
    return int(record.get("queries", 0)) + lost


def _nothing_lost(case: Case, fault: Fault) -> None:
    assert case.out is not None
    known = recorded(case.out)
    if case.model != "compiled" and known < fault.returned:
        raise Wrong("lost", f"{fault.returned} pairs were answered, and the record knows of {known}")


def _resumes(case: Case, same: bool) -> None:
    """The run goes on with healthy parts; to the bits of the run that nothing happened to, unless it was told otherwise.

    Where another answer that may be used was told before the run ended, that answer is part of it: the run may go on or not.
    """
    found, whole = answer(lambda: case.plan(Fault(), resume=True)), case.healthy()
    if not same:
        return
    if isinstance(found, Refused):
        raise Wrong("not resumed", str(found.error))
    if found.policy.theta.tobytes() != whole.policy.theta.tobytes():
        raise Wrong("other bits", f"after a resume: {found.policy.theta} against {whole.policy.theta}")
    if found.queries - found.reality_queries != whole.queries - whole.reality_queries:
        raise Wrong("other bits", f"after a resume: {found.queries} queries against {whole.queries}")
