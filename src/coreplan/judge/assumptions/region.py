"""Where something is largest among visited states: a box, described with its coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...base import FloatArray, States
from ...problem import Problem

_CUTS = 3  # the most coordinates that a box names; more could not be read
_QUANTILES = np.linspace(0.0, 1.0, 17)[1:-1]
_LEAST = 0.03  # a box holds at least this share of the states
_COLUMNS = 200  # coordinates that are looked at; images have more


@dataclass(frozen=True)
class Region:
    """A box of states, in words, with its share of the visits and of what was looked for."""

    where: str
    visits: float
    share: float

    @property
    def concentrated(self) -> bool:
        """Whether it holds at least twice its share, in less than half of the visits."""
        return self.visits < 0.5 and self.share >= 2.0 * self.visits


def worst_region(problem: Problem, states: States, amount: FloatArray, visits: FloatArray) -> Region:
    """The box where `amount [n]`, one noisy number per state, is largest for its number of visits.

    The box begins as everything and is cut, coordinate by coordinate, at the quantile that makes the amount over the
    root of the visits largest: the statistic of a scan for a raised mean.
    """
    n = len(amount)
    x = np.asarray(states).reshape(n, -1)[:, :_COLUMNS].astype(float)
    inside, named = np.ones(n, dtype=bool), set[int]()
    for _ in range(2 * _CUTS):
        cut = _best_cut(x, amount, visits, inside, named)
        if cut is None:
            break
        column, inside = cut
        named.add(column)
    total = float(amount.sum())
    share = float(amount[inside].sum()) / total if total > 0 else 0.0
    return Region(
        _words(problem, x, inside, sorted(named)), float(visits[inside].sum() / visits.sum()), min(share, 1.0)
    )


def _best_cut(
    x: FloatArray, amount: FloatArray, visits: FloatArray, inside: NDArray[np.bool_], named: set[int]
) -> tuple[int, NDArray[np.bool_]] | None:
    best, found = float(amount[inside].sum() / np.sqrt(visits[inside].sum())) * (1 + 1e-9), None
    columns = range(x.shape[1]) if len(named) < _CUTS else sorted(named)
    for column in columns:
        for level in np.unique(np.quantile(x[inside, column], _QUANTILES)):
            for kept in (inside & (x[:, column] <= level), inside & (x[:, column] > level)):
                size = float(visits[kept].sum())
                if size < _LEAST * visits.sum() or kept.sum() in (0, inside.sum()):
                    continue
                score = float(amount[kept].sum()) / np.sqrt(size)
                if score > best:
                    best, found = score, (column, kept)
    return found


def _words(problem: Problem, x: FloatArray, inside: NDArray[np.bool_], columns: list[int]) -> str:
    if not columns:
        return "everywhere"
    names = problem.names.columns(x.shape[1]) if problem.state_names or x.shape[1] > 1 else ["the state"]
    parts = []
    for i in columns:
        low, high = x[inside, i].min(), x[inside, i].max()
        parts.append(f"{names[i]} = {low:.3g}" if low == high else f"{names[i]} from {low:.3g} to {high:.3g}")
    return ", ".join(parts)
