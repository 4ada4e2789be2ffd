"""Trajectories as Minari's datasets: they hold what happened, as the Gymnasium environment would have shown it."""

from __future__ import annotations

import numpy as np
import pytest

import coreplan
from coreplan.base import InputError
from coreplan.problem import from_gymnasium, interpolation, make, with_horizon
from helpers.masked import ALLOWED, masked_problem

minari = pytest.importorskip("minari", reason="Minari is not installed: pip install 'coreplan[minari]'")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where Minari keeps datasets."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def leaning(states):
    """Push to where the pole leans."""
    return (states[:, 2] > 0.0).astype(np.int64)


def test_the_environment_that_it_names_does_the_same_again():
    """The cart draws nothing after the start, so the recorded actions meet what was recorded."""
    problem = make("cart-pole:discount=0.98")
    found = coreplan.rollout(problem, leaning, episodes=4, steps=40)
    data = coreplan.to_minari(found, problem, "pole/leaning-v0", algorithm_name="by hand")
    assert data.total_episodes == 4 and data.total_steps == len(found)
    again = minari.load_dataset("pole/leaning-v0")
    env = again.recover_environment().unwrapped
    assert env.problem.name == problem.name and again.spec.env_spec.id == "coreplan/cart-pole-v0"
    ends = []
    for k, episode in enumerate(again.iterate_episodes()):
        assert np.array_equal(episode.actions, found.actions[found.episode == k])
        env.reset(seed=0)
        env.state = episode.observations[0]
        for t, action in enumerate(episode.actions):
            observation, reward, over, _, _ = env.step(action)
            assert np.allclose(observation, episode.observations[t + 1], atol=1e-12)
            assert (reward, over) == (episode.rewards[t], episode.terminations[t])
        ends.append((episode.terminations[-1], episode.truncations[-1]))
        assert not episode.terminations[:-1].any() and not episode.truncations[:-1].any()
    assert set(ends) == {(True, False), (False, True)}  # both kinds are there, and no episode has both


def test_masks_are_in_the_infos_and_numbers_are_observations():
    problem = masked_problem()
    found = coreplan.rollout(
        problem, coreplan.SoftmaxPolicy(np.zeros(24), 1.0, problem.features), episodes=3, steps=20
    )
    data = coreplan.to_minari(found, problem, "masked-v0")
    for k, episode in enumerate(data.iterate_episodes()):
        mine = found.episode == k
        states = np.append(found.states[mine], found.next_states[mine][-1])
        assert np.array_equal(episode.observations, states)
        assert np.array_equal(episode.infos["action_mask"], ALLOWED[states])
    assert (
        data.spec.env_spec is None and data.spec.observation_space == problem.to_gymnasium().observation_space
    )


def test_a_horizon_ends_episodes_and_pays_in_the_users_units():
    problem = with_horizon(make("inventory:grid=3"), 5)
    found = coreplan.rollout(problem, 0, episodes=2)
    data = coreplan.to_minari(found, problem, "inventory/short-v0")
    for k, episode in enumerate(data.iterate_episodes()):
        mine = found.episode == k
        assert episode.terminations.tolist() == [False] * 4 + [True]
        assert np.array_equal(episode.rewards, found.rewards[mine])
        assert np.array_equal(
            episode.observations[:-1], found.states[mine, :-1]
        )  # without the terminal column
        assert np.array_equal(episode.observations[-1], found.next_states[mine][-1, :-1])
    assert data.spec.env_spec is None  # the name is that of the problem without the horizon


def test_what_it_refuses():
    problem = make("river-swim")
    found = coreplan.rollout(problem, 1, episodes=2, steps=3)
    coreplan.to_minari(found, problem, "river-v0")
    for name, about, message in (
        ("river-v0", {}, "already exists"),
        ("no version", {}, "Malformed dataset ID"),
        ("river-v1", {"authr": "me"}, "unexpected keyword argument 'authr'"),
    ):
        with pytest.raises(InputError, match=f"Minari does not take the dataset '{name}': .*{message}"):
            coreplan.to_minari(found, problem, name, **about)
    for given, message in (
        ((problem, problem, "x-v0"), "what `rollout` returned"),
        ((found, found, "x-v0"), "must be a Problem"),
        ((found, problem, 3), "must be a text"),
    ):
        with pytest.raises(InputError, match=message):
            coreplan.to_minari(*given)


def test_without_a_step_there_is_nothing_to_keep():
    over = from_gymnasium("MountainCar-v0", interpolation([-1.2, -0.07], [0.6, 0.07], (3, 3), 3))
    found = coreplan.rollout(over, 0, episodes=2, steps=1)
    empty = type(found)(
        **{
            **vars(found),
            **{
                name: getattr(found, name)[:0]
                for name in ("states", "actions", "rewards", "next_states", "ended", "episode", "step")
            },
        }
    )
    with pytest.raises(InputError, match="No episode has a step"):
        coreplan.to_minari(empty, over, "nothing-v0")
