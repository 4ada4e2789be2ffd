"""Wrappers around a Gymnasium environment: those that change observations are named or refused, others are honoured."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers

import coreplan
from coreplan.features import dense
from coreplan.problem import alive, from_gymnasium, interpolation
from helpers.environments import GRID, constant

CAR = {"features": GRID, "reward_range": (-1, 0)}


def car():
    return gymnasium.make("MountainCar-v0")


class Halved(gymnasium.Wrapper):
    """A wrapper of one's own that is no ObservationWrapper, and shows half of everything."""

    def reset(self, **more):
        observation, info = self.env.reset(**more)
        return observation / 2, info

    def step(self, action):
        observation, *rest = self.env.step(action)
        return observation / 2, *rest


def shifted(env):
    return wrappers.TransformObservation(env, lambda x: x + 1.0, spaces.Box(-5, 5, (2,)))


def normalised(env):
    return wrappers.NormalizeObservation(env)


@pytest.mark.parametrize(
    ("wrap", "words"),
    [
        (shifted, r"TransformObservation.*observe=lambda states: np.stack\(\[env.observation\(x\) for x in states\]\)"),
        (
            lambda env: shifted(wrappers.TimeLimit(shifted(env), 7)),
            r"TransformObservation and TransformObservation.*env.observation\(env.env.env.observation\(x\)\)",
        ),
        (lambda env: wrappers.TimeLimit(shifted(env), 7), r"\[env.env.observation\(x\)"),
        (Halved, "Halved.*a function of states"),
    ],
)  # fmt: skip
def test_a_wrapper_that_changes_observations_is_named_with_its_cure(wrap, words):
    with pytest.warns(coreplan.CoreplanWarning, match=words):
        from_gymnasium(wrap(car()), **CAR)


def test_the_cure_honours_the_wrapper_and_silences_the_warning():
    """The `observe` of the warning, word for word, shows to the features what the wrapper shows."""
    env = wrappers.TimeLimit(shifted(car()), 7)
    with pytest.warns(coreplan.CoreplanWarning) as seen:
        from_gymnasium(env, **CAR)
    text = str(seen[0].message)
    assert "observe=lambda states: np.stack([env.env.observation(x) for x in states]). The policy" in text

    def observe(states):
        return np.stack([env.env.observation(x) for x in states])

    wide = interpolation([-1, 0], [3, 3], (5, 4), 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem = from_gymnasium(env, wide, reward_range=(-1, 0), observe=observe)
    states = problem.model.initial(np.random.default_rng(0), 5)
    np.testing.assert_array_equal(
        dense(problem.features(states), wide.dimension + 1)[:, :, :-1],
        dense(wide(states[:, :2] + 1.0), wide.dimension),
    )


@pytest.mark.parametrize(
    ("wrap", "words"),
    [
        (normalised, "NormalizeObservation.*obs_rms"),
        (lambda env: wrappers.FrameStackObservation(env, 3), "FrameStackObservation.*copy=True"),
        (wrappers.TimeAwareObservation, "TimeAwareObservation.*no clock"),
        (lambda env: wrappers.DelayObservation(env, 2), "DelayObservation"),
        (lambda env: shifted(normalised(env)), "NormalizeObservation"),
    ],
)
def test_observations_that_depend_on_the_past_are_refused(wrap, words):
    with pytest.raises(coreplan.InputError, match=words):
        from_gymnasium(wrap(car()), **CAR)


def test_whoever_reads_the_state_may_have_included_the_past():
    functions = {
        "get_state": lambda env: env.unwrapped.state,
        "set_state": lambda env, x: setattr(env.unwrapped, "state", x),
    }
    with pytest.warns(coreplan.CoreplanWarning, match="TimeAwareObservation"):
        from_gymnasium(wrappers.TimeAwareObservation(car()), **CAR, **functions)


def test_copies_see_what_the_wrapper_shows_unless_it_moves():
    with pytest.warns(UserWarning, match="deep copies"):
        problem = from_gymnasium(shifted(car()), constant(3), reward_range=(-1, 0), copy=True)
    assert (problem.model.initial(np.random.default_rng(0), 3)[:, 1] > 0).all()  # positions are below -0.4
    with pytest.raises(coreplan.InputError, match="statistics of its own"):
        from_gymnasium(normalised(car()), constant(3), reward_range=(-1, 0), copy=True)


def test_rewards_and_actions_go_through_their_wrappers():
    """No warning: a step goes through them. Wrappers with a memory do not repeat, and are refused for that."""
    plain = from_gymnasium("MountainCar-v0", GRID)
    turned = wrappers.TransformAction(car(), lambda a: 2 - a, spaces.Discrete(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem = from_gymnasium(
            wrappers.TransformReward(turned, lambda r: 3 * r), GRID, reward_range=(-3, 0)
        )
    states, a, rng = alive(np.tile([-0.5, 0.0], (3, 1))), np.arange(3), np.random.default_rng(0)
    r, y = problem.model.step(rng, states, a)
    wanted = plain.model.step(rng, states, 2 - a)
    np.testing.assert_array_equal(r, 3 * wanted[0])
    np.testing.assert_array_equal(y, wanted[1])
    for wrapper in (wrappers.NormalizeReward(car()), wrappers.StickyAction(car(), 0.5)):
        with pytest.raises(coreplan.InputError, match="does not capture everything"):
            from_gymnasium(wrapper, GRID, reward_range=(-10, 10))


@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCar-v0", "Acrobot-v1"])
def test_environments_without_such_wrappers_are_not_named(name):
    env = gymnasium.make(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_gymnasium(wrappers.RecordEpisodeStatistics(env), constant(int(env.action_space.n)))
