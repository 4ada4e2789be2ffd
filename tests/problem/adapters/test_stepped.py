"""Problems as Gymnasium environments: Gymnasium's own checks, seeds, ends, masks, horizons, and the registry."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from coreplan.base import InputError
from coreplan.policy import SoftmaxPolicy
from coreplan.problem import (
    ZOO,
    FunctionFeatures,
    FunctionModel,
    Problem,
    from_gymnasium,
    interpolation,
    make,
)


def walk(env, actions, seed=0):
    """What a fixed list of actions meets: observations, rewards, and whether it ended or was cut off."""
    rows = [env.reset(seed=seed)[0]]
    for action in actions:
        observation, reward, over, cut, _ = env.step(action)
        rows.append((observation, reward, over, cut))
        if over or cut:
            break
    return rows


@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # of spaces without bounds, in which no number is wrong
@pytest.mark.parametrize("name", ZOO)
def test_gymnasium_accepts_every_problem_of_the_zoo(name):
    check_env(gym.make(f"coreplan.envs:coreplan/{name}-v0").unwrapped)


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize(
    "spec",
    [
        "river-swim:horizon=5",
        "inventory:horizon=5,grid=2",
        "mountain-car:features=none",
        "cart-pole:features=none",
        "random-linear:lazy=true,states=10**15",
        "random-linear:compiled=false",
    ],
)
def test_gymnasium_accepts_other_forms_of_states(spec):
    check_env(make(spec).to_gymnasium(max_steps=7))


def test_the_registry_takes_parameters_and_a_limit():
    env = gym.make("coreplan.envs:coreplan/inventory-v0", grid=5, max_episode_steps=3)
    assert env.unwrapped.problem.name == "inventory:grid=5"
    assert walk(env, [4] * 10)[-1][3] and len(walk(env, [4] * 10)) == 4
    with pytest.raises(InputError, match=r"has no parameter 'gird'\. Did you mean 'grid'"):
        gym.make("coreplan/inventory-v0", gird=5)


def test_episodes_are_those_of_gymnasium():
    """The zoo's cart-pole has Gymnasium's dynamics: from the same state the same actions give the same."""
    ours, theirs = make("cart-pole").to_gymnasium(), gym.make("CartPole-v1").unwrapped
    theirs.reset(seed=1)
    ours.reset(seed=1)
    ours.state = np.append(theirs.state, 0.0)
    for action in [1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]:
        a, b = ours.step(action), theirs.step(action)
        assert a[1:4] == b[1:4]
        if a[2]:
            break
        assert a[0][:4] == pytest.approx(b[0], abs=1e-5)
    assert a[2]
    with pytest.raises(InputError, match="The episode is over"):
        ours.step(1)


def test_the_same_seed_gives_the_same_episode():
    env, other = (make("inventory:grid=2").to_gymnasium() for _ in range(2))
    actions = [4, 0, 0, 8, 0, 0, 4]
    one, two, three = walk(env, actions), walk(other, actions), walk(env, actions, seed=1)
    assert str(one) == str(two) != str(three)


def test_rewards_are_the_users_own_and_a_horizon_ends_the_episode():
    def step(rng, states, actions):
        return np.full(len(states), 3.0), states

    model = FunctionModel(2, lambda rng, n: np.full((n, 1), 0.5), step)
    problem = Problem(model, interpolation([0.0], [1.0], [2], 2), 1.0, reward_range=(-1, 4), horizon=3)
    rows = walk(problem.to_gymnasium(), [0] * 10)
    assert [row[1] for row in rows[1:]] == pytest.approx([3.0] * 3)
    assert [row[2:] for row in rows[1:]] == [(False, False), (False, False), (True, False)]
    assert rows[0].tolist() == [0.5, 0.0] and rows[1][0].tolist() == [0.5, 1.0]


def test_ends_terminate_and_limits_truncate():
    over = make("frozen-lake").to_gymnasium(max_steps=5)
    assert [row[2:] for row in walk(over, [0] * 9)[1:]][-1] == (False, True)
    car = make("mountain-car").to_gymnasium()
    car.reset(seed=0)
    car.state = np.array([0.49, 0.05])
    assert car.step(2)[2:4] == (True, False)


def masked():
    mask = lambda states: np.stack([states[:, 0] < 0.6, states[:, 0] >= 0.0], axis=1)  # noqa: E731
    model = FunctionModel(2, lambda rng, n: np.full((n, 1), 0.5), lambda rng, x, a: (x[:, 0], x + 0.2))
    phi = FunctionFeatures(lambda x: np.repeat(x[:, None, :], 2, axis=1), 2, 1, 2.0)
    return Problem(model, phi, 0.9, mask=mask, action_names=("left", "right"))


def test_a_mask_is_in_the_info_and_is_kept():
    env = masked().to_gymnasium()
    assert env.reset(seed=0)[1]["action_mask"].tolist() == [1, 1]
    info = env.step(1)[4]
    assert info["action_mask"].dtype == np.int8 and info["action_mask"].tolist() == [0, 1]
    assert env.action_space.sample(info["action_mask"]) == 1
    with pytest.raises(InputError, match=r"Action 0 \(left\) is forbidden in state \[0.7"):
        env.step(0)


def test_what_is_no_action_is_refused():
    env = make("river-swim").to_gymnasium()
    env.reset(seed=0)
    for action in (2, -1, 0.5, True, "left", None):
        with pytest.raises(InputError, match="is no action of river-swim"):
            env.step(action)
    with pytest.raises(InputError, match="max_steps"):
        make("river-swim").to_gymnasium(max_steps=0)


@pytest.mark.parametrize(
    "spec", ["river-swim:horizon=5", "inventory:grid=2", "cart-pole:features=none", "frozen-lake"]
)
def test_policies_predict_on_its_observations(spec):
    problem = make(spec)
    features = problem.features
    policy = SoftmaxPolicy(np.random.default_rng(0).normal(size=features.dimension), np.inf, features)
    env = problem.to_gymnasium(max_steps=4)
    observation, _ = env.reset(seed=0)
    for _ in range(4):
        action, _ = policy.predict(observation)
        assert action == policy.act(env.state[None])[0]
        observation, _, over, cut, _ = env.step(action)
        if over or cut:
            break


def test_the_way_back_is_open():
    """Its state can be set, so that `from_gymnasium` takes it again."""
    problem = make("inventory:grid=2")
    low, high = [0.0, 0.0], [30.0, 30.0]
    again = from_gymnasium(
        problem.to_gymnasium(), interpolation(low, high, (2, 2), 9), 0.95, reward_range=problem.reward_range
    )
    pairs = np.array([[3.0, 12.0, 0.0]] * 4), np.array([0, 4, 4, 8])
    rewards, states = again.model.step(np.random.default_rng(0), *pairs)
    paid, _ = problem.model.step(np.random.default_rng(0), pairs[0][:, :2], pairs[1])
    assert np.array_equal(rewards, paid)  # the expected rewards, whatever the demand
    assert ((states[:, :2] >= 0) & (states[:, :2] <= 30) & (states[:, 2:] == 0)).all()
