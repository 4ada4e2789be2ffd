"""`predict`: raw observations of the environment in, its own actions out, as other libraries call it; and `q_values`."""

from __future__ import annotations

import dataclasses

import gymnasium as gym
import numpy as np
import pytest

import coreplan
from coreplan.base import InputError
from coreplan.policy import SoftmaxPolicy
from coreplan.problem import alive, at_time, from_gymnasium, interpolation, make, polynomial, with_horizon

CAR = interpolation((-1.2, -0.07), (0.6, 0.07), (5, 4), 3)
TORQUES = [-2.0, 0.0, 2.0]


def policy_of(problem, scale=np.inf, seed=0):
    theta = np.random.default_rng(seed).normal(size=problem.features.dimension)
    return SoftmaxPolicy(theta, scale, problem.features)


def pendulum():
    low, high = (-np.pi, -8.0), (np.pi, 8.0)
    phi = interpolation(low, high, (5, 5), 3, periodic=(True, False))
    return from_gymnasium("Pendulum-v1", phi, actions=TORQUES)


def seen(name, n=200, seed=0):
    """Observations of a random walk, each with the environment's state."""
    env, found = gym.make(name, max_episode_steps=n), []
    env.action_space.seed(seed)
    observation, _ = env.reset(seed=seed)
    for _ in range(n):
        found.append((observation, np.array(env.unwrapped.state, dtype=np.float64)))
        observation, _, over, cut, _ = env.step(env.action_space.sample())
        if over or cut:
            observation, _ = env.reset()
    return np.array([o for o, _ in found]), np.array([x for _, x in found])


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("MountainCar-v0", lambda: from_gymnasium("MountainCar-v0", CAR)),
        ("Acrobot-v1", lambda: from_gymnasium("Acrobot-v1", polynomial([-9.0] * 4, [9.0] * 4, 2, 3))),
        ("Pendulum-v1", pendulum),
    ],
)
def test_observations_are_turned_into_states_and_numbers_into_actions(name, problem):
    problem = problem()
    policy, (observations, states) = policy_of(problem), seen(name)
    if name == "Pendulum-v1":  # its angle counts on beyond pi, and the grid is joined there
        assert (np.abs(states[:, 0]) > np.pi).any()
    expected = policy.act(alive(states))
    values = np.asarray(TORQUES)[expected][:, None] if name == "Pendulum-v1" else expected
    actions, state = policy.predict(observations)
    clear = np.sort(policy.q_values(states), axis=1)  # single precision may decide a tie
    clear = clear[:, -1] - clear[:, -2] > 1e-4
    assert clear.mean() > 0.9 and np.array_equal(actions[clear], values[clear]) and state is None
    one, _ = policy.predict(observations[0])
    assert np.array_equal(one, actions[0]) and gym.make(name).action_space.contains(one)


def test_numbers_are_observations_too():
    policy = policy_of(from_gymnasium("FrozenLake-v1"))
    actions, _ = policy.predict(np.arange(5))
    assert np.array_equal(actions, policy.act(np.arange(5)))
    assert policy.predict(3)[0] == policy.predict(np.int64(3))[0] == actions[3]


def test_parts_of_an_observation_are_read_one_after_the_other():
    policy = policy_of(from_gymnasium("MountainCar-v0", CAR))
    one, _ = policy.predict({"position": -0.5, "velocity": np.array([0.01])})
    assert one == policy.act([-0.5, 0.01])
    batch = (np.array([[-0.5], [0.2]]), np.array([[0.01], [0.02]]))
    assert np.array_equal(policy.predict(batch)[0], policy.act([[-0.5, 0.01], [0.2, 0.02]]))
    with pytest.raises(InputError, match="The parts of the observation have shapes"):
        policy.predict((np.zeros((2, 1)), np.zeros((3, 1))))


