"""Do this checkout and another revision give the same numbers, bit by bit? For changes that must not change any number.

    python benchmarks/same_bits.py REV [--only SUBSTRING]     # takes minutes, half of them for compiling

Every planner on problems that together cover most branches, interrupted and resumed runs, evaluate, certify, check and
select: once with the sources of this checkout (uncommitted changes included), once with those of REV. Both are copied to a
temporary folder and compiled afresh there, since Numba's cache does not notice that a called kernel in another file has
changed; each runs the same scenarios in a process of its own, with one thread for linear algebra.

Prints one line per scenario: "equal", "words" (only the wording of a reason, an error or a warning differs), or what
differs, with the other revision's first. The exit code is 1 if anything but words differs. The scenarios use public names
only; a name that a revision does not have is reported for the scenarios that need it.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import inspect
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

if "--child" in sys.argv:  # only a child imports coreplan, from the sources that it is to run
    import coreplan
    from coreplan import core as cores
    from coreplan import problem as problems

    # Without the rollouts that follow planning, where a revision has them.
    alone = {"reality": 0} if "reality" in inspect.signature(coreplan.plan).parameters else {}
    plan_alone = functools.partial(coreplan.plan, **alone)

ROOT = Path(__file__).resolve().parents[1]
NUMBER, STATE, WORDS = "number", "state", "words"  # kinds of entries of a record
STATES = ("light", "worst", "status")  # texts that must be equal, like numbers
Entry = list[Any]  # [kind, text], or [NUMBER, shape, bytes in hex]: JSON types
Record = dict[str, Entry]
Scenario = tuple[str, Callable[[], Record]]

DOCUMENTED = {"K": 5, "eta": 2e-4, "beta": 0.02, "alpha": 0.006}
PLANNERS: list[tuple[str, dict[str, Any]]] = [
    ("PlugIn", {}),
    ("PlugIn", {"epsilon": "1%"}),
    ("PlugIn", {"epsilon": 0.05}),
    ("PlugIn", {"noise": "independent"}),
    ("PlugIn", {"noise": "independent", "epsilon": "5%"}),
    ("PlugIn", {"output": 2.0}),
    ("PlugIn", {"samples": 2, "ridge": 1e-3}),
    ("CoreMirror", {}),
    ("CoreMirror", {"allocation": "occupancy"}),
    ("CoreMirror", {"output": "greedy", "step": 0.5}),
    ("CoreMirror", {"beta": 0.02, "output": "random"}),
    ("OptimisticPrimalDual", {}),
    ("OptimisticPrimalDual", {"steps": 5, "beta": 5.0, "restart": 0.2, "n_initial": 2}),
    ("SampledLP", {}),
    ("SampledLP", {"samples": 2, "n_initial": 10}),
    ("PrimalDual", {}),
    *(("PrimalDual", {**DOCUMENTED, "output": output}) for output in ("random", "last", "greedy")),
    ("Grow", {}),
    ("Grow", {"rounds": 3, "horizon": 2.0, "ridge": 0.1}),
]
RESUMED = ("river-swim", "random-linear:compiled=false", "a walk that ends")
JUDGED = (
    "random-linear", "river-swim", "river-linear", "river-linear, core incomplete", "river-linear, no core", "hard-linear",
    "masked one-hot", "masked dense", "random-linear mixed", "mountain-car:grid=5", "inventory:features=quadratic",
    "doubling features", "a walk that ends", "gymnasium FrozenLake, set",
)  # fmt: skip
ROLLED = ("random-linear", "river-linear", "masked dense")  # also evaluated by rollouts
POOLED = ("random-linear", "inventory:features=quadratic", "a walk that ends", "masked dense")


# Problems that are built here.


def mixed(scale: bool = False, core: int = 8) -> coreplan.Problem:
    """random-linear with its features multiplied by an invertible matrix, so that no core feature is a unit vector.

    With `scale` the matrix is diagonal: core features are multiples of unit vectors. With `core` < 8 the last core pairs
    are missing.
    """
    base = coreplan.make("random-linear")
    rng = np.random.default_rng(1)
    matrix = np.diag(rng.uniform(0.2, 3.0, 8)) if scale else rng.normal(size=(8, 8))  # [d, d]
    phi = base.features(np.arange(200)) @ matrix  # [X, A, d]
    features = problems.table_features(phi, 8, float(np.linalg.norm(phi, axis=2).max()))
    states, actions = base.core_pairs
    return dataclasses.replace(
        base, features=features, core_pairs=(states[:core], actions[:core]), name="mixed"
    )


def masked(dense: bool) -> coreplan.Problem:
    """Six states and four actions, half of the pairs forbidden; one-hot, or five dense features and more core pairs."""
    S, A, rng = 6, 4, np.random.default_rng(0)
    allowed = rng.random((S, A)) < 0.5  # [S, A]
    allowed[np.arange(S), [1, 2, 3, 3, 2, 1]] = True
    table = problems.Tabular(
        np.arange(S), rng.random((S, A)), np.full(S, 1 / S), P=rng.dirichlet(np.ones(S), S * A)
    )
    phi = rng.normal(size=(S, A, 5)) / 10  # [S, A, d]
    features = problems.FunctionFeatures(lambda x: phi[x], A, 5, 1.0) if dense else problems.one_hot(S, A)
    states, actions = np.argwhere(allowed).T.copy()
    return coreplan.Problem(
        problems.tabular_model(table), features, 0.9, core_pairs=(states, actions) if dense else None,
        tabular=lambda: table, mask=lambda x: allowed[x], name="masked",
    )  # fmt: skip


def walk() -> coreplan.Problem:
    """A noisy walk on [0, 1] with a cost per step, which ends at the right; the last column tells whether it has ended."""

    def initial(rng, n):
        return problems.alive(rng.random((n, 1)) / 2)

    def step(rng, states, actions):
        drift = np.where(actions == 1, 0.15, -0.05) + 0.05 * rng.standard_normal(len(states))
        x, ended = np.clip(states[:, 0] + drift, 0, 1), states[:, 1] != 0  # [n] each
        ends = ended | (x > 0.9)
        return np.where(ended, 0.0, np.where(ends, 2.0, -0.5)), np.stack([np.where(ends, 0, x), ends], axis=1)

    features = problems.with_terminal(problems.interpolation([0], [1], [5], 2))
    model = problems.FunctionModel(2, initial, step)
    return coreplan.Problem(
        model, features, 0.9, reward_range=problems.widened((-0.5, 2.0)), name="a walk that ends"
    )


def lake() -> coreplan.Problem:
    """Gymnasium's slippery FrozenLake, used not by its table but by setting the state: NumPy, with a terminal column."""
    import gymnasium

    def put(env, state):
        env.unwrapped.s = int(state[0])

    return problems.from_gymnasium(
        gymnasium.make("FrozenLake-v1"), problems.one_hot(16, 4), 0.9,
        get_state=lambda env: np.array([env.unwrapped.s]), set_state=put, reward_range=(-1.0, 1.0),
    )  # fmt: skip


