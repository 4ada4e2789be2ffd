"""`ALP` and `LRALP`: the approximate LP on all pairs, or on core pairs (de Farias & Van Roy; Lakshminarayanan et al.)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ..base import InputError, as_count, settle
from ..sampled import Found, SolverError, Stored, initial_features, solve_states, state_rows, stored
from .doubts import Verdict
from .protocol import CoreSetup, ReadOut
from .sampled_lp import LARGEST, SampledLP, State


class StateLP(SampledLP):
    """The base class: samples its pairs as `SampledLP` does, and solves the approximate LP over values of states."""

    def resolve(self, setup: CoreSetup) -> Any:
        planner = self.bind(setup)
        if not 1 <= planner._n <= setup.budget // setup.m:
            raise InputError(
                f"A budget of {setup.budget} queries is below {max(planner._n, 1) * setup.m} = {max(planner._n, 1)} samples "
                f"of each of the m = {setup.m} pairs. Raise the budget."
            )
        if setup.m > LARGEST:
            raise InputError(
                f"m = {setup.m:,} pairs make an LP of as many constraints; at most {LARGEST:,} are solved. Take fewer."
            )
        _ = setup.frame.matrix, setup.core_states  # raise before any query is made
        return planner

    def _solved(self, state: State, n: int) -> State:
        state = state._replace(solved=n)
        samples = stored(state, self.setup.frame, self.setup.discount)
        assert samples is not None
        try:
            found = self._found(samples, initial_features(state))
        except SolverError:
            found = Found(np.zeros(self.setup.dimension), *[math.nan] * 4)
        return state._replace(**found._asdict())

    def _found(self, samples: Stored, starts: Any) -> Found:
        """The optimum, and theta from one backup of V at the core pairs."""
        d, m, gamma, places = self.setup.dimension, samples.m, self.setup.discount, self.setup.core_states
        here = state_rows(places.features, d)[places.of]
        mean = sparse.csr_matrix(
            (
                np.full(m * samples.n, 1.0 / samples.n),
                np.arange(m * samples.n),
                np.arange(0, m * samples.n + 1, samples.n),
            )
        )
        ahead = mean @ state_rows(samples.next_features, d)
        found = solve_states(here, ahead, samples.rewards, state_rows(starts, d), gamma, self._W)
        theta = self.setup.frame.coordinates.solve(samples.rewards + gamma * (ahead @ found.w))
        return Found(theta=theta, value=found.value, slack=0.0, bound=0.0, error=found.error)

    @property
    def _W(self) -> Any:
        """W', `[k, m]`; None if it selects all."""
        return None

    def on(self, samples: Stored) -> tuple[ReadOut, Verdict | None]:
        raise InputError("Stored samples do not say at which states they were drawn; plan with a problem.")


@dataclass(frozen=True, kw_only=True, eq=False)
class ALP(StateLP):
    """The approximate LP with all its constraints: de Farias & Van Roy, Operations Research 51, 2003.

        min <c, V>  s.t.  V(x) >= r(x, a) + gamma E V(y) for every x and a,  V(x) = psi(x) . w,

    where psi(x) is the mean of phi(x, a) over actions.

    *Setting*: states can be enumerated, and every pair is sampled: at most 100,000 constraints. V* nearly linear in psi.
    *Rate*: with exact expectations, |V* - psi w|_{1,c} <= 2 / (1 - gamma) min_w |V* - psi w|_inf if constants are linear in
    psi (their Theorem 2), and the greedy policy mu loses at most |V* - psi w|_{1,nu} / (1 - gamma) where nu, the occupancy
    of mu, is the weight c (their Theorem 1).

    *Departures*: expectations over next states are means of n samples, drawn once. c is half nu0, half uniform over the
    pairs that are sampled. V >= 0 is required at these. The policy is greedy in r + gamma P V at the sampled pairs,
    interpolated by one least-squares fit, where the papers look one step ahead at run time with a known model.

    Parameters
    ----------
    samples: n per pair; by default as many as the budget allows.
    n_initial: draws from nu0.
    """

    name: ClassVar[str] = "alp"
    core_of: ClassVar[str] = "all"


@dataclass(frozen=True, kw_only=True, eq=False)
class LRALP(StateLP):
    """Linearly relaxed approximate LP: Lakshminarayanan, Bhatnagar & Szepesvari, IEEE Trans. Automatic Control 63, 2018.

    The approximate LP has one constraint per state and action. Here there are as few as one likes: nonnegative combinations
    of them, whose weights are the columns of a matrix W,

        min <c, V>  s.t.  W' (V - r - gamma P V) >= 0,  V(x) = psi(x) . w,

    where psi(x) is the mean of phi(x, a) over actions. A W that selects constraints is the paper's core set: the pairs of
    the core set, whose next states are sampled.

    *Setting*: core pairs; V* nearly linear in psi. (Where V* is a maximum of linear functions, as in a general linear MDP,
    no linear V is near it.) *Rate*: without sampling, the loss is at most a constant over (1 - gamma) times the error of
    the best linear V, plus a term that says how much of the constraints' cone W loses (their Theorem 1); sampling adds
    O(1/sqrt(n)) to each constraint.

    *Departures*: those of `ALP`, with core pairs in place of all.

    Parameters
    ----------
    samples: n per core pair; by default as many as the budget allows.
    n_initial: draws from nu0.
    groups: None for W that selects all core pairs; k for W with k columns, each the sum of every k-th constraint.
    """

    name: ClassVar[str] = "lralp"

    groups: int | None = None

    def __post_init__(self) -> None:
        settle(self, as_count, "samples", "n_initial", "groups")

    @property
    def _W(self) -> Any:
        if self.groups is None:
            return None
        m = self.setup.m
        return sparse.csr_matrix(
            (np.ones(m), (np.arange(m) % self.groups, np.arange(m))), shape=(self.groups, m)
        )
