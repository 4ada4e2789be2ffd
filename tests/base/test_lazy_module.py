"""`import coreplan` is lazy; nobody who uses its names or parts notices."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import coreplan

SOURCE = Path(coreplan.__file__).parent
PARTS = {p.stem for p in SOURCE.iterdir() if (p.suffix == ".py" or p.is_dir()) and not p.stem.startswith("_")}


def names_for_type_checkers():
    """Part -> names, from the imports under `if TYPE_CHECKING`; a part that is imported itself has at least none."""
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    found: dict[str, tuple[str, ...]] = {}
    for node in block.body:
        names = tuple(alias.name for alias in node.names)
        found |= {node.module: names} if node.module else dict.fromkeys(names, ())
    return found


def test_python_and_type_checkers_see_the_same_names():
    assert names_for_type_checkers() == coreplan._PARTS
    assert sorted([*coreplan._PART_OF, "__version__"]) == sorted(coreplan.__all__)


def test_every_part_is_an_attribute():
    assert set(coreplan._PARTS) == PARTS
    for part in PARTS:
        assert coreplan.__getattr__(part) is importlib.import_module(f"coreplan.{part}")
        assert getattr(coreplan, part) is sys.modules[f"coreplan.{part}"]


@pytest.mark.parametrize("name", [name for name in coreplan.__all__ if name != "__version__"])
def test_every_name_is_its_parts(name):
    part = importlib.import_module(f"coreplan.{coreplan._PART_OF[name]}")
    assert getattr(coreplan, name) is coreplan.__getattr__(name) is getattr(part, name)


def test_dir_lists_names_and_parts():
    assert {*coreplan.__all__, *PARTS, "__doc__", "__file__"} <= set(dir(coreplan))
    assert all(hasattr(coreplan, name) for name in dir(coreplan))


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("plann", "plan"), ("Probelm", "Problem"), ("planers", "planners"), ("cores", "core")],
)
def test_an_unknown_name_gets_a_suggestion(wrong, right):
    with pytest.raises(AttributeError) as caught:
        getattr(coreplan, wrong)
    assert f"'coreplan' has no attribute '{wrong}'. Did you mean '{right}'? There are: " in str(caught.value)
    with pytest.raises(ImportError, match=wrong):
        exec(f"from coreplan import {wrong}")


FRESH = {
    "parts as attributes": """
        import coreplan
        assert callable(coreplan.planners.make_planner) and callable(coreplan.problem.aggregation)
        assert callable(coreplan.theory.verify) and callable(coreplan.core.select)
    """,
    "from": "from coreplan import Problem, plan, theory; assert callable(plan) and theory.verify",
    "star": """
        from coreplan import *
        import coreplan
        assert all(globals()[name] is getattr(coreplan, name) for name in coreplan.__all__)
    """,
    "functions, whatever was imported before": """
        import coreplan.cli.plan, coreplan.cli.check, coreplan.cli.certify
        import coreplan.judge.certificate, coreplan.judge.value, coreplan.planning.plans, inspect
        for name in ("plan", "check", "certify", "evaluate"):
            assert inspect.isfunction(getattr(coreplan, name)), name
    """,
}


@pytest.mark.parametrize("code", FRESH.values(), ids=FRESH)
def test_a_new_process_may_begin_with(code):
    done = subprocess.run(
        [sys.executable, "-c", inspect.cleandoc(code)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