def car() -> coreplan.Problem:
    """Gymnasium's MountainCar on a coarse grid."""
    return problems.from_gymnasium(
        "MountainCar-v0", problems.interpolation((-1.2, -0.07), (0.6, 0.07), (3, 3), 3), 0.95
    )


def doubling() -> coreplan.Problem:
    """Features that double from state to state (Tsitsiklis & Van Roy 1996): values through the core grow to their bound."""
    phi = np.array([[[1.0], [0.5]], [[2.0], [1.0]]])  # [X, A, d]
    model = problems.FunctionModel(
        2, lambda rng, n: np.zeros(n, dtype=int), lambda rng, x, a: (rng.random(len(x)), np.ones_like(x))
    )
    features = problems.FunctionFeatures(lambda x: phi[x], 2, 1, 2.0)
    return coreplan.Problem(
        model, features, 0.95, core_pairs=(np.array([0]), np.array([0])), name="doubling features"
    )


def cored(spec: str, keep: Callable[[Any], Any], more: Any = ()) -> coreplan.Problem:
    """A built-in problem with the core pairs whose states `keep` selects, and all actions of the states `more`."""
    base = coreplan.make(spec)
    states, actions = base.core_pairs
    kept = keep(states)
    extra, A = np.asarray(more, dtype=states.dtype), base.n_actions
    pairs = (
        np.append(states[kept], np.repeat(extra, A)),
        np.append(actions[kept], np.tile(np.arange(A), len(extra))),
    )
    return dataclasses.replace(base, core_pairs=pairs)


