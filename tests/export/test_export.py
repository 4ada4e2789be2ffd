"""What the exported files are, and what is refused."""

from __future__ import annotations

import ast
import builtins
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import coreplan
from coreplan import FunctionFeatures, SoftmaxPolicy
from coreplan import features as maps
from coreplan.base import FileError, InputError
from coreplan.export import export_policy, policy_spec
from coreplan.export.formulas import KINDS
from helpers.exported import NODE, by_javascript, by_numpy, by_onnx, own_cases, policy_for, zoo_case

NASTY = "a'b\"c\\'; import os; os.system('touch owned') #"
GRID = maps.interpolation([0.0, 0.0], [1.0, 1.0], [3, 3], 2)


def test_the_generated_file_needs_numpy_alone(tmp_path):
    """In a process of its own, which can import nothing of ours."""
    policy = policy_for(GRID)
    export_policy(policy, numpy=tmp_path / "policy.py")
    states = np.array([[0.2, 0.7], [0.9, 0.1]])
    code = (
        "import sys, policy; print(policy.probabilities([[0.2, 0.7], [0.9, 0.1]]).tolist());"
        "print(policy.act([[0.2, 0.7], [0.9, 0.1]], rng=0).tolist());"
        "print([m for m in sys.modules if m.partition('.')[0] in ('coreplan', 'numba', 'scipy')])"
    )
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    p, actions, ours = map(ast.literal_eval, done.stdout.splitlines())
    assert np.allclose(p, policy.probabilities(states), atol=1e-12)
    assert actions == policy.act(states, 0).tolist()
    assert ours == []


def test_the_same_seed_draws_the_same_actions(tmp_path):
    policy, states = policy_for(GRID), np.random.default_rng(3).random((200, 2))
    export_policy(policy, numpy=tmp_path / "policy.py")
    act = by_numpy(tmp_path / "policy.py").__globals__["act"]
    assert np.array_equal(act(states, rng=5), policy.act(states, 5))
    with pytest.raises(ValueError, match="rng"):
        act(states)


def test_no_name_becomes_code(tmp_path):
    """Names of problems, states and actions with quotes, in Python and JSON."""
    policy = SoftmaxPolicy(np.ones(GRID.dimension), 1.0, GRID, NASTY)
    problem = coreplan.make("mountain-car:grid=3")
    object.__setattr__(problem, "action_names", (NASTY, 'x"""\n1/0'))
    spec = export_policy(policy, numpy=tmp_path / "p.py", json=tmp_path / "p.json", problem=problem)
    module = by_numpy(tmp_path / "p.py").__globals__
    assert module["PROBLEM"] == NASTY
    assert module["ACTIONS"] == [NASTY, 'x"""\n1/0']
    assert json.loads((tmp_path / "p.json").read_text()) == spec
    tree = ast.parse((tmp_path / "p.py").read_text())
    assert [ast.unparse(n) for n in tree.body if isinstance(n, ast.Import)] == ["import numpy as np"]
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))
    (tmp_path / "p.py").read_text().encode("ascii")


def test_the_end_of_a_built_in_problem_may_be_left_out(tmp_path):
    problem = coreplan.make("cart-pole:grid=3")
    policy = coreplan.SoftmaxPolicy(np.random.default_rng(4).normal(size=164), 2.0, problem.features)
    spec = export_policy(policy, numpy=tmp_path / "policy.py", problem=problem)
    assert (spec["columns"][-1], spec["terminal"]) == ("fallen", "optional")
    raw = np.random.default_rng(5).uniform(-0.2, 0.2, (50, 4))
    wanted = policy.probabilities(np.column_stack([raw, np.zeros(50)]))
    assert np.allclose(by_numpy(tmp_path / "policy.py")(raw), wanted, atol=1e-12)
    if NODE is not None:
        assert np.allclose(by_javascript([(spec, raw, None)])[0], wanted, atol=1e-12)


def test_a_terminal_column_may_be_left_out(tmp_path):
    policy = policy_for(maps.with_terminal(GRID))
    spec = export_policy(policy, numpy=tmp_path / "policy.py")
    states = np.random.default_rng(0).random((5, 2))
    assert spec["columns"] == ["x[0]", "x[1]", "ended"]
    probabilities = by_numpy(tmp_path / "policy.py")
    assert np.allclose(probabilities(states), policy.probabilities(states), atol=1e-12)
    assert np.allclose(probabilities(maps.alive(states)), policy.probabilities(states), atol=1e-12)
    assert NODE is None or np.allclose(by_javascript([(spec, states, None)])[0], policy.probabilities(states))


@pytest.mark.parametrize(
    "states", [[[0.1]], [0.1, 0.2], [[0.1, 0.2, 0.3]], [[np.nan, 0.2]], [[[0.1, 0.2]]], [["a", "b"]]]
)
def test_the_generated_file_refuses_what_is_no_state(states, tmp_path):
    export_policy(policy_for(GRID), numpy=tmp_path / "policy.py")
    with pytest.raises(ValueError, match=r"state|convert"):
        by_numpy(tmp_path / "policy.py")(states)


