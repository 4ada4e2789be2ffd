"""The built-in problems in Gymnasium's registry: after `import coreplan.envs`, `gymnasium.make("coreplan/inventory-v0")`.

Gymnasium imports a module that is named before a colon: `gymnasium.make("coreplan.envs:coreplan/inventory-v0")` needs no
import. A problem's parameters are keywords: `gymnasium.make("coreplan/inventory-v0", grid=5, max_episode_steps=100)`.
"""

from __future__ import annotations

from typing import Any

from .base import InputError
from .problem import ZOO, make

__all__ = ["env"]


def env(name: str, max_steps: int | None = None, **parameters: Any) -> Any:
    """The built-in problem `name`, with these parameters, as a Gymnasium environment: see `Problem.to_gymnasium`."""
    parameters.pop("render_mode", None)  # nothing is drawn
    given = ",".join(f"{key}={value}" for key, value in parameters.items())
    return make(f"{name}:{given}" if given else name).to_gymnasium(max_steps)


def _register() -> None:
    try:
        import gymnasium
    except ImportError as error:
        raise InputError(f"This needs Gymnasium ({error}): pip install 'coreplan[gymnasium]'.") from None
    for name in ZOO:
        if f"coreplan/{name}-v0" not in gymnasium.registry:
            gymnasium.register(f"coreplan/{name}-v0", entry_point="coreplan.envs:env", kwargs={"name": name})


_register()
