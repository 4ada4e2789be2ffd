"""The parts, who may import whom, and one home for each idea; docs/architecture.md is the same list in words."""

from __future__ import annotations

import ast
import importlib
import re

import numpy as np
import pytest

import coreplan
from coreplan.planners import DOUBTS, PLANNERS
from helpers.places import ROOT

SOURCE = ROOT / "src" / "coreplan"
FLOOR = {"base", "features", "problem"}  # what everything above may use
MIDDLE = FLOOR | {"simulate", "core", "sampled"}
ALL = MIDDLE | {"plots", "policy", "planners", "run", "judge", "planning"}
ALLOWED = {
    "_version": set(),
    "base": set(),
    "features": {"base"},
    "problem": {"base", "features"},
    "simulate": FLOOR,
    "core": FLOOR | {"simulate"},
    "sampled": FLOOR | {"simulate", "core"},
    "plots": FLOOR,
    "policy": FLOOR | {"plots"},
    "export": FLOOR | {"policy", "_version"},
    "planners": MIDDLE,
    "run": MIDDLE | {"policy", "planners"},
    "judge": MIDDLE | {"policy", "plots"},
    "tracking": {"base", "run", "_version"},
    "planning": ALL | {"tracking", "_version"},
    "theory": ALL,
    "bench": ALL | {"theory", "_version"},
    "report": ALL | {"export", "_version"},
    "cli": ALL | {"tracking", "theory", "bench", "export", "report", "_version"},
    "enumerated": {"theory"},
    "envs": FLOOR,
    "executors": {"problem", "simulate"},
    "lp": {"theory"},
    "__main__": {"cli"},
}
ABOVE = {
    "planners/testing.py": ALL
}  # what authors of planners run: it stands above the parts, and nothing imports it

FILES = sorted(p for p in SOURCE.rglob("*.py") if p != SOURCE / "__init__.py")
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def name_of(path):
    return path.relative_to(SOURCE).as_posix()


def part(path):
    return name_of(path).split("/")[0].removesuffix(".py")


def imports(path, text):
    """The modules of coreplan that a file with this text imports, as tuples of names, each with what is taken from it."""
    package = ("coreplan", *path.relative_to(SOURCE).parent.parts)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            full = (*base, *(node.module.split(".") if node.module else ()))
            if full[:1] != ("coreplan",):
                continue
            for alias in node.names:
                yield (full[1:], alias.name) if len(full) > 1 else ((alias.name.split(".")[0],), "")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("coreplan."):
                    yield tuple(alias.name.split(".")[1:]), ""


def forbidden(path, text):
    """What a file imports that its part may not."""
    mine = part(path)
    allowed = ALLOWED[mine] | ABOVE.get(name_of(path), set()) | {mine, "__version__"}
    return {module[0] for module, _ in imports(path, text)} - allowed


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_go_one_way(path):
    assert part(path) in ALLOWED, f"{part(path)} is not in the map: add it here and in docs/architecture.md"
    assert forbidden(path, path.read_text()) == set()


@pytest.mark.parametrize(
    ("file", "line", "caught"),
    [
        ("planners/protocol.py", "from ..judge import evaluate", "judge"),
        ("planners/protocol.py", "from coreplan.theory import Enumerated", "theory"),
        ("planners/protocol.py", "from .. import run", "run"),
        ("judge/value.py", "from ..planners import PlugIn", "planners"),
        ("run/loop.py", "from ..judge import evaluate", "judge"),
        ("problem/zoo/river.py", "from ...policy import SoftmaxPolicy", "policy"),
        ("core/selection.py", "import coreplan.planners.protocol", "planners"),
    ],
)
def test_the_map_notices(file, line, caught):
    path = SOURCE / file
    assert caught in forbidden(path, line + "\n" + path.read_text())


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_import_reaches_past_the_init_of_another_part(path):
    for module, name in imports(path, path.read_text()):
        assert len(module) == 1 or module[0] == part(path), f"from {'.'.join(module)} import {name}"


def test_nothing_imports_the_contract_test():
    for path in FILES:
        for module, name in imports(path, path.read_text()):
            assert (*module, name)[:2] != ("planners", "testing"), path


def test_the_architecture_page_lists_every_part():
    text = (ROOT / "docs" / "architecture.md").read_text()
    for name in ALLOWED.keys() - {"_version", "__main__", "enumerated", "lp", "executors"}:
        assert f"`{name}`" in text, name


# One home for each idea.


def lines_with(pattern, but=()):
    """The files, with numbers of lines, where a pattern stands."""
    found = []
    for path in FILES:
        if not any(name_of(path).startswith(name) for name in but):
            lines = path.read_text().splitlines()
            found += [f"{name_of(path)}:{n}" for n, line in enumerate(lines, 1) if re.search(pattern, line)]
    return found


def test_one_file_asks_whether_features_are_dense_or_sparse():
    assert lines_with(r"isinstance\(.*\bSparse\b", but=["features/batch.py", "problem/adapters/"]) == []


