"""Policies: the softmax against the naive formula, over what is available; saved, loaded and checked."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import coreplan
from coreplan import SoftmaxPolicy, load_policy
from coreplan.features import kernels as softmax_module
from coreplan.problem import UNAVAILABLE
from coreplan.theory import naive
from helpers.masked import ALLOWED, A, S, features_of, masked_problem
from helpers.mutants import mutant
from helpers.policies import saved


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(1e-6, 1e6))
def test_probabilities_are_the_softmax(seed, scale):
    """Dense and sparse, scores of any size: nothing overflows."""
    rng = np.random.default_rng(seed)
    for spec in ("random-linear", "river-linear"):
        problem = coreplan.make(spec)
        d = problem.features.dimension
        policy = SoftmaxPolicy(rng.normal(size=d) * 100, scale, problem.features)
        x = rng.integers(0, 40, size=7)
        want = naive.softmax(scale * naive.dense(problem.features(x), d) @ policy.theta)
        np.testing.assert_allclose(policy.probabilities(x), want, atol=1e-7)


def test_actions_follow_the_probabilities():
    """Chi-square over 4 actions, 100,000 draws, threshold at 1e-9."""
    problem = coreplan.make("random-linear")
    policy = SoftmaxPolicy(np.linspace(-1, 1, 8), 2.0, problem.features)
    x = np.full(100_000, 17)
    expected = policy.probabilities(x[:1])[0] * len(x)
    counts = np.bincount(policy.act(x, 3), minlength=4)
    assert ((counts - expected) ** 2 / expected).sum() < stats.chi2.ppf(1 - 1e-9, 3)
    np.testing.assert_array_equal(policy.act(x, 3), policy.act(x, np.random.default_rng(3)))


def test_greedy_takes_the_lowest_of_the_best():
    phi = np.array([[[0.5], [1.0], [1.0]]])
    features = coreplan.FunctionFeatures(lambda x: np.repeat(phi, len(x), axis=0), 3, 1, 1.0)
    for theta, action in (([2.0], 1), ([-2.0], 0), ([0.0], 0)):
        policy = SoftmaxPolicy(np.array(theta), np.inf, features)
        assert (policy.act(np.zeros(50), 0) == action).all()
        np.testing.assert_array_equal(policy.probabilities(np.zeros(1)), [np.eye(3)[action]])


def test_uniform():
    problem = coreplan.make("river-linear")
    p = SoftmaxPolicy.uniform(problem.features).probabilities(np.arange(5))
    np.testing.assert_allclose(p, 1 / 3)


# Masks.


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0, math.inf])
def test_a_policy_is_the_softmax_over_what_is_available(kind, scale):
    problem = masked_problem(kind)
    theta = np.random.default_rng(2).normal(size=problem.features.dimension)
    policy = coreplan.SoftmaxPolicy(theta, scale, problem.features)
    p = policy.probabilities(np.arange(S))
    phi = features_of(kind)(np.arange(S))
    q = phi @ theta if kind == "dense" else theta.reshape(S, A)
    for x in range(S):
        those = np.flatnonzero(ALLOWED[x])
        e = (
            np.exp(scale * (q[x, those] - q[x, those].max()))
            if scale < math.inf
            else (q[x, those] == q[x, those].max())
        )
        np.testing.assert_allclose(p[x, those], e / e.sum(), atol=1e-12)
    assert (p[~ALLOWED] == 0.0).all()
    x = np.tile(np.arange(S), 2000)
    assert ALLOWED[x, policy.act(x, 0)].all()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_uniform_over_what_is_available(kind):
    p = coreplan.SoftmaxPolicy.uniform(masked_problem(kind).features).probabilities(np.arange(S))
    np.testing.assert_allclose(p, ALLOWED / ALLOWED.sum(axis=1, keepdims=True), atol=1e-15)


def three_actions(values):
    """Dense features `[1, A, 1]` with scores `values`, None where unavailable."""
    return np.array([[[UNAVAILABLE if v is None else v] for v in values]])


def chosen(module, values, u, scale=1.0):
    return module.choose(three_actions(values), 0, np.ones(1), scale, u, np.empty(len(values)))


HARD = [
    ([None, 0.0, None], 0.0),
    ([None, 0.0, None], 1.0),  # u = 1 stands for rounding at the upper end
    ([0.0, None, None], np.nextafter(1.0, 0.0)),
    ([0.0, None, None], 1.0),
    ([0.1, 0.2, None], 1.0),
    ([0.0, -1e9, None], 1.0),  # probability 0 by underflow, and unavailable
]


@pytest.mark.parametrize(("values", "u"), HARD)
def test_rounding_never_leads_to_an_action_of_probability_zero(values, u):
    p = np.empty(3)
    softmax_module.softmax(three_actions(values), 0, np.ones(1), 1.0, p)
    assert p[chosen(softmax_module, values, u)] > 0
    assert values[chosen(softmax_module, values, u, math.inf)] is not None


def test_the_hard_cases_notice_the_old_end_of_choose(tmp_path, monkeypatch):
    old = mutant(softmax_module, "while p[last] == 0.0:", "while False:", tmp_path, monkeypatch)
    assert any(values[chosen(old, values, u)] is None for values, u in HARD)


def test_overflow_of_the_mark_does_no_harm():
    """The mark times a large theta is infinite; it is looked at before it is used."""
    for theta in (1e10, -1e10):
        p = np.empty(2)
        phi = np.array([[[UNAVAILABLE, 0.0], [1.0, 1.0]]])
        softmax_module.softmax(phi, 0, np.array([theta, 1.0]), 1.0, p)
        assert p.tolist() == [0.0, 1.0]


# Files.


def test_save_and_load(tmp_path):
    problem, policy = saved(tmp_path)
    for path in (tmp_path, tmp_path / "policy.npz"):
        again = load_policy(path)
        assert again.theta.tobytes() == policy.theta.tobytes() and again.scale == policy.scale
        np.testing.assert_array_equal(again.act(np.arange(6), 1), policy.act(np.arange(6), 1))
    assert load_policy(tmp_path, problem).features is problem.features


def test_a_users_own_problem_is_given_on_loading(tmp_path):
    features = coreplan.FunctionFeatures(
        lambda x: np.ones((len(x), 2, 3)) / 2, 2, 3, 1.0, name="mine, version 1"
    )
    model = coreplan.FunctionModel(2, lambda rng, n: np.zeros(n), lambda rng, x, a: (np.zeros(len(x)), x))
    problem = coreplan.Problem(model, features, 0.9)
    SoftmaxPolicy(np.zeros(3), 1.0, features).save(tmp_path / "p.npz")
    bare = load_policy(tmp_path / "p.npz")
    with pytest.raises(coreplan.InputError, match=r"load_policy\(path, problem="):
        bare.act(np.zeros(1), 0)
    assert load_policy(tmp_path / "p.npz", problem).act(np.zeros(4), 0).shape == (4,)


def test_wrong_features_are_an_error(tmp_path):
    saved(tmp_path)
    with pytest.raises(
        coreplan.FileError, match=r"made for other features.*dimension is 12 in the file and 8 here"
    ):
        load_policy(tmp_path, coreplan.make("random-linear"))
    with pytest.raises(coreplan.FileError, match="dimension is 12 in the file and 14 here"):
        load_policy(tmp_path, coreplan.make("river-swim:states=7"))


def test_same_sizes_other_numbers_are_an_error(tmp_path):
    saved(tmp_path, "random-linear")
    with pytest.raises(coreplan.FileError, match="data is"):
        load_policy(tmp_path, coreplan.make("random-linear:instance=1"))


def test_the_file_holds_numbers_only(tmp_path):
    saved(tmp_path)
    with np.load(tmp_path / "policy.npz", allow_pickle=False) as archive:
        assert {archive[name].dtype.kind for name in archive.files} <= set("fiu")
        meta = json.loads(archive["meta"].tobytes())
    assert meta["version"] == 1 and len(meta["fingerprint"]) == 16


# Bad input.


@pytest.mark.parametrize(
    ("theta", "scale", "words"),
    [
        (np.array([np.nan]), 1.0, "finite"),
        (np.zeros((2, 2)), 1.0, "vector"),
        (np.zeros(12), 0.0, "positive"),
        (np.zeros(12), float("nan"), "positive"),
        (np.zeros(11), 1.0, "11 numbers"),
    ],
)
def test_bad_policies(theta, scale, words):
    with pytest.raises(coreplan.InputError, match=words):
        SoftmaxPolicy(theta, scale, coreplan.make("river-swim").features)


def test_an_unknown_state_is_named():
    policy = SoftmaxPolicy.uniform(coreplan.make("river-swim").features)
    with pytest.raises(coreplan.FeatureError, match="state 99"):
        policy.act(np.array([99]), 0)
