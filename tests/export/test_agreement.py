"""Exported policies are the policies: every built-in feature map, found by looking, in every back end."""

from __future__ import annotations

import functools
import inspect

import numpy as np
import pytest

from coreplan import features as maps
from coreplan.export import export_policy, policy_spec
from coreplan.features.formulas import _DESCRIBED
from coreplan.policy import SoftmaxPolicy
from helpers.exported import (
    MORE_ZOO,
    NODE,
    NOT_EXPORTED,
    by_javascript,
    by_numpy,
    by_onnx,
    described,
    own_cases,
    zoo_case,
    zoo_names,
)

OWN = own_cases()
ZOO_NAMES = [name for name in (*zoo_names(), *MORE_ZOO) if name not in NOT_EXPORTED]
NAMES = [*OWN, *ZOO_NAMES]
FEW, MANY = 100, 10_000  # states
CLOSE = 1e-6


@functools.cache
def case_of(name):
    return OWN[name] if name in OWN else zoo_case(name)


def test_every_built_in_map_has_a_case():
    """Constructors of maps in `coreplan.features`, found by what they say they return, and its classes that are maps."""
    found = set()
    for name in maps.__all__:
        value = getattr(maps, name)
        if inspect.isfunction(value):
            returned = str(inspect.signature(value).return_annotation)
            is_map = returned in ("CompiledFeatures", "TreeFeatures", "FunctionFeatures")
        else:
            fields = {*dir(value), *getattr(value, "__dataclass_fields__", ())}
            is_map = inspect.isclass(value) and {"radius", "dimension", "nonzeros"} <= fields
        found |= {name} if is_map else set()
    covered = {name.split(",")[0] for name in OWN} | NOT_EXPORTED.keys()
    assert {"interpolation", "tree_features", "TimeFeatures", "Coordinates"} <= found
    assert found - covered == set(), (
        "add a case to helpers/exported.py, or say in NOT_EXPORTED why there is none"
    )


def test_every_described_kernel_has_a_case():
    kernels = {_kernel(case_of(name).features) for name in (*OWN, *ZOO_NAMES)}
    assert set(_DESCRIBED) - kernels == set()


def _kernel(features):
    while not hasattr(features, "kernel"):
        features = getattr(features, "base", None) or getattr(features, "features", None)
        if features is None:
            return None
    return features.kernel


def agrees(probabilities, states, mask, wanted):
    got = probabilities(states) if mask is None else probabilities(states, mask)
    assert got.shape == wanted.shape
    assert np.abs(got - wanted).max() < CLOSE


def compare_files(name, folder, n, scale):
    policy, states, mask, wanted = described(case_of(name), n, scale)
    export_policy(policy, onnx=folder / "policy.onnx", numpy=folder / "policy.py")
    agrees(by_numpy(folder / "policy.py"), states, mask, wanted)
    agrees(by_onnx(folder / "policy.onnx"), states, mask, wanted)


@pytest.mark.parametrize("name", NAMES)
def test_the_files_do_what_the_policy_does(name, tmp_path):
    compare_files(name, tmp_path, FEW, 3.0)


def compare_javascript(names, n, scale):
    given, answers = [], []
    for name in names:
        policy, states, mask, wanted = described(case_of(name), n, scale)
        given.append((policy_spec(policy), states, mask))
        answers.append(wanted)
    for name, got, wanted in zip(names, by_javascript(given), answers, strict=True):
        assert got.shape == wanted.shape, name
        assert np.abs(got - wanted).max() < CLOSE, name


@pytest.mark.skipif(NODE is None, reason="there is no node to run JavaScript with")
def test_the_evaluator_does_what_the_policy_does():
    compare_javascript(NAMES, FEW, 3.0)


@pytest.mark.long
@pytest.mark.parametrize("scale", [3.0, np.inf])
@pytest.mark.parametrize("name", NAMES)
def test_the_files_do_what_the_policy_does_at_many_states(name, scale, tmp_path):
    compare_files(name, tmp_path, MANY, scale)


@pytest.mark.long
@pytest.mark.skipif(NODE is None, reason="there is no node to run JavaScript with")
@pytest.mark.parametrize("scale", [3.0, np.inf])
@pytest.mark.parametrize("name", NAMES)
def test_the_evaluator_does_what_the_policy_does_at_many_states(name, scale):
    compare_javascript([name], MANY, scale)


def test_greedy_policies_take_the_first_of_equals(tmp_path):
    """With theta = 0 all actions are equal everywhere."""
    case = case_of("interpolation, periodic")
    policy = SoftmaxPolicy(np.zeros(case.features.dimension), np.inf, case.features)
    states = case.states(np.random.default_rng(1), 20)
    export_policy(policy, onnx=tmp_path / "policy.onnx", numpy=tmp_path / "policy.py")
    wanted = np.tile([1.0, 0.0, 0.0], (20, 1))
    assert np.array_equal(by_numpy(tmp_path / "policy.py")(states), wanted)
    assert np.array_equal(by_onnx(tmp_path / "policy.onnx")(states), wanted)
    assert NODE is None or np.array_equal(by_javascript([(policy_spec(policy), states, None)])[0], wanted)


@pytest.mark.parametrize("name", ["interpolation, periodic", "MaskedFeatures, places", "one_hot"])
def test_from_phi_on(name, tmp_path):
    """Features as the map gives them, masked rows included, in place of states."""
    policy, states, _, wanted = described(case_of(name), FEW, 3.0)
    phi = maps.dense(policy.features(states), policy.features.dimension)
    spec = export_policy(policy, onnx=tmp_path / "p.onnx", numpy=tmp_path / "p.py", from_phi=True)
    agrees(by_numpy(tmp_path / "p.py"), phi, None, wanted)
    agrees(by_onnx(tmp_path / "p.onnx"), phi, None, wanted)
    assert NODE is None or np.abs(by_javascript([(spec, phi, None)])[0] - wanted).max() < CLOSE
