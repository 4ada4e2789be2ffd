"""The terminal column: episodes that end, as a state with a feature of its own."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan.features import batch, dense, terminal
from coreplan.problem import (
    FunctionFeatures,
    Sparse,
    alive,
    checked,
    fingerprint,
    interpolation,
    one_hot,
    widened,
    with_terminal,
)
from helpers.environments import GRID, HIGH, LOW
from helpers.mutants import mutant

WAVES = FunctionFeatures(  # dense
    lambda states: np.sin(states[:, :1, None] * np.arange(1, 13).reshape(1, 3, 4)), 3, 4, 2.0, name="waves"
)


@pytest.mark.parametrize("base", [GRID, WAVES], ids=["sparse", "dense"])
def test_terminated_states_have_a_feature_of_their_own(base):
    features = with_terminal(base)
    states = np.random.default_rng(0).uniform(LOW, HIGH, (50, 2))
    mixed = alive(states)
    mixed[::5] = terminal.terminated(2)
    mixed[::10, :2] = np.nan  # the other columns of a terminated state are never looked at
    phi = checked(features, mixed)
    assert isinstance(phi, Sparse) == isinstance(base(states), Sparse)
    assert features.nonzeros == base.nonzeros and features.radius == max(base.radius, 1.0)
    d = base.dimension
    wanted = np.concatenate([dense(base(states), d), np.zeros((50, 3, 1))], axis=2)
    wanted[::5] = np.eye(d + 1)[d]
    np.testing.assert_array_equal(dense(phi, d + 1), wanted)


def test_the_core_gets_the_column_and_one_pair():
    features = with_terminal(GRID)
    core = coreplan.CoreSet(*features.core())
    assert len(core) == 5 * 4 * 3 + 1
    np.testing.assert_array_equal(dense(core.features(features), features.dimension), np.eye(len(core)))
    assert core.states[-1].tolist() == [0.0, 0.0, 1.0] and core.actions[-1] == 0
    assert with_terminal(GRID, observe=np.sin).core is None


def test_terminal_features_have_their_own_fingerprint():
    others = [
        GRID,
        with_terminal(GRID),
        with_terminal(GRID, observe=np.sin),
        with_terminal(WAVES),
    ]
    assert len({fingerprint(features) for features in others}) == len(others)


def test_whole_states_and_wrong_states():
    features = with_terminal(one_hot(4, 2))
    phi = dense(features(np.array([[2.0, 0.0], [0.0, 1.0]])), 9)
    np.testing.assert_array_equal(phi.argmax(axis=2), [[4, 5], [8, 8]])
    with pytest.raises(coreplan.FeatureError, match="alive"):
        features(np.arange(3.0))
    with pytest.raises(coreplan.FeatureError, match="2 columns; these have 3"):
        with_terminal(GRID)(np.zeros((1, 4)))
    with pytest.raises(coreplan.InputError, match="already"):
        with_terminal(features)
    with pytest.raises(coreplan.InputError, match="batches"):
        alive(1.0)


def test_ranges_are_widened_to_contain_zero():
    assert [widened(r) for r in [(-3, -1), (2, 5), (-1, 1), (0, 0)]] == [(-3, 0), (0, 5), (-1, 1), (0, 1)]


def test_a_fault_in_the_features_is_noticed(tmp_path, monkeypatch):
    states = alive(np.zeros((1, 2)))
    right = with_terminal(WAVES)(states)
    broken = mutant(batch, "        phi[where] = 0.0\n", "", tmp_path, monkeypatch)
    monkeypatch.setattr(terminal, "put", broken.put)
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(with_terminal(WAVES)(states), right)


def test_the_box_is_seen_through_the_terminal_column():
    narrow = interpolation([-0.7, -0.01], [-0.45, 0.01], [5, 5], 3)
    problem = coreplan.from_gymnasium("MountainCar-v0", narrow, 0.99)
    with pytest.warns(coreplan.CoverageWarning, match="clip"):
        coreplan.plan(problem, planner=coreplan.Grow(rounds=2), budget=600)
