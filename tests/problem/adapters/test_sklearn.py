"""scikit-learn transformers as features: against the transformer's own matrix, crossed by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

import coreplan
from coreplan.features import dense
from coreplan.problem import checked, sklearn_features
from helpers.runs import plan

A = 3
SAMPLE = np.random.default_rng(0).normal(size=(500, 2))
STATES = SAMPLE[:40] * 0.9

TRANSFORMERS = {
    "random Fourier": RBFSampler(n_components=12, random_state=0),
    "bins, sparse": KBinsDiscretizer(5, encode="onehot", strategy="uniform"),
    "splines, dense": SplineTransformer(4, degree=2),
    "splines, sparse": SplineTransformer(4, degree=2, sparse_output=True),
    "pipeline": make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False)),
    "no fit needed": FunctionTransformer(np.abs),
}


def fitted(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TRANSFORMERS[name].fit(SAMPLE)


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("intercept", [True, False])
def test_columns_are_crossed_with_actions(name, intercept):
    transformer = fitted(name)
    features = sklearn_features(transformer, A, states=SAMPLE, intercept=intercept)
    Z = transformer.transform(STATES)
    Z = Z.toarray() if sparse.issparse(Z) else Z
    if intercept:
        Z = np.hstack([Z, np.ones((len(Z), 1))])
    phi = dense(checked(features, STATES), features.dimension)
    for a in range(A):
        want = np.zeros((len(Z), Z.shape[1], A))
        want[:, :, a] = Z  # coordinate column * A + a
        np.testing.assert_allclose(phi[:, a], want.reshape(len(Z), -1), atol=1e-15)
    everything = dense(features(SAMPLE), features.dimension)
    assert features.radius == pytest.approx(1.25 * np.linalg.norm(everything, axis=2).max())


def test_sparse_output_stays_sparse():
    assert (
        sklearn_features(fitted("bins, sparse"), A, states=SAMPLE).nonzeros == 3
    )  # one bin a coordinate, the constant
    assert sklearn_features(fitted("splines, sparse"), A, states=SAMPLE).nonzeros == 7


def test_states_that_are_numbers_or_matrices():
    transformer = FunctionTransformer(lambda x: x / 10)
    assert sklearn_features(transformer, 2, states=np.arange(5)).dimension == 4
    features = sklearn_features(transformer, 2, states=np.ones((5, 2, 3)))
    assert features.dimension == 14 and checked(features, np.zeros((2, 2, 3))).weight.shape == (2, 2, 7)


def walk(knots):
    """Right is good, from -1 to 1. Splines of degree 1 are hat functions: their knots are an exact core set."""

    def step(rng, states, actions):
        y = np.clip(states + np.where(actions == 1, 0.2, -0.2)[:, None], -1, 1)
        return (1 + y[:, 0]) / 2, y

    sample = np.linspace(-1, 1, 50)[:, None]
    splines = SplineTransformer(knots, degree=1).fit(sample)
    features = sklearn_features(splines, 2, states=sample, intercept=False, radius=1.0)
    core = np.repeat(np.linspace(-1, 1, knots)[:, None], 2, axis=0), np.tile([0, 1], knots)
    model = coreplan.FunctionModel(2, lambda rng, n: rng.uniform(-1, 1, (n, 1)), step)
    return coreplan.Problem(model, features, 0.9, core_pairs=core)


def test_a_plan_with_splines(tmp_path):
    """All the way: plan, act, save, load; another fit is refused."""
    problem = walk(5)
    planner = coreplan.PrimalDual(K=200, eta=0.03, beta=0.01, alpha=0.02, output="greedy")
    result = plan(problem, planner=planner, budget=40_000)
    assert (result.policy.act(np.linspace(-0.9, 0.7, 10)[:, None], 0) == 1).all()
    result.policy.save(tmp_path / "p.npz")
    assert coreplan.load_policy(tmp_path / "p.npz", walk(5)).features is not None
    with pytest.raises(coreplan.FileError, match="other features"):
        coreplan.load_policy(tmp_path / "p.npz", walk(6))


def test_what_is_refused():
    with pytest.raises(
        coreplan.InputError, match=r"RBFSampler is not fitted. Call transformer.fit\(states\)"
    ):
        sklearn_features(RBFSampler(), A, states=SAMPLE)
    with pytest.raises(coreplan.InputError, match="has none"):
        sklearn_features(object(), A, states=SAMPLE)
    with pytest.raises(coreplan.InputError, match="sample of states"):
        sklearn_features(fitted("pipeline"), A, states=np.empty((0, 2)))
    with pytest.raises(coreplan.InputError, match="not finite on the sample"):
        sklearn_features(FunctionTransformer(lambda x: x * np.nan), A, states=np.zeros((3, 1)))
    with pytest.raises(
        coreplan.FeatureError, match=r"one row of columns for each of 3 states, got shape \(2, 1\)"
    ):
        sklearn_features(FunctionTransformer(lambda x: x[:2]), A, states=np.zeros((3, 1)))


def test_a_state_beyond_the_radius_is_named():
    features = sklearn_features(fitted("pipeline"), A, states=SAMPLE)
    with pytest.raises(coreplan.FeatureError, match=r"state \[100.0, 0.0\].*above the declared radius"):
        checked(features, np.array([[0.0, 0.0], [100.0, 0.0]]))
    wide = sklearn_features(fitted("pipeline"), A, states=SAMPLE, radius=1e6)
    checked(wide, np.array([[100.0, 0.0]]))


def test_another_number_of_columns_is_an_error():
    changing = FunctionTransformer(lambda x: np.ones((len(x), 2 if len(x) > 3 else 1)))
    features = sklearn_features(changing, A, states=np.zeros((9, 1)))
    with pytest.raises(
        coreplan.FeatureError, match=r"gave 1 columns for a batch of 2 states, and 2 for the sample"
    ):
        checked(features, np.zeros((2, 1)))
    plain = coreplan.FunctionFeatures(lambda x: np.zeros((len(x), A, len(x))), A, 4, 1.0)
    with pytest.raises(
        coreplan.FeatureError,
        match=r"batch of 2 states features must have shape \(2, 3, 4\).*got \(2, 3, 2\)",
    ):
        checked(plain, np.zeros((2, 1)))


def test_more_nonzeros_than_the_sample_had():
    positive = FunctionTransformer(lambda x: sparse.csr_matrix(np.maximum(x, 0)))
    features = sklearn_features(positive, A, states=np.array([[1.0, -1.0]]), radius=9.0)
    with pytest.raises(coreplan.FeatureError, match="2 nonzeros for a state, and at most 1 on the sample"):
        checked(features, np.ones((1, 2)))
