"""Trajectories as a dataset of Minari, the format in which libraries that learn from recorded data take it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..base import InputError, as_kind, as_text, need, shown, text_of
from ..problem import ZOO, Problem, make
from .trajectories import Trajectories


def to_minari(trajectories: Trajectories, problem: Problem, dataset_id: str, **about: Any) -> Any:
    """Keep trajectories as a Minari dataset, such as "inventory/greedy-v0", on this machine; returns the `MinariDataset`.

    Observations, actions and rewards are those of `problem.to_gymnasium()`: a state has no terminal column, and with a mask
    the infos have `action_mask`. An episode that was cut off is truncated at its last step. One that began at an end has no
    step, and is left out. The dataset of a built-in problem knows its environment (`recover_environment()`).

    Parameters
    ----------
    trajectories: what `rollout` returned.
    problem: the problem that was given to `rollout`.
    dataset_id: its name and version, as Minari wants them; one that is there already is refused.
    about: what else Minari keeps, such as `author`, `algorithm_name` or `description`.
    """
    as_kind("to_minari", Trajectories, "what `rollout` returned", trajectories=trajectories)
    as_kind("to_minari", Problem, "a Problem", problem=problem)
    dataset_id = as_text("to_minari", dataset_id=dataset_id)
    minari = need("minari", "minari")
    need("h5py", "minari")
    env = problem.to_gymnasium()
    episodes = _episodes(trajectories, env)
    if not episodes:
        raise InputError("No episode has a step: all began at an end. There is nothing to keep.")
    if _rebuilt(problem, env):
        about = {"env": _spec(problem), **about}
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    try:
        with warnings.catch_warnings():  # one for every thing that is not told about the data
            warnings.simplefilter("ignore", UserWarning)
            return minari.create_dataset_from_buffers(dataset_id, episodes, **spaces, **about)
    except Exception as error:  # a name that is malformed or taken, a word that it does not know, a full disk
        raise InputError(f"Minari does not take the dataset {shown(dataset_id)}: {text_of(error)}") from error


def _episodes(found: Trajectories, env: Any) -> list[Any]:
    """Minari's buffers, one for each episode with a step."""
    buffer = need("minari.data_collector", "minari").EpisodeBuffer
    ends = np.searchsorted(found.episode, np.arange(len(found.initial_states) + 1))
    episodes: list[Any] = []
    for k, start in enumerate(found.initial_states):
        mine = slice(ends[k], ends[k + 1])
        if mine.start == mine.stop:
            continue
        states, over = np.concatenate([start[None], found.next_states[mine]]), found.ended[mine]
        cut = np.zeros_like(over)
        cut[-1] = not over[-1]
        episodes.append(
            buffer(id=len(episodes), observations=env.seen(states), actions=found.actions[mine],
                   rewards=found.rewards[mine], terminations=over, truncations=cut, infos=env.told(states))
        )  # fmt: skip
    return episodes


def _rebuilt(problem: Problem, env: Any) -> bool:
    """Whether the problem's name makes an environment with the same spaces."""
    if problem.name.partition(":")[0] not in ZOO:
        return False
    again = make(problem.name).to_gymnasium()
    return bool(again.observation_space == env.observation_space and again.action_space == env.action_space)


def _spec(problem: Problem) -> Any:
    """How Gymnasium makes a built-in problem's environment."""
    registration = need("gymnasium.envs.registration", "gymnasium")
    return registration.EnvSpec(
        f"coreplan/{problem.name.partition(':')[0]}-v0", "coreplan.envs:env", kwargs={"name": problem.name}
    )
