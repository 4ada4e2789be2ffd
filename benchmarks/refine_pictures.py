"""Pictures of `Refine` on MountainCar at three stages of one problem: its tree, and the path of its policy.

    python benchmarks/refine_pictures.py [--folder docs/images]

Each picture is that of `policy.draw`: position from left to right, speed upwards; rectangles are leaves, coloured by the
action that is taken, and the orange line is the path of the policy from the bottom of the valley.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

import coreplan
from coreplan import Problem, Refine
from coreplan.base import FloatArray
from coreplan.features import tree_of

sys.path.insert(0, str(Path(__file__).parent))
from refine import TASKS

STAGES = (1_500, 5_000, 15_000)  # queries


def path(problem: Problem, policy: coreplan.SoftmaxPolicy) -> FloatArray:
    """The states `[k, 2]` of one episode from the bottom of the valley."""
    x = problem.model.initial(np.random.default_rng(0), 1)
    x[0, :2] = (-0.5, 0.0)
    seen = [x[0, :2].copy()]
    for _ in range(200):
        _, x = problem.model.step(np.random.default_rng(0), x, policy.act(x))
        if problem.ended(x)[0]:
            break
        seen.append(x[0, :2].copy())
    return np.array(seen)


def picture(problem: Problem, budget: int) -> tuple[str, int, int]:
    """The picture of a run, its number of nodes, and the length of the path."""
    policy = coreplan.plan(problem, planner=Refine(), budget=budget, seed=0, reality=0).policy
    tree = tree_of(policy.features)
    assert tree is not None
    states = path(problem, policy)
    text = policy.draw(path=states)
    return text, len(tree.keys), len(states)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("docs/images"))
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    problem = TASKS["mountain-car"].problem()
    for number, budget in enumerate(STAGES, start=1):
        text, nodes, length = picture(problem, budget)
        (folder / f"refine-{number}.svg").write_text(text)
        print(f"{budget:,} queries: {nodes:,} nodes, the path has {length} steps")


if __name__ == "__main__":
    main()
