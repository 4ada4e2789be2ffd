"""The command line in a process of its own, and a file with a problem of one's own."""

from __future__ import annotations

import subprocess
import sys

OWN = """
import numpy as np
from coreplan import FunctionFeatures, FunctionModel, Problem

def initial(rng, n):
    return rng.random((n, 1))

def step(rng, states, actions):
    move = np.where(actions == 1, 0.1, -0.1)[:, None]
    y = np.clip(states + move + 0.05 * rng.standard_normal(states.shape), 0, 1)
    return 10 * y[:, 0] - 5, y

def phi(states):
    base = np.concatenate([1 - states, states], axis=1)
    out = np.zeros((len(states), 2, 4))
    out[:, 0, :2] = base
    out[:, 1, 2:] = base
    return out

mine = Problem(
    FunctionModel(2, initial, step), FunctionFeatures(phi, 2, 4, radius=1.0), discount=0.9, reward_range=(-5, 5),
    core_pairs=(np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([0, 0, 1, 1])),
)

def make_mine():
    return mine

def broken():
    raise KeyError("nothing")

not_a_problem = 3
"""


def run(*arguments, cwd=None, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "coreplan", *arguments], capture_output=True, text=True, timeout=240, cwd=cwd
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done
