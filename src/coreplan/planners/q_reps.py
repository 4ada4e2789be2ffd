"""`QREPS`: policies from the logistic Bellman error, along trajectories (Bas-Serrano et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from ..base import FloatArray, as_count, as_number, as_positive, one_thread, settle
from ..features import Phi, as_sparse, row_scores, scores
from ..sampled import Equations, initial_rows, weighted
from .politex import InPhases
from .protocol import Setup, Tunable
from .trajectories import State

RIDGE = 1e-4  # on theta, relative to the features' size and to the range of values: directions without samples stay at 0
STEPS = 100  # of the minimisation, at most


@dataclass(frozen=True, kw_only=True, eq=False)
class QREPS(InPhases):
    """Q-REPS: Bas-Serrano, Curi, Krause & Neu, "Logistic Q-Learning", AISTATS 2021.

    Each phase follows one policy pi_k, and minimises the empirical logistic Bellman error of its samples (x, a, r, y),

        G(theta) = (1/eta) log mean exp(eta (r + gamma V(y) - phi(x, a) . theta)) + (1 - gamma) <nu0, V>,
        V(x) = (1/alpha) log sum_a pi_k(a|x) exp(alpha phi(x, a) . theta),

    which is convex. The next policy is pi_k exp(alpha Phi theta_k), normalised: a softmax of the sum of all thetas. G is the
    dual of the LP of occupancy measures, regularised by relative entropies to those of pi_k; there is no squared error.

    *Setting*: trajectories from nu0; a linear MDP. *Rate*: with eta and alpha of the order 1/sqrt(K) and exact minima the
    average policy of K phases loses O(1/sqrt(K)); with N samples per phase each minimum is off by O(eta + 1/sqrt(N)),
    which enters by its square root.

    *Departures*: the paper minimises by stochastic steps of two players (MinMax-Q-REPS); here L-BFGS finds the minimum for
    the samples of the phase. The mean of an exponential is biased where next states are random, in both; a small eta keeps
    the bias small. A fraction of actions is random, a little ridge holds what no sample determines, and the last policy is
    returned, not the average. Ends of episodes are noticed, as for `LSPI`.

    Parameters
    ----------
    phases: K; by default 20, or fewer with less than 200 samples for each.
    eta, alpha: in units of 1 - gamma, the inverse of the range of values. The defaults are the best of values from 0.3 to
        300 on random-linear 5 and river-swim with 5 states; a smaller eta keeps each policy near the one before it.
    random: the fraction of actions that are random.
    """

    name: ClassVar[str] = "q-reps"
    tunable: ClassVar[Tunable] = {"eta": (3.0, 300.0), "alpha": (3.0, 300.0), "phases": (5, 50)}

    phases: int | None = None  # type: ignore[assignment]
    eta: float = 100.0
    alpha: float = 100.0
    random: float = 0.1

    def __post_init__(self) -> None:
        settle(self, as_count, "phases")
        settle(self, as_positive, "eta", "alpha")
        settle(self, as_number, "random", what="a fraction from 0 to 1", good=lambda p: 0.0 <= p <= 1.0)

    def resolve(self, setup: Setup) -> Any:
        phases = self.phases or int(np.clip(setup.budget // 200, 1, 20))
        return super(QREPS, replace(self, phases=phases)).resolve(setup)

    def _fitted(self, state: State) -> State:
        alpha = self.alpha * (1.0 - self.setup.discount)
        loss = LogisticError(self, state, alpha)
        theta = minimized(loss, state.theta)
        return self._forgotten(
            state._replace(theta=theta, total=state.total + theta, scale=alpha, fits=state.fits + 1)
        )


class LogisticError:
    """G and its gradient on the samples of a phase."""

    def __init__(self, planner: QREPS, state: State, alpha: float) -> None:
        samples, self.gamma = weighted(state), planner.setup.discount
        equations = Equations(samples, planner.setup.dimension, RIDGE)
        self.alpha, self.eta = alpha, planner.eta * (1.0 - self.gamma)
        self.phi, self.next = samples.phi, samples.next_phi
        self.r, self.alive = equations.targets(self.gamma), ~equations.ended
        with np.errstate(divide="ignore"):
            self.log_w = np.log(equations.w / equations.w.sum())
            self.log_pi = np.log(planner._played(state, self.next))
            self.start = initial_rows(state)
            self.log_pi0 = np.log(planner._played(state, self.start))
        self.ridge = equations.penalty.max() * (1.0 - self.gamma)
        self.size = equations.size

    def _values(self, phi: Phi, log_pi: FloatArray, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """V at states, and the probabilities that are its derivatives by the scores."""
        q = np.empty(log_pi.shape)
        scores(phi, theta, q)
        logits = np.where(log_pi > -np.inf, log_pi + self.alpha * np.where(log_pi > -np.inf, q, 0.0), -np.inf)
        return logsumexp(logits, axis=1) / self.alpha, softmax(logits, axis=1)

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        V, p = self._values(self.next, self.log_pi, theta)
        V0, p0 = self._values(self.start, self.log_pi0, theta)
        delta = self.r + self.gamma * self.alive * V - row_scores(self.phi, theta)
        logits = self.log_w + self.eta * delta
        weight = softmax(logits)
        value = logsumexp(logits) / self.eta + (1 - self.gamma) * V0.mean() + 0.5 * self.ridge * theta @ theta
        gradient = (
            _moment(self.next, (self.gamma * weight * self.alive)[:, None] * p, self.size)
            - _moment(self.phi, weight, self.size)
            + _moment(self.start, (1 - self.gamma) / len(V0) * p0, self.size)
            + self.ridge * theta
        )
        return float(value), gradient


def _moment(phi: Phi, weight: FloatArray, size: int) -> FloatArray:
    """sum weight * phi over all vectors of a batch, `[d + 1]`; a masked one has weight 0."""
    index, entry = as_sparse(phi)
    used = np.where(weight[..., None] != 0.0, weight[..., None] * entry, 0.0)
    return np.bincount(index.ravel(), used.ravel(), minlength=size).astype(np.float64)


@one_thread
def minimized(loss: LogisticError, start: FloatArray) -> FloatArray:
    """Where the loss is least, by L-BFGS; finite in any case."""
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return np.asarray(found.x if np.isfinite(found.x).all() else start)
