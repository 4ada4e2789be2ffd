"""Mutation testing of the mathematics: which small changes of the source does no test notice?

    python benchmarks/mutation.py [--parts theory lp core kernels certificate] [--sample 12] [--seed 1] [--again wider]
    python benchmarks/mutation.py --report

A mutant is a module with one small change: another operator, comparison, number or function, a condition that is
always true or false, a statement left out. Of every module a seeded random sample of places is changed, one way each,
and the module's own few tests (`PARTS`) are run on it in a process of its own, with a time limit; a mutant is killed
if one of them fails or the time is over. The share of killed mutants has a 95% interval by Wilson's formula. Results
go to benchmarks/results/mutation.json, mutant by mutant, so that a run that was stopped goes on; `--report` writes
mutation.md from them, and takes what is said about survivors from mutation_reasons.json.

Why not an existing program. Mutmut 3 joins all mutants of a function and chooses among them when it is called, which
compiled code cannot do. Cosmic-ray rewrites the checkout, where others work, and starts an interpreter per mutant,
which takes longer than many tests; of its 420 mutants of theory/operators.py 374 replace a binary operator by one of
eleven others, most of which are type errors (`@` by `<<`) that any test kills, which flatters the share. And both
would meet Numba's cache, which looks at the file of the cached function only: callers of a mutated kernel in other
files would go on with the old one. Here the mutant is a file of its own beside the checkout, and so are the modules
whose compiled code calls it (`CALLERS`).

Tests that break the source themselves are left out: they would fail on a mutant because they do not find their place.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.util
import json
import math
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / "results"
SOURCE = ROOT / "src" / "coreplan"


# Leaves out the tests that break the source themselves.
INTACT = "not notice and not broken and not misses and not miss_it and not fails_a_row and not every_row"


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
        "theory.mirror": Tests((T + "theorem.py", T + "mirror.py", *holds("core_mirror"))),
        "theory.claims.programs": claims("lp_pairs", "footnote", "saddle"),
        "theory.claims.realizability": claims("bellman_errors", "q_errors"),
        "theory.claims.duality": claims("duality_to_suboptimality"),
        "theory.claims.gradients": claims("estimators"),
        "theory.claims.regrets": claims("mirror_ascent", "gradient_descent", "policy_regret"),
        "theory.claims.algorithm": claims("policy_read_out", "computation"),
    },
    "lp": {
        "theory.lp": Tests((T + "lp.py",), INTACT + " and not thousand"),
        "sampled.verified": Tests((T + "lp.py", "tests/planners/test_sampled_lp.py"), INTACT + " and not thousand"),
        "sampled.lp": Tests(("tests/planners/test_sampled_lp.py",)),
    },
    "core": {
        "core.coreset": Tests(("tests/core/test_core_set.py", "tests/core/test_select.py")),
        "core.frame": Tests(("tests/core/test_units.py", "tests/core/test_hull.py", T + "definitions.py")),
        "core.hull": Tests(("tests/core/test_hull.py", "tests/core/test_units.py")),
        "core.nearest": Tests(("tests/core/test_coverage.py", "tests/core/test_hull.py")),
        "core.coverage": Tests(("tests/core/test_coverage.py",)),
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
        "planners.refine.kernels": Tests(("tests/planners/test_refine_parts.py",)),
        "planners.search.kernels": Tests(("tests/planners/test_search.py",)),
    },
    "certificate": {
        f"judge.certificate.{name}": Tests(
            ("tests/judge/test_upper.py", "tests/judge/test_lower.py", "tests/judge/test_no_upper.py",
             "tests/judge/test_evidence.py", "tests/judge/test_certify.py"),
        )
        for name in ("upper", "first_half", "lower", "condition", "evidence", "shared", "rounds")
    },
}  # fmt: skip
CALLERS = {"core.frame": ("core.coverage",), "core.nearest": ("core.coverage",)}

# The tests of a part that a mutant meets if it survives those of its module.
WIDER = {
    "theory": Tests((T + "definitions.py", T + "lp.py", T + "saddle.py", T + "bellman.py", T + "tables.py",
                     T + "theorem.py", *holds("lp_pairs", "footnote", "duality_to_suboptimality")),
                    INTACT + " and not thousand"),
    "lp": Tests((T + "lp.py", "tests/planners/test_sampled_lp.py", *holds("lp_pairs")), INTACT + " and not thousand"),
    "core": Tests(("tests/core", "tests/simulate/test_inputs.py", "tests/planners/test_contract.py")),
    "kernels": Tests(("tests/planners/test_masks.py", "tests/planners/test_contract.py")),
    "certificate": Tests(("tests/judge",)),
}  # fmt: skip

# The changes.

OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}  # fmt: skip
SWAPS = [
    ("min", "max"), ("argmin", "argmax"), ("minimum", "maximum"), ("floor", "ceil"), ("any", "all"),
    ("zeros", "ones"), ("sum", "max"), ("mean", "sum"), ("abs", "float"), ("exp", "sqrt"), ("log", "sqrt"),
    ("hstack", "vstack"), ("lower", "upper"),
]  # fmt: skip
FUNCTIONS = {a: b for pair in SWAPS for a, b in (pair, pair[::-1])} | {"sqrt": "exp", "float": "float"}


def variants(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the node's place."""
    match node:
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            yield ast.BinOp(node.left, OPERATORS[type(op)](), node.right)
        case ast.AugAssign(op=op) if type(op) in OPERATORS:
            yield ast.AugAssign(node.target, OPERATORS[type(op)](), node.value)
            yield ast.Pass()
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            yield node.operand
        case ast.Compare(ops=[op]):
            for other in COMPARISONS[type(op)]:
                yield ast.Compare(node.left, [other()], node.comparators)
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(2 * value if value else 1.0)
        case ast.Name(id=name) if FUNCTIONS.get(name, name) != name:
            yield ast.Name(FUNCTIONS[name], node.ctx)
        case ast.Attribute(attr=name) if FUNCTIONS.get(name, name) != name:
            yield ast.Attribute(node.value, FUNCTIONS[name], node.ctx)
        case ast.If() | ast.IfExp():
            for value in (True, False):
                changed = copy.copy(node)
                changed.test = ast.Constant(value)
                yield changed
        case ast.Assign(targets=[ast.Subscript() | ast.Attribute()]) | ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def left_alone(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that no mutant changes: annotations, decorators, what errors say."""
    match node:
        case ast.FunctionDef():
            yield from (*node.decorator_list, node.returns or ast.Pass())
        case ast.ClassDef():
            yield from node.decorator_list
        case ast.arg() | ast.AnnAssign():
            yield node.annotation or ast.Pass()
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.ImportFrom():
            yield node
        case ast.Call(func=ast.Name(id=name)) if name in (
            "TypeVar",
            "_group",
            "group",
            "InputError",
            "_refuse",
        ):
            yield node
        case ast.Subscript(value=ast.Name(id="Callable" | "Literal" | "tuple" | "dict" | "list")):
            yield node


class Place(NamedTuple):
    """A way to change a tree: the `variant`th of the node with this number in `ast.walk`."""

    number: int
    variant: int


def places(tree: ast.Module) -> dict[int, int]:
    """The numbers of the nodes that can be changed, and how many ways each has."""
    nodes = list(ast.walk(tree))
    alone: set[int] = set()
    for node in nodes:
        for top in left_alone(node):
            alone |= {id(below) for below in ast.walk(top)}
    return {
        i: n for i, node in enumerate(nodes) if id(node) not in alone and (n := len(list(variants(node))))
    }


def mutate(tree: ast.Module, place: Place) -> tuple[str, str]:
    """The mutant's source, and what was changed in words: `line: before -> after`."""
    tree = copy.deepcopy(tree)
    target = list(ast.walk(tree))[place.number]
    new = list(variants(target))[place.variant]
    line, before = getattr(target, "lineno", 0), _words(target)
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, name, new)
            elif isinstance(value, list) and any(v is target for v in value):
                setattr(parent, name, [new if v is target else v for v in value])
    return ast.unparse(ast.fix_missing_locations(tree)), f"{line}: {before} -> {_words(new)}"