def coreless(spec: str) -> coreplan.Problem:
    """A built-in problem without its core set; its features must not carry one."""
    return dataclasses.replace(coreplan.make(spec), core_pairs=None)


def chosen() -> coreplan.Problem:
    """inventory's quadratic features with a core set of 60 pairs chosen by `select`."""
    base = coreplan.make("inventory:features=quadratic")
    core = cores.select(cores.rollout_pool(base, None, 500, actions="all"), size=60).core
    return dataclasses.replace(base, core_pairs=(core.states, core.actions))


BUILT: dict[str, tuple[int, Callable[[], coreplan.Problem] | None]] = {  # budget, function; None: `make` knows the name
    "random-linear": (1500, None),  # dense, compiled; a core of unit vectors
    "random-linear:compiled=false": (1500, None),  # the same as NumPy functions
    "random-linear:states=10**15,lazy=true": (500, None),
    "random-linear mixed": (1500, mixed),  # core features that are not on axes
    "random-linear mixed, core incomplete": (1500, lambda: mixed(core=6)),
    "random-linear scaled": (1500, lambda: mixed(scale=True)),  # on axes, of any length
    "random-linear, 28 core pairs": (  # m > d
        1500, lambda: cored("random-linear", lambda x: x >= 0, [x for x in range(200) if x % 40 == 3]),
    ),
    "hard-linear": (1500, None),  # m = 11, d = 4
    "river-swim": (2400, None),  # one-hot
    "river-swim, few queries": (60, lambda: coreplan.make("river-swim")),
    "river-linear": (1500, None),  # sparse
    "river-linear, core incomplete": (1500, lambda: cored("river-linear", lambda x: x < 8)),
    "river-linear, more core pairs": (1500, lambda: cored("river-linear", lambda x: x >= 0, range(100, 104))),
    "river-linear, no core": (1500, lambda: coreless("river-linear")),
    "mountain-car:grid=5": (3000, None),  # no exact values
    "inventory": (4000, None),  # a core set too large for dense systems
    "taxi": (7000, None),  # one whose mean features are never stored as a dense matrix
    "inventory:features=quadratic": (3000, None),  # no core
    "inventory:features=quadratic, selected core": (1500, chosen),
    "queue-network-cut:features=polynomial": (3000, None),  # no core
    "masked one-hot": (900, lambda: masked(dense=False)),
    "masked dense": (900, lambda: masked(dense=True)),
    "doubling features": (300, doubling),
    "a walk that ends": (900, walk),
    "gymnasium FrozenLake, set": (900, lake),
    "gymnasium MountainCar, set": (400, car),
    "gymnasium CliffWalking, table": (
        3000, lambda: problems.from_gymnasium("CliffWalking-v1", discount=0.9),
    ),
}  # fmt: skip


CORELESS = ("river-linear, no core", "inventory:features=quadratic", "queue-network-cut:features=polynomial")
ONLY = {"taxi": ("PlugIn",)}  # the planners for a problem that is slow with the others


@functools.cache
def built(name: str) -> coreplan.Problem:
    """Each problem is built once per process, so that its kernels are compiled once."""
    build = BUILT[name][1]
    return coreplan.make(name) if build is None else build()


# What is recorded.


def number(value: Any) -> Entry:
    """Numbers of any shape; None is an empty array, and all NaNs get the same bits."""
    array = np.array([] if value is None else value, dtype=np.float64)
    array[np.isnan(array)] = math.nan
    return [NUMBER, list(array.shape), array.tobytes().hex()]


def flat(value: Any, name: str = "") -> Record:
    """Nested dicts and lists flattened into one record; items of a list are labelled by their "name", if they have one."""
    if isinstance(value, Mapping):
        items = [(str(key), part) for key, part in value.items() if key != "name"]
    elif isinstance(value, (list, tuple)):
        items = [
            (str(part.get("name", i)) if isinstance(part, Mapping) else str(i), part)
            for i, part in enumerate(value)
        ]
    elif isinstance(value, str):
        return {name: [STATE if name.rpartition(".")[2] in STATES else WORDS, value]}
    else:
        return {name: number(value)}
    record: Record = {}
    for key, part in items:
        record |= flat(part, f"{name}.{key}" if name else key)
    return record


