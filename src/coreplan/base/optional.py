"""Libraries that come with an extra: imported where they are needed, and missed with the words that install them."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import InputError


def need(module: str, extra: str) -> Any:
    """Import an optional module; an InputError names the extra to install if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"This needs the package {module.partition('.')[0]} ({error}), which comes with the extra: "
            f"pip install 'coreplan[{extra}]'."
        ) from None
