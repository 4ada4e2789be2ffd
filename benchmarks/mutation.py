"""Mutation testing of the mathematics: which small changes of the source does no test notice?

    python benchmarks/mutation.py [--parts theory lp core kernels certificate] [--modules core.hull ...]
                                  [--sample 8] [--seed 2] [--again] [--narrow] [--unchecked]
    python benchmarks/mutation.py --report

A mutant is a module with one small change: another operator, comparison, number or function, a condition that is
always true or false, a statement left out (`mutation_changes.py`). Of every module a seeded random sample of places is
changed, one way each, and the module's own few tests (`PARTS`) are run on it in a process of its own, with a limit on
processor time; what survives them meets more tests of its part (`WIDER`). A mutant is killed if a test fails or the
time is over. Results go to benchmarks/results/mutation.json, mutant by mutant, so that a run that was stopped goes on.
What became of a mutant when it was met first is kept, beside what becomes of it now (`--again` meets survivors again):
tests that are written for survivors make the second share of a sample look better than the next sample will be, and
the first one is the honest estimate. `--narrow` leaves out the further tests of the part, so that a share can only be
too small. Shares have 95% intervals by Wilson's formula. `--report` writes mutation.md, and
takes what is said about survivors from mutation_reasons.json. `--unchecked` leaves out the run of each module's tests
without a mutant.

Why not an existing program. Mutmut 3 joins all mutants of a function and chooses among them when it is called, which
compiled code cannot do. Cosmic-ray rewrites the checkout, where others work, and starts an interpreter per mutant,
which takes longer than many tests; of its 420 mutants of theory/operators.py 374 replace a binary operator by one of
eleven others, most of which are type errors (`@` by `<<`) that any test kills, which flatters the share. And both
would meet Numba's cache, which looks at the file of the cached function only: callers of a mutated kernel in other
files would go on with the old one. Here the mutant is a file of its own beside the checkout, and so are the modules
whose compiled code calls it (`CALLERS`).

Left out: tests that break the source themselves (they would fail on a mutant because they do not find their place),
and theory.claims.main_theorem, each test of which makes 60 million queries.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.util
import json
import math
import os
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from mutation_changes import chosen, mutate, places, possible

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results"
SOURCE = ROOT / "src" / "coreplan"


# Leaves out the tests that break the source themselves.
INTACT = "not notice and not broken and not misses and not miss_it and not fails_a_row and not every_row"

# Leaves out what test_coverage.py asks of whole runs of planners.
NO_RUNS = (
    " and not no_planner and not says_so and not no_basis and not radius and not both_loops and not resume"
)
NO_RUNS += " and not too_large"


class Tests(NamedTuple):
    """The tests of one module: files or node ids, and which of their tests (`-k`)."""

    paths: tuple[str, ...]
    k: str = INTACT


T = "tests/theory/test_"


def holds(*groups: str) -> tuple[str, ...]:
    return tuple(f"{T}verify.py::test_every_claim_holds[{g}]" for g in groups)


def claims(*groups: str) -> Tests:
    """For a module of claims: its rows hold, each has a fault that fails it, and what is printed of it is right."""
    return Tests((T + "verify.py",), " or ".join(f"({g} and (holds or fails_its_row))" for g in groups))


PARTS: dict[str, dict[str, Tests]] = {
    "theory": {
        "theory.definitions": Tests((T + "definitions.py", *holds("bellman_errors", "q_errors"))),
        "theory.bellman": Tests((T + "bellman.py", *holds("bellman_errors"))),
        "theory.operators": Tests((T + "definitions.py", T + "tables.py", *holds("duality_to_suboptimality"))),
        "theory.saddle": Tests((T + "saddle.py", *holds("saddle"))),
        "theory.theorem": Tests((T + "theorem.py",)),
        "theory.tables": Tests((T + "tables.py", T + "definitions.py", T + "lp.py")),
        "theory.recorded": Tests((T + "gap_series.py", *holds("duality_to_suboptimality"))),
        "theory.estimators": Tests(holds("estimators")),
        "theory.naive": Tests(holds("naive_loop")),
        "theory.rows": Tests((T + "verify_prefixes.py",), INTACT + " and not begin"),
        "theory.mirror": Tests((T + "theorem.py", *holds("core_mirror"))),
        "theory.given_policy": Tests(("tests/planners/test_initial_policy.py",)),
        "theory.claims.programs": claims("lp_pairs", "footnote", "saddle"),
        "theory.claims.realizability": claims("bellman_errors", "q_errors"),
        "theory.claims.duality": claims("duality_to_suboptimality"),
        "theory.claims.gradients": claims("estimators"),
        "theory.claims.regrets": claims("mirror_ascent", "gradient_descent", "policy_regret"),
        "theory.claims.algorithm": claims("policy_read_out", "initial_policy"),
        "theory.claims.certificate": claims("certificate"),
    },
    "lp": {
        "theory.lp": Tests((*holds("lp_pairs"), T + "lp.py"), INTACT + " and not thousand"),
        "sampled.verified": Tests(
            (*holds("lp_pairs"), T + "lp.py", "tests/planners/test_sampled_lp.py"), INTACT + " and not thousand"
        ),
        "sampled.lp": Tests(
            ("tests/planners/test_sampled_lp.py", T + "lp.py::test_the_sampled_lp_bounds_theta_on_both_sides")
        ),
    },
    "core": {
        "core.coreset": Tests(("tests/core/test_core_set.py", "tests/core/test_select.py")),
        "core.frame": Tests(("tests/core/test_frame.py", "tests/core/test_units.py", "tests/core/test_hull.py",
                            T + "definitions.py")),
        "core.hull": Tests(("tests/core/test_hull.py", "tests/core/test_units.py")),
        "core.nearest": Tests(("tests/core/test_coverage.py", "tests/core/test_hull.py"), INTACT + NO_RUNS),
        "core.coverage": Tests(("tests/core/test_coverage.py",), INTACT + NO_RUNS),
        "core.growing": Tests(("tests/core/test_growing.py", "tests/core/test_select.py")),
        "core.selection": Tests(("tests/core/test_select.py",)),
        "core.pools": Tests(("tests/core/test_pools.py",)),
    },
    "kernels": {
        "planners.primal_dual.kernels": Tests(
            (*holds("naive_loop", "policy_read_out", "estimators", "mirror_ascent"), "tests/planners/test_primal_dual.py"),
        ),
        "planners.core_mirror.kernels": Tests(("tests/planners/test_core_mirror.py", *holds("core_mirror"))),
        "planners.optimistic.kernels": Tests(("tests/planners/test_optimistic.py",)),
        "planners.grow.kernels": Tests(("tests/planners/test_grow_equations.py", "tests/planners/test_grow.py")),
        "planners.refine.kernels": Tests(("tests/planners/test_refine_kernels.py", "tests/planners/test_refine_parts.py")),
        "planners.search.kernels": Tests(("tests/planners/test_search.py",)),
    },
    "certificate": {
        f"judge.certificate.{name}": Tests(("tests/judge/test_certificate_numbers.py",))
        for name in (
            "upper", "first_half", "lower", "condition", "certificate", "alone", "evidence", "shared", "rounds", "design",
            "fitted", "limits", "spending",
        )
    },
}  # fmt: skip
CALLERS = {"core.frame": ("core.coverage",), "core.nearest": ("core.coverage",)}

# The tests of a part that a mutant meets if it survives those of its module.
CERTIFY = tuple(
    f"tests/{name}.py"
    for name in (
        "judge/test_upper",
        "judge/test_lower",
        "judge/test_no_upper",
        "judge/test_certify",
        "plots/test_plans",
    )
)
WIDER = {
    "theory": Tests((T + "definitions.py", T + "lp.py", T + "saddle.py", T + "bellman.py", T + "tables.py",
                     T + "theorem.py", *holds("lp_pairs", "footnote", "duality_to_suboptimality")),
                    INTACT + " and not thousand"),
    "lp": Tests((T + "lp.py", "tests/planners/test_sampled_lp.py", *holds("lp_pairs")), INTACT + " and not thousand"),
    "core": Tests(("tests/core", "tests/simulate/test_inputs.py", "tests/planners/test_contract.py")),
    "kernels": Tests(("tests/planners/test_masks.py", "tests/planners/test_contract.py")),
    "certificate": Tests(CERTIFY, INTACT + " and not cover and not stays_below and not betting_bound"),
}  # fmt: skip

# One mutant in a process of its own.


class Elsewhere(importlib.abc.MetaPathFinder):
    """Finds some modules in other files."""

    def __init__(self, files: dict[str, Path]) -> None:
        self.files = files

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_file_location(name, self.files[name]) if name in self.files else None


def outcome(module: str, text: str | None, tests: Tests, limit: int, log: Path) -> str:
    """'killed', 'survived' or 'over time': the tests of a module on this text of it (None: as it is)."""
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        if text is not None:
            for name in (module, *CALLERS.get(module, ())):
                files[f"coreplan.{name}"] = Path(folder) / (name.replace(".", "_") + ".py")
                files[f"coreplan.{name}"].write_text(text if name == module else _path(name).read_text())
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
            os._exit(_tested(files, tests, log))
        _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "over time"
    return "survived" if status == 0 else "killed"


def _tested(files: dict[str, Path], tests: Tests, log: Path) -> int:
    try:
        os.setsid()
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.chdir(ROOT)
        sys.path.insert(0, str(ROOT / "src"))
        sys.meta_path.insert(0, Elsewhere(files))
        import pytest

        paths = [str(ROOT / p) for p in tests.paths]
        return int(
            pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-o", "timeout=0", "-k", tests.k, *paths])
        )
    except BaseException:
        traceback.print_exc()
        return 1


def _path(module: str) -> Path:
    return SOURCE / (module.replace(".", "/") + ".py")


# The pass, and what is said of it.

LIMIT, LIMIT_WIDER = 90, 400  # seconds of processor time


def run(args: argparse.Namespace) -> None:
    """Meet the mutants of a sample that have not been met, or its survivors again."""
    for name in ("numpy", "scipy.optimize", "scipy.sparse.linalg", "numba", "pytest", "hypothesis"):
        importlib.import_module(name)  # once, not in every child
    for part in args.parts:
        for module, tests in PARTS[part].items():
            if args.modules and module not in args.modules:
                continue
            tree = ast.parse(_path(module).read_text())
            ways, of_now = places(tree), possible(tree)
            words_of = {place: words for words, place in of_now.items()}
            found = _load(args.store)
            here = found.setdefault(str(args.seed), {}).setdefault(module, {"mutants": {}})
            here["places"] = len(ways)
            sample = [words_of[p] for p in chosen(ways, args.sample, f"{args.seed}:{module}")]
            if args.again:
                todo = [w for w, m in here["mutants"].items() if m["now"] == "survived" and w in of_now]
            else:
                todo = [w for w in sample if w not in here["mutants"]]
            if todo and not args.unchecked and outcome(module, None, tests, 900, args.log) != "survived":
                print(f"{module}: its tests fail without a mutant, see {args.log}", flush=True)
                continue
            for words in todo:
                text, begin = mutate(tree, of_now[words]), time.monotonic()
                state = outcome(module, text, tests, LIMIT, args.log)
                if state == "survived" and not args.narrow:
                    state = outcome(module, text, WIDER[part], LIMIT_WIDER, args.log)
                mutant = here["mutants"].setdefault(words, {"first": state})
                mutant["now"] = state
                args.store.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
                print(f"{module} {words}: {state} ({time.monotonic() - begin:.0f} s)", flush=True)


def _load(store: Path) -> dict[str, Any]:
    return dict(json.loads(store.read_text())) if store.exists() else {}


def wilson(killed: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    share, more = killed / n, z * z / n
    middle, half = share + more / 2, z * math.sqrt((share * (1 - share) + more / 4) / n)
    return (middle - half) / (1 + more), (middle + half) / (1 + more)


def _share(killed: int, n: int) -> str:
    low, high = wilson(killed, n)
    return f"{killed} of {n}: {killed / n:.0%} ({low:.0%} to {high:.0%})"


def report(store: Path) -> str:
    path = RESULTS / "mutation_reasons.json"
    reasons = json.loads(path.read_text()) if path.exists() else {}
    lines = [
        "# Mutation testing", "",
        "`python benchmarks/mutation.py`: random samples of small changes of the source, each tested by the module's own",
        "few tests, and if it survives by more tests of its part. Killed: a test failed, or the time was over. *Same*",
        "are mutants that are the same program, which no test can kill; shares are of the others, with 95% intervals by",
        "Wilson's formula. *At first* is what became of a mutant when it was met first: the honest estimate for a change",
        "that nobody has looked at. *Now* counts the tests that were written for survivors since. Sample 2 is not finished;",
        "of its parts theory, core and kernels have been met with `--narrow`, so that their shares can only be too small.",
        "",
        "| sample | part | modules | places | mutants | same | killed at first | killed now |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    survivors: dict[str, str] = {}
    for seed, found in sorted(_load(store).items(), key=lambda item: int(item[0])):
        for part, modules in PARTS.items():
            rows = {m: found[m] for m in modules if m in found and found[m]["mutants"]}
            if not rows:
                continue
            mutants = {f"{m} {w}": s for m, row in rows.items() for w, s in row["mutants"].items()}
            left = {key for key, s in mutants.items() if s["now"] == "survived"}
            same = {key for key in left if reasons.get(key, "").startswith("the same")}
            n = len(mutants) - len(same)
            firsts = [s["first"] for s in mutants.values()]
            first = "not kept" if None in firsts else _share(n - firsts.count("survived") + len(same), n)
            now = len(mutants) - len(left)
            places_of = sum(row["places"] for row in rows.values())
            lines.append(
                f"| {seed} | {part} | {len(rows)} | {places_of} | {len(mutants)} | {len(same)} "
                f"| {first} | {_share(now, n)} |"
            )
            survivors |= {key: reasons.get(key, "not looked into") for key in sorted(left)}
    lines += ["", "Survivors:", "", "| module | change | why |", "|---|---|---|"]
    for key, why in survivors.items():
        module, words = key.split(" ", 1)
        lines.append(f"| {module} | `{words.replace('|', '¦')}` | {why} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--modules", nargs="+", default=[], help="of these parts; all by default")
    parser.add_argument("--sample", type=int, default=8, help="places per module")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--store", type=Path, default=RESULTS / "mutation.json")
    parser.add_argument("--log", type=Path, default=Path(tempfile.gettempdir()) / "mutation.log")
    parser.add_argument("--again", action="store_true", help="survivors of the sample meet their tests again")
    parser.add_argument("--narrow", action="store_true", help="the module's own tests and no more")
    parser.add_argument("--unchecked", action="store_true", help="without a run of the tests on no mutant")
    parser.add_argument("--report", action="store_true", help="write mutation.md from the results so far")
    args = parser.parse_args()
    if not args.report:
        run(args)
    (RESULTS / "mutation.md").write_text(report(args.store))


if __name__ == "__main__":
    main()
