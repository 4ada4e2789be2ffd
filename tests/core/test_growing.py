"""The growing hull behind `select`: the eager greedy, threads, and deliberate faults in its kernels and books."""

from __future__ import annotations

import importlib

import numba
import numpy as np
import pytest

from coreplan import InputError
from coreplan.core import growing, nearest, select
from coreplan.features import row_kernels
from helpers import greedy
from helpers.greedy import assert_greedy, cloud, pool_of
from helpers.mutants import mutant

selecting = importlib.import_module(
    "coreplan.core.selection"
)  # the module; the package's name is the function


@pytest.mark.parametrize(("n", "d", "size"), [(150, 5, 25), (300, 12, 40), (60, 1, 2), (200, 3, 30)])
def test_lazy_is_eager(n, d, size):
    assert_greedy(cloud(n, d, seed=n), size)


def test_threads_change_no_bit(monkeypatch):
    X = cloud(3000, 8)
    answers = []
    for cores in (1, 2, 5):
        monkeypatch.setattr(growing, "processors", lambda cores=cores: cores)
        answers.append(select(pool_of(X), size=40))
    for other in answers[1:]:
        np.testing.assert_array_equal(other.indices, answers[0].indices)
        np.testing.assert_array_equal(other.distances, answers[0].distances)
        np.testing.assert_array_equal(other.B.toarray(), answers[0].B.toarray())


# Deliberate faults: each is noticed by the greedy as written on paper.


KERNEL_FAULTS = {
    "weights that may be negative": ("if v[i] <= 0.0:", "if v[i] <= -1.0:"),
    "a rotation with a wrong sign": ("carried[j] = c * lower[j] - s * upper", "carried[j] = c * lower[j] + s * upper"),
    "a factor whose right side does not grow": ("(1.0 - fast_dot(column[:k], y[:k]))", "(1.0)"),
    "prices without the weights": ("middle += b[i] * g[S[i]]", "middle += g[S[i]]"),
    "an accuracy that is none": ("_ACCURACY = 1e-14", "_ACCURACY = 1e-2"),
    "too few vertices": ("or k == most:", "or k == 2:"),
}  # fmt: skip


def uncompiled(fault, tmp_path, monkeypatch):
    """The kernels with a fault, as plain Python, in place of the compiled ones."""
    with monkeypatch.context() as patch:
        patch.setattr(numba, "njit", lambda **_: lambda function: function)
        folder = tmp_path / "rows"
        folder.mkdir()
        rows = mutant(row_kernels, "SUMS = {", "SUMS = {", folder, patch)
        broken = mutant(nearest, *fault, tmp_path, patch)
    for name in ("fast_add", "fast_dot", "inner", "load", "subtract"):
        monkeypatch.setattr(broken, name, getattr(rows, name))
    monkeypatch.setattr(growing, "nearest", broken.nearest)
    for name in ("load", "products"):
        monkeypatch.setattr(growing, name, getattr(rows, name))


def test_the_kernels_as_plain_python(tmp_path, monkeypatch):
    same = "_TOGETHER = 0.7, 8"
    uncompiled((same, same), tmp_path, monkeypatch)
    assert_greedy(cloud(60, 4), 12)


@pytest.mark.parametrize("fault", KERNEL_FAULTS)
def test_kernel_faults_are_noticed(fault, tmp_path, monkeypatch):
    uncompiled(KERNEL_FAULTS[fault], tmp_path, monkeypatch)
    with pytest.raises((AssertionError, InputError)):  # InputError: one pair chosen twice
        assert_greedy(cloud(60, 4), 12)


FAULTS = {
    "a farthest point taken from stale bounds": (growing, "(self.bound > best) &", "(self.bound > 2 * best) &"),
    "a Gram matrix that is not symmetric": (growing, "self.G[:m, m] = self.G[m, :m]", "self.G[:m, m] = 0.0"),
    "stale distances at the end": (growing, "B, self.bound.copy()", "B, self.bound * 1.001"),
    "coefficients of another vertex": (growing, "indices.append(S[used]", "indices.append((self.m - 1 - S)[used]"),
    "one vertex less than asked for": (selecting, "hull.m < size:\n        z, d", "hull.m < size - 1:\n        z, d"),
    "the first point not extreme": (growing, "int(np.argmax(self.squares(self.mean)))", "0"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_noticed(fault, tmp_path, monkeypatch):
    module, old, new = FAULTS[fault]
    broken = mutant(module, old, new, tmp_path, monkeypatch)
    if module is selecting:
        monkeypatch.setattr(greedy, "select", broken.select)
    else:
        for name in ("Points", "GrowingHull"):
            monkeypatch.setattr(selecting, name, getattr(broken, name))
    with pytest.raises((AssertionError, InputError)):
        assert_greedy(cloud())
