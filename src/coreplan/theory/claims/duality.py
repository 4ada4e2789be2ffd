"""Section 5: the dynamic duality gap and the suboptimality of the policies."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ...planners import PrimalDual
from ..bellman import inherent_bellman_error
from ..recorded import duality_gap, record
from ..rows import Row, above, at_most, equal, group
from ..tables import Enumerated
from .instances import false_lemma_instance, linear_instance, nearly_linear_instance, theorem_instance

LEMMA = "lem:duality-to-suboptimality"
RATES = {"K": 5, "eta": 0.01, "beta": 0.05, "alpha": 0.1, "D": 12.0}


@group(
    "lem:duality-to-suboptimality", "lem:duality-bound", "def:IBE",
    "dynamic duality gap", "gap", "suboptimality", "the Bellman error met", "the lemma", "D(lambda*|lambda_1)",
)  # fmt: skip
def duality_to_suboptimality() -> Iterable[Row]:
    problem = linear_instance()
    found = duality_gap(Enumerated.of(problem), record(problem, PrimalDual(**RATES), T=60))  # type: ignore[arg-type]
    yield equal(
        "dynamic duality gap = average suboptimality at zero error",
        LEMMA,
        found.suboptimality,
        found.gap,
        1e-9,
    )
    regrets = found.primal_regret + found.dual_regret
    yield equal("gap = primal regret + dual regret", "lem:duality-bound", regrets, found.gap, 1e-12)
    problem = nearly_linear_instance()
    e, D = Enumerated.of(problem), RATES["D"]
    found = duality_gap(e, record(problem, PrimalDual(**RATES), T=60))  # type: ignore[arg-type]
    slack = 2 * found.q_error + 2 * found.bellman_error + 2 * D * found.core_error
    yield at_most(
        "suboptimality <= gap + 2 eps_pi + 2 Bellman error met + 2 D <mu*, eps_core>", LEMMA,
        found.gap + slack, found.suboptimality,
    )  # fmt: skip
    ibe = inherent_bellman_error(e, D, ball=False)
    yield at_most(
        "the Bellman error met is at most IBE (without the ball)", "def:IBE", ibe.high, found.bellman_error
    )
    yield from _false_lemma()
    problem = theorem_instance()
    one = duality_gap(Enumerated.of(problem), record(problem, PrimalDual(**RATES), T=1))  # type: ignore[arg-type]
    claim = "D(lambda*|lambda_1) = log m where the optimal policy uses one core pair"
    yield equal(claim, "lem:duality-bound", math.log(2), one.relative_entropy, 1e-12)


def _false_lemma() -> Iterable[Row]:
    """The lemma of the main text has D <mu*, eps_core>; one iteration from theta_0 = (-2, 0) is outside of it.

    There theta_1 = theta_0, V_1 = -1.5, and by hand the gap is -.5 - .75 = -1.25; eps_pi and IBE are 0, the suboptimality of
    the uniform policy is .25 and <mu*, eps_core> = .5.
    """
    problem, D = false_lemma_instance(), 2.0
    rates = PrimalDual(K=1, eta=0.01, beta=0.05, alpha=0.1, D=D, theta0=np.array([-2.0, 0.0]))
    found = duality_gap(Enumerated.of(problem), record(problem, rates, T=1))
    yield equal("gap of one step from theta_0 = (-2, 0), by hand", LEMMA, -1.25, found.gap, 1e-9)
    limit = found.gap + 2 * found.q_error + 2 * D * found.core_error
    yield at_most("the lemma with 2 D <mu*, eps_core> holds there", LEMMA, limit, found.suboptimality)
    short = found.suboptimality - (found.gap + 2 * found.q_error + D * found.core_error)
    yield above("the lemma with D <mu*, eps_core> is violated by (against the paper)", LEMMA, 0.1, short)