@pytest.mark.parametrize(
    ("name", "D"), [("cart-pole:grid=3", 4), ("cart-pole:features=polynomial", 4), ("acrobot:grid=3", 4)]
)
def test_built_in_problems_with_an_end_take_states_without_its_column(name, D):
    """So a policy of the built-in cart-pole balances Gymnasium's, whose observation has four numbers."""
    problem = make(name)
    policy, rows = policy_of(problem, scale=2.0), np.random.default_rng(1).uniform(-0.1, 0.1, (20, D))
    assert np.array_equal(policy.probabilities(rows), policy.probabilities(alive(rows)))
    assert np.array_equal(policy.q_values(rows[0]), policy.q_values(alive(rows)[0]))
    assert np.array_equal(policy.predict(rows)[0], policy.predict(alive(rows))[0])
    with pytest.raises(InputError, match=r"\(n, 5\), got \(20, 3\)"):
        policy.predict(rows[:, :3])


class Halved(gym.ObservationWrapper):
    def observation(self, observation):
        return (observation / 2).astype(np.float32)


class Hidden(gym.ObservationWrapper):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def observation(self, observation):
        return observation[:1]


def test_features_of_observations_see_what_the_environment_shows():
    env = Halved(gym.make("MountainCar-v0"))
    problem = from_gymnasium(env, CAR, reward_range=(-1, 0), observe=lambda states: states / 2)
    policy, (observations, states) = policy_of(problem), seen("MountainCar-v0")
    actions, _ = policy.predict((observations / 2).astype(np.float32))
    assert (actions == policy.act(alive(states))).mean() > 0.95


def test_an_observation_that_hides_the_state_is_refused():
    with pytest.warns(coreplan.CoreplanWarning, match="is wrapped in Hidden"):
        problem = from_gymnasium(Hidden(gym.make("MountainCar-v0")), CAR, reward_range=(-1, 0))
    with pytest.raises(InputError, match="shows is not its state"):
        policy_of(problem).predict(np.zeros(1))


def test_a_horizon_counts_its_steps_in_the_state():
    problem = with_horizon(from_gymnasium("MountainCar-v0", CAR), 4)
    policy, x = policy_of(problem), np.array([[-0.5, 0.01], [0.2, 0.02]])
    state, start = None, np.array([True, True])
    for t in ([0, 0], [1, 1], [0, 2], [1, 3], [2, 3]):  # the first begins anew; the last outlasts the horizon
        actions, state = policy.predict(x, state, start)
        assert np.array_equal(actions, policy.act(at_time(x, t)))
        start = np.array([t == [1, 1], False])
    assert np.array_equal(policy.predict(np.column_stack([x, [1, 3]]))[0], policy.act(at_time(x, [1, 3])))
    with pytest.raises(InputError, match="the next step of each of 2 episodes"):
        policy.predict(x, np.zeros(3, dtype=int))


def test_a_softmax_needs_a_source_of_randomness():
    problem = make("river-swim")
    policy, states = policy_of(problem, scale=1.0), np.zeros(1000, dtype=np.int64)
    with pytest.raises(InputError, match="needs a source of randomness"):
        policy.predict(states, deterministic=False)
    drawn, _ = policy.predict(states, deterministic=False, rng=3)
    assert np.array_equal(drawn, policy.act(states, 3))
    assert 0 < drawn.mean() < 1  # missed by chance with probability below 1e-100: p is not near 0 or 1
    assert 0.1 < policy.probabilities(0)[1] < 0.9
    likely, _ = policy.predict(states)
    assert (likely == policy.probabilities(0).argmax()).all()


def test_q_values_are_scores_and_forbidden_actions_have_none():
    mask = lambda states: np.stack([states[:, 0] < 0.5, states[:, 0] >= 0.0], axis=1)  # noqa: E731
    model = coreplan.FunctionModel(2, lambda rng, n: rng.random((n, 1)), lambda rng, x, a: (x[:, 0], x))
    problem = coreplan.Problem(model, interpolation([0.0], [1.0], [3], 2), 0.9, core_pairs=CORE, mask=mask)
    policy = policy_of(problem)
    q = policy.q_values(np.array([[0.25], [0.75]]))
    theta = policy.theta.reshape(3, 2)  # node, action
    assert q[0] == pytest.approx((theta[0] + theta[1]) / 2)
    assert q[1] == pytest.approx([-np.inf, (theta[1, 1] + theta[2, 1]) / 2])
    assert np.array_equal(policy.q_values(np.array([0.25])), q[0])
    assert np.array_equal(q.argmax(axis=1), policy.act(np.array([[0.25], [0.75]])))


