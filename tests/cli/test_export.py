"""`coreplan export`: from a run's folder to files, and what it says."""

from __future__ import annotations

import dataclasses
import json

import numpy as np

import coreplan
from helpers.attack.commands import called
from helpers.exported import by_numpy, by_onnx, policy_for


def saved(folder, name):
    policy = dataclasses.replace(policy_for(coreplan.make(name).features), problem_name=name)
    policy.save(folder / "policy.npz")
    return policy


def test_all_files_at_once(tmp_path):
    policy = saved(tmp_path, "cart-pole:grid=3")
    files = {name: tmp_path / f"exported.{name}" for name in ("onnx", "py", "json")}
    line = ["--onnx", str(files["onnx"]), "--numpy", str(files["py"]), "--json", str(files["json"])]
    code, out, said = called(["export", str(tmp_path), *line])
    assert code == 0 and out == "", said
    assert f"states [n, 5]: {', '.join(coreplan.make('cart-pole:grid=3').state_names)}; it gives" in said
    assert said.count("wrote ") == 3
    states = np.array([[0.1, 0.2, -0.1, 0.4, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]])
    wanted = policy.probabilities(states)
    assert np.allclose(by_numpy(files["py"])(states), wanted, atol=1e-12)
    assert np.allclose(by_onnx(files["onnx"])(states), wanted, atol=1e-12)
    assert json.loads(files["json"].read_text())["problem"] == "cart-pole:grid=3"


def test_features_without_a_formula(tmp_path):
    saved(tmp_path, "random-linear:compiled=false")
    code, _, said = called(["export", str(tmp_path), "--json", str(tmp_path / "p.json")])
    assert code == 2 and "'table'" in said and "--from-phi" in said
    code, _, said = called(["export", str(tmp_path), "--json", str(tmp_path / "p.json"), "--from-phi"])
    assert code == 0 and "takes features [n, 4, 8]" in said


def test_mistakes(tmp_path):
    saved(tmp_path, "river-swim")
    before = (tmp_path / "policy.npz").read_bytes()
    for line, says in [
        ([], "--onnx policy.onnx"),
        (["--json", str(tmp_path / "policy.npz")], "own file"),
        (["--json", str(tmp_path / "none" / "p.json")], "Could not write"),
        (["--numpy", "p.py", "--horizon", "3"], "--problem"),
    ]:
        code, _, said = called(["export", str(tmp_path), *line])
        assert code == 2 and says in said, said
    assert (tmp_path / "policy.npz").read_bytes() == before
