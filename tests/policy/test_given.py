"""What a policy may be given: one state or a batch, raw observations, a terminal column; and what it refuses."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import coreplan
from coreplan import FunctionFeatures, SoftmaxPolicy
from coreplan.features import terminal
from coreplan.problem import alive, from_gymnasium, interpolation, with_terminal
from helpers.environments import GRID
from helpers.mutants import mutant


def greedy(features, seed=0):
    theta = np.random.default_rng(seed).normal(size=features.dimension)
    return SoftmaxPolicy(theta, np.inf, features)


LINE = FunctionFeatures(lambda x: np.tile(np.eye(2)[None], (len(x), 1, 1)), 2, 2, 1.0)  # any shape of states
BOXED = dataclasses.replace(LINE, box=(np.zeros(3), np.ones(3)))


class Own:
    """A feature map that declares the shape of its states, and nothing else of ours."""

    n_actions, dimension, radius, nonzeros = 2, 2, 1.0, None
    state_shape, description = (2, 2), {"kind": "own"}

    def __call__(self, states):
        return LINE(states)


# features, one state, a batch of it
KNOWN = {
    "numbers": (coreplan.make("river-swim").features, 3, np.full(4, 3)),
    "vectors": (GRID, [-0.5, 0.01], np.tile([-0.5, 0.01], (4, 1))),
    "box": (BOXED, np.full(3, 0.5), np.full((4, 3), 0.5)),
    "terminal": (with_terminal(GRID), [-0.5, 0.01, 0.0], np.tile([-0.5, 0.01, 0.0], (4, 1))),
    "ended": (with_terminal(GRID), [0.0, 0.0, 1.0], np.tile([0.0, 0.0, 1.0], (4, 1))),
    "terminal of unknown width": (with_terminal(LINE), np.zeros(3), np.zeros((4, 3))),
    "a map of one's own": (Own(), np.full((2, 2), 0.5), np.full((4, 2, 2), 0.5)),
    "masked": (
        coreplan.problem.MaskedFeatures(GRID, lambda x: np.array([[True, False, True]] * len(x))),
        [-0.5, 0.01],
        np.tile([-0.5, 0.01], (4, 1)),
    ),
}


@pytest.mark.parametrize("kind", KNOWN)
def test_one_state_is_answered_like_a_batch_of_it(kind):
    features, one, batch = KNOWN[kind]
    policy = greedy(features)
    p = policy.probabilities(one)
    assert p.shape == (features.n_actions,)
    np.testing.assert_array_equal(policy.probabilities(batch), np.tile(p, (4, 1)))
    action = policy.act(one)
    assert type(action) is int and action == p.argmax()
    np.testing.assert_array_equal(policy.act(batch), [action] * 4)
    soft = SoftmaxPolicy(policy.theta, 1.0, features)
    assert soft.act(one, 7) == soft.act(batch[:1], 7)[0]


def test_where_the_shape_is_unknown_the_first_axis_is_the_batch():
    policy = greedy(LINE)
    assert policy.act(np.zeros(3)).shape == (3,) and policy.probabilities(np.zeros((3, 5))).shape == (3, 2)
    with pytest.raises(coreplan.InputError, match="first axis is the batch"):
        policy.act(0.5)
    single = greedy(dataclasses.replace(LINE, box=(np.zeros(1), np.ones(1))))
    assert single.act(np.zeros(1)).shape == (1,)  # a batch of one number, as ever


def test_raw_observations_are_living_states():
    for features in (with_terminal(GRID), with_terminal(LINE, columns=2)):
        policy, raw = greedy(features), np.random.default_rng(1).uniform([-1.2, -0.07], [0.6, 0.07], (30, 2))
        wanted = policy.probabilities(alive(raw))
        np.testing.assert_array_equal(policy.probabilities(raw), wanted)
        np.testing.assert_array_equal(policy.probabilities(raw[0]), wanted[0])
        np.testing.assert_array_equal(policy.probabilities(raw.astype(np.float32)[0]), wanted[0])
    image = coreplan.CompiledFeatures(
        interpolation([0] * 4, [1] * 4, [2] * 4, 2).kernel, 2, 32, 1.0, state_shape=(2, 2)
    )
    given = with_terminal(image).given
    assert given(np.zeros((2, 2)))[0].shape == (1, 5) and given(np.zeros((2, 2)))[1]
    assert given(np.zeros((7, 2, 2)))[0].shape == (7, 5) and not given(np.zeros((7, 2, 2)))[1]


def test_copies_of_an_environment_are_observed_without_their_number():
    with pytest.warns(UserWarning, match="deep copies"):
        problem = from_gymnasium("MountainCar-v0", GRID, copy=True)
    policy, raw = greedy(problem.features), np.array([-0.5, 0.01])
    states = np.array([[17, -0.5, 0.01, 0.0]])
    assert policy.act(raw) == policy.act(states)[0] == policy.act(states[0, :3])


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (np.zeros(4), r"2 numbers and a terminal column.*got \(4,\)"),
        (np.zeros((5, 4)), r"got \(5, 4\)"),
        (np.zeros((5, 1, 2, 1)), r"got \(5, 1, 2, 1\)"),
        (3.0, r"got \(\)"),
        (np.array([[0.0, 0.0, 0.0], [-0.5, 0.01, 0.02]]), r"here it is 0.02.*alive\(states\)"),
        (np.array([-0.5, 0.01, np.nan]), "here it is nan"),
    ],
)
def test_wrong_widths_and_terminal_columns_are_refused(states, words):
    policy = greedy(with_terminal(GRID))
    for call in (policy.act, policy.probabilities):
        with pytest.raises(coreplan.InputError, match=words):
            call(states)


def test_wrong_widths_of_other_features_are_refused():
    with pytest.raises(coreplan.InputError, match=r"shape \(n, 2\), got \(3,\); one state.*\(2,\)"):
        greedy(GRID).act(np.zeros(3))
    with pytest.raises(coreplan.InputError, match=r"3 numbers each.*got \(2, 4\)"):
        greedy(BOXED).act(np.zeros((2, 4)))
    with pytest.raises(
        coreplan.InputError, match=r"here it is 0.3"
    ):  # CartPole's trap where the width is not known
        greedy(with_terminal(LINE)).act(np.array([[0.1, 0.2, 0.1, 0.3]]))


def test_only_a_greedy_policy_acts_without_a_source_of_randomness():
    soft = SoftmaxPolicy(np.ones(GRID.dimension), 2.0, GRID)
    with pytest.raises(coreplan.InputError, match="source of randomness"):
        soft.act(np.zeros((1, 2)))
    hard, rng = greedy(GRID), np.random.default_rng(0)
    np.testing.assert_array_equal(hard.act(np.zeros((3, 2)), rng), hard.act(np.zeros((3, 2))))
    assert (
        rng.random() == np.random.default_rng(0).random(4)[3]
    )  # a generator that is given advances as before


def cart_pole():
    high = np.array([2.4, 3.5, 0.21, 3.5])
    return from_gymnasium("CartPole-v1", interpolation(-high, high, (7, 7, 7, 7), 2))


def test_cart_pole_balances_on_its_raw_observations():
    """The trap: without the terminal column, `act` used to read the spin as an end and push left for ever, 9.5 steps."""
    import gymnasium

    policy = coreplan.plan(cart_pole(), planner=coreplan.PlugIn(samples=1), budget=6_000).policy
    env, lengths = gymnasium.make("CartPole-v1"), []
    for seed in range(10):
        observation, _ = env.reset(seed=seed)
        steps, over = 0, False
        while not over:
            observation, _, fell, late, _ = env.step(policy.act(observation))
            steps, over = steps + 1, fell or late
        lengths.append(steps)
    assert np.mean(lengths) >= 490
    for wrong in (
        observation[:3],
        np.append(observation, [0.0, 0.0]),
        np.append(observation[1:], [0.1, 0.2]),
    ):
        with pytest.raises(coreplan.InputError):
            policy.act(wrong)


FAULTS = [
    ("        self._require_column(states)\n", ""),
    ("        widths = {D + 1, D, D - self.hidden}", "        widths = {D + 1}"),
    (
        "        hidden = np.zeros((len(states), D - states.shape[1]))",
        "        hidden = np.ones((len(states), 1))[:, :0]",
    ),
]


def behaves(features):
    """Whether a map that hides its first column takes observations, rows and states alike, and looks at the column."""
    policy = greedy(features)
    rows = ([0.0, -0.5, 0.01, 0.0], [0.0, -0.5, 0.01], [-0.5, 0.01])
    try:
        if len({policy.probabilities(np.array(row)).tobytes() for row in rows}) != 1:
            return False
        policy.act(np.array([0.0, -0.5, 0.01, 0.02]))
    except coreplan.CoreplanError as error:
        return "here it is 0.02" in str(error)
    return False


@pytest.mark.parametrize(("old", "new"), FAULTS)
def test_faults_are_noticed(old, new, tmp_path, monkeypatch):
    broken = mutant(terminal, old, new, tmp_path, monkeypatch)
    right, wrong = (kind.TerminalFeatures(GRID, lambda x: x[:, 1:], 3, 1) for kind in (terminal, broken))
    assert behaves(right) and not behaves(wrong)
