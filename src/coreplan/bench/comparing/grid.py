"""What a comparison runs: problems, planners with their settings, budgets and seeds, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from ...base import InputError, as_count, as_text, check_seed, printable, shown
from ...planners import PLANNERS, Planner, make_planner, require_planner
from ...problem import Problem, parse_value
from .one import AUTOMATIC, named_problem

SEED_OF_TRIALS = 1_000_000  # seeds from here on are for choosing settings, and are never scored
_MOST_RUNS = 1_000_000


class Place(NamedTuple):
    """A problem, and what it is called in the table."""

    label: str
    problem: str | Problem  # by name if it was given so, since a name is quickly sent


class Entrant(NamedTuple):
    """A planner with its settings, and what it is called in the table."""

    label: str
    planner: str | Planner
    settings: Mapping[str, Any]  # of a planner that is given by name


class Grid(NamedTuple):
    """All combinations of these."""

    places: list[Place]
    entrants: list[Entrant]
    budgets: list[int]
    seeds: list[int]


def grid_of(problems: Any, planners: Any, budgets: Any, seeds: Any) -> Grid:
    """The grid that was asked for; an InputError about whatever in it cannot run."""
    return Grid(
        _distinct("problems", [_place(p) for p in _several("problems", problems, Problem)]),
        _distinct("planners", _entrants(planners)),
        _budgets(budgets),
        _seeds(seeds),
    )


def require_size(runs: int) -> None:
    """An InputError if nobody can want so many runs."""
    if runs > _MOST_RUNS:
        raise InputError(
            f"These are {runs:,} runs; a comparison makes at most {_MOST_RUNS:,}. Give fewer seeds or budgets."
        )


def _several(name: str, given: Any, one: type) -> list[Any]:
    """What was given, as a list; one text or one object counts as a list of it."""
    if isinstance(given, (str, one)):
        return [given]
    try:
        found = None if isinstance(given, Mapping) else list(given)
    except Exception:  # no list, or an iterator of the user's that raises
        found = None
    if found is None:
        raise InputError(f"`compare({name}=...)` must be a list, got {shown(given)}.")
    if not found:
        raise InputError(f"`compare({name}=...)` is empty: there is nothing to compare.")
    return found


def _place(given: Any) -> Place:
    if isinstance(given, Problem):
        return Place(printable(given.name), given)
    name = as_text("compare", problem=given)
    named_problem(name)  # raises if there is no such problem
    return Place(printable(name), name)


def _entrants(given: Any) -> list[Entrant]:
    found = PLANNERS if given is None else _several("planners", given, Planner)
    return [_entrant(one) for one in found]


def _entrant(given: Any) -> Entrant:
    if not isinstance(given, str):
        require_planner(given)
        changed = [
            f"{f.name}={shown(v)}" for f in fields(given) if (v := getattr(given, f.name)) is not f.default
        ]
        return Entrant(given.name + (":" + ",".join(changed) if changed else ""), given, {})
    name, _, text = given.partition(":")
    settings: dict[str, Any] = {}
    for item in filter(None, text.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise InputError(
                f"'{item}' in '{given}' is not of the form setting=value, as in primal-dual:K=5,eta=1e-4."
            )
        settings[key] = parse_value(value)
    if name != AUTOMATIC:
        make_planner(name, settings)  # raises if there is no such planner or setting
    elif settings:
        raise InputError(f"'{given}': `{AUTOMATIC}` is the planner that `plan` picks, and takes no settings.")
    return Entrant(printable(given), name, settings)


def planners_of(text: str) -> list[str]:
    """Planners as the command line names them: separated by commas, as the settings of one are.

    `plug-in,primal-dual:K=5,eta=1e-4` are two: what has an equals sign and no colon goes with the planner before it.
    """
    found: list[str] = []
    for word in (w.strip() for w in as_text("compare", planners=text).split(",")):
        if found and "=" in word and ":" not in word:
            found[-1] += f",{word}"
        elif word:
            found.append(word)
    return found


def _budgets(given: Any) -> list[int]:
    several = given if isinstance(given, (list, tuple, range)) else [given]
    if not len(several):
        raise InputError("`compare(budgets=...)` is empty: give at least one number of queries.")
    return sorted({as_count("compare", budgets=budget) for budget in several})


def _seeds(given: Any) -> list[int]:
    """Seeds: the first so many, or those that are given."""
    if isinstance(given, (list, tuple, range)):
        found = [check_seed(seed) for seed in given]
    else:
        found = list(range(min(as_count("compare", seeds=given), _MOST_RUNS + 1)))
    if not found or len(set(found)) < len(found):
        raise InputError(
            f"`compare(seeds=...)` must be a number of seeds, or different seeds; got {shown(given)}."
        )
    if max(found) >= SEED_OF_TRIALS:
        raise InputError(
            f"`compare(seeds=...)` must be below {SEED_OF_TRIALS:,}, since seeds from there on choose settings and are not "
            f"scored; got {max(found)}."
        )
    return found


def _distinct(name: str, found: list[Any]) -> list[Any]:
    labels = [one.label for one in found]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise InputError(
            f"`compare({name}=...)` has '{twice}' twice; rows could not be told apart. Give it another name."
        )
    return found
