"""Exported policies are the policies: every built-in feature map, found by looking, in every back end."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest

from coreplan import features as maps
from coreplan.export import policy_spec
from coreplan.export.compose import evaluated
from coreplan.features.formulas import _DESCRIBED
from helpers.exported import (
    MORE_ZOO,
    NODE,
    NOT_EXPORTED,
    by_javascript,
    own_cases,
    policy_for,
    zoo_case,
    zoo_names,
)

OWN = own_cases()
ZOO_NAMES = [name for name in (*zoo_names(), *MORE_ZOO) if name not in NOT_EXPORTED]


def case_of(name):
    return OWN[name] if name in OWN else zoo_case(name)


def asked(name, n, scale=3.0):
    """A policy on this map, its description, states, what the export is given, and what it should answer."""
    case = case_of(name)
    rng = np.random.default_rng(7)
    policy, states = policy_for(case.features, scale), case.states(rng, n)
    mask = None if case.mask is None else case.mask(states)
    spec = json.loads(json.dumps(policy_spec(policy), allow_nan=False))
    return spec, case.asked(states), mask, policy.probabilities(states)


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


@pytest.mark.parametrize("name", [*OWN, *ZOO_NAMES])
def test_numpy(name):
    spec, states, mask, wanted = asked(name, 300)
    q, p = evaluated(spec, states, mask)
    assert np.abs(p - wanted).max() < 1e-6
    assert np.isneginf(q[wanted == 0]).all()


@pytest.mark.skipif(NODE is None, reason="no node")
@pytest.mark.parametrize("name", [*OWN, *ZOO_NAMES])
def test_javascript(name):
    spec, states, mask, wanted = asked(name, 300)
    _, p = by_javascript(spec, states, mask)
    assert np.abs(p - wanted).max() < 1e-6
