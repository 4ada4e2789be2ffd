"""`coreplan tune`: Theorem 1's hyperparameters for a problem, and an honest sentence about their cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ..base import InputError
from ..core import CoreSet
from ..planners import CoreSetup, PrimalDual
from ..planning import plan
from ..problem import Problem
from .theorem import Bound, Tuned, tuned

_PROBE = 200_000  # queries for measuring the speed


@dataclass(frozen=True)
class Advice:
    """Theorem 1's hyperparameters for the best split of T and K and for the paper's, and the speed of this machine."""

    problem: str
    m: int
    A: int
    R: float
    best: Tuned
    paper: Tuned
    queries_per_second: float

    @property
    def seconds(self) -> float:
        return self.best.queries / self.queries_per_second

    @property
    def sentence(self) -> str:
        """What a person should know before using these hyperparameters."""
        total, bill = self.best.bound.total, f"{self.best.queries:.3g} queries"
        time = f"{_duration(self.seconds)} at the {self.queries_per_second:,.0f} queries/s measured here"
        if total >= 1:
            return (
                f"With {bill} ({time}) the bound is {total:.3g}: values lie in [0, 1], so it is vacuous. "
                "The policy may be good nevertheless; the theorem cannot tell."
            )
        answer = f"Theorem 1 guarantees an optimisation error of {total:.3g} after {bill}: {time}."
        if self.seconds < 3600:
            return answer
        return (
            answer
            + " Nobody will wait for that: rates tuned to a problem, without the guarantee, do far better."
        )

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Name, value for the best split, value for the paper's split."""
        for name in ("T", "K", "eta", "beta", "alpha", "D"):
            yield name, f"{getattr(self.best, name):.6g}", f"{getattr(self.paper, name):.6g}"
        for name, label in _TERMS.items():
            yield label, f"{getattr(self.best.bound, name):.6g}", f"{getattr(self.paper.bound, name):.6g}"
        yield "eps_opt", f"{self.best.bound.eps_opt:.6g}", f"{self.paper.bound.eps_opt:.6g}"
        yield "queries T (K + 1)", f"{self.best.queries:.6g}", f"{self.paper.queries:.6g}"

    def as_dict(self) -> dict[str, Any]:
        """The advice as JSON types."""
        return {
            "problem": self.problem, "m": self.m, "A": self.A, "R": self.R,
            "best": _plain(self.best), "paper": _plain(self.paper),
            "queries_per_second": self.queries_per_second, "seconds": self.seconds, "sentence": self.sentence,
        }  # fmt: skip


_TERMS = {
    "lambda_start": "log m / (eta T)",
    "policy_start": "log A / (beta T)",
    "theta_start": "2 D^2 / (alpha K)",
    "lambda_noise": "eta m^2 (1 + 2 R D)^2 / 2",
    "policy_noise": "beta R^2 D^2 / 2",
    "theta_noise": "2 alpha R^2",
}
assert set(_TERMS) <= set(Bound.__dataclass_fields__)


def advise(problem: Problem, *, epsilon: float | None, budget: int | None, D: float | None = None) -> Advice:
    """Theorem 1's hyperparameters for a problem, and the speed of planning it, measured with thousands of queries."""
    if (epsilon is None) == (budget is None):
        raise InputError("`tune` takes either an accuracy (--epsilon 0.1) or a budget (--budget 1000000).")
    setup = CoreSetup.with_core(problem, CoreSet.of(problem), 1)
    m, A, R = setup.m, setup.n_actions, setup.radius
    if D is None:
        D = setup.frame.radius(setup.discount)
    wish: dict[str, Any] = {"epsilon": epsilon, "budget": budget, "m": m, "A": A, "R": R, "D": D}
    best, paper = tuned(**wish), tuned(**wish, split="paper")
    K = min(best.K, 2000)
    probe = PrimalDual(eta=best.eta, beta=best.beta, alpha=best.alpha, K=K, D=D)
    queries = _PROBE if problem.compiled else 5 * (K + 1)
    ran = plan(problem, planner=probe, budget=max(queries, K + 1), reality=0)
    speed = ran.queries / ran.seconds
    return Advice(problem=problem.name, m=m, A=A, R=R, best=best, paper=paper, queries_per_second=speed)


def _plain(t: Tuned) -> dict[str, Any]:
    return {**asdict(t), "bound": {**asdict(t.bound), "eps_opt": t.bound.eps_opt}, "queries": t.queries}


def _duration(seconds: float) -> str:
    for size, name in ((3.156e7, "years"), (86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:,.1f} {name}"
    return f"{seconds:.1f} seconds"
