"""The parts and who may import whom; docs/architecture.md is the same list in words."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import coreplan

SOURCE = Path(coreplan.__file__).parent
BASE = {"errors", "seeds", "files", "memory", "_version"}
PROBLEM = BASE | {"problem"}
POLICY = PROBLEM | {"softmax", "policy"}
ALLOWED = {
    "_version": set(),
    "errors": set(),
    "seeds": {"errors"},
    "files": {"errors"},
    "memory": set(),
    "problem": {"errors"},
    "core": PROBLEM,
    "softmax": PROBLEM,
    "policy": POLICY,
    "exact": POLICY,
    "hull": PROBLEM,
    "enumerated": PROBLEM | {"core"},
    "verified": PROBLEM,
    "lp": PROBLEM | {"core", "enumerated", "hull", "verified"},
    "status": set(),
    "planners": PROBLEM | {"core", "softmax", "status", "hull", "verified"},
    "run": POLICY | {"core", "planners", "exact", "status"},
    "theory": POLICY | {"core", "planners", "exact", "run", "hull", "enumerated", "lp"},
    "judge": POLICY | {"core", "exact"},
    "bench": POLICY | {"core", "planners", "exact", "run", "judge"},
    "check": POLICY | {"core", "planners"},
    "__main__": {"cli"},
    "cli": POLICY
    | {"core", "planners", "exact", "run", "judge", "bench", "theory", "status", "check", "__init__"},
}


def part(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.parts[0].removesuffix(".py")


def imports(path: Path, text: str) -> set[str]:
    """The parts that a file with this text imports."""
    package = ("coreplan", *path.relative_to(SOURCE).parent.parts)
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            full = (*base, *(node.module.split(".") if node.module else ()))
            if full[:1] != ("coreplan",):
                continue
            found |= {full[1]} if len(full) > 1 else {a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("coreplan.")}
    return found


FILES = sorted(p for p in SOURCE.rglob("*.py") if p != SOURCE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_one_way(path):
    mine = part(path)
    assert mine in ALLOWED, f"{mine} is not in the map: add it here and in docs/architecture.md"
    known = imports(path, path.read_text()) - {mine} - {"__version__"}
    assert known <= ALLOWED[mine], f"{mine} may not import {sorted(known - ALLOWED[mine])}"


@pytest.mark.parametrize(
    ("file", "line", "caught"),
    [
        ("planners/base.py", "from ..judge import evaluate", "judge"),
        ("planners/base.py", "from coreplan.exact import policy_value", "exact"),
        ("planners/base.py", "from .. import run", "run"),
        ("problem/zoo/river.py", "from ...policy import SoftmaxPolicy", "policy"),
        ("core/select.py", "import coreplan.planners.base", "planners"),
    ],
)
def test_the_map_notices(file, line, caught):
    path = SOURCE / file
    assert caught in imports(path, line + "\n" + path.read_text()) - ALLOWED[part(path)]


def test_modules_are_small():
    for path in FILES:
        assert len(path.read_text().splitlines()) <= 400, path


def test_the_architecture_page_lists_every_part():
    page = SOURCE.parents[1] / "docs" / "architecture.md"
    text = page.read_text()
    for name in ALLOWED.keys() - {"_version", "__main__"}:
        assert f"`{name}`" in text, name
