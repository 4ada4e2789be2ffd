"""Trajectories in a simulator, several side by side, and the samples that they leave: for planners without a core set.

A trajectory starts at a draw from nu0 and follows a softmax policy, a fraction of its actions being random. It ends with
probability 1 - gamma at every step, so that pairs are met as often as the discounted occupancy says. It also ends where an
episode has ended: at a state that is met again, and whose features are the same for all actions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import FloatArray, checks
from ..features import Phi, Sparse, act, as_sparse, available, rows_of, with_constant
from ..simulate import Answers, Ask
from .ends import Ends, exits, noticed, unmoved
from .lstd import WeightedSamples
from .pairs import check_features, random_action, stored_pairs, with_next
from .samples import grown

INITIAL = 100  # draws from nu0 with which trajectories begin, and by which starts are judged; more with more trajectories
STEPS = ("actions", "stays", "rewards", "pair_index", "pair_weight", "next_index", "next_weight")
WALKS = ("stops", "walk_states", "walk_index", "walk_weight", "initial_index", "initial_weight")
WALKING = frozenset(STEPS + WALKS)


def number_of_walks(budget: int, discount: float) -> int:
    """How many trajectories go side by side: so many that each gets to four ends, and 64 at most."""
    return int(np.clip(budget * (1.0 - discount) / 4, 1, 64))


def no_steps() -> dict[str, Any]:
    """The fields of STEPS without a sample."""
    rows, states = ((np.zeros((0,) * k, dtype=np.int32), np.zeros((0,) * k)) for k in (2, 3))
    return {
        "actions": np.zeros(0, dtype=np.int64), "stays": np.zeros(0), "rewards": np.zeros(0), "pair_index": rows[0],
        "pair_weight": rows[1], "next_index": states[0], "next_weight": states[1],
    }  # fmt: skip


def no_walks() -> dict[str, Any]:
    """The fields of a state that walks, before the first answer: `STEPS` and `WALKS`."""
    index, weight = np.zeros((0, 0, 0), dtype=np.int32), np.zeros((0, 0, 0))
    return no_steps() | {
        "stops": np.zeros(0), "walk_states": np.zeros(0), "walk_index": index, "walk_weight": weight,
        "initial_index": index, "initial_weight": weight,
    }  # fmt: skip


def first_ask(walks: int) -> Ask:
    """An ask for initial states only."""
    return Ask(states=np.zeros(0), actions=np.zeros(0, dtype=np.int64), n_initial=max(walks, INITIAL))


def next_ask(state: Any, theta: FloatArray, scale: float, random: float, rng: np.random.Generator) -> Ask:
    """One step of every trajectory by softmax(scale phi . theta), with `theta [d + 1]`; a fraction `random` is uniform."""
    here, n = Sparse(state.walk_index, state.walk_weight), len(state.stops)
    actions = np.empty(n, dtype=np.int64)
    act(here, theta, scale, rng.random(n), np.empty(state.walk_weight.shape[1]), actions)
    other = random_action(available(here), rng.random(n))
    actions = np.where(rng.random(n) < random, other, actions)
    return Ask(states=state.walk_states, actions=actions, n_initial=int(state.stops.sum()))


def began(
    state: Any, answers: Answers, walks: int, dimension: int, stop: float, rng: np.random.Generator
) -> Any:
    """The state with `walks` trajectories at the first initial states; all of these are kept."""
    assert answers.initial_features is not None and answers.initial_states is not None
    index, weight = with_constant(answers.initial_features, dimension)
    return state._replace(
        initial_index=index, initial_weight=weight, walk_states=answers.initial_states[:walks].copy(),
        walk_index=index[:walks].copy(), walk_weight=weight[:walks].copy(), stops=_draw(walks, stop, rng),
    )  # fmt: skip


def stepped(
    state: Any, answers: Answers, dimension: int, stop: float, rng: np.random.Generator, most: int
) -> Any:
    """The state with one sample more of every trajectory, and the trajectories one step further, or at a new start."""
    a, n = answers.ask.actions, len(state.stops)
    assert answers.next_features is not None and a is not None
    next_phi = with_constant(answers.next_features, dimension)
    here = Sparse(state.walk_index, state.walk_weight)
    pair = as_sparse(rows_of(here, a))
    stays = unmoved(state.walk_states, answers.next_states)
    state, new = with_next(state, next_phi)
    new |= {
        "actions": a, "stays": stays.astype(np.float64), "rewards": answers.rewards, "pair_index": pair.index,
        "pair_weight": pair.weight,
    }  # fmt: skip
    state = grown(state, state.filled, new, most)._replace(filled=state.filled + n)
    over = state.stops > 0
    walk: list[Any] = [answers.next_states.copy(), *(x.copy() for x in next_phi)]
    if over.any():
        assert answers.initial_features is not None and answers.initial_states is not None
        fresh = (answers.initial_states, *with_constant(answers.initial_features, dimension))
        for values, start in zip(walk, fresh, strict=True):
            values[over] = start
    stuck = ~over & _same(here, next_phi) & _alike(next_phi)
    stops = np.maximum(_draw(n, stop, rng), stuck)
    return state._replace(walk_states=walk[0], walk_index=walk[1], walk_weight=walk[2], stops=stops)


def _draw(n: int, stop: float, rng: np.random.Generator) -> FloatArray:
    return (rng.random(n) < stop).astype(np.float64)


def _same(phi: Sparse, other: Sparse) -> Any:
    """Which states have the same features, bool `[n]`."""
    return ((phi.index == other.index) & (phi.weight == other.weight)).all(axis=(1, 2))


def _alike(phi: Sparse) -> Any:
    """Which states have features that are the same for all actions, bool `[n]`."""
    return _same(phi, Sparse(phi.index[:, :1], phi.weight[:, :1]))


def weighted(state: Any) -> WeightedSamples:
    """All samples so far with equal weights; those taken at ends of episodes, whose values are known, have weight 0."""
    n = state.filled
    pair, next_phi = stored_pairs(state, n)
    ends: Ends = noticed(pair, state.actions[:n], next_phi, state.rewards[:n], state.stays[:n] > 0)
    found = exits(pair, next_phi, ends)
    return WeightedSamples(
        phi=pair, rewards=state.rewards[:n], next_phi=next_phi, w=np.where(found.inside, 0.0, 1.0), ended=found.ended,
        end_rewards=found.rewards,
    )  # fmt: skip


def initial_rows(state: Any) -> Phi:
    """Features of the initial states that were kept, `[n0, A, K]`."""
    return Sparse(state.initial_index, state.initial_weight)


def without_spare(state: Any) -> Any:
    """The state with arrays that end with the last sample."""
    return state._replace(**{name: getattr(state, name)[: state.filled] for name in STEPS})


def check_walks(state: Any, n_actions: int, dimension: int, radius: float) -> None:
    """Raise ValueError unless samples and trajectories, read from a file, fit together and can be what was answered."""
    n, walks, like = state.filled, len(state.stops), no_walks()
    for name, old in like.items():
        new = getattr(state, name)
        if name != "walk_states" and (new.dtype != old.dtype or new.ndim != old.ndim):
            raise ValueError(f"'{name}' has dtype {new.dtype} and shape {new.shape}")
    once = len(state.next_index) == 1  # the same for all
    rows = {len(getattr(state, name)) for name in STEPS if not (once and name == "next_index")}
    if rows != {n} or len({len(getattr(state, name)) for name in WALKS[:4]}) > 1 or (n and not walks):
        raise ValueError("its samples do not fit together")
    checks.require_within(state, 0.0, 1.0, "rewards", "stays", "stops")
    checks.require_within(state, 0, n_actions - 1, "actions")
    if not np.isin(state.stops, (0.0, 1.0)).all():
        raise ValueError("'stops' has numbers other than 0 and 1")
    K = state.walk_index.shape[-1]
    shapes: dict[str, tuple[int, ...]] = {"walk": (n_actions, K), "initial": (n_actions, K)} if walks else {}
    shapes |= {"pair": (K,), "next": (n_actions, K)} if n else {}
    for name, shape in shapes.items():
        check_features(state, name, shape, dimension, radius)
