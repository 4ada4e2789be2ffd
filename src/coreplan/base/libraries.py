"""What, besides problem, settings and seed, decides the last bits of a run: libraries, BLAS and processor."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from .threads import libraries


@cache
def machine() -> dict[str, Any]:
    """Versions of the libraries that compute, the BLAS and its kernels, and what compiled code is made for; JSON types."""
    import llvmlite
    import numba
    import scipy

    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "blas": _blas(),
        "processor": _processor(),
        "numpy_simd": _simd(),
    }


def differences(before: Any, now: Mapping[str, Any]) -> list[str]:
    """What differs between two machines, each as words; nothing if `before` is not known."""
    return list(_differing(before, now)) if isinstance(before, Mapping) else []


def _differing(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name, new in now.items():
        old = before.get(name)
        if name in before and old != new:
            yield f"{name} was {_words(old)}, now {_words(new)}"


def _words(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text[:60] + "..." if len(text) > 63 else text or "none"


def _blas() -> list[str]:
    """Each BLAS, such as "openblas 0.3.30 Haswell"; where none can be asked, what NumPy was built with."""
    found = {
        " ".join(str(info[part]) for part in ("internal_api", "version", "architecture") if info.get(part))
        for info in (library.info() for library in libraries())
    }
    if not found:  # such as Accelerate
        built = np.show_config(mode="dicts") or {}
        found = {str(built.get("Build Dependencies", {}).get("blas", {}).get("name", "unknown"))}
    return sorted(found)


def _processor() -> str:
    """The processor that Numba compiles for, in LLVM's words."""
    from llvmlite.binding import get_host_cpu_name
    from numba.core import config

    return str(getattr(config, "CPU_NAME", None) or get_host_cpu_name())


def _simd() -> list[str]:
    """The instruction sets that NumPy chooses its loops by, as far as this processor has them."""
    core = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"
    umath = import_module(f"{core}._multiarray_umath")
    has = getattr(umath, "__cpu_features__", {})
    return [name for name in getattr(umath, "__cpu_dispatch__", []) if has.get(name)]
