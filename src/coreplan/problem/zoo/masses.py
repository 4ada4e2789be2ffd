"""`masses`: a chain of masses joined by springs, pushed at one end; linear dynamics and a quadratic cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from numba import njit
from scipy.linalg import expm, solve_discrete_are

from ...base import FloatArray, InputError, IntArray, States, as_choice
from ...features import interpolation, polynomial
from ..model import CompiledModel
from ..problem import Problem
from .bounds import between, bounds_only, normals

_DT = 0.25  # s between decisions; masses weigh 1
_PLACE, _SPEED = 2.0, 2.0  # the largest displacement and speed
_COST_PLACE, _COST_SPEED, _COST_FORCE = 1.0, 0.1, 0.1
_START = 1.0  # the largest displacement of a start, at rest


@njit(cache=True, nogil=True)
def _initial(rng, data, states):
    n_masses = states.shape[1] // 2
    for n in range(states.shape[0]):
        for i in range(n_masses):
            states[n, i] = _START * (2.0 * rng.random() - 1.0)
            states[n, n_masses + i] = 0.0


@njit(cache=True, nogil=True)
def _moved(data, states, actions, n, rewards, next_states):
    """The cost of query n, and the next state without noise, not yet clipped."""
    A, B, forces = data[0], data[1], data[2]
    D = states.shape[1]
    cost = 0.0
    for i in range(D):
        cost += (_COST_PLACE if 2 * i < D else _COST_SPEED) * states[n, i] ** 2
        y = 0.0
        for j in range(D):
            y += A[i, j] * states[n, j]
        for j in range(B.shape[1]):
            y += B[i, j] * forces[actions[n], j]
        next_states[n, i] = y
    for j in range(B.shape[1]):
        cost += _COST_FORCE * forces[actions[n], j] ** 2
    rewards[n] = -cost


@njit(cache=True, nogil=True)
def _clipped(next_states, n):
    D = next_states.shape[1]
    for i in range(D):
        most = _PLACE if 2 * i < D else _SPEED
        next_states[n, i] = min(max(next_states[n, i], -most), most)


@njit(cache=True, nogil=True)
def _step(rng, data, states, actions, rewards, next_states):
    noise, n_masses = data[3], states.shape[1] // 2
    for n in range(states.shape[0]):
        _moved(data, states, actions, n, rewards, next_states)
        if noise > 0.0:
            for i in range(n_masses):
                u, v = rng.random(), rng.random()
                next_states[n, n_masses + i] += noise * normals(u, v)[0]
        _clipped(next_states, n)


@njit(cache=True, nogil=True)
def _step_with(data, states, actions, noise, rewards, next_states):
    n_masses = states.shape[1] // 2
    for n in range(states.shape[0]):
        _moved(data, states, actions, n, rewards, next_states)
        for i in range(noise.shape[1] // 2):
            next_states[n, n_masses + i] += data[3] * normals(noise[n, 2 * i], noise[n, 2 * i + 1])[0]
        _clipped(next_states, n)


def dynamics(masses: int, spring: float, damper: float, driven: int) -> tuple[FloatArray, FloatArray]:
    """A `[2n, 2n]` and B `[2n, driven]` of the state after a step, A x + B u, the forces u being constant during it.

    A mass is pulled by spring * (difference of displacements) + damper * (difference of speeds) towards each neighbour;
    the first `driven` masses are pushed. The exact solution of these linear equations over a step is a matrix exponential.
    """
    L = np.zeros((masses, masses))  # the chain's Laplacian
    for i in range(masses - 1):
        L[i : i + 2, i : i + 2] += [[1.0, -1.0], [-1.0, 1.0]]
    rates = np.zeros((2 * masses + driven, 2 * masses + driven))
    rates[:masses, masses : 2 * masses] = np.eye(masses)
    rates[masses : 2 * masses, : 2 * masses] = np.hstack([-spring * L, -damper * L])
    rates[masses : masses + driven, 2 * masses :] = np.eye(driven)
    whole = expm(_DT * rates)
    return whole[: 2 * masses, : 2 * masses].copy(), whole[: 2 * masses, 2 * masses :].copy()


def regulator(A: FloatArray, B: FloatArray, discount: float) -> tuple[FloatArray, FloatArray]:
    """The linear-quadratic regulator: P with cost-to-go x' P x, and K with the best forces -K x, where any force may act.

    With discount g the Riccati equation is that of sqrt(g) A and sqrt(g) B. Normal noise changes P and K in nothing, and
    adds g / (1 - g) trace(P W) to the cost, W being the covariance of the noise.
    """
    n, k = A.shape[0] // 2, B.shape[1]
    Q, R = np.diag([_COST_PLACE] * n + [_COST_SPEED] * n), _COST_FORCE * np.eye(k)
    P = solve_discrete_are(math.sqrt(discount) * A, math.sqrt(discount) * B, Q, R)
    return P, np.linalg.solve(R + discount * B.T @ P @ B, discount * B.T @ P @ A)


def nearest_force(K: FloatArray, forces: FloatArray) -> Callable[[States], IntArray]:
    """The rule: the regulator's force -K x, rounded to the nearest of `forces [A, k]`."""

    def act(states: States) -> IntArray:
        wish = -np.asarray(states) @ K.T  # [n, k]
        distance = ((wish[:, None, :] - forces[None]) ** 2).sum(axis=2)
        return np.asarray(distance.argmin(axis=1), dtype=np.int64)

    return act


