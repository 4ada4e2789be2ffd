"""Policies: the softmax against the naive formula, files that are safe and checked."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import coreplan
from coreplan import SoftmaxPolicy, load_policy
from coreplan.base.files import write_npz
from coreplan.theory import naive


def saved(tmp_path, spec="river-swim"):
    problem = coreplan.make(spec)
    theta = np.random.default_rng(0).normal(size=problem.features.dimension)
    policy = SoftmaxPolicy(theta, 2.5, problem.features, spec)
    policy.save(tmp_path / "policy.npz")
    return problem, policy


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


@pytest.mark.parametrize("keep", [0, 1, 10, 100, 0.5, 0.9, -1])
def test_truncated_files(tmp_path, keep):
    saved(tmp_path)
    path = tmp_path / "policy.npz"
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if isinstance(keep, float) else keep])
    with pytest.raises(coreplan.FileError):
        load_policy(path)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_flipped_byte_never_gives_another_policy(tmp_path_factory, at, flip):
    """Either the file is refused, or the byte did not matter (zip headers have some that do not)."""
    folder = tmp_path_factory.mktemp("flip")
    problem, policy = saved(folder)
    path = folder / "policy.npz"
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= flip
    path.write_bytes(bytes(data))
    try:
        again = load_policy(path, problem)
    except coreplan.FileError:
        return
    assert again.theta.tobytes() == policy.theta.tobytes() and again.scale == policy.scale


def foreign(tmp_path, **arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    (tmp_path / "x.npz").write_bytes(buffer.getvalue())
    return tmp_path / "x.npz"


def test_foreign_files(tmp_path):
    good_meta = {"format": "coreplan policy", "version": 1}
    as_bytes = lambda m: np.frombuffer(json.dumps(m).encode(), dtype=np.uint8)  # noqa: E731
    with pytest.raises(coreplan.FileError, match="not a coreplan policy"):
        load_policy(foreign(tmp_path, theta=np.zeros(3)))
    with pytest.raises(coreplan.FileError, match="version 2"):
        load_policy(foreign(tmp_path, meta=as_bytes({**good_meta, "version": 2})))
    with pytest.raises(coreplan.FileError, match="checksum"):
        load_policy(foreign(tmp_path, meta=as_bytes(good_meta), theta=np.array([1.0]), scale=np.array(1.0)))
    for theta, scale in ((np.array([np.nan]), 1.0), (np.zeros((1, 1)), 1.0), (np.array([1.0]), -1.0)):
        write_npz(tmp_path / "y.npz", {"theta": theta, "scale": np.array(scale)}, good_meta)
        with pytest.raises(coreplan.FileError, match="damaged"):
            load_policy(tmp_path / "y.npz")
    write_npz(tmp_path / "y.npz", {"scale": np.array(1.0)}, good_meta)
    with pytest.raises(coreplan.FileError, match="damaged"):
        load_policy(tmp_path / "y.npz")
    with pytest.raises(coreplan.FileError, match="There is no file"):
        load_policy(tmp_path / "absent.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(coreplan.FileError):
        load_policy(tmp_path / "text.npz")
    with zipfile.ZipFile(tmp_path / "zip.npz", "w") as z:
        z.writestr("a.txt", "hello")
    with pytest.raises(coreplan.FileError):
        load_policy(tmp_path / "zip.npz")


def test_a_pickle_is_not_executed(tmp_path):
    flag = tmp_path / "executed"

    class Trap:
        def __reduce__(self):
            return (flag.write_text, ("gotcha",))

    path = foreign(tmp_path, meta=np.array([Trap()], dtype=object))
    flag.unlink(missing_ok=True)
    with pytest.raises(coreplan.FileError):
        load_policy(path)
    np.save(tmp_path / "bare.npy", np.zeros(3))
    with pytest.raises(coreplan.FileError, match="bare array"):
        load_policy(tmp_path / "bare.npy")
    assert not flag.exists()


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


def test_one_state_is_a_batch_of_one():
    problem = coreplan.make("river-swim")
    policy = SoftmaxPolicy.uniform(problem.features)
    with pytest.raises(coreplan.InputError, match="batch"):
        policy.act(np.array(3), 0)
    with pytest.raises(coreplan.FeatureError, match="state 99"):
        policy.act(np.array([99]), 0)
