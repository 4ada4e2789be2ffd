"""Sums over rows with few supports: matrix products against loops; and features that are stored once."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from coreplan.features import UNAVAILABLE, Sparse
from coreplan.planners.grow.state import State
from coreplan.sampled import grouping, stored_pairs, systems, with_next
from helpers.mutants import mutant

N, A, K, GAMMA = 900, 3, 5, 0.9


def rows(per_action, seed=0, mask=False):
    """Pairs `[N, K]` and next states `[N, A, K]`: all coordinates 0 to 4, or a copy of them per action; weights w."""
    rng = np.random.default_rng(seed)
    index = np.arange(K)[None] + K * np.arange(A)[:, None] * per_action  # [A, K]
    action = rng.integers(0, A, N)
    phi = Sparse(index[action].astype(np.int32), rng.standard_normal((N, K)))
    next_phi = Sparse(
        np.broadcast_to(index, (N, A, K)).astype(np.int32), rng.standard_normal((N, A, K)).round(6)
    )
    if mask:
        next_phi.weight[::4, 1, 0] = UNAVAILABLE
    return phi, next_phi, rng.choice([0.0, 0.3, 1.0], N), K * (A if per_action else 1)


def systems_agree(module, per_action, mask):
    """theta of several policies one after the other: by groups, and by loops over k x k numbers."""
    phi, next_phi, w, d = rows(per_action, mask=mask)
    fast, slow = module.Written(phi, next_phi, w, d), module.Written(phi, next_phi, w, d)
    slow.__dict__["_supports"] = None
    assert fast._supports is not None and len(fast._supports[1].table) == (A if per_action else 1)
    G = np.zeros((d, d))
    systems.gram(phi, w, G)
    np.testing.assert_allclose(fast.G, G, atol=1e-10)
    rng, b = np.random.default_rng(1), np.ones(d)
    choices = [np.where(rng.random(N) < 0.1, systems.NONE, 2 * rng.integers(0, 2, N)) for _ in range(3)]
    uniform = np.where(rng.random(N) < 0.1, systems.NONE, systems.UNIFORM)
    open_ = next_phi.weight[:, :, 0] != UNAVAILABLE
    mixed = rng.dirichlet(np.ones(A), N) * open_
    for choice in (*choices, uniform, mixed, choices[0]):
        both = [s.solve(choice, np.full(d, 50.0), b, GAMMA, b) for s in (fast, slow)]
        np.testing.assert_allclose(*both, atol=1e-11)


@pytest.mark.parametrize("per_action", [False, True])
@pytest.mark.parametrize("mask", [False, True])
def test_groups_agree_with_loops(per_action, mask):
    systems_agree(systems, per_action, mask)


FAULTS = {
    "what was is kept": ("(self._choice, -1.0)", "(self._choice, 0.0)"),
    "the new is forgotten": ("(choice, 1.0)", "(choice, 0.0)"),
    "NONE has features": ("changed[actions[changed] != NONE]", "changed"),
    "rows with a masked action are lost": ("share.any(axis=1)", "share.all(axis=1)"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_the_groups_are_noticed(fault, tmp_path, monkeypatch):
    with pytest.raises(AssertionError):
        systems_agree(mutant(systems, *FAULTS[fault], tmp_path, monkeypatch), True, True)


def test_quadratic_forms():
    phi, _, _, d = rows(True)
    S = np.random.default_rng(2).standard_normal((d, d))
    full = np.zeros((N, d))
    np.put_along_axis(full, phi.index.astype(np.int64), phi.weight, axis=1)
    found = grouping.quadratics(phi, grouping.supports(phi.index), S)
    np.testing.assert_allclose(found, np.einsum("nd,de,ne->n", full, S, full), atol=1e-12)


def test_what_is_not_grouped():
    many = np.arange(grouping.MANY + 1)[:, None] * 2 + np.arange(2)
    assert grouping.supports(many) is None and len(grouping.supports(many[:-1]).table) == grouping.MANY
    assert grouping.supports(np.zeros((4, 2), dtype=np.int32)) is None  # padding: a coordinate twice
    index = rows(True)[1].index
    view = np.broadcast_to(index[:1], index.shape)  # one state, repeated without memory
    for x, y in zip(grouping.next_supports(index), grouping.next_supports(view), strict=True):
        assert (x == y).all()


def test_features_are_stored_once_as_long_as_that_is_possible():
    """Three batches: the same for all; other weights per action; other coordinates. What is read is what was told."""
    index = (np.arange(K) * A)[None] + np.arange(A)[:, None]
    rng = np.random.default_rng(0)
    same = Sparse(
        np.broadcast_to(index, (4, A, K)).astype(np.int32), np.repeat(rng.random((4, 1, K)), A, axis=1)
    )
    apart = same._replace(weight=rng.random((4, A, K)))
    moved = apart._replace(index=same.index + 1)
    fields = dict.fromkeys(State._fields, 0) | {
        "rewards": np.zeros(4), "next_index": np.zeros((0, 0, 0), np.int32), "next_weight": np.zeros((0, 0, 0)),
    }  # fmt: skip
    state, told = State(**fields), []
    for batch, (shared_index, shared_weight) in zip(
        (same, same, apart, moved), [(True, True)] * 2 + [(True, False), (False, False)], strict=True
    ):
        state, new = with_next(state, batch)
        told.append(batch)
        n = state.filled
        for name, values in new.items():
            old = getattr(state, name)[:n]
            state = state._replace(**{name: np.concatenate([old, values])})
        state = state._replace(filled=n + 4, rewards=np.zeros(n + 4))
        assert (len(state.next_index) == 1, state.next_weight.shape[1] == 1) == (shared_index, shared_weight)
        view = SimpleNamespace(**state._asdict() | {"pair_index": index, "pair_weight": index})
        found = stored_pairs(view, n + 4)[1]
        assert (found.index == np.concatenate([t.index for t in told])).all()
        assert (found.weight == np.concatenate([t.weight for t in told])).all()