def masses(
    masses: int = 2, features: str = "quadratic", grid: int = 5, actions: int = 5, driven: int = 1, force: float = 1.0,
    spring: float = 1.0, damper: float = 0.1, noise: float = 0.0, discount: float = 0.97,
) -> Problem:  # fmt: skip
    """A chain of masses on springs, pushed at one end: state (displacements, speeds), 4 numbers for 2 masses, 6 for 3.

    Masses of 1 on a line without friction, each joined to its neighbours by a spring (force: spring times the difference of
    displacements) and a damper (the same with speeds). Action a pushes the first mass with one of `actions` forces, evenly
    spaced from -force to force, for 0.25 s; with driven=k each of the first k masses has a force of its own, and there are
    actions^k actions. Normal noise of standard deviation `noise` is added to every speed. Displacements and speeds are
    clipped to [-2, 2]. A step costs sum(displacement^2) + 0.1 sum(speed^2) + 0.1 sum(force^2). Starts are at rest,
    displacements uniform on [-1, 1].

    The baseline is the linear-quadratic regulator (the solution of the Riccati equation, for which any force may act and
    nothing is clipped), its force rounded to the nearest action. Its discounted cost is 3.70 for two masses and 6.50 for
    three (values 0.9875 and 0.9853); with any force it would be 3.42 and 6.07, which no policy can beat here. No force at
    all costs 13.6 and 17.3, random forces 113 and 140.

    `features=quadratic`: all monomials up to degree 2, one copy per action (d = 75 for two masses and five actions),
    without a core set; `features=grid`: interpolation on grid^(2 masses) nodes (exact core set); `features=none`: bounds
    only.
    """
    as_choice("masses", ("quadratic", "grid", "none"), features=features)
    if not 1 <= masses <= 6:
        raise InputError(f"`masses:masses=...` must be from 1 to 6, got {masses}.")
    if not 1 <= driven <= min(masses, 3):
        raise InputError(
            f"`masses:driven=...` must be from 1 to 3 masses, and at most {masses}, got {driven}."
        )
    if not 2 <= actions <= 21:
        raise InputError(f"`masses:actions=...` must be from 2 to 21 forces, got {actions}.")
    if not 2 <= grid <= 40:
        raise InputError(f"`masses:grid=...` must be from 2 to 40 nodes per side, got {grid}.")
    force, noise = between("masses", 1e-3, 100.0, force=force), between("masses", 0.0, 1.0, noise=noise)
    spring, damper = between("masses", 0.0, 100.0, spring=spring), between("masses", 0.0, 10.0, damper=damper)
    A, B = dynamics(masses, spring, damper, driven)
    forces = np.array(list(itertools.product(np.linspace(-force, force, actions), repeat=driven)))
    worst = masses * (_COST_PLACE * _PLACE**2 + _COST_SPEED * _SPEED**2) + driven * _COST_FORCE * force**2
    high = [_PLACE] * masses + [_SPEED] * masses
    low, n = [-h for h in high], len(forces)
    phi = (
        polynomial(low, high, 2, n)
        if features == "quadratic"
        else interpolation(low, high, [grid] * (2 * masses), n)
        if features == "grid"
        else bounds_only(low, high, n)
    )
    return Problem(
        model=CompiledModel(
            n,
            _initial,
            _step,
            (A, B, forces, noise),
            state_shape=(2 * masses,),
            state_dtype=np.float64,
            noise_kernel=_step_with,
            noise_dimension=2 * masses if noise > 0.0 else 0,
        ),
        features=phi,
        discount=discount,
        reward_range=(-worst, 0.0),
        baseline=("LQR, rounded", nearest_force(regulator(A, B, discount)[1], forces)),
        state_names=[f"{what} {i + 1}" for what in ("displacement", "speed") for i in range(masses)],
        action_names=[f"force {' and '.join(f'{u:.6g}' for u in row)}" for row in forces],
    )
