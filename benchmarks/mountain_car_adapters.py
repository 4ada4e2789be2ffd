"""The same MountainCar built in, from Gymnasium and from gymnax: planned in the same way, then driven in Gymnasium.

    python benchmarks/mountain_car_adapters.py [grid ...]

Planning is value iteration on the core set with one sample per pair, which is enough since the dynamics are
deterministic. Driving uses `gymnasium.make("MountainCar-v0")` with its own 200-step limit and observations, seeds 0 to 99.
On some grids one start in a thousand or two falls just short of the goal, must swing once more, and needs slightly
more than 200 steps: one of the hundred does at 61 x 61 with discount 0.99 (202 steps).
"""

from __future__ import annotations

import itertools
import sys
import time

import gymnasium
import numpy as np

import coreplan
from coreplan.features import alive, checked, interpolation
from coreplan.problem import from_gymnasium, from_gymnax
from coreplan.simulate import Guard

LOW, HIGH = (-1.2, -0.07), (0.6, 0.07)  # position, velocity


def problems(grid: int, discount: float) -> dict[str, coreplan.Problem]:
    """MountainCar from three sources, with interpolation on grid x grid nodes."""
    features = interpolation(LOW, HIGH, (grid, grid), 3)
    return {
        "built in": coreplan.make(f"mountain-car:grid={grid},discount={discount}"),
        "gymnasium": from_gymnasium("MountainCar-v0", features, discount),
        "gymnax": from_gymnax("MountainCar-v0", features, discount),
    }


def sampled_value_iteration(problem, samples=1, seed=0, tolerance=1e-6):
    """The greedy policy for the solution of theta = r + gamma max_a phi(y, a) . theta on sampled core pairs (Phi~ = I)."""
    core = coreplan.CoreSet.of(problem)
    m, features = len(core), problem.features
    states, actions = np.repeat(core.states, samples, axis=0), np.repeat(core.actions, samples)
    r, y = Guard(problem, core.states).step(np.random.default_rng(seed), states, actions)
    index, weight = checked(features, y)  # [m samples, A, k]
    theta = np.full(features.dimension, 1 / (1 - problem.discount))  # an upper bound to start from
    for _ in range(100_000):
        best = (weight * theta[index]).sum(axis=2).max(axis=1)
        new = (r + problem.discount * best).reshape(m, samples).mean(axis=1)
        change, theta = np.abs(new - theta).max(), new
        if change <= tolerance * (1 - problem.discount):
            break
    return coreplan.SoftmaxPolicy(theta, np.inf, features)


def drive(policy, episodes=100):
    """Steps `[episodes]` to the goal in Gymnasium's own MountainCar; 200 if it was not reached."""
    env = gymnasium.make("MountainCar-v0")
    columns = alive if policy.features.description["kind"] == "TerminalFeatures" else np.asarray
    rng, steps = np.random.default_rng(0), []
    for episode in range(episodes):
        observation, _ = env.reset(seed=episode)
        done = truncated = False
        taken = 0
        while not (done or truncated):
            action = int(policy.act(columns(observation[None].astype(float)), rng)[0])
            observation, _, done, truncated, _ = env.step(action)
            taken += 1
        steps.append(taken if done else 200)
    return np.array(steps)


def main() -> None:
    grids = [int(word) for word in sys.argv[1:]] or [31, 61]
    for grid, discount in itertools.product(grids, (0.99, 0.995, 0.999)):
        for name, problem in problems(grid, discount).items():
            begin = time.perf_counter()
            policy = sampled_value_iteration(problem)
            spent = time.perf_counter() - begin
            steps = drive(policy)
            judged = coreplan.evaluate(problem, policy, rollouts=200)
            solved = f"solved {(steps < 200).sum()} of {len(steps)}"
            print(
                f"{grid} x {grid} {discount} {name:10s} planned in {spent:5.1f} s, {solved}, "
                f"mean {steps.mean():.1f} steps, value {judged.value:.4f} in [{judged.low:.4f}, {judged.high:.4f}]",
                flush=True,
            )


if __name__ == "__main__":
    main()
