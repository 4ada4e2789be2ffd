"""A small random problem with a mask: what is allowed, its table, and the problem with dense or sparse features."""

from __future__ import annotations

import numpy as np

import coreplan
from coreplan.problem import Tabular, one_hot, tabular_model

S, A = 6, 4
RNG = np.random.default_rng(0)
ALLOWED = RNG.random((S, A)) < 0.5
ALLOWED[np.arange(S), [1, 2, 3, 3, 2, 1]] = True
ALLOWED[0] = [False, True, False, True]  # action 0 unavailable
ALLOWED[1] = [True, False, False, False]  # one left, and the last actions unavailable
TABLE = Tabular(np.arange(S), RNG.random((S, A)), np.full(S, 1 / S), P=RNG.dirichlet(np.ones(S), S * A))


def mask(states):
    return ALLOWED[states]


def features_of(kind):
    phi = np.random.default_rng(1).normal(size=(S, A, 5)) / 10
    if kind == "dense":
        return coreplan.FunctionFeatures(lambda x: phi[x], A, 5, 1.0)
    return one_hot(S, A)


def masked_problem(kind="sparse", **more):
    features = features_of(kind)
    pairs = None if kind == "sparse" else tuple(np.argwhere(ALLOWED).T.copy())
    return coreplan.Problem(
        tabular_model(TABLE), features, 0.9, core_pairs=pairs, tabular=lambda: TABLE, mask=mask, **more
    )