def test_overloads_on_features_live_with_the_features():
    """Elsewhere: how the compiled loop fills an array, and Algorithm 1's inner loop, whose text is the paper's."""
    homes = ["features/kernels.py", "features/row_kernels.py"]
    places = {place.split(":")[0] for place in lines_with(r"^@overload", but=homes)}
    assert places == {"run/loop.py", "planners/primal_dual/kernels.py"}


def test_queries_are_counted_in_one_place():
    assert [place.split(":")[0] for place in lines_with(r"queries \+=")] == ["simulate/simulator.py"]


def test_models_are_called_behind_one_door():
    """Elsewhere: adapters, which are models themselves, workers and the log, behind the door too, and naive Algorithm 1."""
    calls = lines_with(
        r"\bmodel\.(step|initial|step_with)\(",
        but=["problem/", "theory/naive.py", "planners/testing.py", "simulate/elsewhere/", "simulate/log/"],
    )
    assert calls == []
    assert {p.split(":")[0] for p in lines_with(r"\bguard\.(step|initial|step_with)\(")} == {
        "simulate/simulator.py"
    }


def test_doubts_are_in_one_list():
    """Elsewhere: `verdicts.py`, which joins them."""
    homes = ["planners/doubts.py", "planners/status.py", "planners/verdicts.py"]
    assert lines_with(r"Status\.(DOUBTFUL|DIVERGED|NOT_REACHED|REACHED)", but=homes) == []
    assert lines_with(r"\b_?doubt\($", but=["planners/doubts.py"]) == []
    page = (ROOT / "docs" / "doubts.md").read_text()
    for doubt in DOUBTS:
        assert f"| {doubt.name} |" in page, doubt.name


def test_core_features_are_factorised_in_one_file():
    """Elsewhere decompositions are of other matrices: features of a pool, systems of equations, the theory's Phi."""
    places = lines_with(r"linalg\.(svd|pinv|qr|cond|matrix_rank)\(|\bqr\(", but=["core/frame.py", "theory/"])
    assert {place.split(":")[0] for place in places} <= {
        "judge/assumptions/core_set.py",
        "judge/assumptions/residual.py",
    }


@pytest.mark.parametrize("name", [n for n, p in PLANNERS.items() if p.needs_core and not p.needs_table])
def test_core_features_are_factorised_once_per_run_and_scale(name, monkeypatch):
    """On eleven dependent core features, which are not on axes: as they are for the planner, and for the watch with every
    column divided by its size."""
    calls, svd = [], np.linalg.svd
    monkeypatch.setattr(
        np.linalg, "svd", lambda a, *args, **more: calls.append(a.shape) or svd(a, *args, **more)
    )
    problem = coreplan.make("hard-linear")
    shape = coreplan.CoreSet.of(problem).features(problem.features).shape
    coreplan.plan(problem, planner=PLANNERS[name](), budget=800)
    assert calls.count(shape) <= 2


def test_every_module_of_planners_is_a_planner_its_kernels_or_the_frame():
    frame = {
        "__init__",
        "protocol",
        "setup",
        "registry",
        "doubts",
        "status",
        "verdicts",
        "testing",
        "trajectories",
        "rounds",
        "tables",
    }
    homes = {PLANNERS[name].__module__.removeprefix("coreplan.planners.") for name in PLANNERS}
    folders = {home.split(".")[0] for home in homes if "." in home}
    for path in (SOURCE / "planners").rglob("*.py"):
        module = ".".join(path.relative_to(SOURCE / "planners").with_suffix("").parts)
        own = {
            f"{folder}.{file}"
            for folder in folders
            for file in (
                "__init__",
                "planner",
                "kernels",
                "checking",
                "state",
                "growth",
                "comparing",
                "rolling",
                "samples",
                "sampling",
                "scouting",
                "distribution",
                "race",
                "rounds",
                "belief",
            )
        }
        assert module in frame | homes | own, module


def packages():
    return sorted({path.parent for path in FILES if path.name == "__init__.py"} | {SOURCE})


@pytest.mark.parametrize("folder", packages(), ids=lambda p: p.relative_to(SOURCE.parent).as_posix())
def test_no_module_is_named_like_a_function_of_its_package(folder):
    package = importlib.import_module(".".join(folder.relative_to(SOURCE.parent).parts))
    names = {p.stem for p in folder.glob("*.py")} | {p.parent.name for p in folder.glob("*/__init__.py")}
    clashes = {n for n in names & set(getattr(package, "__all__", ())) if callable(getattr(package, n))}
    assert clashes == set()


def test_no_value_of_more_than_four_fields_is_made_by_position():
    trees = {path: ast.parse(path.read_text()) for path in FILES}
    ours = {node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    found = [
        f"{name_of(path)}:{node.lineno}: {node.func.id}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 4
    ]
    foreign = {"Progress"}  # Rich's
    assert [place for place in found if place.split()[-1] in ours - foreign] == []


# Sizes.


@pytest.mark.parametrize("path", [*FILES, *TESTS], ids=lambda p: p.relative_to(ROOT).as_posix())
def test_files_are_small(path):
    assert len(path.read_text().splitlines()) <= 400


def test_no_test_file_imports_another():
    for path in TESTS:
        assert not re.search(r"^\s*(from|import) (tests\.|test_)", path.read_text(), re.M), path