CORE = (np.array([[0.0], [0.0], [0.5], [1.0]]), np.array([0, 1, 1, 1]))


def test_of_a_plan_by_plug_in_q_values_are_returns():
    """On an exact linear MDP the greedy value of the initial states is the value of the policy."""
    problem = make("random-linear")
    plan = coreplan.plan(problem, epsilon="0.1%", evaluate=True, reality=0)
    start = problem.model.initial(np.random.default_rng(0), 20_000)
    believed = (1 - problem.discount) * plan.policy.q_values(start).max(axis=1).mean()
    assert believed == pytest.approx(plan.evaluation.value, abs=0.01)


class Recurrent:
    """Calls a policy as Stable-Baselines3's `evaluate_policy` does, on a vector environment of Gymnasium."""

    @staticmethod
    def returns(policy, name, episodes=4, **more):
        envs = gym.make_vec(name, num_envs=2, vectorization_mode="sync", **more)
        observations, _ = envs.reset(seed=0)
        states, starts, total, done = None, np.ones(2, dtype=bool), np.zeros(2), []
        while len(done) < episodes:
            actions, states = policy.predict(
                observations, state=states, episode_start=starts, deterministic=True
            )
            observations, rewards, over, cut, _ = envs.step(actions)
            total += rewards  # of the step that resets it is 0
            starts = over | cut
            done += total[starts].tolist()
            total[starts] = 0.0
        return done


@pytest.fixture(scope="module")
def evaluate_policy():
    """Stable-Baselines3's. No extra of ours installs it, since it needs torch."""
    reason = "stable_baselines3 is not installed: pip install stable-baselines3"
    return pytest.importorskip("stable_baselines3.common.evaluation", reason=reason).evaluate_policy


@pytest.fixture(scope="module")
def car():
    phi = interpolation((-1.2, -0.07), (0.6, 0.07), (31, 31), 3)
    problem = from_gymnasium("MountainCar-v0", phi)
    return coreplan.plan(problem, planner=coreplan.PlugIn(samples=1), reality=0).policy


@pytest.fixture(scope="module")
def pole():
    high = (2.4, 3.0, 0.21, 3.5)
    phi = interpolation(np.negative(high), high, (3, 3, 7, 7), 2)
    problem = from_gymnasium("CartPole-v1", phi)
    return coreplan.plan(problem, planner=coreplan.PlugIn(samples=1), reality=0).policy


def test_a_policy_drives_a_vector_environment(car):
    assert min(Recurrent.returns(car, "MountainCar-v0")) > -200  # every car arrives before the time limit


@pytest.fixture(scope="module")
def built_in():
    return coreplan.plan(make("cart-pole:grid=5"), planner=coreplan.PlugIn(samples=1), reality=0).policy


def test_stable_baselines3_takes_policies_as_they_are(evaluate_policy, car, pole, built_in):
    """Runs where it is installed; how it was run stands in docs/your-own-problem.md."""
    cases = ((car, "MountainCar-v0", -160.0), (pole, "CartPole-v1", 400.0), (built_in, "CartPole-v1", 400.0))
    for policy, name, least in cases:
        env = gym.make(name)
        env.reset(seed=0)
        mean, spread = evaluate_policy(policy, env, n_eval_episodes=20, warn=False)
        print(f"{name}: {mean:.1f} +- {spread:.1f}")
        assert mean > least


def test_copies_of_problems_keep_how_the_environment_speaks():
    problem = pendulum()
    masked = dataclasses.replace(problem, mask=lambda states: np.ones((len(states), 3), dtype=bool))
    observation, _ = gym.make("Pendulum-v1").reset(seed=3)
    theta = policy_of(problem).theta
    actions = {
        float(SoftmaxPolicy(theta, np.inf, p.features).predict(observation)[0][0]) for p in (problem, masked)
    }
    assert len(actions) == 1 and actions <= set(TORQUES)
