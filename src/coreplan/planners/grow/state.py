"""The state of `Grow`: its chains and all samples so far."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...base import FloatArray, IntArray, States
from ...features import Sparse, available, with_constant
from ...sampled import (
    BASIS,
    Ends,
    WeightedSamples,
    exits,
    grown,
    is_large,
    noticed,
    rounded,
    stored_pairs,
    unmoved,
    with_next,
)
from ...simulate import Answers
from ..setup import Setup

UNIFORM, GREEDY, CURIOUS = 0, 1, 2  # kinds of chains: the policy that a chain of states follows
GATHER, DRAW, RACE, OVER = range(
    4
)  # phases: samples; initial states for the race; the race; a policy is chosen
RECENT = 14  # rounds whose policies take part in the race


class State(NamedTuple):
    """The current chains, and all samples so far; the arrays of samples have room for more than `filled` rows."""

    filled: int  # pairs stored
    rounds: int  # done so far
    solved: int  # pairs stored at the last solve
    theta: FloatArray  # [d + 1], of the policy; zero before the first solve
    half: FloatArray  # [d + 1], theta of the round with half of the samples; zero before it
    curious: FloatArray  # [d + 1], of the curious policy, which goes where little is known
    leverage: float  # the largest phi' (n G + g I)^-1 phi of a next state; infinite before the first solve
    S: FloatArray  # [d + 1, d + 1]: (sum phi phi' + g I)^-1, kept up to date while there is a frontier; diagonal [d + 1, 1]
    gram: FloatArray  # [d + 1, d + 1]: sum phi phi' over the pairs of finished rounds; diagonal [d + 1, 1] if d is large
    end_index: IntArray  # [e, A, K], the features of the ends that were noticed by the last solve
    end_weight: FloatArray
    end_rewards: FloatArray  # [e]
    gain_kept: float  # the fraction of their gain that policies of half the samples keep on the other half; at the end
    changed: float  # the share of next actions that the last step of policy iteration changed; at the end
    phase: int
    random: int  # 1 if the simulator has shown noise, 0 if not, -1 before the first solve
    raced: int  # queries of races
    began: int  # of these, before the current heat
    recent: FloatArray  # [<= RECENT, d + 1], theta of the last rounds
    rivals: FloatArray  # [q, d + 1], of this race
    scores: FloatArray  # [q], sums of returns
    counts: IntArray  # [q], how many
    pool_states: States  # [s, ...], initial states of this race
    pool_index: IntArray  # [s, A, K]
    pool_weight: FloatArray
    run_live: IntArray  # [l], the rivals of this heat
    run_rival: IntArray  # [k], of the rollouts that go on
    run_start: IntArray  # [k], which of the heat's initial states
    run_step: int
    run_sum: FloatArray  # [k], returns so far
    run_states: States  # [k, ...]
    run_index: IntArray  # [k, A, K]
    run_weight: FloatArray
    run_done: FloatArray  # [l, starts], returns of all rollouts of this heat
    kind: IntArray  # [c], UNIFORM, GREEDY or CURIOUS
    ends: FloatArray  # [c]: 1 if the chain ends with the next step
    chain_states: States  # [c, ...]
    chain_index: IntArray  # [c, A, K]
    chain_weight: FloatArray
    states: States  # [N, ...], of the queried pairs
    actions: IntArray  # [N]
    next_states: States  # [N, ...]
    pair_index: IntArray  # [N, K]
    pair_weight: (
        FloatArray  # these and all other weights in single precision where they fit: see `features_told`
    )
    next_index: IntArray  # [N, A, K], or [1, A, K] if it is the same for all
    next_weight: FloatArray  # [N, A, K], or [N, 1, K] if it is the same for all actions
    rewards: FloatArray  # [N]
    doubt: FloatArray  # [N]: an upper bound on the leverage of the pair's next state

    @property
    def chains(self) -> Sparse:
        """The features of the chains' states, `[c, A, K]`."""
        return Sparse(self.chain_index, self.chain_weight)


