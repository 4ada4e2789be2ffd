"""`built`: a simulator that is made by a function, wherever it is needed; for those that cannot be sent to workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base import InputError, as_function, text_of
from .model import Model


class Built:
    """Stands for the model that `factory()` returns. What is sent to workers is the factory; each makes its own model."""

    def __init__(self, factory: Callable[[], Model]) -> None:
        self.factory: Callable[[], Model] = as_function("built", "factory() -> model", factory=factory)
        try:
            self.model = self.factory()
        except Exception as error:
            raise InputError(
                f"`built(factory=...)` raised {type(error).__name__}: {text_of(error)}."
            ) from error
        if not isinstance(self.model, Model):
            raise InputError(
                "`built(factory=...)` must return a model, with n_actions, initial and step; got "
                f"{type(self.model).__name__}."
            )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("model", "factory"):  # while it is being made
            raise AttributeError(name)
        return getattr(self.model, name)

    def __reduce__(self) -> Any:
        return Built, (self.factory,)


def built(factory: Callable[[], Model]) -> Any:
    """The model that `factory()` returns, with the factory sent to workers in its place.

    For simulators that cannot be pickled: those with open files, connections or foreign objects. The function must make
    the same simulator every time; one of a module, or a closure over plain values, can be sent anywhere.
    """
    return Built(factory)
