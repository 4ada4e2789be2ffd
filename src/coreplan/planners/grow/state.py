"""The state of `Grow`: its chains and all samples so far."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...base import FloatArray, IntArray, States
from ...features import UNAVAILABLE, Sparse
from ...sampled import Ends, WeightedSamples, exits, grown
from ...simulate import Answers

UNIFORM, GREEDY, CURIOUS = 0, 1, 2  # kinds of chains: the policy that a chain of states follows
CURIOUS_WEIGHT = 0.25  # weight of samples from curious chains


class State(NamedTuple):
    """The current chains, and all samples so far; the arrays of samples have room for more than `filled` rows."""

    filled: int  # pairs stored
    rounds: int  # done so far
    solved: int  # pairs stored at the last solve
    theta: FloatArray  # [d + 1], of the policy; zero before the first solve
    half: FloatArray  # [d + 1], theta of the round with half of the samples; zero before it
    curious: FloatArray  # [d + 1], of the curious policy, which goes where little is known
    leverage: float  # the largest phi' (n G + g I)^-1 phi of a next state; infinite before the first solve
    S: FloatArray  # [d + 1, d + 1]: (sum phi phi' + g I)^-1, kept up to date while there is a frontier
    gram: FloatArray  # [d + 1, d + 1]: sum phi phi' over the pairs of finished rounds
    end_index: IntArray  # [e, K], the features of the ends that were noticed by the last solve
    end_weight: FloatArray
    end_rewards: FloatArray  # [e]
    gain_kept: float  # the fraction of their gain that policies of half the samples keep on the other half; at the end
    kind: IntArray  # [c], UNIFORM, GREEDY or CURIOUS
    ends: FloatArray  # [c]: 1 if the chain ends with the next step
    chain_states: States  # [c, ...]
    chain_index: IntArray  # [c, A, K]
    chain_weight: FloatArray
    states: States  # [N, ...], of the queried pairs
    actions: IntArray  # [N]
    next_states: States  # [N, ...]
    pair_index: IntArray  # [N, K]
    pair_weight: FloatArray
    next_index: IntArray  # [N, A, K]
    next_weight: FloatArray
    rewards: FloatArray  # [N]
    importance: FloatArray  # [N]
    doubt: FloatArray  # [N]: an upper bound on the leverage of the pair's next state


STORED = State._fields[State._fields.index("states") :]
ENDS = ("end_index", "end_weight", "end_rewards")
CHAINS = ("kind", "ends", "chain_states", "chain_index", "chain_weight")


def features(state: State, n: int) -> tuple[Sparse, Sparse]:
    """Features of the first n pairs and of their next states."""
    pair = Sparse(state.pair_index[:n], state.pair_weight[:n])
    return pair, Sparse(state.next_index[:n], state.next_weight[:n])


def ends_of(state: State) -> Ends:
    return Ends(state.end_index, state.end_weight, state.end_rewards)


def samples(state: State, n: int) -> WeightedSamples:
    """The first n samples; those that were taken at an end have weight 0."""
    pair, next_phi = features(state, n)
    found = exits(pair, next_phi, ends_of(state))
    w = np.where(found.inside, 0.0, state.importance[:n])
    return WeightedSamples(
        phi=pair,
        rewards=state.rewards[:n],
        next_phi=next_phi,
        w=w,
        ended=found.ended,
        end_rewards=found.rewards,
    )


def available(weight: FloatArray) -> Any:
    return weight[:, :, 0] != UNAVAILABLE  # [c, A]


def random_action(available: Any, u: FloatArray) -> IntArray:
    """A uniformly chosen available action for each row, by `u [c]` in [0, 1)."""
    rank = (u * available.sum(axis=1)).astype(np.int64)
    return (available.cumsum(axis=1) > rank[:, None]).argmax(axis=1)


def appended(state: State, chain: IntArray, action: IntArray, answers: Answers, next_phi: Sparse) -> State:
    """The state with the answers appended; full arrays are doubled."""
    n, more = state.filled, len(action)
    rows = {
        "states": state.chain_states[chain],
        "actions": action,
        "next_states": answers.next_states,
        "pair_index": state.chain_index[chain, action],
        "pair_weight": state.chain_weight[chain, action],
        "next_index": next_phi.index,
        "next_weight": next_phi.weight,
        "rewards": answers.rewards,
        "importance": np.where(state.kind[chain] == CURIOUS, CURIOUS_WEIGHT, 1.0),
        "doubt": np.full(more, np.inf),
    }
    return grown(state, n, rows)._replace(filled=n + more)
