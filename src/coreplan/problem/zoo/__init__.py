"""The built-in problems, called by name with parameters: `river-linear:L=15,discount=0.99`."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from typing import Any

from ...base import (
    InputError,
    as_text,
    nearest,
    one_thread,
)
from ..problem import Problem, with_horizon
from .acrobot import acrobot
from .cart_pole import cart_pole
from .hard_linear import hard_linear
from .inventory import inventory
from .masses import masses
from .mountain_car import mountain_car
from .navigation import navigation
from .pendulum import pendulum
from .perishable import perishable_inventory
from .queue import queue
from .queue_network import queue_network, queue_network_cut
from .random_linear import random_linear
from .river import river_linear, river_swim, river_swim_long
from .tetris import tetris
from .toy_text import frozen_lake, taxi

ZOO: dict[str, Callable[..., Problem]] = {
    "random-linear": random_linear,
    "river-swim": river_swim,
    "river-swim-long": river_swim_long,
    "river-linear": river_linear,
    "mountain-car": mountain_car,
    "inventory": inventory,
    "hard-linear": hard_linear,
    "queue-network-cut": queue_network_cut,
    "queue-network": queue_network,
    "queue": queue,
    "perishable-inventory": perishable_inventory,
    "pendulum": pendulum,
    "cart-pole": cart_pole,
    "acrobot": acrobot,
    "navigation": navigation,
    "masses": masses,
    "frozen-lake": frozen_lake,
    "taxi": taxi,
    "tetris": tetris,
}


_HORIZON = {
    "horizon": 0,
    "horizon_nodes": 0,
}  # parameters of every problem; the zeros say that they are whole numbers
_DEPEND_ON_DISCOUNT = {"hard-linear", "perishable-inventory"}


@one_thread
def make(spec: str) -> Problem:
    """The built-in problem `spec`, a name with optional parameters after a colon: `random-linear:states=10**15,lazy=true`.

    The same name always gives the same problem: a run's seed never changes it; a parameter such as `instance=3` does.
    Every problem also takes `horizon=n` and `horizon_nodes=T` (see `Problem`), and with a horizon `discount=1`.
    """
    spec = as_text("make", spec=spec)
    name, _, settings = spec.partition(":")
    if name not in ZOO:
        raise InputError(f"There is no built-in problem '{name}'.{nearest(name, ZOO)}")
    factory = ZOO[name]
    options = {p.name: p.default for p in inspect.signature(factory).parameters.values()} | _HORIZON
    given: dict[str, Any] = {}
    for item in filter(None, settings.split(",")):
        key, equals, text = item.partition("=")
        if not equals:
            raise InputError(f"'{item}' in '{spec}' is not of the form parameter=value.")
        if key not in options:
            raise InputError(f"'{name}' has no parameter '{key}'.{nearest(key, options)}")
        given[key] = _matching(options[key], parse_value(text), f"{name}:{key}")
    try:
        return dataclasses.replace(_built(name, given), name=spec)
    except InputError:
        raise
    except (MemoryError, OverflowError, ValueError) as error:
        raise InputError(f"'{spec}' cannot be built: {str(error) or type(error).__name__}.") from None


def _built(name: str, given: dict[str, Any]) -> Problem:
    """The problem with these parameters; those of the horizon, and discount 1, are none of its factory's business."""
    horizon, nodes = given.pop("horizon", None), given.pop("horizon_nodes", None)
    if horizon is None and nodes is None:
        return ZOO[name](**given)
    total = given.get("discount") == 1
    if total and name in _DEPEND_ON_DISCOUNT:
        raise InputError(
            f"`{name}:discount=...` is also a part of its simulator, and must be below 1, with a horizon too."
        )
    if total:
        del given["discount"]
    return with_horizon(ZOO[name](**given), horizon, discount=1.0 if total else None, nodes=nodes)


def parse_value(text: str) -> Any:
    """The value of a setting on the command line: a whole number (also `10**15`, `2^40`), a number, true/false, or text."""
    text = as_text("parse_value", text=text)
    if re.fullmatch(r"[+-]?\d{1,40}", text):
        return int(text)
    power = re.fullmatch(r"(\d{1,2})(?:\*\*|\^)(\d{1,2})", text)
    if power:
        return int(power[1]) ** int(power[2])
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        return text


def _matching(default: Any, value: Any, name: str) -> Any:
    if isinstance(default, bool):
        good = isinstance(value, bool)
    elif isinstance(default, float):
        good = isinstance(value, (int, float)) and not isinstance(value, bool)
    else:
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # such as 1e6 for a count
        good = type(value) is type(default)
    if not good:
        kind = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "a word"}[
            type(default).__name__
        ]
        raise InputError(f"`{name}` must be {kind}, got '{value}'.")
    return value