STORED = State._fields[State._fields.index("states") :]
ENDS = ("end_index", "end_weight", "end_rewards")
RACING = tuple(
    name
    for name in State._fields[State._fields.index("recent") : State._fields.index("kind")]
    if name != "run_step"
)
WEIGHTS = tuple(name for name in State._fields if name.endswith("_weight"))
CHAINS = ("kind", "ends", "chain_states", "chain_index", "chain_weight")


def ends_of(state: State) -> Ends:
    return Ends(state.end_index, state.end_weight, state.end_rewards)


def alike(index: IntArray, weight: FloatArray) -> bool:
    """Whether the features of states, `[n, A, K]`, are the same for all their actions at most of these states."""
    first = (weight == weight[:, :1]) & ((index == index[:, :1]) | (weight == 0.0))
    return bool((first.all(axis=2) | ~available(Sparse(index, weight))).all(axis=1).mean() > 0.5)


def noisy(state: State, n: int) -> bool:
    """Whether two of the first samples (4,096 at most of n) are of the same pair and have different answers."""
    n = min(n, 4096)
    asked, answered = (
        np.column_stack([x[:n].reshape(n, -1), y[:n]])
        for x, y in ((state.states, state.actions), (state.next_states, state.rewards))
    )
    _, first, pair = np.unique(asked, axis=0, return_index=True, return_inverse=True)
    return bool((answered != answered[first[pair.reshape(-1)]]).any())


def noticed_ends(state: State, n: int) -> Ends:
    """The ends that the first n samples show."""
    pair, next_phi = stored_pairs(state, n)
    same = unmoved(state.states[:n], state.next_states[:n])
    return noticed(pair, state.actions[:n], next_phi, state.rewards[:n], same)


def samples(state: State, n: int) -> WeightedSamples:
    """The first n samples; those that were taken at an end have weight 0."""
    pair, next_phi = stored_pairs(state, n)
    found = exits(pair, next_phi, ends_of(state))
    w = np.where(found.inside, 0.0, 1.0)
    return WeightedSamples(
        phi=pair,
        rewards=state.rewards[:n],
        next_phi=next_phi,
        w=w,
        ended=found.ended,
        end_rewards=found.rewards,
    )


def room(setup: Setup) -> float:
    """Bytes that a run takes at most: features of pairs and of next states, and the systems."""
    k, d1 = (setup.dimension if setup.nonzeros is None else setup.nonzeros) + 1, setup.dimension + 1
    numbers = (BASIS + 16) * d1 if is_large(setup.dimension) else 8 * d1**2
    return 13.0 * k * (setup.n_actions + 1) * setup.budget + 8.0 * numbers


def features_told(
    state: State, answers: Answers, dimension: int
) -> tuple[State, Sparse | None, Sparse | None]:
    """The features of the answers' next states and initial states, rounded, with the constant 1 as their last coordinate.

    Where some do not fit into single precision, these, all later ones, and those in the state are double.
    """
    given = (answers.next_features, answers.initial_features)
    phi = [None if x is None else rounded(with_constant(x, dimension)) for x in given]
    held = {np.dtype(np.float64)} & {
        x.weight.dtype for x in (*phi, Sparse(state.pair_index, state.pair_weight)) if x
    }
    if held:
        phi = [None if x is None else Sparse(x.index, x.weight.astype(np.float64)) for x in phi]
        if state.pair_weight.dtype == np.float32:
            state = state._replace(**{name: getattr(state, name).astype(np.float64) for name in WEIGHTS})
    return state, phi[0], phi[1]


def appended(
    state: State, chain: IntArray, action: IntArray, answers: Answers, next_phi: Sparse, most: int
) -> State:
    """The state with the answers appended; there will be up to `most`."""
    n, more = state.filled, len(action)
    rows = {
        "states": state.chain_states[chain],
        "actions": action,
        "next_states": answers.next_states,
        "pair_index": state.chain_index[chain, action],
        "pair_weight": state.chain_weight[chain, action],
        "rewards": answers.rewards,
        "doubt": np.full(more, np.inf),
    }
    state, rest = with_next(state, next_phi)
    return grown(state, n, rows | rest, most)._replace(filled=n + more)