def of_plan(result: coreplan.Plan) -> Record:
    """Everything in a plan except its seconds."""
    record = {
        "theta": number(result.policy.theta),
        "scale": number(result.policy.scale),
        "status": [STATE, result.status.name],
        "reason": [WORDS, getattr(result, "reason", "")],
        "queries": number(result.queries),
        "initial_draws": number(result.initial_draws),
    }
    core = getattr(result, "core", None)
    if core is not None:
        record |= {"core states": number(core.states), "core actions": number(core.actions)}
    columns = [name for name in result.trace.columns if name != "seconds"]
    return record | {f"trace {name}": number(result.trace[name]) for name in columns}


def of_selection(pool: Any, chosen: Any) -> Record:
    """A pool and a selection from it."""
    record = {f"pool {n}": number(getattr(pool, n)) for n in ("states", "actions", "visits", "queries")}
    names = ("indices", "distances", "trail", "mean", "max", "weighted")
    return record | {n: number(getattr(chosen, n)) for n in names}


def refusable(work: Callable[[], Record]) -> Record:
    """The record of a scenario, or of the error that refused it; and its warnings."""
    watched = getattr(coreplan, "CoverageWarning", UserWarning)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", watched)
        try:
            record = work()
        except coreplan.CoreplanError as error:
            record = {"refused": [STATE, type(error).__name__], "error": [WORDS, str(error)]}
    told = [str(w.message) for w in caught if issubclass(w.category, watched)]
    return record | ({"warning": [WORDS, " ".join(told)]} if told else {})


# Scenarios.


def planner_name(kind: str, settings: Mapping[str, Any]) -> str:
    return f"{kind}({', '.join(f'{key}={value!r}' for key, value in settings.items())})"


def planned(problem: str, kind: str, settings: Mapping[str, Any]) -> Record:
    planner = getattr(coreplan, kind)(**settings)
    return of_plan(plan_alone(built(problem), planner=planner, budget=BUILT[problem][0], seed=1))


