"""Action masks as features: marks are checked, and core sets, fingerprints and tables keep to them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import coreplan
from coreplan.features import Sparse, first_fault
from coreplan.problem import (
    UNAVAILABLE,
    MaskedFeatures,
    available,
    checked,
    fingerprint,
    one_hot,
    tabular_model,
)
from helpers.masked import ALLOWED, TABLE, A, S, mask, masked_problem


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_marked_rows_pass_the_check_and_a_closed_state_does_not(form):
    phi = np.zeros((3, 2, 2))
    phi[1, 0] = phi[2, 1] = [UNAVAILABLE, 0.0]

    def give(phi):
        return Sparse(np.tile([0, 1], (3, 2, 1)), phi) if form == "sparse" else phi

    assert first_fault(give(phi), 2, 1.0) == -1
    np.testing.assert_array_equal(available(give(phi)), [[True, True], [False, True], [True, False]])
    phi[2, 0] = [UNAVAILABLE, 0.0]
    assert first_fault(give(phi), 2, 1.0) == 5
    phi[2, 0] = [-1e300, 0.0]  # long, but no mark
    assert first_fault(give(phi), 2, 1.0) == 4
    features = coreplan.FunctionFeatures(lambda x: give(phi), 2, 2, 1.0, 2 if form == "sparse" else None)
    phi[2] = phi[1, 0]
    with pytest.raises(coreplan.FeatureError, match=r"forbids every action of state 9; each state needs"):
        checked(features, np.array([7, 8, 9]))


def test_an_index_out_of_place_is_no_mask():
    phi = Sparse(np.array([[[5], [0]]]), np.array([[[UNAVAILABLE], [1.0]]]))
    assert first_fault(phi, 2, 1.0) == 0


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda x: ALLOWED[x].astype(int), "int64 (24, 4)"),
        (lambda x: ALLOWED[x][:, :2], "bool (24, 2)"),
        (lambda x: ALLOWED[0], "bool (4,)"),
    ],
)
def test_a_mask_is_checked(wrong, words):
    with pytest.raises(coreplan.FeatureError) as caught:
        coreplan.Problem(tabular_model(TABLE), one_hot(S, A), 0.9, mask=wrong)
    assert words in str(caught.value)


def test_a_mask_that_raises():
    def lost(states):
        raise KeyError("lost")

    with pytest.raises(
        coreplan.FeatureError, match=r"The mask raised KeyError: 'lost' \(on a batch of 24 states"
    ):
        coreplan.Problem(tabular_model(TABLE), one_hot(S, A), 0.9, mask=lost)


@pytest.mark.parametrize(
    "pairs", [(np.array([1]), np.array([0, 0])), (3, 4), (np.array([1]), np.array([0.5]))]
)
def test_core_pairs_that_are_none_are_refused_as_without_a_mask(pairs):
    """By the problem itself, or where the pairs are first used."""
    with pytest.raises(coreplan.InputError, match=r"CoreSet|core_pairs"):
        coreplan.CoreSet.of(
            coreplan.Problem(tabular_model(TABLE), one_hot(S, A), 0.9, mask=mask, core_pairs=pairs)
        )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"available": ALLOWED.astype(int)}, "must be bool of shape (6, 4), got int64"),
        ({"available": ALLOWED[:3]}, "must be bool of shape (6, 4)"),
        ({"available": ALLOWED & (np.arange(S) != 4)[:, None]}, "No action of state 4 is available"),
        ({"available": ALLOWED, "P": np.eye(S)}, "P must have shape (24, 6)"),
    ],
)
def test_bad_tables(changes, words):
    with pytest.raises(coreplan.InputError) as caught:
        dataclasses.replace(TABLE, **changes)
    assert words in str(caught.value)


def test_a_mask_is_a_function():
    with pytest.raises(coreplan.InputError, match=r"mask\(states\) -> bool \[n, A\]"):
        coreplan.Problem(tabular_model(TABLE), one_hot(S, A), 0.9, mask=ALLOWED)


# Core sets, fingerprints, copies.


def test_the_carried_core_loses_its_forbidden_pairs():
    states, actions = masked_problem().core_pairs
    np.testing.assert_array_equal(np.stack([states, actions], axis=1), np.argwhere(ALLOWED))


def test_forbidden_core_pairs_are_named():
    for make in (
        lambda: coreplan.Problem(tabular_model(TABLE), one_hot(S, A), 0.9, mask=mask,
                                 core_pairs=(np.array([1, 1]), np.array([0, 2]))),
        lambda: coreplan.CoreSet(np.array([1, 1]), np.array([0, 2])).features(masked_problem().features),
    ):  # fmt: skip
        with pytest.raises(coreplan.InputError, match="Core pair 1, state 1 and action 2, is unavailable"):
            make()


def test_fingerprints_differ_and_a_policy_keeps_its_own(tmp_path):
    problem = masked_problem()
    assert fingerprint(problem.features) != fingerprint(one_hot(S, A))
    policy = coreplan.SoftmaxPolicy.uniform(problem.features)
    policy.save(tmp_path / "p.npz")
    assert coreplan.load_policy(tmp_path / "p.npz", problem).features is problem.features
    with pytest.raises(coreplan.FileError, match="other features"):
        coreplan.load_policy(
            tmp_path / "p.npz", dataclasses.replace(problem, features=one_hot(S, A), mask=None)
        )


def test_a_copy_is_masked_once():
    problem = masked_problem()
    copy = dataclasses.replace(problem, name="copy")
    assert copy.features is problem.features and isinstance(copy.features.features, coreplan.CompiledFeatures)
    twice = MaskedFeatures(problem.features, lambda x: np.ones((len(x), A), dtype=bool))
    np.testing.assert_array_equal(available(checked(twice, np.arange(S))), ALLOWED)  # both masks hold


def test_a_mask_may_be_added_to_a_problem_with_a_carried_core():
    problem = coreplan.make("river-swim")
    masked = dataclasses.replace(problem, mask=lambda states: np.stack([states > 0, states >= 0], axis=1))
    assert len(masked.core_pairs[1]) == len(problem.core_pairs[1]) - 1