def test_an_unknown_state_is_not_a_number_in_onnx(tmp_path):
    export_policy(policy_for(maps.one_hot(4, 2)), onnx=tmp_path / "hot.onnx", numpy=tmp_path / "hot.py")
    p = by_onnx(tmp_path / "hot.onnx")(np.array([3, 4, -1]))
    assert np.array_equal(np.isnan(p[:, 0]), [False, True, True])
    with pytest.raises(ValueError, match="state number 1"):
        by_numpy(tmp_path / "hot.py")(np.array([3, 4, -1]))
    export_policy(policy_for(GRID, np.inf), onnx=tmp_path / "grid.onnx")
    assert np.isnan(by_onnx(tmp_path / "grid.onnx")(np.array([[np.nan, 0.0]]))).all()


def test_names_of_the_problem_are_exported():
    problem = coreplan.make("mountain-car:grid=3")
    spec = policy_spec(policy_for(problem.features), problem)
    assert spec["columns"] == list(problem.state_names)
    assert spec["actions"] == list(problem.action_names)


def own_function():
    return FunctionFeatures(lambda x: np.ones((len(x), 2, 3)), 2, 3, 9.0, name="my own")


@pytest.mark.parametrize(
    ("features", "named"),
    [
        (own_function(), "my own"),
        (maps.with_terminal(own_function()), "my own"),
        (maps.MaskedFeatures(own_function(), lambda x: np.ones((len(x), 2), dtype=bool)), "my own"),
        (coreplan.make("tetris:rows=4,columns=4").features, "tetris after placement"),
        (coreplan.make("random-linear:lazy=true").features, "hashed Dirichlet"),
    ],
)
def test_features_without_a_formula_are_named(features, named):
    with pytest.raises(InputError, match=f"(?s){named}.*from_phi"):
        policy_spec(policy_for(features))
    assert policy_spec(policy_for(features), from_phi=True)["input"] == "phi"


def test_from_phi_takes_what_ones_own_function_computes(tmp_path):
    features = FunctionFeatures(lambda x: np.stack([np.cos(x), np.sin(x)], axis=1), 2, 3, 9.0)
    policy, states = policy_for(features), np.random.default_rng(1).normal(size=(50, 3))
    export_policy(policy, numpy=tmp_path / "p.py", onnx=tmp_path / "p.onnx", from_phi=True)
    wanted = policy.probabilities(states)
    assert np.abs(by_numpy(tmp_path / "p.py")(features(states)) - wanted).max() < 1e-12
    assert np.abs(by_onnx(tmp_path / "p.onnx")(features(states)) - wanted).max() < 1e-12


def test_a_formula_of_ones_own_is_checked():
    kernel = coreplan.make("random-linear:lazy=true").features.kernel
    try:
        maps.describes(kernel)(lambda data, A: {"kind": "interpolation", "low": data})
        with pytest.raises(InputError, match="'interpolation'"):
            policy_spec(policy_for(coreplan.make("random-linear:lazy=true").features))
        maps.describes(kernel)(lambda data, A: {"kind": "__import__", "name": "os"})
        with pytest.raises(InputError, match="__import__"):
            policy_spec(policy_for(coreplan.make("random-linear:lazy=true").features))
    finally:
        del maps.formulas._DESCRIBED[kernel]


def test_bad_calls_are_refused(tmp_path):
    policy = policy_for(GRID)
    with pytest.raises(InputError, match="needs a file"):
        export_policy(policy)
    with pytest.raises(InputError, match="own file"):
        export_policy(policy, json=tmp_path / "policy.npz")
    with pytest.raises(InputError, match="twice"):
        export_policy(policy, json=tmp_path / "p", numpy=tmp_path / "p")
    with pytest.raises(InputError, match="without its features"):
        export_policy(SoftmaxPolicy(np.ones(3), 1.0), json=tmp_path / "p.json")
    with pytest.raises(InputError, match="SoftmaxPolicy"):
        export_policy("policy.npz", json=tmp_path / "p.json")
    with pytest.raises(FileError, match="no/such"):
        export_policy(policy, json=tmp_path / "no/such/p.json")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_where_one_of_the_files_cannot_be_made(tmp_path, monkeypatch):
    real = builtins.__import__

    def without_onnx(name, *args, **more):
        if name.partition(".")[0] == "onnx":
            raise ImportError("No module named 'onnx'")
        return real(name, *args, **more)

    for name in [m for m in sys.modules if m.partition(".")[0] == "onnx"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(builtins, "__import__", without_onnx)
    with pytest.raises(InputError, match=r"coreplan\[onnx\]"):
        export_policy(policy_for(GRID), onnx=tmp_path / "p.onnx", numpy=tmp_path / "p.py")
    assert list(tmp_path.iterdir()) == []


def test_too_many_numbers_are_refused(monkeypatch):
    monkeypatch.setattr("coreplan.export.describe.MOST", 20)
    with pytest.raises(InputError, match="too many"):
        policy_spec(policy_for(GRID))


def test_every_kind_is_named_by_some_built_in_map():
    """A formula that no map names would be dead code."""
    names = ("queue-network", "queue-network-cut:features=polynomial", "cart-pole", "acrobot")
    cases = [*own_cases().values(), *map(zoo_case, names)]
    used = {"given"}

    def walk(tree):
        used.add(tree["kind"])
        if "base" in tree:
            walk(tree["base"])

    for case in cases:
        walk(policy_spec(policy_for(case.features))["features"])
    assert used == KINDS.keys()