def chosen(ways: dict[int, int], sample: int, seed: str) -> list[Place]:
    """A random sample of the places, one way each; a larger sample begins with a smaller one."""
    rng, order = random.Random(seed), sorted(ways)
    rng.shuffle(order)
    return [Place(i, random.Random(f"{seed}:{i}").randrange(ways[i])) for i in order[:sample]]


def _words(node: ast.AST) -> str:
    if isinstance(node, ast.If):
        return f"if {ast.unparse(node.test)}:"
    return ast.unparse(node).replace("\n", " ")[:100]


# One mutant in a process of its own.


class Elsewhere(importlib.abc.MetaPathFinder):
    """Finds some modules in other files."""

    def __init__(self, files: dict[str, Path]) -> None:
        self.files = files

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_file_location(name, self.files[name]) if name in self.files else None


def outcome(module: str, text: str | None, tests: Tests, limit: float, log: Path) -> tuple[str, float]:
    """'killed', 'survived' or 'over time', and the seconds: the tests of a module on this text of it (None: as it is)."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        if text is not None:
            for name in (module, *CALLERS.get(module, ())):
                files[f"coreplan.{name}"] = Path(folder) / (name.replace(".", "_") + ".py")
                files[f"coreplan.{name}"].write_text(text if name == module else _path(name).read_text())
        child = os.fork()
        if child == 0:
            os._exit(_tested(files, tests, log))
        while time.monotonic() - begin < limit:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return ("survived" if status == 0 else "killed"), time.monotonic() - begin
            time.sleep(0.05)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "over time", time.monotonic() - begin


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
        return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-k", tests.k, *paths]))
    except BaseException:
        traceback.print_exc()
        return 1


def _path(module: str) -> Path:
    return SOURCE / (module.replace(".", "/") + ".py")


# The pass, and what is said of it.


def run(parts: Iterable[str], sample: int, seed: int, again: str, store: Path, log: Path) -> None:
    for name in ("numpy", "scipy.optimize", "scipy.sparse.linalg", "numba", "pytest", "hypothesis"):
        importlib.import_module(name)  # once, not in every child
    found = json.loads(store.read_text()) if store.exists() else {}

    def save() -> None:
        store.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")

    todo = ((part, m, t) for part in parts for m, t in PARTS[part].items() if _path(m).exists())
    for part, module, tests in todo:
        tree = ast.parse(_path(module).read_text())
        ways = places(tree)
        wanted = [mutate(tree, place) for place in chosen(ways, sample, f"{seed}:{module}")]
        here = found.setdefault(module, {"places": len(ways), "mutants": {}})
        here["places"] = len(ways)
        fresh = [(text, words) for text, words in wanted if words not in here["mutants"]]
        left = [(text, words) for text, words in wanted if here["mutants"].get(words) == "survived" and again]
        _meet(module, fresh, tests, here["mutants"], log, save)
        _meet(module, left, WIDER[part] if again == "wider" else tests, here["mutants"], log, save)


def _meet(module: str, mutants: list[tuple[str, str]], tests: Tests, found: dict, log: Path, save) -> None:
    """Run tests on mutants, and keep the outcomes in `found`."""
    if mutants:
        state, seconds = outcome(module, None, tests, 900.0, log)
        if state != "survived":
            print(f"{module}: its tests fail without a mutant, see {log}", flush=True)
            return
    for text, words in mutants:
        state, took = outcome(module, text, tests, 5 * seconds + 60, log)
        found[words] = state
        save()
        print(f"{module} {words}: {state} ({took:.1f} s of {seconds:.1f})", flush=True)


def wilson(killed: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    share, more = killed / n, z * z / n
    middle, half = share + more / 2, z * math.sqrt((share * (1 - share) + more / 4) / n)
    return (middle - half) / (1 + more), (middle + half) / (1 + more)


def report(store: Path) -> str:
    found = json.loads(store.read_text())
    path = RESULTS / "mutation_reasons.json"
    reasons = json.loads(path.read_text()) if path.exists() else {}
    lines = [
        "# Mutation testing", "",
        "`python benchmarks/mutation.py`: a random sample of small changes of the source, each tested by the module's",
        "own few tests. Killed: a test failed, or the time was over. Intervals are Wilson's, 95%. How a change is made,",
        "and which tests are run, stands in the program.", "",
        "| part | modules | places | mutants | same program | killed of the others | share | 95% |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    survivors = []
    for part, modules in PARTS.items():
        rows = {m: found[m] for m in modules if m in found and found[m]["mutants"]}
        if not rows:
            continue
        states = {f"{m} {w}": s for m, row in rows.items() for w, s in row["mutants"].items()}
        same = sum(
            reasons.get(key, "").startswith("the same") for key, s in states.items() if s == "survived"
        )
        n, killed = len(states) - same, sum(s != "survived" for s in states.values())
        low, high = wilson(killed, n)
        places_of = sum(row["places"] for row in rows.values())
        lines.append(
            f"| {part} | {len(rows)} | {places_of} | {len(states)} | {same} | {killed} | {killed / n:.0%} "
            f"| {low:.0%} to {high:.0%} |"
        )
        survivors += [(m, w) for m, row in rows.items() for w, s in row["mutants"].items() if s == "survived"]
    lines += ["", "Survivors:", "", "| module | change | why |", "|---|---|---|"]
    for module, words in survivors:
        why = reasons.get(f"{module} {words}", "not looked into")
        lines.append(f"| {module} | `{words.replace('|', '¦')}` | {why} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--sample", type=int, default=12, help="places per module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, default=Path(tempfile.gettempdir()) / "mutation.log")
    more = "survivors so far meet their module's tests again, or more tests of their part"
    parser.add_argument("--again", default="", choices=["own", "wider"], help=more)
    parser.add_argument("--report", action="store_true", help="write mutation.md from the results so far")
    args = parser.parse_args()
    store = RESULTS / "mutation.json"
    if not args.report:
        run(args.parts, args.sample, args.seed, args.again, store, args.log)
    (RESULTS / "mutation.md").write_text(report(store))


if __name__ == "__main__":
    main()