def resumed(problem: str, kind: str, settings: Mapping[str, Any]) -> Record:
    """A run with a third of its budget, resumed with all of it: the results of both."""
    out, record = Path("run"), {}
    shutil.rmtree(out, ignore_errors=True)
    for part, budget in (("first", BUILT[problem][0] // 3), ("then", BUILT[problem][0])):
        planner = getattr(coreplan, kind)(**settings)
        result = plan_alone(
            built(problem), planner=planner, budget=budget, seed=2, out=out, resume=part == "then"
        )
        record |= {f"{part} {name}": entry for name, entry in of_plan(result).items()}
    return record


def in_blocks(problem: str, kind: str) -> Record:
    """A run whose noise comes in blocks of a few queries."""
    planner = getattr(coreplan, kind)()
    return of_plan(plan_alone(built(problem), planner=planner, budget=BUILT[problem][0], seed=1, block=50))


def by_default(problem: str) -> Record:
    """The default planner, planning to an accuracy."""
    return of_plan(plan_alone(built(problem), epsilon="2%", budget=100_000, seed=1))


def on_stored(problem: str, kind: str) -> Record:
    """A planner on samples that `PlugIn` stored."""
    first = plan_alone(built(problem), planner=coreplan.PlugIn(), budget=BUILT[problem][0] // 2, seed=1)
    solved = getattr(coreplan, kind)().on(first.stored)
    (theta, scale), verdict = solved if len(solved) == 2 else (solved[:2], solved[2])
    record = {"theta": number(theta), "scale": number(scale)}
    if verdict is not None:
        record |= {"status": [STATE, verdict.status.name], "reason": [WORDS, verdict.reason]}
    return record


def some_policy(problem: coreplan.Problem) -> coreplan.SoftmaxPolicy:
    """A policy that does not depend on any planner."""
    theta = np.random.default_rng(3).normal(size=problem.features.dimension)  # [d]
    return coreplan.SoftmaxPolicy(theta, 3.0, problem.features)


def evaluated(problem: str, rollouts: bool = False) -> Record:
    """The value of a policy: exact if possible, unless `rollouts` are wanted."""
    known = built(problem)
    judge = dataclasses.replace(known, tabular=None) if rollouts else known
    judged = coreplan.evaluate(judge, some_policy(known), rollouts=50, seed=4)
    return flat(dataclasses.asdict(judged) | {"gap": judged.gap, "sub": judged.sub})


def certified(problem: str) -> Record:
    known = built(problem)
    return flat(coreplan.certify(known, None, some_policy(known), queries=8000, seed=5).as_dict())


def checked(problem: str) -> Record:
    return flat(coreplan.check(built(problem), queries=2000, seed=6).as_dict())


def selected(problem: str, method: str, of_policy: bool = False) -> Record:
    """A core set of six pairs from a pool: a policy's rollouts, or the uniform policy's with all actions."""
    known = built(problem)
    policy, actions = (some_policy(known), "policy") if of_policy else (None, "all")
    pool = cores.rollout_pool(known, policy, 400, actions=actions, seed=7)
    return of_selection(pool, cores.select(pool, size=6, method=method))


def boxed() -> Record:
    """A core set from a pool of pairs in a box, with as many pairs as a tolerance requires."""
    pool = cores.uniform_pool(built("mountain-car:grid=5"), 300, box=((-1.2, -0.07), (0.6, 0.07)), seed=8)
    return of_selection(pool, cores.select(pool, tolerance=0.3))


def pairings(problem: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The planners for a problem: all of them, or one of each kind if most will refuse it for the same reason."""
    seen: set[str] = set()
    for kind, settings in PLANNERS:
        refuses = problem in CORELESS and kind != "Grow" and kind in seen
        if kind in ONLY.get(problem, (kind,)) and not refuses:
            yield kind, settings
        seen.add(kind)


def scenarios() -> Iterator[Scenario]:
    """Every scenario with its name; nothing is built before a scenario is called."""
    for problem in BUILT:
        for kind, settings in pairings(problem):
            name = planner_name(kind, settings)
            yield f"{problem}: {name}", functools.partial(planned, problem, kind, settings)
            if problem in RESUMED:
                yield f"{problem}: {name} resumed", functools.partial(resumed, problem, kind, settings)
        if problem in JUDGED:
            yield f"{problem}: evaluate", functools.partial(evaluated, problem)
            yield f"{problem}: certify", functools.partial(certified, problem)
            yield f"{problem}: check", functools.partial(checked, problem)
        if problem in RESUMED:
            yield f"{problem}: plan to an accuracy", functools.partial(by_default, problem)
            for kind in ("PlugIn", "CoreMirror", "PrimalDual"):
                yield f"{problem}: {kind}() in blocks", functools.partial(in_blocks, problem, kind)
            for kind in ("OptimisticPrimalDual", "SampledLP"):
                yield f"{problem}: {kind}() on stored samples", functools.partial(on_stored, problem, kind)
        if problem in ROLLED:
            yield f"{problem}: evaluate by rollouts", functools.partial(evaluated, problem, True)
        if problem in POOLED:
            for method in ("hull", "projection", "farthest"):
                yield f"{problem}: select {method}", functools.partial(selected, problem, method)
            yield f"{problem}: select of a policy", functools.partial(selected, problem, "hull", True)
    yield "mountain-car:grid=5: uniform_pool, select", boxed


def child(out: Path, only: str) -> None:
    """Run the scenarios with the coreplan on PYTHONPATH, and write one line of JSON per scenario as soon as it is done."""
    home = Path(os.environ["PYTHONPATH"]).resolve()
    if not Path(coreplan.__file__).resolve().is_relative_to(home):
        sys.exit(f"coreplan came from {coreplan.__file__} and not from {home}.")
    with out.open("w") as file:
        for name, work in scenarios():
            if only not in name:
                continue
            try:
                record = refusable(work)
            except Exception as error:  # the other scenarios go on
                record = {"crash": [STATE, f"{type(error).__name__}: {error}"]}
            file.write(json.dumps({"scenario": name, "record": record}) + "\n")
            file.flush()


# Comparing.


def difference(old: Entry | None, new: Entry | None) -> str:
    """What differs between two entries of the same name; empty if they are equal."""
    if old == new:
        return ""
    if old is None or new is None or old[0] != NUMBER or new[0] != NUMBER:
        return f"{said(old)} -> {said(new)}"
    a, b = (np.frombuffer(bytes.fromhex(e[2])).reshape(e[1]) for e in (old, new))
    if a.shape != b.shape:
        return f"shape {a.shape} -> {b.shape}"
    if a.size == 1:
        return f"{a.item()!r} -> {b.item()!r}"
    unlike = a.view(np.int64) != b.view(np.int64)
    gaps = np.abs(a[unlike] - b[unlike])  # never inf - inf
    largest = "NaN" if np.isnan(gaps).all() else f"{np.nanmax(gaps):.2g}"
    return f"off by {largest} ({unlike.sum()} of {a.size})"


def said(entry: Entry | None) -> str:
    """An entry in words."""
    if entry is None:
        return "absent"
    return "present" if entry[0] == NUMBER else repr(entry[1])


def ending(record: Record | None) -> str:
    """How a scenario ended: with a result, or why without one."""
    if record is None:
        return "not reached"
    if "crash" in record:
        return f"crashed, {record['crash'][1]}"
    return f"refused, {record['error'][1]}" if "refused" in record else "has a result"


def compare(old: Record | None, new: Record | None) -> tuple[list[str], list[str]]:
    """The differences between two records of the same scenario: those that count, and those of words."""
    ends = [ending(record) for record in (old, new)]
    kinds = {end.partition(",")[0] for end in ends}
    if old is None or new is None or "crashed" in kinds or len(kinds) == 2:  # nothing to compare
        return [" -> ".join(ends)], []
    counts: dict[str, list[str]] = {}  # difference -> the names of the entries that have it
    words = []
    for name in dict.fromkeys([*old, *new]):
        entries = old.get(name), new.get(name)
        text = difference(*entries)
        if text and all(entry is None or entry[0] == WORDS for entry in entries):
            words.append(f"{name} {text}")
        elif text:
            counts.setdefault(text, []).append(name)
    return [f"{', '.join(names)} {text}" for text, names in counts.items()], words


def unpack(rev: str, folder: Path) -> Path:
    """Unpack the sources of a revision; returns their folder."""
    archive = subprocess.run(["git", "-C", ROOT, "archive", rev, "src"], capture_output=True)
    if archive.returncode:
        sys.exit(f"git archive {rev}: {archive.stderr.decode().strip()}")
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return folder / "src"


def run(source: Path, only: str) -> dict[str, Record]:
    """Run all scenarios with these sources; the records by the scenario's name."""
    out = source.parent / "records"
    environment = os.environ | {f"{kind}_NUM_THREADS": "1" for kind in ("OPENBLAS", "OMP", "MKL")}
    environment |= {"PYTHONPATH": str(source), "NUMBA_CACHE_DIR": str(source.parent / "compiled")}
    command = [sys.executable, Path(__file__).resolve(), "--child", out, "--only", only]
    done = subprocess.run(command, env=environment, cwd=source.parent)
    if done.returncode:
        print(f"The process {source.parent.name} ended with {done.returncode}.")
    lines = out.read_text().splitlines(keepends=True) if out.exists() else []
    whole = [json.loads(line) for line in lines if line.endswith("\n")]  # a killed process leaves half a line
    return {line["scenario"]: line["record"] for line in whole}


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare this checkout with another revision, bit by bit.")
    parser.add_argument("rev", nargs="?", default="HEAD", help="the other revision, by default HEAD")
    parser.add_argument("--only", default="", help="only scenarios whose name contains this")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        return child(given.child, given.only)
    names = [name for name, _ in scenarios() if given.only in name]
    if not names:
        sys.exit(f"No scenario's name contains '{given.only}'.")
    seconds, records = [], []
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder) / "here" / "src"
        shutil.copytree(ROOT / "src", here, ignore=shutil.ignore_patterns("__pycache__"))
        for source in (unpack(given.rev, Path(folder) / "there"), here):
            print(f"{len(names)} scenarios {source.parent.name} ...", file=sys.stderr, flush=True)
            begin = time.perf_counter()
            records.append(run(source, given.only))
            seconds.append(time.perf_counter() - begin)
    totals = {"equal": 0, "words": 0, "different": 0}
    for name in names:
        counts, words = compare(*(part.get(name) for part in records))
        totals["different" if counts else "words" if words else "equal"] += 1
        print(f"{name:88} {'; '.join(counts) or ('words' if words else 'equal')}")
        for text in words:
            print(f"    {text}")
    shown = ", ".join(f"{count} {what}" for what, count in totals.items())
    print(
        f"{len(names)} scenarios: {shown}; {seconds[0]:.0f} s for {given.rev}, {seconds[1]:.0f} s for this checkout"
    )
    sys.exit(1 if totals["different"] else 0)


if __name__ == "__main__":
    main()
